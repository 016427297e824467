"""A page for people: sections of words, tables and small SVG pictures, as text or one HTML file."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from mrf_matrix.base.arrays import Array
from mrf_matrix.base.checks import escape_controls
from mrf_matrix.base.display import align_columns
from mrf_matrix.base.fields import JsonObject

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
"""Okabe and Ito's palette, distinct under any common colour blindness."""
GREY = "#8a8a8a"
REST = "#8a8a8a66"
WIDTH = 640
LONGEST = 34
MOST_LABELS = 10


def ellipsize(text: str, longest: int = LONGEST) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def budget_bar(parts: Sequence[tuple[str, float]], left: float = 0.0) -> str:
    """Return a bar of shares of a budget, each named below; what is left stays empty.

    `parts`: names and shares, largest first; of more than six, all after the fifth become one;
    `left`: the share that nothing was paid from.
    """
    named = list(parts if len(parts) <= len(COLOURS) else parts[:5])
    if len(named) < len(parts):
        named.append((f"{len(parts) - 5} more", sum(share for _, share in parts[5:])))
    coloured = [(*one, colour) for one, colour in zip(named, COLOURS, strict=False)]
    if left > 0:
        coloured.append(("left", left, REST))
    body, at = "", 0.0
    for number, (name, share, colour) in enumerate(coloured):
        width, low = share * (WIDTH - 2), 46 + 20 * number
        body += f'<rect x="{1 + at:.2f}" y="4" width="{width:.2f}" height="22" fill="{colour}"/>'
        body += f'<rect x="1" y="{low - 11}" width="12" height="12" fill="{colour}"/>'
        body += _svg_text(20, low, f"{100 * share:.3g} %  {ellipsize(name, 76)}")
        at += width
    frame = f'<rect x="1" y="4" width="{WIDTH - 2}" height="22" fill="none" stroke="{GREY}"/>'
    return _svg(WIDTH, 34 + 20 * len(coloured), body + frame, "shares of the budget")


def bars(values: Sequence[tuple[str, float]], unit: str) -> str:
    shown = values[:12]
    most = max((value for _, value in shown), default=0.0) or 1.0
    body = ""
    for number, (name, value) in enumerate(shown):
        low = 20 + 22 * number
        width = 300 * value / most
        body += _svg_text(226, low, ellipsize(name), "end")
        body += (
            f'<rect x="234" y="{low - 12}" width="{width:.2f}" height="14" fill="{COLOURS[0]}"/>'
        )
        body += _svg_text(242 + width, low, f"{value:.3g}")
    return _svg(WIDTH, 16 + 22 * len(shown), body, unit)


def effect_strip(
    name: str, labels: Sequence[str], values: Array, widths: tuple[Array, Array], unit: str
) -> str:
    """Return the effect of every code as a dot with its band, over a line at zero.

    `widths`: of the bands below and above.
    """
    lows, highs = values - widths[0], values + widths[1]
    width, top, height = 310, 34, 110
    span = float(np.abs(np.concatenate([lows, highs])).max()) or 1.0
    step = (width - 60) / max(len(values), 1)
    middle, scale = top + height / 2, height / 2 / span

    def across(code: int) -> float:
        return 46 + (code + 0.5) * step

    body = f'<line x1="44" x2="{width - 6}" y1="{middle}" y2="{middle}" stroke="{GREY}"/>'
    for code, (value, low, high) in enumerate(zip(values, lows, highs, strict=True)):
        x, y = across(code), middle - value * scale
        body += (
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{middle - high * scale:.1f}" '
            f'y2="{middle - low * scale:.1f}" stroke="{COLOURS[4]}" '
            f'stroke-width="{min(6.0, max(1.0, step / 2)):.1f}"/>'
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{min(3.0, max(1.2, step / 3)):.1f}" '
            f'fill="{COLOURS[0]}"/>'
        )
    for level, said in ((top, span), (middle, 0.0), (top + height, -span)):
        body += _svg_text(40, level + 4, f"{said:+.2g}" if said else "0", "end", 11)
    places = np.unique(np.linspace(0, len(labels) - 1, min(len(labels), MOST_LABELS)).round())
    for code in places.astype(int):
        x, y = across(int(code)), top + height + 12
        body += (
            f'<text x="{x:.1f}" y="{y}" font-size="11" fill="currentColor" text-anchor="end" '
            f'transform="rotate(-35 {x:.1f} {y})">{_text(ellipsize(labels[code], 14))}</text>'
        )
    body += _svg_text(4, 16, ellipsize(name), bold=True)
    return _svg(width, top + height + 72, body, f"{name}: {unit}")


def reliability_plot(said: Array, seen: Array, errors: Array) -> str:
    """Return what happened against what was said, a dot a bin, each with its noise band."""
    size, low = 240, 46

    def to_pixels(share: float) -> float:
        return size * min(max(share, 0.0), 1.0)

    body = (
        f'<rect x="{low}" y="10" width="{size}" height="{size}" fill="none" stroke="{GREY}"/>'
        f'<line x1="{low}" y1="{10 + size}" x2="{low + size}" y2="10" stroke="{GREY}" '
        'stroke-dasharray="4 4"/>'
    )
    for x, y, half in zip(said, seen, errors, strict=True):
        place = low + to_pixels(x)
        body += (
            f'<line x1="{place:.1f}" x2="{place:.1f}" y1="{10 + size - to_pixels(y - half):.1f}" '
            f'y2="{10 + size - to_pixels(y + half):.1f}" stroke="{COLOURS[4]}" stroke-width="4"/>'
            f'<circle cx="{place:.1f}" cy="{10 + size - to_pixels(y):.1f}" r="3.5" '
            f'fill="{COLOURS[0]}"/>'
        )
    for share in (0.0, 0.5, 1.0):
        body += _svg_text(low + to_pixels(share), size + 26, f"{share:g}", "middle", 11)
        body += _svg_text(low - 6, 14 + size - to_pixels(share), f"{share:g}", "end", 11)
    body += _svg_text(low + size / 2, size + 44, "probability that the model says", "middle", 12)
    body += _svg_text(low + size + 10, 24, "share that it came true,", size=12)
    body += _svg_text(low + size + 10, 40, "with its noise band", size=12)
    return _svg(low + size + 160, size + 52, body, "calibration")


def _svg_text(
    x: float, y: float, text: str, anchor: str = "start", size: int = 13, *, bold: bool = False
) -> str:
    weight = ' font-weight="600"' if bold else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="currentColor" '
        f'text-anchor="{anchor}"{weight}>{_text(text)}</text>'
    )


def _svg(width: int, height: int, body: str, title: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img" font-family="system-ui, sans-serif" '
        f'aria-label="{_text(title)}">{body}</svg>'
    )


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
        SVG of `mrf_matrix.reports.page`, whose texts are escaped.
    """

    title: str
    words: tuple[str, ...] = ()
    rows: Rows = ()
    header: tuple[str, ...] = ()
    pictures: tuple[str, ...] = ()

    def __str__(self) -> str:
        table = [self.header, *self.rows] if self.header else self.rows
        lines = [*self.words, *(align_columns(table) if self.rows else ())]
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
        For the signer: they stand directly below the claim.
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
    return escape(escape_controls(text))
