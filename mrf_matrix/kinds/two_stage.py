"""Two-stage forests: a structure that is chosen privately, and a plan of its leaves after it.

All choices of all nodes are one step. What is left of the budget is deferred to the plan of the
leaves of the forest that was chosen: its decision-path matrix is the workload.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from math import comb, inf
from typing import Any, ClassVar

from mrf_matrix.base.arrays import Array, Codes, Values
from mrf_matrix.base.checks import one_word, structure_generator
from mrf_matrix.base.fields import (
    FieldError,
    JsonObject,
    line_of_text,
    number_of,
    object_of,
)
from mrf_matrix.compilation.matrices import public_queries
from mrf_matrix.forests import Forest
from mrf_matrix.forests.ensembles import Ensemble
from mrf_matrix.kinds.model import Kind, Model, PlanFields, Sizes
from mrf_matrix.kinds.multinomial import (
    TREE_KEYS,
    Structures,
    composition_of,
    trees_from_dict,
    trees_to_dict,
)
from mrf_matrix.mechanisms import calibrate
from mrf_matrix.planning.plans.build import (
    PublicForests,
    given_matrix,
    strategies_of_ensembles,
)
from mrf_matrix.planning.plans.cost import check_cost
from mrf_matrix.planning.plans.plan import Plan
from mrf_matrix.planning.plans.plan_kind import MeasurementSpec, kind_of
from mrf_matrix.planning.plans.two_stage_plan import TwoStagePlan, two_stage_plan
from mrf_matrix.release.curator import Cells, Curator
from mrf_matrix.release.plan import AnnouncedPlan, Transcript
from mrf_matrix.voting.evidence import vote_shares
from mrf_matrix.voting.voting import VOTINGS, Voting, forest_votes, leaf_votes
from strategies import Strategy
from strategies.operator_files import decode, encode
from strategies.operators import Marginals, RowSpaceError, fits

PREFIX = "strategy/"
"""Of the names of arrays in files."""
TOGETHER = {
    "coins": "each record is in one stage, by its own coin, so both may spend the whole budget",
    "all": "both stages see all records, so their budgets add",
}
PUBLIC = (
    "the domain and the classes",
    "the depth, the number of trees and the budget split",
    "the neighbouring relation and the budget",
)
MOST_SETS = 1 << 12
"""Most sets of attributes whose tables are all checked."""


@dataclass(frozen=True, eq=False)
class TwoStagePosterior:
    """Noisy class counts of the leaves of a forest."""

    forest: Forest
    leaf_values: Array  # (o, k): classes sorted
    voting: Voting  # {"hard", "weight"}

    def votes(self, codes: Codes) -> Array:
        return forest_votes(self.forest, codes, leaf_votes(self.leaf_values, self.voting))

    def probabilities(self, codes: Codes) -> Array:
        return vote_shares(self.votes(codes))


@dataclass(frozen=True)
class TwoStage(Kind):
    """The kind: a structure by exponential mechanisms, its leaves by the matrix mechanism."""

    name: ClassVar[str] = "two_stage"
    structure_keys: ClassVar[frozenset[str]] = TREE_KEYS | {
        "parts", "share", "voting", "method", "strategy",
    }  # fmt: skip
    public_parts: ClassVar[tuple[str, ...]] = PUBLIC

    def learn(self, plan: TwoStagePlan, curator: Curator) -> TwoStagePosterior:
        grown, left = plan.steps
        asked = Structures(plan.trees, plan.domain)
        chosen = curator.choose(grown, asked)
        forest = asked.forest(chosen, curator.provenance, curator.noise)

        def read(data: JsonObject) -> Plan:
            object_of(data, "announced", ())
            return plan_of_leaves(plan, forest)

        part: Any = curator.part(left, lambda: plan_of_leaves(plan, forest), read)
        (leaves,), (step,) = part.plan.parts, part.plan.steps
        domain = plan.domain
        release = part.measure(
            step, Cells(leaves.ensemble.features, domain.sizes, domain.n_classes)
        )
        return TwoStagePosterior(forest, leaves.answers(release), plan.voting)

    def votes(self, posterior: TwoStagePosterior, codes: Codes, sizes: Sizes) -> Array:
        return posterior.votes(codes)

    def voted_by(self, model: Model, voting: str | None, shrinkage: str | None) -> Model:
        if shrinkage not in (None, "none"):
            raise ValueError(f"shrinkage={shrinkage!r}: expected none of a two-stage forest.")
        known: Voting = model.posterior.voting
        rule = known if voting is None else one_word("voting", voting, VOTINGS)
        return replace(
            model,
            plan=replace(model.plan, voting=rule),
            posterior=replace(model.posterior, voting=rule),
        )

    def notes(self, plan: TwoStagePlan) -> tuple[str, ...]:
        """Return why both stages compose to the budget."""
        return (TOGETHER[plan.parts], *composition_of(plan.trees))

    def complete_plan(self, plan: TwoStagePlan, transcript: Transcript) -> TwoStagePlan:
        (leaves,) = (one.plan for one in transcript.outcomes if isinstance(one, AnnouncedPlan))
        followed: Any = leaves
        return replace(plan, followed=followed)

    def numbers(self, posterior: TwoStagePosterior) -> Iterator[Array]:
        yield posterior.leaf_values

    def structure(self, plan: TwoStagePlan) -> JsonObject:
        """Return how the trees grow, and the strategy of their leaves, which files keep whole."""
        strategy = strategy_of(plan)
        return trees_to_dict(plan.trees) | {
            "parts": plan.parts,
            "share": plan.structure_share,
            "voting": plan.voting,
            "method": strategy.method,
            "strategy": encode(strategy.matrix, PREFIX)[0],
        }

    def arrays(self, plan: TwoStagePlan) -> dict[str, Values]:
        return dict(encode(strategy_of(plan).matrix, PREFIX)[1])

    def announced_to_dict(self, plan: Any) -> JsonObject:
        """Return nothing: the leaves are those of the structure that was chosen."""
        return {}

    def plan_from(self, known: PlanFields, structure: JsonObject) -> TwoStagePlan:
        if known.fetch is None:
            raise FieldError("plan: expected one with the arrays of its strategy.")
        matrix, _ = decode(structure["strategy"], known.fetch, PREFIX)
        given = MeasurementSpec(
            known.budget, neighboring=known.neighboring, strategy=matrix, delta=known.delta
        )
        plan = two_stage_plan(
            known.domain,
            known.budget,
            trees_from_dict(structure, known.domain, known.budget, known.neighboring),
            parts=structure["parts"],
            structure_share=number_of(structure["share"], "share", most=1.0),
            measuring=given,
            random_state=0,
            voting=structure["voting"],
            delta=known.delta,
        )
        method = line_of_text(structure["method"], "method", 100)
        return replace(plan, n_records=known.n_records, method=method)


TWO_STAGE = TwoStage()


def plan_of_leaves(plan: TwoStagePlan, forest: Forest) -> Plan:
    """Return the plan of the leaves of a forest that was chosen: a public function of it.

    Raises MemoryCapError if it would not fit. However long it takes, the half of it is paid.
    """
    domain = plan.domain
    whole = Ensemble(tuple(range(domain.n_attributes)), forest)
    kind = kind_of("matrix", voting=plan.voting)
    structure = structure_generator(plan.random_state)
    leaves = PublicForests(kind, domain, (whole,), structure).plan(
        plan.measuring, public_queries(domain, None), n_classes=domain.n_classes
    )
    check_cost(leaves, inf)
    if plan.method is None:
        return leaves
    (part,) = leaves.parts
    known = replace(part, strategy=replace(strategy_of(leaves), method=plan.method))
    return replace(leaves, parts=(known,))


def strategy_of(plan: TwoStagePlan | Plan | None) -> Strategy:
    leaves = plan.followed if isinstance(plan, TwoStagePlan) else plan
    if leaves is None or leaves.strategy is None:
        raise FieldError("the leaves are not planned: expected a fit that was finished.")
    return leaves.strategy


# Before anything is paid -------------------------------------------------------------------------


def check_given_strategy(plan: TwoStagePlan) -> None:
    """Refuse a given strategy that could not measure the leaves that may be grown.

    A path of depth h splits on up to h attributes, at any cuts, and products of cuts span the
    table of those attributes. So a strategy determines the leaves of every structure exactly
    where it determines all tables of ``min(max_depth, splittable attributes)`` attributes. Where
    there are too many of them to ask, the plan of the leaves finds out.

    Raises TypeError, ValueError if it is no matrix over the domain's cells, selected for the other
    norm, or (a `RowSpaceError`) does not determine those tables.
    """
    (one,), domain = strategies_of_ensembles(plan.measuring.strategy, 1), plan.domain
    if isinstance(one, str):
        return
    if isinstance(one, Strategy) and one.norm != plan.counts.norm:
        noise = "Laplace" if plan.counts.norm == "l1" else "Gaussian"
        raise ValueError(
            f"strategy was selected for norm={one.norm!r}, but stage 2 adds {noise} noise: select "
            f"it again with norm={plan.counts.norm!r}."
        )
    matrix = given_matrix(one.matrix if isinstance(one, Strategy) else one, domain.size)
    tables = tables_of_every_structure(domain.sizes, plan.trees.max_depth)
    if tables is None:
        return
    try:
        calibrate(matrix, plan.counts, neighboring=plan.neighboring, workload=tables)
    except RowSpaceError:
        raise RowSpaceError(
            f"strategy does not determine the leaves of every structure that stage 1 may grow: "
            f"with max_depth={plan.trees.max_depth}, expected a matrix that determines all tables "
            f"of {len(tables.attribute_sets[0])} attributes. Give strategy='auto' or a family's "
            f"name, which is selected for the structure, or lower max_depth. Nothing was spent."
        ) from None


def tables_of_every_structure(sizes: tuple[int, ...], max_depth: int) -> Marginals | None:
    """Return the tables whose row space is that of all leaves of trees of a depth.

    None where there are too many to ask for.
    """
    splittable = [i for i, size in enumerate(sizes) if size > 1]
    h = min(max_depth, len(splittable))
    if comb(len(splittable), h) > MOST_SETS:
        return None
    sets = list(combinations(splittable, h))
    tables = Marginals(sizes, sets, [1] * len(sets))
    return tables if fits(tables.shape[:1], 64) else None
