"""Pools: a tree of labels and tables of the same records, whose evidence is asked together."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from mrf_matrix.base.arrays import Array, Codes
from mrf_matrix.base.checks import one_word
from mrf_matrix.base.fields import FieldError, JsonObject, part_of
from mrf_matrix.kinds.additive import ADDITIVE
from mrf_matrix.kinds.labels import LABELS
from mrf_matrix.kinds.model import Kind, Known
from mrf_matrix.kinds.tables import TABLES, RememberingPosterior, odds_margins
from mrf_matrix.planning.private.forest_plan import PooledPlan, shared
from mrf_matrix.posterior import PooledPosterior, ProductPosterior
from mrf_matrix.release.curator import Curator
from mrf_matrix.reports.privacy_report import STRUCTURE
from mrf_matrix.residual import ResidualPlan
from mrf_matrix.voting.intervals import Margins

OF_TABLES = "the structure of the tables"
"""Public beside a tree that was chosen, where there is no other forest."""

Sizes = tuple[int, ...]


@dataclass(frozen=True)
class Pool(Kind):
    """The kind: a tree of labels beside tables, or beside tables of residuals."""

    name: ClassVar[str] = "pool"
    structure_keys: ClassVar[frozenset[str]] = frozenset({"tree", "beside", "tables"})
    models_noise: ClassVar[bool] = True

    def learn(self, plan: PooledPlan, curator: Curator) -> PooledPosterior:
        """Learn both, one after the other, and pool what they imply."""
        tree = LABELS.learn(plan.tree, curator.part(plan.tree))
        beside: Any = beside_of(plan)
        tables = beside.learn(plan.tables, curator.part(plan.tables))
        return PooledPosterior.of(tree, tables)

    def margins(self, posterior: PooledPosterior, codes: Codes, level: float) -> Margins:
        """Return leading classes, margins in log odds, and widths under both models."""
        if isinstance(posterior.tables, ProductPosterior):
            tables = RememberingPosterior.of(posterior.tables)
            posterior = replace(posterior, tables=tables)
        return odds_margins(posterior, codes, level)

    def public(self, plan: PooledPlan) -> tuple[str, ...]:
        """Return what either takes for public."""
        of_tables = beside_of(plan).public(plan.tables)
        renamed = (OF_TABLES if one == STRUCTURE else one for one in of_tables)
        return tuple(dict.fromkeys((*LABELS.public(plan.tree), *renamed)))

    def notes(self, plan: PooledPlan) -> tuple[str, ...]:
        """Return those of both."""
        both = (*LABELS.notes(plan.tree), *beside_of(plan).notes(plan.tables))
        return tuple(dict.fromkeys(both))

    def rms_per_leaf(self, plan: PooledPlan) -> float | None:
        """Return that of the tables."""
        found: float | None = beside_of(plan).rms_per_leaf(plan.tables)
        return found

    def numbers(self, posterior: PooledPosterior) -> Iterator[Array]:
        """Yield the arrays that must be finite."""
        yield from LABELS.numbers(posterior.tree)
        tables = posterior.tables
        if isinstance(tables, ProductPosterior):
            yield from TABLES.numbers(tables)
        else:
            yield from ADDITIVE.numbers(tables.posterior)

    def structure(self, plan: PooledPlan) -> JsonObject:
        """Return both parts."""
        beside = beside_of(plan)
        return {
            "tree": LABELS.to_dict(plan.tree),
            "beside": beside.name,
            "tables": beside.to_dict(plan.tables),
        }

    def plan_from(self, known: Known, structure: JsonObject) -> PooledPlan:
        """Return the plan of both parts, which share the budget as they must."""
        beside = BESIDE[one_word("beside", structure["beside"], tuple(BESIDE))]
        tree = LABELS.plan_of(part_of(structure, "tree"), known.domain)
        tables = beside.plan_of(part_of(structure, "tables"), known.domain)
        for one in (tree, tables):
            if (one.neighboring, one.n_records) != (known.neighboring, known.n_records):
                raise FieldError("tables, tree: expected the neighbours and records of the whole.")
        if isinstance(tables, ResidualPlan) and tables.even_records is not None:
            raise FieldError("tables: expected no choice of how rare a class is before them.")
        shares = shared(known.budget, known.n_records, known.neighboring, tree.n_classes)
        if shares != (tree.budget, tables.budget):
            raise FieldError("tables: expected the budget that the tree leaves.")
        return PooledPlan(known.budget, tree, tables, known.delta)


POOL = Pool()
BESIDE: dict[str, Any] = {TABLES.name: TABLES, ADDITIVE.name: ADDITIVE}
"""What may be beside a tree."""


def beside_of(plan: PooledPlan) -> Any:
    """Return the kind of the tables."""
    return ADDITIVE if isinstance(plan.tables, ResidualPlan) else TABLES
