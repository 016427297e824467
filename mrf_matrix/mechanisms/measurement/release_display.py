"""A statement and rows of names and values for people: plain text, and an HTML table."""

from collections.abc import Iterable, Sequence
from html import escape

Rows = Sequence[tuple[str, str]]

NEIGHBOURS = {"add_remove": "one record more or less", "replace_one": "one record replaced"}

SHOWN = 12
"""Attributes listed by size or name."""


def first_few(texts: Iterable[str]) -> str:
    """Return the first texts in a line, and how many more there are."""
    items = list(texts)
    rest = len(items) - SHOWN
    return ", ".join(items[:SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def whole(n: int) -> str:
    """Write a whole number of any size for people."""
    return f"{n:,}" if n < 10**15 else f"about 2^{n.bit_length() - 1}"


def as_text(statement: str, rows: Rows) -> str:
    """Return the statement and one line for each row."""
    width = max(len(name) for name, _ in rows)
    return "\n".join([statement, *(f"  {name:<{width}}  {text}" for name, text in rows)])


def as_html(statement: str, rows: Rows) -> str:
    """Return a table whose caption is the statement and whose rows have headers."""
    body = "".join(
        f'<tr><th scope="row" style="text-align:left">{escape(name)}</th>'
        f'<td style="text-align:left">{escape(text)}</td></tr>'
        for name, text in rows
    )
    return (
        f'<table><caption style="text-align:left"><b>{escape(statement)}</b></caption>'
        f"<tbody>{body}</tbody></table>"
    )
