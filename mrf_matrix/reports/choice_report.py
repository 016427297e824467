"""What a forest of private choices may say of its privacy."""

from dataclasses import asdict, dataclass

from mrf_matrix.base.checks import readable
from mrf_matrix.base.display import RowDisplay
from mrf_matrix.base.fields import JsonObject
from mrf_matrix.domain import DomainOrPath, is_read_off
from mrf_matrix.forests import PrivateMultinomialTrees
from mrf_matrix.forests.learned.two_stage_plan import TwoStagePlan
from mrf_matrix.mechanisms import ZCDP, PureDP, Release
from mrf_matrix.mechanisms.measurement.release import READ_OFF
from mrf_matrix.reports.privacy_report import DENIAL


@dataclass(frozen=True)
class _StagesReport(RowDisplay):
    """A statement on stages that each spend a part of a budget."""

    statement: str  # the claim in one sentence; says so when there is none
    budget: str
    neighboring: str
    noise: str
    composition: str  # why the parts add up to the budget
    public: tuple[str, ...]  # what the claim takes for public

    @property
    def rows(self) -> list[tuple[str, str]]:
        """A line for each figure."""
        texts = self.to_dict() | {"public": "; ".join(self.public)}
        del texts["statement"]
        return [(name.replace("_", " "), str(text)) for name, text in texts.items()]

    def to_dict(self) -> JsonObject:
        """Return the report as plain values, ready for JSON."""
        return asdict(self) | {"public": list(self.public)}


@dataclass(frozen=True)
class ChoiceReport(_StagesReport):
    """The privacy statement of a forest whose structure and labels were chosen privately."""

    # per_tree, attribute_choice, cut_choice, label_choice: what one tree, and each of its choices,
    # spends (in the add/remove sense)
    per_tree: str
    attribute_choice: str
    cut_choice: str
    label_choice: str


@dataclass(frozen=True)
class TwoStageReport(_StagesReport):
    """The privacy statement of a private structure with measured leaf counts."""

    # structure, counts: what the two stages spend, and how
    structure: str
    counts: str
    sensitivity: float  # how far one record moves what is measured, in records
    law: str  # of the noise on each of them
    n_answers: int


def _public(structure: str) -> tuple[str, ...]:
    return ("the domain and the classes", structure, "the neighbouring relation and the budget")


def two_stage_report(
    plan: TwoStagePlan,
    trees: PrivateMultinomialTrees,
    release: Release,
    domain: DomainOrPath,
    delta: float = 0.0,
) -> TwoStageReport:
    """Describe a private structure and the release of its leaf counts.

    `domain`: as it was given; `delta`: that of the claim.
    """
    together = (
        "both stages see all records, so their budgets add"
        if plan.parts == "all"
        else "each record is in one stage, by its own coin, so both may spend the whole budget"
    )
    return TwoStageReport(
        statement=claim(plan.total, trees.neighboring, release.noise, domain, delta),
        budget=repr(plan.total),
        neighboring=trees.neighboring,
        noise=release.noise,
        structure=f"{plan.structure}, {trees.n_trees} trees of depth {trees.max_depth}",
        counts=f"{plan.counts}, strategy {release.method!r}",
        composition=together,
        sensitivity=release.sensitivity,
        law=str(release.law),
        n_answers=release.answers.size,
        public=_public("the depth, the number of trees and the budget split"),
    )


def choice_report(
    trees: PrivateMultinomialTrees, noise: str, label_score: str, domain: DomainOrPath
) -> ChoiceReport:
    """Describe a forest of private structure and labels.

    `domain`: as it was given.
    """
    rates, delta = trees.rates, float(trees.delta)
    budget = rates.budget
    records = "every record is in one tree" if trees.disjoint else "trees add up"
    factor = "; replacing is two steps" if trees.neighboring == "replace_one" else ""
    return ChoiceReport(
        statement=claim(
            budget, trees.neighboring, noise, domain, delta if isinstance(budget, ZCDP) else 0.0
        ),
        budget=repr(budget),
        neighboring=trees.neighboring,
        noise="none" if budget.is_infinite else noise,
        per_tree=(
            f"epsilon {readable(rates.label)}"
            if isinstance(budget, PureDP)
            else repr(budget if trees.disjoint else budget.split(trees.n_trees)[0])
        ),
        attribute_choice=f"epsilon {readable(rates.attribute)}, {trees.score} scores",
        cut_choice=f"epsilon {readable(rates.cut)}, {trees.score} scores",
        label_choice=f"epsilon {readable(rates.label)}, class {label_score}s",
        composition=(
            f"nodes of a level hold different records, {trees.max_depth} levels add up, labels "
            f"come from records that the structure has not seen, {records}{factor}"
        ),
        public=_public("the depth and the number of trees"),
    )


def claim(
    budget: PureDP | ZCDP, neighboring: str, noise: str, domain: DomainOrPath, delta: float = 0.0
) -> str:
    """State the claim of a release of choices, or that there is none.

    `domain`: as it was given; `delta`: that of an (ε, δ) claim.
    """
    if budget.is_infinite:
        return f"{DENIAL}: an infinite budget adds no noise."
    if is_read_off(domain):
        return READ_OFF
    said = budget.claim(delta)
    if noise == "exact":
        return f"This release is differentially private: {said} under {neighboring} neighbours."
    return (
        f"{DENIAL}: research noise at {said} under {neighboring} neighbours, "
        f"from a seedable generator."
    )
