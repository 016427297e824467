"""The plan of a `PrivateForestClassifier`: all kinds of forest on one scale, the best one taken."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mrf_matrix.domain import Domain
from mrf_matrix.mechanisms.budgets.claim import checked_neighboring
from mrf_matrix.planning.private.balance import planned_balance
from mrf_matrix.planning.private.one_scale import Scale
from mrf_matrix.planning.private.screening import (
    Screening,
    epsilon_of,
    planned_screening,
    screening_share,
)
from mrf_matrix.residual.sequence import most_codes
from mrf_matrix.residual.settings import Budget
from mrf_matrix.residual.step import ResidualStep

RESIDUALS_LEAD = 0.002
"""Expected lead from which residuals are measured: tables serve other queries too."""

WIDE = 0.35
"""Part of the attributes in one table from which it sees what sums of single attributes do not."""

LEAST_RESIDUAL = {"l1": 150, "l2": 100}
"""Signal from which residuals are considered, by the norm of the noise. Below they were behind on
public sets: under "l1" by a point of AUC, and by up to 14 where one class is rare."""

LEAST_BESIDE_WIDE = 500
"""The same where a posterior forest would have such a table."""

OF_SEVERAL = "l2"
"""Norm of the noise with which residuals of several classes are considered. Under "l1" a table of
them costs two columns; on public tasks that lost two points as often as it gained them."""

SCREENING_LAG, LAG_OF_FEW = 0.01, 0.025
"""Screening is taken up to so much behind; the second where there are one or two choices. It finds
out whether few attributes tell nearly all, as no draw of the prior has it: it gained up to 17
points on public sets, and lost up to 7 where many tell a little each."""

NOISES = {"l1": "Laplace", "l2": "Gaussian"}
PRIOR = "a public prior of effects that repeat each other"


@dataclass(frozen=True)
class Forecast:
    """What is expected of one kind of forest, without data.

    Attributes
    ----------
    name : str
    budget : PureDP or ZCDP
        Of the noise that it would use.
    accuracy : float
        Expected share of right labels, of two classes against each other, under the prior.
    residuals : bool
        Whether tables of residuals are measured where all attributes are kept.
    screening : Screening or None
        How attributes would be chosen first.
    lag : float
        By how much screening may be behind and is taken.
    """

    name: str
    budget: Budget
    accuracy: float
    residuals: bool
    screening: Screening | None = None
    lag: float = 0.0


@dataclass(frozen=True)
class PrivatePlan:
    """What will be measured and why, decided without data.

    Attributes
    ----------
    domain : Domain
    neighboring : {"add_remove", "replace_one"}
    n_records : int or None
        Where it is public.
    delta : float
        The δ that the claim is stated for, where the budget is zCDP.
    forecasts : tuple of Forecast
        Of every kind, the one that is taken first.
    left_out : str or None
        What was not considered, because data that are counted as they pass cannot serve it.
    balance : ResidualStep or None
        The choice of how rare the rarer of two classes is, which comes first; what follows is
        planned anew by `planned_for`.
    announced : PrivatePlan or None
        The plan before that choice, where it was made: it has the whole budget.
    even_records : int or None
        Records of even classes that tell as much, as that choice says.
    """

    domain: Domain
    neighboring: str
    n_records: int | None
    delta: float
    forecasts: tuple[Forecast, ...]
    left_out: str | None = None
    balance: ResidualStep | None = None
    announced: "PrivatePlan | None" = None
    even_records: int | None = None

    @property
    def chosen(self) -> Forecast:
        """The kind that is taken."""
        return self.forecasts[0]

    @property
    def budget(self) -> Budget:
        """The whole budget."""
        return (self.announced or self).chosen.budget

    @property
    def choices(self) -> tuple[ResidualStep, ...]:
        """Every choice before the forest that has been planned, in the order they are made."""
        first = None if self.announced is None else self.announced.balance
        screening = self.chosen.screening
        return (
            *(() if first is None else (first,)),
            *(() if screening is None else screening.steps),
        )

    @property
    def is_rare(self) -> bool:
        """Whether an earlier choice said that one class is rare."""
        return self.even_records not in (None, self.n_records)

    @property
    def after_balance(self) -> Budget:
        """What the choice of how rare the rarer class is leaves, where it is made."""
        budget = self.chosen.budget
        return (
            budget if self.balance is None else budget.of(budget.exact - self.balance.budget.exact)
        )

    @property
    def rest(self) -> Budget:
        """What is left for the forest after screening."""
        return screening_share(self.chosen.screening, self.chosen.budget)

    @property
    def reason(self) -> str:
        """Why, in a sentence or two."""
        told = self._compared
        if self.even_records is not None:
            told += (
                f" Planned as for {self.even_records} records of even classes, after a private "
                f"choice of how rare the rarer class is."
            )
        elif self.balance is not None:
            told += " What follows a private choice of how rare the rarer class is may differ."
        if self.left_out is not None:
            told += (
                f" Records are counted as they pass, without {self.left_out}: give n_records, "
                f"where so many fit in memory, for all kinds."
            )
        return told

    @property
    def _compared(self) -> str:
        """The kind that is taken, beside the next."""
        first, *others = self.forecasts
        told = f"{first.name}: expected accuracy {first.accuracy:.3f} under {PRIOR}"
        if not others:
            return f"{told}; no other kind serves this domain and budget."
        second = others[0]
        told += f"; the runner-up, {second.name}, would have {second.accuracy:.3f}"
        if second.accuracy > first.accuracy and first.screening is not None:
            told += f" (screening may be {first.lag:g} behind: it finds out more than is expected)"
        elif second.accuracy > first.accuracy and self.is_rare:
            told += " (the kind is the one that leads where classes are even)"
        elif second.accuracy > first.accuracy:
            told += f" (residuals must be {RESIDUALS_LEAD:g} ahead)"
        return f"{told}."

    def __str__(self) -> str:
        return self.reason


def private_plan(
    domain: Domain,
    budgets: Sequence[Budget],
    *,
    n_records: int | None,
    neighboring: str = "add_remove",
    delta: float = 0.0,
    records: bool = True,
    tables: bool = True,
) -> PrivatePlan:
    """Forecast every kind of forest without data, and return them in their order.

    Parameters
    ----------
    domain : Domain
        With classes.
    budgets : sequence of PureDP or ZCDP
        The same claim by different noise, such as Laplace noise of ε and Gaussian noise of the ρ
        that implies (ε, δ).
    n_records : int or None
        Where it is public. Else forecasts are means over hundreds to ten thousand, and no residual
        forest is considered.
    neighboring : {"add_remove", "replace_one"}, default="add_remove"
    delta : float, default=0
    records, tables : bool, default=True
        Whether the records themselves will be there, which residuals need, and tables of whatever
        attributes are asked for, which screening needs.

    Examples
    --------
    >>> from mrf_matrix.mechanisms import PureDP
    >>> domain = Domain.from_sizes([4] * 10, n_classes=2)
    >>> private_plan(domain, [PureDP(1)], n_records=100_000).chosen.name
    'residual forest'
    """
    checked_neighboring(neighboring)
    found: list[Forecast] = []
    amplest = max(budgets, key=epsilon_of)  # where its law keeps all attributes, each law does
    screening = planned_screening(domain, amplest, n_records=n_records, neighboring=neighboring)
    if screening is not None and Scale(domain, amplest, n_records, neighboring).width == 1:
        screening = None
    lag = LAG_OF_FEW if screening is not None and len(screening.steps) <= 2 else SCREENING_LAG
    for budget in budgets:
        scale = Scale(domain, budget, n_records, neighboring)
        law = f" with {NOISES[budget.norm]} noise" if len(budgets) > 1 else ""
        found += _forecasts(scale, law, records, lag if tables and screening is not None else None)
    found.sort(key=_worth, reverse=True)
    left_out = None
    if not records:
        left_out = "residuals" if tables else "residuals and screening"
    balance = None
    if tables:
        balance = planned_balance(
            domain, found[0].budget, n_records=n_records, neighboring=neighboring
        )
    return PrivatePlan(domain, neighboring, n_records, delta, tuple(found), left_out, balance)


def planned_for(plan: PrivatePlan, even: int) -> PrivatePlan:
    """Return what follows the choice of how rare the rarer class is, with what that choice left.

    `plan`: the one that announced it; `even`: records of even classes that tell as much.
    """
    assert plan.balance is not None
    is_rare = even < (plan.n_records or 0)
    follows = private_plan(
        plan.domain,
        [plan.after_balance],
        n_records=even,
        neighboring=plan.neighboring,
        delta=plan.delta,
        records=plan.left_out is None,
        tables=not is_rare,  # else each code says the usual class, and no score stands out
    )
    forecasts = follows.forecasts
    if is_rare:  # it leaves less to measure; which kind is for the even classes of the prior
        kept = plan.chosen.residuals
        forecasts = tuple(sorted(forecasts, key=lambda one: one.residuals != kept))
    return replace(
        follows,
        forecasts=forecasts,
        n_records=plan.n_records,
        left_out=plan.left_out,
        balance=None,
        announced=plan,
        even_records=even,
    )


def _worth(forecast: Forecast) -> float:
    """Return what kinds are ordered by."""
    if forecast.screening is not None:
        return forecast.accuracy + forecast.lag
    return forecast.accuracy - (RESIDUALS_LEAD if forecast.residuals else 0.0)


def _forecasts(scale: Scale, law: str, records: bool, lag: float | None) -> list[Forecast]:
    """Return what is expected of every kind under one budget; `lag` None: none is screened."""
    domain, budget, known = scale.domain, scale.budget, scale.n_records
    found = [Forecast(f"posterior forest{law}", budget, scale.right(scale.posterior), False)]
    if scale.width == 1:
        return found
    least = LEAST_BESIDE_WIDE if scale.width > WIDE else LEAST_RESIDUAL[budget.norm]
    suits = scale.signal >= least
    suits = suits and (domain.n_classes == 2 or budget.norm == OF_SEVERAL)
    if records and suits and max(domain.sizes) <= most_codes(domain.n_classes):
        found.append(Forecast(f"residual forest{law}", budget, scale.right(scale.residual), True))
    screening = planned_screening(domain, budget, n_records=known, neighboring=scale.neighboring)
    if lag is not None and screening is not None:
        best = max(found, key=lambda one: one.accuracy)
        residuals = best.residuals and screening.enough is not None
        right = scale.right_of_screened(screening, residuals=residuals)
        name = f"{len(screening.choices)} screened attributes"
        name += f", else {best.name}" if screening.enough is not None else law
        found.append(Forecast(name, budget, right, residuals, screening, lag))
    return found
