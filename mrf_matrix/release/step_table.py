"""Plans as tables: a line a step, with its exact share and the noise of its numbers.

Plans of every kind are read, written for papers, drawn and moved to other budgets alike.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from mrf_matrix.base.display import Cells, Tabular, align_columns, latex_table
from mrf_matrix.mechanisms import BudgetError, as_budget
from mrf_matrix.mechanisms.budget import claiming_budgets
from mrf_matrix.plotting.style import StepDisplay
from mrf_matrix.release.curator import is_plan
from mrf_matrix.release.plan import Budget

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Amount = float | Fraction | None
T = TypeVar("T")

STEPS_SHOWN = 8
"""Lines of a printed plan."""


@dataclass(frozen=True)
class AnnouncedStep:
    """A share of the budget, what it pays for, and the noise that it buys."""

    measured: str  # what is measured or chosen, in words
    budget: Budget  # its exact share
    # in records, or of a choice's scores; None where a choice before it says what is measured
    sensitivity: float | None = None
    # noise of a measured number in records, of answers their mean square's root; None of choices
    rms: float | None = None
    is_choice: bool = False

    @classmethod
    def of(cls, step: Any) -> "AnnouncedStep":
        sensitivity, rms = getattr(step, "sensitivity", None), getattr(step, "rms", None)
        is_choice = getattr(step, "is_choice", False)
        return cls(step.measured, step.budget, sensitivity, rms, is_choice)

    def share(self, whole: Budget) -> float | None:
        """Return its part of the whole; None without noise."""
        return None if whole.is_infinite else float(self.budget.exact / whole.exact)

    def share_text(self, whole: Budget) -> str:
        share = self.share(whole)
        return "" if share is None else f"{share:.2%}"

    def to_dict(self, whole: Budget) -> dict[str, object]:
        """Return the step as plain values, ready for JSON, with its share of the whole."""
        return {**vars(self), "budget": repr(self.budget), "share": self.share(whole)}

    @property
    def error(self) -> str:
        """The noise behind a ±; what a choice decides has none."""
        if self.rms is None:
            return "a choice" if self.is_choice else ""
        return f"± {self.rms:.4g}"


def fold_steps(steps: Sequence[T]) -> tuple[Sequence[T], Sequence[T], Sequence[T]]:
    """Return the steps that stand first, those that are left out, and the last.

    >>> [len(part) for part in fold_steps(range(8))], [len(part) for part in fold_steps(range(30))]
    ([8, 0, 0], [6, 23, 1])
    """
    if len(steps) <= STEPS_SHOWN:
        return steps, [], []
    return steps[: STEPS_SHOWN - 2], steps[STEPS_SHOWN - 2 : -1], steps[-1:]


class StepTable(Tabular):
    """A plan as a table: a line a step, with its exact share and the noise of its numbers."""

    title: ClassVar[str] = "private model"
    """What is planned, in words."""

    @property
    def headline(self) -> str:
        """What is planned, for how many records, at which budget and under which relation."""
        plan: Any = self
        known = plan.n_records
        records = "an unknown number of records" if known is None else f"{known:,} records"
        return (
            f"Plan of a {self.title} for {records}, at {plan.budget.claim(plan.delta)} under "
            f"{plan.neighboring} neighbours"
        )

    def claim_fields(self) -> dict[str, object]:
        """Return what a plan claims, under which relation, as plain values for JSON."""
        plan: Any = self
        return {
            "budget": repr(plan.budget),
            "delta": plan.delta,
            "claim": plan.budget.claim(plan.delta),
            "neighboring": plan.neighboring,
            "attributes": plan.domain.n_attributes,
        }

    @property
    def announced_steps(self) -> tuple[AnnouncedStep, ...]:
        """Every step, those of plans within it in their place."""
        plan: Any = self
        found: list[AnnouncedStep] = []
        for one in plan.steps:
            found += one.announced_steps if is_plan(one) else [AnnouncedStep.of(one)]
        return tuple(found)

    @property
    def cells(self) -> Cells:
        """Steps, their shares, how far one record moves their numbers, and the noise of these."""
        whole: Budget = self.budget  # type: ignore[attr-defined]
        rows = [
            [one.measured, float(one.budget.amount), one.share(whole), one.sensitivity, one.rms]
            for one in self.announced_steps
        ]
        return ("step", whole.parameter, "share", "sensitivity", "rms"), rows

    def to_latex(self) -> str:
        """Return the steps as a LaTeX tabular, with the rules of booktabs and noise behind a ±."""
        (*header, _), rows = self.cells
        errors = [one.error for one in self.announced_steps]
        said = [[*row[:-1], error] for row, error in zip(rows, errors, strict=True)]
        return latex_table(said, (*header, "error"))

    def to_text(self, *, verbose: bool = False) -> str:
        """Return the headline and the steps as text; these in eight lines unless `verbose`."""
        return f"{self.headline}\n{self._step_lines(verbose=verbose)}"

    def _step_lines(self, *, verbose: bool = False) -> str:
        whole: Budget = self.budget  # type: ignore[attr-defined]
        told = [(one.measured, one.share_text(whole), one.error) for one in self.announced_steps]
        first, rest, last = (told, [], []) if verbose else fold_steps(told)
        more = [(f"{len(rest)} more: to_text(verbose=True)", "", "")] if rest else []
        return "\n".join(f"  {line}" for line in align_columns([*first, *more, *last]))

    def __str__(self) -> str:
        return f"{self!r}\n{self._step_lines()}"

    def plot(self, ax: "Axes | None" = None) -> StepDisplay:
        """Draw the shares of the steps as bars, with the noise of their numbers beside them."""
        whole: Budget = self.budget  # type: ignore[attr-defined]
        steps = self.announced_steps
        shares = [one.share(whole) or 0.0 for one in steps]
        words = [one.measured for one in steps]
        errors = [one.error for one in steps]
        delta: float = self.delta  # type: ignore[attr-defined]
        return StepDisplay(words, shares, errors, whole.claim(delta)).plot(ax)

    def at(
        self,
        amount: Amount = None,
        *,
        epsilon: Amount = None,
        delta: float | Fraction = 0,
        rho: Amount = None,
    ) -> Self:
        """Return the plan at another budget of the same law: each step keeps its share.

        What was chosen for the budget before, such as blocks, passes and depths, stays. The plan of
        `PrivateForestClassifier` is what its rules take at the other budget: it may be another
        kind.

        Parameters
        ----------
        amount : positive number, optional
            Of the plan's own kind: its ε or its ρ; of an (ε, δ) claim the ε, with the same δ.
        epsilon, rho : positive number, optional
            The same by name; `delta` beside ``epsilon``.

        Raises
        ------
        ValueError
            If it is of another kind, or none or several are given.
        """
        return self._move_to_claim(*claim_at(self, amount, epsilon, delta, rho))

    def _move_to_claim(self, epsilon: Amount, delta: float | Fraction, rho: Amount) -> Self:
        mine: Budget = self.budget  # type: ignore[attr-defined]
        given = as_budget(epsilon=epsilon, rho=rho)
        if delta:
            claiming = claiming_budgets(epsilon, delta, rho)
            given = next(one for one in claiming if one.norm == mine.norm)
        if type(given) is not type(mine):
            raise BudgetError(
                f"{given!r}: expected a budget of the kind of {mine!r}, for which it was planned."
            )
        return self._with_budget(given, float(delta))

    def _with_budget(self, budget: Budget, delta: float) -> Self:
        raise NotImplementedError


def claim_at(
    plan: Any, amount: Amount, epsilon: Amount, delta: float | Fraction, rho: Amount
) -> tuple[Amount, float | Fraction, Amount]:
    """Return ε, δ and ρ of a claim, of which a bare amount is of the plan's own kind.

    Raises BudgetError if the amount stands beside another.
    """
    if amount is None:
        return epsilon, delta, rho
    if (epsilon, rho) != (None, None) or delta:
        raise BudgetError(f"amount={amount!r} beside epsilon=, rho= or delta=: expected one claim.")
    if plan.delta:
        return amount, plan.delta, None
    return (amount, 0, None) if plan.budget.parameter == "epsilon" else (None, 0, amount)


def share_of(part: Budget, whole: Budget, other: Budget) -> Budget:
    """Return the part of another budget that is its share of the whole, exactly.

    >>> from mrf_matrix import PureDP
    >>> share_of(PureDP(1), PureDP(4), PureDP(2))
    PureDP(epsilon=0.5)
    """
    return other if other.is_infinite else part * (other.exact / whole.exact)
