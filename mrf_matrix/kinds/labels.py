"""Trees of few cells with a label each: alone, and in a pool with tables of the same records."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from mrf_matrix.base.arrays import Array, Codes
from mrf_matrix.base.checks import one_word
from mrf_matrix.base.fields import (
    FieldError,
    JsonObject,
    integer_of,
    list_of,
    part_of,
    whole_numbers,
)
from mrf_matrix.domain import Domain
from mrf_matrix.forests.export import export_text
from mrf_matrix.forests.label_tree import Cut, usable_attributes
from mrf_matrix.kinds.model import Kind, PlanFields
from mrf_matrix.kinds.tables import (
    ADDITIVE,
    TABLES,
    CachedPosterior,
    check_two_classes,
    odds_margins,
)
from mrf_matrix.labels.plan import LabelPlan, label_plan, label_refusal
from mrf_matrix.labels.posterior import label_posterior
from mrf_matrix.labels.questions import TreeCells, Trees
from mrf_matrix.planning.auto.pooled_plan import PooledPlan, split_budget
from mrf_matrix.posterior import LabelPosterior, PooledPosterior, ProductPosterior
from mrf_matrix.release.curator import Curator
from mrf_matrix.reports.privacy_report import STRUCTURE
from mrf_matrix.residual import ResidualPlan
from mrf_matrix.voting.intervals import Margins

PUBLIC = (
    "the domain and the classes",
    "the cuts that a node may have, and the depth",
    "the sensitivity and the rate of the draw",
    "the neighbouring relation and the budget",
)

ONE_CHOICE = (
    "tree and labels are one choice in each round: all are weighed by how many records they are "
    "right on"
)
TWO_ROUNDS = (
    "the labels of the first tree are forgotten; below each of its cells another one is drawn, of "
    "the records of that cell alone"
)
PROBABILITIES = (
    "probabilities are what {said} of such a law are worth under a public prior of the classes' "
    "shares in a cell: nothing but the tree and its {said} is released"
)


@dataclass(frozen=True)
class Labels(Kind):
    """The kind: a tree of few cells, each with a label."""

    name: ClassVar[str] = "labels"
    structure_keys: ClassVar[frozenset[str]] = frozenset({"cuts"})
    models_noise: ClassVar[bool] = True
    public_parts: ClassVar[tuple[str, ...]] = PUBLIC

    def learn(self, plan: LabelPlan, curator: Curator) -> LabelPosterior:
        tree = None
        for one in plan.rounds:
            asked = Trees(plan, one, tree)
            tree = asked.tree(curator.choose(one.step, asked))
        assert tree is not None
        if plan.counts is not None:
            counts = curator.measure(plan.counts, TreeCells(plan, tree)).answers
            tree = replace(tree, counts=counts)
        return label_posterior(plan, replace(tree, provenance=curator.provenance))

    def margins(self, posterior: LabelPosterior, codes: Codes, level: float) -> Margins:
        """Return leading classes, margins in log odds, and widths of the records' cells.

        Without counts all labels are worth the same, so that margins are those of every record
        alike.
        """
        cells = posterior.cells_at(codes)
        check_two_classes(len(posterior.evidence[0].probabilities))
        margins = np.array([one.margin for one in posterior.evidence])
        below, above = np.transpose([one.margin_widths(level) for one in posterior.evidence])
        return posterior.labels[cells], margins[cells], below[cells], above[cells]

    def notes(self, plan: LabelPlan) -> tuple[str, ...]:
        said = "labels" if plan.counts is None else "labels and counts"
        rounds = (TWO_ROUNDS,) if len(plan.rounds) > 1 else ()
        return (ONE_CHOICE, *rounds, PROBABILITIES.format(said=said))

    def numbers(self, posterior: LabelPosterior) -> Iterator[Array]:
        yield np.array([one.probabilities for one in posterior.evidence])

    def structure(self, plan: LabelPlan) -> JsonObject:
        """Return the cuts: all else follows from the budget."""
        return {"cuts": [[one.attribute, np.flatnonzero(one.upper).tolist()] for one in plan.cuts]}

    def plan_from(self, known: PlanFields, structure: JsonObject) -> LabelPlan:
        domain = known.domain
        if (reason := label_refusal(domain)) is not None:
            raise FieldError(reason)
        plan = label_plan(domain, known.budget, np.random.default_rng(0), **known.words)
        usable, count = set(usable_attributes(domain)), len(plan.cuts)
        cuts = list_of(structure["cuts"], "cuts", count, count)
        return replace(plan, cuts=tuple(_read_cut(domain, usable, one) for one in cuts))


LABELS = Labels()


def _read_cut(domain: Domain, usable: set[int], given: object) -> Cut:
    """Return a cut with codes on both sides and the first below."""
    attribute, codes = list_of(given, "cuts", 2, 2)
    place = integer_of(attribute, "attribute", most=domain.n_attributes - 1)
    if place not in usable:  # sides are written out below
        raise FieldError("attribute: expected one of 2 codes or more that can be cut.")
    upper = whole_numbers(codes, "upper", least=1, most=domain.sizes[place] - 1)
    if not upper or any(one >= following for one, following in pairwise(upper)):
        raise FieldError("upper: expected some codes, each after the one before.")
    above = np.zeros(domain.sizes[place], dtype=np.bool_)
    above[list(upper)] = True
    return Cut.of(place, above)


def tree_text(posterior: LabelPosterior, domain: Domain) -> str:
    """Draw a tree as text: where it is cut, the label of each cell, and how likely it is.

    How likely it is where cells were counted. Cuts that leave no code on one side of what was cut
    before, and those below which both sides are the same, are left out.
    """
    tree: Any = posterior.partition
    forest, cells = tree.forest(domain)
    said = [str(domain.classes[label]) for label in posterior.labels[cells]]
    if tree.counts is not None:
        sure = [posterior.evidence[cell].probabilities.max() for cell in cells]
        said = [f"{one} ({p:.0%})" for one, p in zip(said, sure, strict=True)]
    return export_text(forest, leaves=said, title=False)


OF_TABLES = "the structure of the tables"
"""Public beside a tree that was chosen, where there is no other forest."""


@dataclass(frozen=True)
class Pool(Kind):
    """The kind: a tree of labels beside tables, or beside tables of residuals."""

    name: ClassVar[str] = "pool"
    structure_keys: ClassVar[frozenset[str]] = frozenset({"tree", "beside", "tables"})
    models_noise: ClassVar[bool] = True

    def learn(self, plan: PooledPlan, curator: Curator) -> PooledPosterior:
        tree = LABELS.learn(plan.tree, curator.part(plan.tree))
        beside: Any = tables_kind(plan)
        tables = beside.learn(plan.tables, curator.part(plan.tables))
        return PooledPosterior.of(tree, tables)

    def margins(self, posterior: PooledPosterior, codes: Codes, level: float) -> Margins:
        if isinstance(posterior.tables, ProductPosterior):
            tables = CachedPosterior.of(posterior.tables)
            posterior = replace(posterior, tables=tables)
        return odds_margins(posterior, codes, level)

    def public(self, plan: PooledPlan) -> tuple[str, ...]:
        of_tables = tables_kind(plan).public(plan.tables)
        renamed = (OF_TABLES if one == STRUCTURE else one for one in of_tables)
        return tuple(dict.fromkeys((*LABELS.public(plan.tree), *renamed)))

    def notes(self, plan: PooledPlan) -> tuple[str, ...]:
        both = (*LABELS.notes(plan.tree), *tables_kind(plan).notes(plan.tables))
        return tuple(dict.fromkeys(both))

    def rms_per_leaf(self, plan: PooledPlan) -> float | None:
        return tables_kind(plan).rms_per_leaf(plan.tables)

    def numbers(self, posterior: PooledPosterior) -> Iterator[Array]:
        yield from LABELS.numbers(posterior.tree)
        beside: Kind = TABLES if isinstance(posterior.tables, ProductPosterior) else ADDITIVE
        yield from beside.numbers(posterior.tables)

    def structure(self, plan: PooledPlan) -> JsonObject:
        beside = tables_kind(plan)
        return {
            "tree": LABELS.to_dict(plan.tree),
            "beside": beside.name,
            "tables": beside.to_dict(plan.tables),
        }

    def plan_from(self, known: PlanFields, structure: JsonObject) -> PooledPlan:
        beside = BESIDE[one_word("beside", structure["beside"], tuple(BESIDE))]
        tree = LABELS.plan_of(part_of(structure, "tree"), known.domain)
        tables = beside.plan_of(part_of(structure, "tables"), known.domain)
        for one in (tree, tables):
            if (one.neighboring, one.n_records) != (known.neighboring, known.n_records):
                raise FieldError("tables, tree: expected the neighbours and records of the whole.")
        if isinstance(tables, ResidualPlan) and tables.even_records is not None:
            raise FieldError("tables: expected no choice of how rare a class is before them.")
        shares = split_budget(known.budget, known.n_records, known.neighboring, tree.n_classes)
        if shares != (tree.budget, tables.budget):
            raise FieldError("tables: expected the budget that the tree leaves.")
        return PooledPlan(known.budget, tree, tables, known.delta)


POOL = Pool()
BESIDE: dict[str, Kind] = {TABLES.name: TABLES, ADDITIVE.name: ADDITIVE}
"""What may be beside a tree."""


def tables_kind(plan: PooledPlan) -> Kind:
    return ADDITIVE if isinstance(plan.tables, ResidualPlan) else TABLES
