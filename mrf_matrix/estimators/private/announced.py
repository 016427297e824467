"""What a forest that is planned as steps would spend, one by one, before any data."""

from dataclasses import dataclass
from math import sqrt

from mrf_matrix.estimators.shared.plan_fit import FitsByPlan
from mrf_matrix.labels import LabelPlan
from mrf_matrix.planning.plans.cost import peak_bytes
from mrf_matrix.planning.plans.plan import Plan
from mrf_matrix.planning.plans.verdict import Verdict, verdict_of
from mrf_matrix.planning.private import PrivatePlan, planned_for
from mrf_matrix.planning.private.plan_of_claim import ClaimPlan
from mrf_matrix.planning.private.pooled_plan import PooledPlan
from mrf_matrix.planning.private.private_plan import forest_plan
from mrf_matrix.planning.private.rules import FORESTS
from mrf_matrix.residual import ResidualPlan
from mrf_matrix.residual.settings import Budget
from mrf_matrix.residual.step import CHOICES, ResidualStep

ForestPlan = Plan | ResidualPlan | LabelPlan | PooledPlan


@dataclass(frozen=True)
class AnnouncedStep:
    """A share of the budget and what it pays for."""

    measured: str
    budget: Budget
    # in records, or of a choice's scores; None where an earlier choice says what is measured
    sensitivity: float | None = None
    # noise of a measured number, of answers the mean of all; None of choices, and where the
    # sensitivity is
    rms: float | None = None
    is_choice: bool = False

    def to_dict(self, whole: Budget) -> dict[str, object]:
        """Return the step as plain values, ready for JSON, with its share of the whole."""
        share = None if whole.is_infinite else float(self.budget.exact / whole.exact)
        return {**vars(self), "budget": repr(self.budget), "share": share}


@dataclass(frozen=True)
class Announcement:
    """The plan of a forest, and all that its fit would spend."""

    plan: ClaimPlan | Plan  # what the classifier's own `plan` gives
    # in their order; their budgets add up to the whole. Where a choice of how rare the rarer class
    # is comes first, what follows is that of even classes
    steps: tuple[AnnouncedStep, ...]
    forest: ForestPlan  # of the forest that follows, of all attributes

    @property
    def verdict(self) -> Verdict:
        """What noise leaves of the whole."""
        return verdict_of(self.plan)

    def to_dict(self) -> dict[str, object]:
        """Return plan and steps as plain values, ready for JSON."""
        return {
            **self.plan.to_dict(),
            "steps": [one.to_dict(self.plan.budget) for one in self.steps],
            "signal_to_noise": str(self.verdict),
            "peak_bytes": peak_bytes(self.forest),
        }


def announced(model: FitsByPlan) -> Announcement:
    """Return the plan of an unfitted classifier, and every step that its fit would pay for.

    `model`: a `PrivateForestClassifier`, or the classifier of one of its kinds.

    Nothing is read or spent. With an integer `random_state` it is what `fit` announces.

    Raises
    ------
    ValueError
        If the domain is not given, or a parameter is invalid.
    MemoryCapError
        If an array would exceed the memory cap.

    Examples
    --------
    >>> from mrf_matrix import Domain
    >>> from mrf_matrix.estimators import PrivateForestClassifier
    >>> domain = Domain.from_sizes([4] * 10, n_classes=2)
    >>> found = announced(PrivateForestClassifier(domain, epsilon=1, n_records=100_000))
    >>> for step in found.steps[:3]:
    ...     print(step.budget, step.measured)
    PureDP(epsilon=0.01) how rare the rarer class is
    PureDP(epsilon=0.0396) class totals
    PureDP(epsilon=0.00495) counts of attribute 1
    """
    plan = model.plan()
    if not isinstance(plan, PrivatePlan):
        return Announcement(plan, tuple(_steps_of(plan)), plan)
    follows = plan if plan.balance is None else planned_for(plan, plan.n_records or 0)
    forest = forest_plan(follows, None, model.get_params()["random_state"])
    steps = (*map(_of_step, follows.choices), *_steps_of_forest(forest, follows))
    return Announcement(plan, steps, forest)


def _steps_of_forest(forest: ForestPlan, plan: PrivatePlan) -> list[AnnouncedStep]:
    """Return the steps of the forest; one for all where attributes are chosen first."""
    screening = plan.screening
    if screening is None:
        return _steps_of(forest)
    what = f"tables of the {len(screening.choices)} attributes that are kept"
    if screening.enough is not None:
        what += f", or a {FORESTS[plan.measured]} of all"
    return [AnnouncedStep(what, plan.rest)]


def _steps_of(plan: ForestPlan) -> list[AnnouncedStep]:
    if isinstance(plan, PooledPlan):
        return [*_steps_of(plan.tree), *_steps_of(plan.tables)]
    if isinstance(plan, Plan):
        blocks = plan.forest.n_trees - 1  # one more tree is of the class totals
        what = f"{blocks} table{'s' * (blocks > 1)} of blocks, and class totals"
        return [AnnouncedStep(what, plan.budget, plan.sensitivity, plan.rms_per_leaf)]
    return [_of_step(step) for step in plan.steps]


def _of_step(step: ResidualStep) -> AnnouncedStep:
    """Return a step of a sequence, or a choice."""
    is_choice = step.kind in CHOICES
    rms = None if is_choice else sqrt(step.variance)
    return AnnouncedStep(step.measured, step.budget, step.sensitivity, rms, is_choice)
