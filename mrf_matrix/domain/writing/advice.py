"""Advice on a domain before anything runs: columns too wide for what noise leaves."""

from collections.abc import Sequence

from mrf_matrix.domain.attribute import Attribute
from mrf_matrix.domain.domain import Domain

WIDE = 50  # codes above which most get few records

FEW = 100  # records of a code below which noise weighs at budgets around one


def wide_columns(
    domain: Domain, n_records: int | None = None, noise: float | None = None
) -> list[str]:
    """Return a line of advice for every attribute with many codes.

    `n_records`: the *public* number of records; without it, nothing is said of records; `noise`:
    root-mean-square noise on a count, in records, where a budget is known.

    >>> print(*wide_columns(Domain.from_sizes([200, 3]), 1000))
    'x0': 200 codes: group them, or expect about 5 records of each. Take bins: "range", "step".
    >>> wide_columns(Domain.from_sizes([20, 3]))
    []
    """
    return [
        _advice(attribute, n_records, noise)
        for attribute in domain.attributes
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
