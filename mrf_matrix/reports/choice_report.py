"""What a forest of private choices may say of its privacy."""

from dataclasses import dataclass, fields

from mrf_matrix.base.checks import readable
from mrf_matrix.base.display import RowDisplay
from mrf_matrix.base.fields import JsonObject
from mrf_matrix.base.provenance import Provenance
from mrf_matrix.forests import PrivateMultinomialTrees
from mrf_matrix.forests.learned.two_stage_plan import TwoStagePlan
from mrf_matrix.mechanisms import ZCDP, PureDP, Release
from mrf_matrix.mechanisms.statement import Claim, provenance_to_dict


@dataclass(frozen=True)
class _StagesReport(RowDisplay):
    """A statement on stages that each spend a part of a budget."""

    claim: Claim
    composition: str  # why the parts add up to the budget
    public: tuple[str, ...]  # what the claim takes for public

    @property
    def statement(self) -> str:  # type: ignore[override]
        """The claim in one sentence; says so when there is none."""
        return self.claim.statement

    @property
    def is_private(self) -> bool:
        """Whether a claim of privacy is made."""
        return self.claim.is_private

    @property
    def budget(self) -> str:
        """What was spent, by this and by all that it rests on."""
        return repr(self.claim.budget)

    @property
    def neighboring(self) -> str:
        """The relation that the claim holds under."""
        return self.claim.neighboring

    @property
    def noise(self) -> str:
        """The worst noise that was drawn."""
        return self.claim.noise

    @property
    def delta(self) -> float:
        """The δ that the claim is stated for; 0 for none."""
        return self.claim.delta

    @property
    def _figures(self) -> JsonObject:
        told = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "claim"}
        claimed = {name: getattr(self, name) for name in ("budget", "neighboring", "noise")}
        return claimed | told

    @property
    def rows(self) -> list[tuple[str, str]]:
        """A line for each figure."""
        texts = self._figures | {"public": "; ".join(self.public)}
        return [(name.replace("_", " "), str(text)) for name, text in texts.items()]

    def to_dict(self) -> JsonObject:
        """Return the report as plain values, ready for JSON."""
        claimed = {"statement": self.statement, "is_private": self.is_private}
        provenance = provenance_to_dict(self.claim.provenance)
        known = {"provenance": provenance, "public": list(self.public)}
        return claimed | self._figures | known


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
    delta: float = 0.0,
) -> TwoStageReport:
    """Describe a private structure and the release of its leaf counts; `delta`: of the claim."""
    together = (
        "both stages see all records, so their budgets add"
        if plan.parts == "all"
        else "each record is in one stage, by its own coin, so both may spend the whole budget"
    )
    return TwoStageReport(
        claim=Claim(release.provenance, ("exponential mechanism", str(release.law)), delta),
        structure=f"{plan.structure}, {trees.n_trees} trees of depth {trees.max_depth}",
        counts=f"{plan.counts}, strategy {release.method!r}",
        composition=together,
        sensitivity=release.sensitivity,
        law=str(release.law),
        n_answers=release.answers.size,
        public=_public("the depth, the number of trees and the budget split"),
    )


def choice_report(
    trees: PrivateMultinomialTrees, label_score: str, provenance: Provenance
) -> ChoiceReport:
    """Describe a forest of private structure and labels, which is of this provenance."""
    rates, delta = trees.rates, float(trees.delta)
    budget = rates.budget
    records = "every record is in one tree" if trees.disjoint else "trees add up"
    factor = "; replacing is two steps" if trees.neighboring == "replace_one" else ""
    return ChoiceReport(
        claim=Claim(
            provenance, ("exponential mechanism",), delta if isinstance(budget, ZCDP) else 0.0
        ),
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
