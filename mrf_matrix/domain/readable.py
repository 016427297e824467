"""A domain for people: its cells counted in words a reader can take in, and an HTML table."""

from collections.abc import Sequence
from fractions import Fraction

from mrf_matrix.base.checks import magnitude
from mrf_matrix.base.display import html_table
from mrf_matrix.domain.attribute import Attribute
from mrf_matrix.domain.errors import SHOWN

EXACT_BELOW = 10**12
MOST_ROWS = 50


def readable_count(n: int) -> str:
    """Write a count, ``1,728`` or ``about 9.7e398``.

    >>> readable_count(1728), readable_count(4**30), readable_count(10**5000)
    ('1,728', 'about 1.2e18', 'about 1.0e5000')
    """
    return f"{n:,}" if n < EXACT_BELOW else magnitude(Fraction(n))


def domain_text(attributes: Sequence[Attribute], target: Attribute | None, size: int) -> str:
    """Return a domain of so many cells as text, an attribute a line, twenty at most."""
    lines = [f"    {attribute!r}," for attribute in attributes[:20]]
    if len(attributes) > 20:
        lines.append(f"    ... {len(attributes) - 20} more,")
    listed = "\n".join(lines)
    return f"Domain([\n{listed}\n], target={target!r})  # {readable_count(size)} cells"


def domain_html(attributes: Sequence[Attribute], target: Attribute | None, size: int) -> str:
    """Return a domain as an HTML table: its attributes, their number of codes, first labels."""
    rows = [attribute_row(attribute) for attribute in attributes[:MOST_ROWS]]
    if len(attributes) > len(rows):
        rows.append((f"{len(attributes) - len(rows)} more", "", ""))
    if target is not None:
        rows.append(attribute_row(target, " (target)"))
    caption = f"{len(attributes)} attributes, {readable_count(size)} cells"
    return html_table(caption, rows, ("attribute", "codes", "labels"))


def attribute_row(attribute: Attribute, note: str = "") -> tuple[str, str, str]:
    """Return an attribute's name, number of codes and first labels."""
    shown = [str(label) for label in attribute.labels[: 2 * SHOWN]]
    text = " · ".join(shown) + (" · ..." if attribute.size > len(shown) else "")
    return f"{attribute.name}{note}", str(attribute.size), text
