"""What stands behind a plan's answers: public numbers of records, and the noise of votes."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.arrays import Array
from mrf_matrix.compilation import path_matrix
from mrf_matrix.planning.kinds.kind import Codes, Kind
from mrf_matrix.planning.plans.part import PlanPart
from strategies.operators import Marginals

WEIGHING: ContextVar[Callable[[Any], None] | None] = ContextVar("weighing", default=None)
"""What weighs the signal of every plan before it is paid for, see `verdict.weighing`."""


@contextmanager
def weighed(plan: Callable[[], object]) -> Iterator[None]:
    """Weigh a plan where that is asked, as a whole: plans of its parts inside are not."""
    if (weigh := WEIGHING.get()) is not None:
        weigh(plan())
    token = WEIGHING.set(None)
    try:
        yield
    finally:
        WEIGHING.reset(token)


def records_behind(
    kind: Kind, parts: Sequence[PlanPart], queries: Codes, n_records: int | None, *, leaves: bool
) -> Array:
    """Return the records of each leaf, or of each query's votes, if all cells are as likely.

    `queries` (b, d); `n_records`: the public number of records; `leaves`: of leaves; else of the
    queries' votes.

    Raises ValueError if the public number of records is not known.
    """
    if n_records is None:
        raise ValueError(
            "n_records is not known: expected plan(..., n_records=N), the public number of records."
        )
    if kind.counts_votes:
        return np.full(len(queries), float(sum(part.forest.n_trees for part in parts)))
    shares = []
    for part in parts:
        one = leaf_shares(part) if leaves else vote_shares_of(part, queries)
        shares.append(one / (part.forest.n_trees if kind.is_disjoint else 1))
    stacked = np.concatenate(shares) if leaves else np.sum(shares, axis=0)
    return np.asarray(n_records * stacked)


def vote_variances(kind: Kind, parts: Sequence[PlanPart], queries: Codes) -> Array:
    """Return the expected squared error of every query's weight votes in one class, (b,).

    Raises ValueError if votes multiply.
    """
    if not kind.votes_add:
        raise ValueError(
            f"kind={kind.name!r} votes by product under a model, and such votes have no expected "
            f"error or flip probability: expected answers (leaves), or another kind."
            + " The objective 'accuracy' judges it."
            * bool(kind.imagined_votings)
        )
    total = np.zeros(len(queries))
    for part in parts:
        if not kind.releases_leaves:
            total += part.row_variances
        elif part.stands_alone:  # every leaf has its own noise
            total += part.row_variances[part.ensemble.leaves_reached(queries)].sum(axis=1)
        else:
            total += part.variances_of(kind.vote_workload(part.ensemble, queries))
    return total


def leaf_shares(part: PlanPart) -> NDArray[np.float64]:
    """Return each leaf's share of the cells: of the records too, if cells are as likely, (o,)."""
    if isinstance(part.workload, Marginals):  # whole tables, whose cells are alike
        cells = np.asarray(part.workload.rows)
        return np.repeat(1 / cells, cells)
    sums = path_matrix(part.forest).row_sums()
    size = part.forest.domain.size
    return np.array([int(value) / size for value in sums])


def vote_shares_of(part: PlanPart, queries: Codes) -> NDArray[np.float64]:
    """Return the share of the records that the leaves of each query add up to, (b,)."""
    shares = leaf_shares(part)
    return np.asarray(shares[part.ensemble.leaves_reached(queries)].sum(axis=1))
