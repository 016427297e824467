"""A page for people: sections of words, a table and pictures, as text or as one HTML file."""

from dataclasses import dataclass
from html import escape

from mrf_matrix.base.checks import escaped
from mrf_matrix.base.display import aligned
from mrf_matrix.base.fields import JsonObject

STYLE = """
.mrf-report{font:15px/1.5 system-ui,sans-serif;max-width:52em;margin:0 auto;padding:.5em 1em;
overflow-wrap:anywhere}
.mrf-report h1{font-size:1.6em;margin:.4em 0}
.mrf-report h2{font-size:1.15em;margin:1.6em 0 .4em;border-bottom:1px solid #8888;break-after:avoid}
.mrf-report .claim{border-left:.4em solid #009E73;padding:.5em .9em;background:#009E7318;
font-weight:600}
.mrf-report .claim.denied{border-color:#D55E00;background:#D55E0018}
.mrf-report p{margin:.5em 0}
.mrf-report table{border-collapse:collapse;width:100%;margin:.6em 0;font-size:.9em}
.mrf-report th,.mrf-report td{text-align:left;vertical-align:top;padding:.25em .8em .25em 0;
border-bottom:1px solid #8884;background:none;color:inherit}
.mrf-report td:first-child{min-width:7em}
.mrf-report th{font-weight:600;overflow-wrap:normal}
.mrf-report tr{break-inside:avoid}
.mrf-report .pictures{display:flex;flex-wrap:wrap;gap:1em}
.mrf-report svg{max-width:100%;height:auto;break-inside:avoid}
"""
ON_A_PAGE = """
:root{color-scheme:light dark}
@page{margin:16mm}
@media print{:root{color-scheme:light}.mrf-report{font-size:12px;max-width:none;padding:0}
.mrf-report,.mrf-report *{print-color-adjust:exact;-webkit-print-color-adjust:exact}}
"""
NOTHING_LOADED = "default-src 'none'; style-src 'unsafe-inline'"
"""The page's own policy: a browser that shows it asks no server for anything."""

Rows = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Section:
    """A part of a page.

    Attributes
    ----------
    title : str
    words : tuple of str
        Paragraphs.
    rows : tuple of tuple of str
        A table; without a header the first of a row is its name.
    header : tuple of str
    pictures : tuple of str
        SVG of `mrf_matrix.reports.drawings`, whose texts are escaped.
    """

    title: str
    words: tuple[str, ...] = ()
    rows: Rows = ()
    header: tuple[str, ...] = ()
    pictures: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the words and the table; pictures are for HTML."""
        table = [self.header, *self.rows] if self.header else self.rows
        lines = [*self.words, *(aligned(table) if self.rows else ())]
        return "\n".join([self.title, *(f"  {line}" for line in lines)])

    def to_dict(self) -> JsonObject:
        """Return the words and the table as plain values, ready for JSON."""
        return {
            "title": self.title,
            "words": list(self.words),
            "header": list(self.header),
            "rows": [list(row) for row in self.rows],
        }

    def to_html(self) -> str:
        """Return the section as HTML, every text escaped."""
        words = "".join(f"<p>{_text(one)}</p>" for one in self.words)
        pictures = f'<div class="pictures">{"".join(self.pictures)}</div>' if self.pictures else ""
        head = "".join(f'<th scope="col">{_text(cell)}</th>' for cell in self.header)
        body = "".join(f"<tr>{self._cells(row)}</tr>" for row in self.rows)
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        return (
            f"<section><h2>{_text(self.title)}</h2>{words}{pictures}{table if self.rows else ''}"
            "</section>"
        )

    def _cells(self, row: tuple[str, ...]) -> str:
        first, *others = map(_text, row)
        name = f"<td>{first}</td>" if self.header else f'<th scope="row">{first}</th>'
        return name + "".join(f"<td>{cell}</td>" for cell in others)


@dataclass(frozen=True, repr=False)
class ReportPage:
    """What was released, for whoever answers for it: print it, show it in a notebook, or keep it.

    Attributes
    ----------
    title : str
    statement : str
        The claim in one sentence; it says so where nothing is protected.
    is_private : bool
        Whether there is a claim.
    sections : tuple of Section
    warnings : tuple of str
        What whoever signs must know before the rest: they stand below the claim.
    """

    title: str
    statement: str
    is_private: bool
    sections: tuple[Section, ...]
    warnings: tuple[str, ...] = ()

    def __str__(self) -> str:
        warned = [f"WARNING: {one}" for one in self.warnings]
        return "\n\n".join([self.title, self.statement, *warned, *map(str, self.sections)])

    def to_dict(self) -> JsonObject:
        """Return the page as plain values, ready for JSON; pictures are for HTML."""
        return {
            "title": self.title,
            "statement": self.statement,
            "is_private": self.is_private,
            "warnings": list(self.warnings),
            "sections": [one.to_dict() for one in self.sections],
        }

    def __repr__(self) -> str:
        return f"ReportPage({self.title!r}: {self.statement})"

    def _repr_html_(self) -> str:
        """Return the report for a notebook."""
        kind = "claim" if self.is_private else "claim denied"
        warned = "".join(
            f'<p class="claim denied" role="alert">Warning: {_text(one)}</p>'
            for one in self.warnings
        )
        return (
            f'<style>{STYLE}</style><div class="mrf-report"><h1>{_text(self.title)}</h1>'
            f'<p class="{kind}">{_text(self.statement)}</p>{warned}'
            f"{''.join(one.to_html() for one in self.sections)}</div>"
        )

    def to_html(self) -> str:
        """Return a whole page: one file that loads nothing, and that prints."""
        return (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">'
            f'<meta http-equiv="Content-Security-Policy" content="{NOTHING_LOADED}">'
            '<meta name="viewport" content="width=device-width">'
            f"<title>{_text(self.title)}</title><style>{ON_A_PAGE}</style></head>"
            f"<body>{self._repr_html_()}</body></html>\n"
        )


def _text(text: str) -> str:
    """Return a text that is neither markup nor acts on whatever shows it."""
    return escape(escaped(text))
