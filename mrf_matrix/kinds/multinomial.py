"""Multinomial forests: the structure and the labels of its leaves are one private choice."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from mrf_matrix.base.arrays import Array, Codes, Longs
from mrf_matrix.base.checks import format_number, one_word
from mrf_matrix.base.fields import FieldError, JsonObject, flag_of, integer_of, number_of
from mrf_matrix.base.provenance import Provenance
from mrf_matrix.base.work import enter_draw
from mrf_matrix.domain import Domain
from mrf_matrix.forests import Forest, PrivateMultinomialTrees
from mrf_matrix.forests.growth.growth import CRITERIA
from mrf_matrix.forests.growth.level import LABEL_SCORES, private_labels
from mrf_matrix.forests.growth.private import SCORES
from mrf_matrix.kinds.model import Kind, PlanFields
from mrf_matrix.mechanisms.selection import Bits
from mrf_matrix.planning.plans.two_stage_plan import GrowthStep, with_budget, words_of
from mrf_matrix.release.curator import Curator
from mrf_matrix.release.plan import Budget, Places
from mrf_matrix.release.step_table import StepTable
from mrf_matrix.voting.evidence import vote_shares
from mrf_matrix.voting.voting import forest_votes
from strategies.operators import check_allocation

PUBLIC = (
    "the domain and the classes",
    "the depth and the number of trees",
    "the neighbouring relation and the budget",
)
SHARES = ("attribute_share", "structure_share")
TREE_KEYS = frozenset({"n_trees", "max_depth", "score", "criterion", "disjoint", *SHARES})


@dataclass(frozen=True, eq=False)
class Structures:
    """The structures that trees may have: splits of all nodes, which compose to one budget.

    One record is in one node of a level, of each tree that sees it; `ChoiceBudget` adds them up.
    """

    trees: PrivateMultinomialTrees
    domain: Domain
    kind: ClassVar[str] = GrowthStep.kind

    def scores(self, data: Any) -> tuple[Codes, Codes]:
        """Return what nodes are scored from, one after another: **private**."""
        return data.codes, data.labels

    def draw(self, scores: tuple[Codes, Codes], step: GrowthStep, bits: Bits) -> Places:
        draw = enter_draw()
        forest = self.trees.grow(self.domain, *scores, bits=bits).forest
        draw.outcome = forest
        return self.trees.choices_of(forest)

    def check(self, chosen: Places) -> None:
        """Refuse what no growing could have chosen."""
        self.forest(chosen, self.domain.provenance, "none")

    def forest(self, chosen: Places, provenance: Provenance, noise: str) -> Forest:
        return self.trees.forest_of(self.domain, chosen, provenance, noise)


@dataclass(frozen=True, eq=False)
class LabelledStructures(Structures):
    """Structures with a label for each leaf, drawn from the records that its tree did not see.

    Leaves of one tree hold different records, and none that chose its structure.
    """

    label_score: str = "share"

    def draw(self, scores: tuple[Codes, Codes], step: GrowthStep, bits: Bits) -> Places:
        draw = enter_draw()
        grown = self.trees.grow(self.domain, *scores, bits=bits)
        draw.outcome = grown.forest
        rate, score = self.trees.rates.label, self.label_score
        labels = private_labels(grown.leaf_counts, rate, score, bits)  # type: ignore[arg-type]
        return (*self.trees.choices_of(grown.forest), *labels.tolist())

    def check(self, chosen: Places) -> None:
        self.label_forest(chosen, self.domain.provenance, "none")

    def label_forest(
        self, chosen: Places, provenance: Provenance, noise: str
    ) -> tuple[Forest, Longs]:
        """Return the forest that was chosen, and the label of each leaf, as a class code."""
        n_splits = (len(chosen) - self.trees.n_trees) // 2  # splits are in two
        forest = self.forest(chosen[: max(0, n_splits)], provenance, noise)
        labels = np.asarray(chosen[max(0, n_splits) :], dtype=np.int64)
        if len(labels) != forest.n_leaves or bool((labels >= self.domain.n_classes).any()):
            raise FieldError("choices: expected one class for every leaf.")
        return forest, labels


@dataclass(frozen=True, eq=False)
class MultinomialPlan(StepTable):
    """The plan of a forest of which all is chosen: one step."""

    title = "multinomial forest"

    domain: Domain
    trees: PrivateMultinomialTrees
    label_score: str  # {"share", "count"}
    delta: float = 0.0
    n_records: int | None = None

    @property
    def budget(self) -> Budget:
        return self.trees.rates.budget

    @property
    def neighboring(self) -> str:
        return self.trees.neighboring

    @cached_property
    def steps(self) -> tuple[GrowthStep]:
        return (GrowthStep(f"{words_of(self.trees)}, and labels of their leaves", self.trees),)

    def _with_budget(self, budget: Budget, delta: float) -> "MultinomialPlan":
        return replace(self, trees=with_budget(self.trees, budget), delta=delta)


@dataclass(frozen=True, eq=False)
class LabelledForest:
    """A forest whose leaves vote for one class each."""

    forest: Forest
    labels: Longs  # (o,): class codes
    leaf_votes: Array  # (o, k): the same as votes, classes sorted

    def probabilities(self, codes: Codes) -> Array:
        return vote_shares(forest_votes(self.forest, codes, self.leaf_votes))


@dataclass(frozen=True)
class Multinomial(Kind):
    """The kind: structure and labels by exponential mechanisms, and nothing measured."""

    name: ClassVar[str] = "multinomial"
    structure_keys: ClassVar[frozenset[str]] = TREE_KEYS | {"label_score"}
    public_parts: ClassVar[tuple[str, ...]] = PUBLIC

    @property
    def estimator(self) -> str:
        return "MultinomialForestClassifier"

    def learn(self, plan: MultinomialPlan, curator: Curator) -> LabelledForest:
        (step,) = plan.steps
        asked = LabelledStructures(plan.trees, plan.domain, plan.label_score)
        chosen = curator.choose(step, asked)
        forest, labels = asked.label_forest(chosen, curator.provenance, curator.noise)
        return LabelledForest(forest, labels, np.eye(plan.domain.n_classes)[labels])

    def notes(self, plan: MultinomialPlan) -> tuple[str, ...]:
        """Return why the choices compose to the budget."""
        return (
            *composition_of(plan.trees),
            f"labels come from records that the structure of their tree has not seen, by class "
            f"{plan.label_score}s at epsilon {format_number(plan.trees.rates.label)} each",
        )

    def numbers(self, posterior: LabelledForest) -> Iterator[Array]:
        yield posterior.leaf_votes

    def structure(self, plan: MultinomialPlan) -> JsonObject:
        return trees_to_dict(plan.trees) | {"label_score": plan.label_score}

    def plan_from(self, known: PlanFields, structure: JsonObject) -> MultinomialPlan:
        trees = trees_from_dict(structure, known.domain, known.budget, known.neighboring)
        score = one_word("label_score", structure["label_score"], LABEL_SCORES)
        return MultinomialPlan(known.domain, trees, score, known.delta, known.n_records)


MULTINOMIAL = Multinomial()


def composition_of(trees: PrivateMultinomialTrees) -> tuple[str, str]:
    """Return what each choice of trees spends, and why all cost their budget together."""
    records = "every record is in one tree" if trees.disjoint else "trees add up"
    factor = "; replacing is two steps" if trees.neighboring == "replace_one" else ""
    attribute, cut = (format_number(one) for one in (trees.rates.attribute, trees.rates.cut))
    return (
        f"a node spends epsilon {attribute} on its attribute and {cut} on its cut",
        f"nodes of a level hold different records, {trees.max_depth} levels add up, {records}"
        f"{factor}",
    )


def check_growth_memory(trees: PrivateMultinomialTrees, domain: Domain) -> None:
    """Refuse trees that could outgrow the memory cap, by public numbers alone.

    Raises ValueError if the forest could have too many nodes, or (a `MemoryCapError`) one of its
    largest arrays could exceed the cap: whatever the records are, and however many.
    """
    sizes = trees.sizes(domain)
    sizes.check()
    for what, shape, itemsize in sizes.arrays:
        check_allocation(what, shape, itemsize)


def trees_to_dict(trees: PrivateMultinomialTrees) -> JsonObject:
    return {key: getattr(trees, key) for key in sorted(TREE_KEYS)}


def trees_from_dict(
    data: JsonObject, domain: Domain, budget: Budget, neighboring: str
) -> PrivateMultinomialTrees:
    """Return the trees that `trees_to_dict` wrote; the data may be untrusted.

    Raises FieldError, ValueError if they are none, or could outgrow memory.
    """
    read: dict[str, Any] = {
        "n_trees": integer_of(data["n_trees"], "n_trees", least=1),
        "max_depth": integer_of(data["max_depth"], "max_depth"),
        "score": one_word("score", data["score"], SCORES),
        "criterion": one_word("criterion", data["criterion"], CRITERIA),
        "disjoint": flag_of(data["disjoint"], "disjoint"),
    }
    read |= {one: number_of(data[one], one, most=1.0) for one in SHARES}
    read |= {"epsilon": None, budget.parameter: budget.amount, "neighboring": neighboring}
    trees = PrivateMultinomialTrees(**read)
    check_growth_memory(trees, domain)
    return trees
