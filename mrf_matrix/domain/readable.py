"""A domain for people: its cells counted in words, an HTML table, advice on wide columns."""

from collections.abc import Sequence
from fractions import Fraction

from mrf_matrix.base.checks import SHOWN, magnitude
from mrf_matrix.base.display import html_table
from mrf_matrix.domain.attribute import Attribute

EXACT_BELOW = 10**12
MOST_ROWS = 50
WIDE = 50  # codes above which most get few records

FEW = 100  # records of a code below which noise weighs at budgets around one


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


def wide_columns(
    attributes: Sequence[Attribute], n_records: int | None = None, noise: float | None = None
) -> list[str]:
    """Return a line of advice for every attribute with many codes.

    `n_records`: the *public* number of records; without it, nothing is said of records; `noise`:
    root-mean-square noise on a count, in records, where a budget is known.

    >>> print(*wide_columns([Attribute("x0", size=200)], 1000))
    'x0': 200 codes: group them, or expect about 5 records of each. Take bins: "range", "step".
    >>> wide_columns([Attribute("x0", size=20)])
    []
    """
    return [
        _advice(attribute, n_records, noise)
        for attribute in attributes
        if attribute.size > WIDE and not _is_rich(attribute.size, n_records, noise)
    ]


def _is_rich(codes: int, n_records: int | None, noise: float | None) -> bool:
    return n_records is not None and n_records / codes > max(FEW, 10 * (noise or 0))


def _advice(attribute: Attribute, n_records: int | None, noise: float | None) -> str:
    expect = "that most of them drown in noise"
    if n_records is not None:
        expect = f"about {n_records / attribute.size:.2g} records of each"
    if noise is not None:
        expect += f" under noise of {noise:.2g}"
    return (
        f"{attribute.name!r}: {attribute.size} codes: group them, or expect {expect}. "
        f"{_remedy(attribute)}"
    )


def _remedy(attribute: Attribute) -> str:
    values: Sequence[object] | None = attribute.categories
    if attribute.is_binned:
        return "Take fewer, wider bins."
    if isinstance(values, range):
        return 'Take bins: "range", "step".'
    return (
        'List the common ones with "unknown": "other", or group codes: "groups": {"heart": ["I2"]}.'
    )
