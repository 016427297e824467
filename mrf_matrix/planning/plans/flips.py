"""Flip probabilities of a plan's answers: equal noise is computed once."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.arrays import Array, Bools
from mrf_matrix.base.checks import whole_number
from mrf_matrix.error.noise_sums import NoiseTerm, combined, normal_flip
from mrf_matrix.planning.kinds.kind import Codes, Kind
from mrf_matrix.planning.plans.part import PlanPart
from strategies.operators import Operator

Terms = list[tuple[NoiseTerm, ...] | None]

ENTRIES_AT_ONCE = 2**23  # coefficients of answers that are held at a time

SAMPLED = 64
"""Answers whose flip probability is averaged in a summary, spread over the ranks of error."""


def flips(
    kind: Kind,
    parts: Sequence[PlanPart],
    queries: Codes,
    rows: NDArray[np.intp],
    margins: Array,
    variances: Array,
    *,
    rivals: int = 1,
    leaves: bool,
) -> tuple[Array, Bools]:
    """Return the flip probability of each row at each margin (r, s), and whether by a normal law.

    A normal law stands for that of the noise, (r,), where the draws behind a row would take too
    much memory or time to find: see `normal_flip` for how far off it may be.

    `queries` (b, d); `rows` (r,): numbers of leaves (of all ensembles), or of queries; `margins`
    (r, s); `variances` (r,); `leaves`: whether rows are leaves; else they are the queries' votes.
    """
    others = whole_number("rivals", rivals)
    result, normal = np.empty(margins.shape), np.zeros(len(rows), dtype=bool)
    known: dict[tuple[bytes, ...], Array] = {}
    step = max(32, ENTRIES_AT_ONCE // max(part.n_measurements for part in parts))
    for start in range(0, len(rows), step):
        block = rows[start : start + step]
        noise = (
            _leaf_terms(parts, block) if leaves else _vote_terms(kind, parts, queries[block], block)
        )
        for number, terms in enumerate(noise, start=start):
            asked = margins[number]
            if terms is None:
                normal[number], variance = True, float(variances[number])
                result[number] = [normal_flip(margin, variance, others) for margin in asked]
                continue
            key = tuple(t.weights.tobytes() + t.repeats.tobytes() for t in terms)
            key = (*key, asked.tobytes())
            if key not in known:
                known[key] = combined(terms).flip_probabilities(asked, others)
            result[number] = known[key]
    return result, normal


def _leaf_terms(parts: Sequence[PlanPart], rows: NDArray[np.intp]) -> Terms:
    """Return the noise of leaves, each in the ensemble that it belongs to."""
    ends = np.cumsum([part.workload.shape[0] for part in parts])
    owner = np.searchsorted(ends, rows, side="right")
    result: Terms = [None] * len(rows)
    for number, part in enumerate(parts):
        mine = np.flatnonzero(owner == number)
        first = int(ends[number]) - part.workload.shape[0]
        terms = part.terms(rows[mine] - first) if len(mine) else None
        for place, term in zip(mine, terms or (), strict=False):
            result[place] = (term,)
    return result


def _vote_terms(
    kind: Kind, parts: Sequence[PlanPart], queries: Codes, rows: NDArray[np.intp]
) -> Terms:
    """Return the noise of votes, which add up over the ensembles."""
    found = []
    for part in parts:
        if not kind.releases_leaves:
            found.append(part.terms(rows))
        elif part.stands_alone:
            weights = np.sqrt(part.row_squares)[part.ensemble.leaves_reached(queries)]
            found.append([NoiseTerm.of(row, part.mechanism.law) for row in weights])
        else:
            asked: Operator = kind.vote_workload(part.ensemble, queries)
            found.append(part.terms(np.arange(len(rows)), asked))
    if any(one is None for one in found):
        return [None] * len(rows)
    return [tuple(terms) for terms in zip(*(one for one in found if one), strict=True)]


def sampled_rows(variances: Array) -> NDArray[np.intp]:
    """Return a sample of answers, spread over the ranks of their errors."""
    order = np.argsort(variances)
    places = np.linspace(0, len(order) - 1, min(SAMPLED, len(order))).round().astype(np.intp)
    return np.asarray(order[places])
