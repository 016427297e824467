"""Tables for people: a statement above named values, as text, HTML, LaTeX or a rich table."""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Literal, get_args

if TYPE_CHECKING:
    from rich.table import Table

Frame = Literal["pandas", "polars", "pyarrow"]
FRAMES: tuple[Frame, ...] = get_args(Frame)
Rows = Sequence[tuple[str, str]]
Cells = tuple[Sequence[str], Sequence[Sequence[object]]]
"""A header, and rows as long as it."""

SHOWN = 12  # texts that are listed in a line


def align_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a line of text for each row, columns under each other."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def first_few(texts: Iterable[str]) -> str:
    """Return the first texts in a line, and how many more there are."""
    items = list(texts)
    rest = len(items) - SHOWN
    return ", ".join(items[:SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def format_count(n: int) -> str:
    return f"{n:,}" if n < 10**15 else f"about 2^{n.bit_length() - 1}"


def html_table(caption: str, rows: Sequence[Sequence[str]], header: Sequence[str] = ()) -> str:
    """Return an HTML table under a caption; without a header, the first of a row is its name."""
    left = ' style="text-align:left"'
    head = "".join(f'<th scope="col"{left}>{escape(cell)}</th>' for cell in header)
    body = ""
    for row in rows:
        cells = [f"<td{left}>{escape(cell)}</td>" for cell in row]
        if not header:
            cells[0] = f'<th scope="row"{left}>{escape(row[0])}</th>'
        body += f"<tr>{''.join(cells)}</tr>"
    return (
        f'<table><caption style="text-align:left;font-weight:bold">{escape(caption)}</caption>'
        + (f"<thead><tr>{head}</tr></thead>" if header else "")
        + f"<tbody>{body}</tbody></table>"
    )


def latex_table(rows: Sequence[Sequence[object]], header: Sequence[str] = ()) -> str:
    r"""Return a LaTeX tabular with the rules of booktabs; numbers of columns stand to the right.

    >>> print(latex_table([["a_1", 0.5]], ["name", "share in %"]))
    \begin{tabular}{lr}
    \toprule
    name & share in \% \\
    \midrule
    a\_1 & 0.5 \\
    \bottomrule
    \end{tabular}
    """
    width = len(header or next(iter(rows), ()))
    columns = [[row[i] for row in rows] for i in range(width)]
    align = "".join("r" if all(map(is_number, column)) else "l" for column in columns)
    lines = [" & ".join(map(latex_text, row)) + r" \\" for row in rows]
    head = [" & ".join(map(latex_text, header)) + r" \\", r"\midrule"] if header else []
    begin = [rf"\begin{{tabular}}{{{align}}}", r"\toprule"]
    return "\n".join([*begin, *head, *lines, r"\bottomrule", r"\end{tabular}"])


def is_number(value: object) -> bool:
    """Whether a cell is a number, one with its error, or empty."""
    if isinstance(value, str):
        return "±" in value
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def latex_text(value: object) -> str:
    """Return a cell for LaTeX: numbers of four digits, text escaped, nothing for None."""
    if value is None:
        return ""
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return "".join(SPECIAL.get(one, one) for one in text)


SPECIAL = {one: rf"\{one}" for one in "&%$#_{}"} | {
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}",
    "ε": r"$\varepsilon$", "δ": r"$\delta$", "ρ": r"$\rho$", "±": r"$\pm$", "‖": r"\|",
}  # fmt: skip
"""Characters that LaTeX reads otherwise, or that its fonts lack."""


def frame_of(rows: Sequence[Sequence[object]], header: Sequence[str], native: str | None) -> Any:
    """Return rows as a frame of the named library, or of the first installed one.

    Raises ImportError if no frame library is installed.
    """
    from importlib.util import find_spec

    import narwhals as nw

    able = [name for name in FRAMES if find_spec(name)]
    if native is None and not able:
        raise ImportError("no frame library is installed; pip install polars.")
    columns = {name: [row[i] for row in rows] for i, name in enumerate(header)}
    return nw.from_dict(columns, backend=native or able[0]).to_native()  # type: ignore[arg-type]


class Tabular:
    """A table that goes into a paper or a frame."""

    @property
    @abstractmethod
    def cells(self) -> Cells: ...

    def to_latex(self) -> str:
        """Return the table as a LaTeX tabular, with the rules of the package booktabs."""
        header, rows = self.cells
        return latex_table(rows, header)

    def to_frame(self, native: str | None = None) -> Any:
        """Return the table as a frame of "pandas", "polars" or "pyarrow", or of the first there is.

        Raises
        ------
        ImportError
            If no frame library is installed.
        """
        header, rows = self.cells
        return frame_of(rows, header, native)


class RowDisplay(Tabular):
    """A statement and rows, for a prompt, print, a notebook and a terminal."""

    statement: str

    @property
    @abstractmethod
    def rows(self) -> Rows: ...

    @property
    def cells(self) -> Cells:
        return ("name", "value"), self.rows

    def __str__(self) -> str:
        return "\n".join([self.statement, *(f"  {line}" for line in align_columns(self.rows))])

    def _repr_html_(self) -> str:
        return html_table(self.statement, self.rows)

    def __rich__(self) -> "Table":
        from rich.box import SIMPLE_HEAD
        from rich.table import Table
        from rich.text import Text

        table = Table(
            title=Text(self.statement, style="bold"), title_justify="left", box=SIMPLE_HEAD,
            show_header=False, padding=(0, 1, 0, 0), pad_edge=False,
        )  # fmt: skip
        table.add_column(style="dim", no_wrap=True)
        table.add_column()
        for name, text in self.rows:
            table.add_row(Text(name), Text(text))  # Text: no markup
        return table
