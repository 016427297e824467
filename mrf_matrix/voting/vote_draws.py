"""The weighted noise draws behind weight votes: coefficients a block of records at a time."""

from collections.abc import Callable, Iterable

import numpy as np

from mrf_matrix.base.arrays import Array, Codes
from mrf_matrix.error.coefficients import answer_coefficients
from mrf_matrix.error.noise_sums import NoiseTerm
from mrf_matrix.mechanisms import Release
from strategies.operators import Grouping, Identity, Operator, Scaled, over_groups

ENTRIES = 2**25  # most coefficients that are sought

AT_ONCE = 2**23  # coefficients that are held at a time


def vote_terms(
    asked: Callable[[Codes], Operator], release: Release, codes: Codes
) -> list[NoiseTerm] | None:
    """Return the weighted noise draws of answers by least squares, if they can be afforded.

    `asked`: from records to the workload of their votes, a row for each; `codes` (b, d).
    None where the coefficients are too many, or memory or structure do not allow them.
    """
    rounded, law = release.mechanism.rounded, release.law
    measured = rounded.matrix.shape[0]
    simple = _measures_cells(rounded.recovery)  # else a block costs as much as all records do
    if len(codes) * measured > (ENTRIES if simple else AT_ONCE):
        return None
    step = max(32, AT_ONCE // measured) if simple else len(codes)
    terms: list[NoiseTerm] = []
    for start in range(0, len(codes), step):
        rows = _coefficients(asked(codes[start : start + step]), rounded.recovery)
        if rows is None:
            return None
        terms += [NoiseTerm.of(row, law) for row in rows]
    return terms


def _measures_cells(recovery: Operator) -> bool:
    """Say whether a strategy measures cells, or groups of them, each by itself."""
    inner = recovery.inner if isinstance(recovery, Scaled) else recovery
    return isinstance(inner, Grouping | Identity)


def _coefficients(asked: Operator, recovery: Operator) -> Iterable[Array] | None:
    """Return the coefficients of each row, those that are zero left out where that is cheap."""
    if not _measures_cells(recovery):
        return answer_coefficients(asked, recovery, np.arange(asked.shape[0]))
    weight, inner = 1.0, recovery
    if isinstance(recovery, Scaled):
        weight, inner = recovery.weight, recovery.inner
    rows = (over_groups(asked, inner) if isinstance(inner, Grouping) else asked).to_sparse()
    return (part / weight for part in np.split(rows.data, rows.indptr[1:-1]))
