"""What a person reads: a statement above rows of names and values, as text, HTML or rich table."""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

Rows = Sequence[tuple[str, str]]

SHOWN = 12
"""Texts that are listed in a line."""


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
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


def whole(n: int) -> str:
    """Write a whole number of any size for people."""
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


class RowDisplay:
    """Shows a statement and rows at a prompt, in print, in a notebook and on a terminal."""

    statement: str

    @property
    @abstractmethod
    def rows(self) -> Rows:
        """Names and values."""

    def __str__(self) -> str:
        return "\n".join([self.statement, *(f"  {line}" for line in aligned(self.rows))])

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
            table.add_row(name, Text(text))  # Text: a value is no markup
        return table
