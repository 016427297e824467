"""A release for people: plain text and an HTML table, from the same rows."""

from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mrf_matrix.mechanisms.measurement.release import Release

NEIGHBOURS = {"add_remove": "one record more or less", "replace_one": "one record replaced"}

SHOWN = 12
"""Attributes listed by size or name."""


def rows_of(release: "Release") -> list[tuple[str, str]]:
    """Return names and values of everything public about a release."""
    m, n = release.matrix.shape
    norm = "L2" if release.mechanism.rounded.norm == "l2" else "L1"
    rows = [
        ("budget spent", repr(release.budget)),
        ("neighbouring relation", release.neighboring),
        ("noise", f"{release.noise}: {release.law}, variance {release.variance:.6g} an answer"),
        ("strategy", f"{release.method}, {whole(m)} integer rows over {whole(n)} cells"),
        ("sensitivity", f"{release.sensitivity:.6g} ({norm}, {NEIGHBOURS[release.neighboring]})"),
        ("answers", f"{whole(m)} rows, {release.n_classes} classes"),
        ("attributes", f"{len(release.sizes)}, of sizes {listed(map(str, release.sizes))}"),
    ]
    if release.domain is not None:
        rows.append(("attribute names", listed(release.domain.names)))
        if release.domain.target is not None:
            rows.append(("classes of", str(release.domain.target.name)))
    known = release.provenance
    rows.append(("measured by", "unknown" if known is None else str(known)))
    return rows


def listed(texts: Iterable[str]) -> str:
    """Return the first texts in a line, and how many more there are."""
    items = list(texts)
    rest = len(items) - SHOWN
    return ", ".join(items[:SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def whole(n: int) -> str:
    """Write a whole number of any size for people."""
    return f"{n:,}" if n < 10**15 else f"about 2^{n.bit_length() - 1}"


def as_text(release: "Release") -> str:
    """Return the statement and one line for each row."""
    rows = rows_of(release)
    width = max(len(name) for name, _ in rows)
    return "\n".join([release.statement, *(f"  {name:<{width}}  {text}" for name, text in rows)])


def as_html(release: "Release") -> str:
    """Return a table whose caption is the statement and whose rows have headers."""
    body = "".join(
        f'<tr><th scope="row" style="text-align:left">{escape(name)}</th>'
        f'<td style="text-align:left">{escape(text)}</td></tr>'
        for name, text in rows_of(release)
    )
    return (
        f'<table><caption style="text-align:left"><b>{escape(release.statement)}</b></caption>'
        f"<tbody>{body}</tbody></table>"
    )
