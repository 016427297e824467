"""What a fit of a residual forest or of a tree of labels takes: rules of `cost` for their plans."""

from mrf_matrix.labels import LabelPlan
from mrf_matrix.planning.plans.cost import ArraySize, array_sizes, largest_first, release_seconds
from mrf_matrix.planning.plans.prices import (
    GAUSSIAN_DRAW,
    MULTIPLIED,
    SCORED,
    START,
    VISIT,
    VISITED,
    WEIGHED,
)
from mrf_matrix.residual import ResidualPlan
from mrf_matrix.residual.sequence import largest_pair

EFFECTS_HELD, SCORES_HELD, COUNTS_HELD = 30, 10, 14
"""How often a fit holds, at once: arrays of the size of a covariance in a visit of a residual
forest; scores; counts above cuts. Source: peaks of whole fits."""


@release_seconds.register
def _(plan: ResidualPlan) -> float:
    """Return the seconds of visits: their linear algebra, and a pass over the records."""
    sizes, columns = sorted(plan.domain.sizes, reverse=True), plan.first.visits[0].n_columns
    visits = [*sizes, *(size for one in plan.passes for size in sizes[: len(one.visits)])]
    if plan.pairs is not None:
        visits += [largest_pair(plan.n_classes)] * len(plan.pairs.residuals)
    records = len(visits) * float(plan.n_records or 0)
    draws = 0 if plan.budget.is_infinite else plan.most_measurements
    each = sum(VISIT + VISITED * float(size) ** 3 for size in visits)
    return START + columns * (each + SCORED * records) + GAUSSIAN_DRAW * draws


@release_seconds.register
def _(plan: LabelPlan) -> float:
    """Return the seconds of weighing all trees, and of counting the records above cuts."""
    seconds = START
    for one in plan.rounds:
        trees = float(len(plan.cuts_of(one))) ** one.depth
        seconds += trees * (WEIGHED * plan.n_classes + MULTIPLIED * (plan.n_records or 0))
    return seconds


@array_sizes.register
def _(plan: ResidualPlan) -> tuple[ArraySize, ...]:
    sizes, columns = plan.domain.sizes, plan.first.visits[0].n_columns
    largest = max(sizes)
    found = [
        ArraySize("covariances of the effects of one attribute", (EFFECTS_HELD, largest, largest)),
        ArraySize("covariances of the effects of all", (1 + columns, sum(n * n for n in sizes))),
    ]
    if plan.n_records is not None:
        held = 2 * len(sizes) + SCORES_HELD * columns
        found.append(ArraySize("codes and scores of the records", (plan.n_records, held)))
    return largest_first(found)


@array_sizes.register
def _(plan: LabelPlan) -> tuple[ArraySize, ...]:
    found = []
    for one in plan.rounds:
        cuts = (COUNTS_HELD, *(len(plan.cuts_of(one)),) * one.depth, plan.n_classes)
        found.append(ArraySize("counts above several cuts at once", cuts))
    if plan.n_records is not None:
        held = plan.n_records, plan.n_classes + len(plan.attributes)
        found.append(ArraySize("occupied cells, at most", held))
    return largest_first(found)
