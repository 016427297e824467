"""All kinds of forest are put on one scale, without data, and the best one is taken."""

from collections.abc import Sequence
from dataclasses import replace

from mrf_matrix.domain import Domain
from mrf_matrix.mechanisms.budgets.claim import checked_neighboring, choice_epsilon
from mrf_matrix.planning.private.balance import ONE_IN, even_records, planned_balance
from mrf_matrix.planning.private.one_scale import Scale
from mrf_matrix.planning.private.pooled_plan import pooling_budget
from mrf_matrix.planning.private.private_plan import (
    BY_SIGNAL,
    OF_RESIDUALS,
    POOLS,
    RESIDUALS_LEAD,
    Forecast,
    PrivatePlan,
)
from mrf_matrix.planning.private.screening import Screening, planned_screening
from mrf_matrix.planning.private.trees import has_trees, of_labels, of_pool
from mrf_matrix.residual.settings import Budget

SCREENING_LAG, LAG_OF_FEW = 0.01, 0.025
"""Screening is taken up to so much behind; the second where there are one or two choices. It finds
out whether few attributes tell nearly all, as no draw of the prior has it: it gained up to 17
points on public sets, and lost up to 7 where many tell a little each."""

UNEVEN_BESIDE_TREES = 12
"""Up to one in so many have the rarer class where a tree stays beside tables. On 25 public sets of
8 to 30 % that was 1 to 5 points ahead of tables planned for fewer records; these rank better where
a class is rarer."""

NOISES = {"l1": "Laplace", "l2": "Gaussian"}


def private_plan(
    domain: Domain,
    budgets: Sequence[Budget],
    *,
    n_records: int | None,
    neighboring: str = "add_remove",
    delta: float = 0.0,
    records: bool = True,
    tables: bool = True,
    labels: bool = True,
) -> PrivatePlan:
    """Forecast every kind of forest without data, and return them in their order.

    Parameters
    ----------
    domain : Domain
        With classes. Neighbouring codes of its long ordered attributes are planned as one: see
        `Domain.coarser`.
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
    labels : bool, default=True
        Whether trees of labels are considered.

    Examples
    --------
    >>> from mrf_matrix.mechanisms import PureDP
    >>> domain = Domain.from_sizes([4] * 10, n_classes=2)
    >>> private_plan(domain, [PureDP(1)], n_records=100_000).chosen.name
    'residual forest'
    """
    checked_neighboring(neighboring)
    given, domain = domain, domain.coarser()
    found: list[Forecast] = []
    amplest = max(budgets, key=choice_epsilon)
    pooling = pooling_budget(budgets)
    has_gaussian = pooling.norm == "l2"
    screening = None
    if tables:
        screening = _considered(Scale(domain, amplest, n_records, neighboring), has_gaussian)
    lag, asks = _lag(screening), screening is not None and screening.enough is not None
    scales = [Scale(domain, budget, n_records, neighboring) for budget in budgets]
    in_parts = all(scale.width < 1 for scale in scales)  # else one table says all that trees do
    for budget, scale in zip(budgets, scales, strict=True):
        law = f" with {NOISES[budget.norm]} noise" if len(budgets) > 1 else ""
        found += _forecasts(scale, law, records, lag)
        if labels and tables and has_trees(scale):
            if in_parts and budget == pooling:
                found += of_pool(scale, records=records, asks=asks)
            found += of_labels(scale, pooling) if budget == amplest else []
    found.sort(key=_worth, reverse=True)
    left_out = None
    if not records:
        left_out = "residuals" if tables else "residuals and screening"
    balance = None
    if tables:
        balance = planned_balance(
            domain, found[0].budget, n_records=n_records, neighboring=neighboring
        )
    return PrivatePlan(
        domain, neighboring, n_records, delta, tuple(found), left_out, balance,
        coarser=_differing(given, domain),
    )  # fmt: skip


def _differing(given: Domain, coarse: Domain) -> tuple[str, ...]:
    """Return the names of the attributes whose codes are fewer than was given."""
    pairs = zip(given.names, given.sizes, coarse.sizes, strict=True)
    return tuple(name for name, before, after in pairs if after < before)


def _considered(amplest: Scale, has_gaussian: bool) -> Screening | None:
    """Return how the amplest law would screen; None where no law of the claim is to screen.

    Where it keeps all attributes, or may, and Gaussian noise is at hand, all are kept: a choice
    under zCDP has a small rate, and tables of all attributes cost no more than a root of each.
    """
    screening = planned_screening(
        amplest.domain,
        amplest.budget,
        n_records=amplest.n_records,
        neighboring=amplest.neighboring,
    )
    if screening is None or amplest.width == 1:
        return None
    return None if screening.enough is not None and has_gaussian else screening


def _lag(screening: Screening | None) -> float | None:
    """Return up to how much behind screening is taken; None where it is not considered."""
    if screening is None:
        return None
    return LAG_OF_FEW if len(screening.steps) <= 2 else SCREENING_LAG


def records_after(plan: PrivatePlan, level: int) -> int:
    """Return for how many records of even classes a plan goes on, once a share is chosen.

    `plan`: the one that announced the choice, of a public number of records; `level`: chosen.
    """
    known = plan.n_records or 0
    stays = plan.chosen.measured in POOLS and ONE_IN[level] <= UNEVEN_BESIDE_TREES
    return known if stays else even_records(known, level)


def planned_for(plan: PrivatePlan, even: int) -> PrivatePlan:
    """Return what follows the choice of how rare the rarer class is, with what that choice left.

    `plan`: the one that announced it; `even`: records of even classes that tell as much.
    """
    assert plan.balance is not None
    is_rare = even < (plan.n_records or 0)  # each code says the usual class: no score stands out
    follows = private_plan(
        plan.domain,
        [plan.after_balance],
        n_records=even,
        neighboring=plan.neighboring,
        delta=plan.delta,
        records=plan.left_out is None,
        tables=not is_rare and any(one.screening is not None for one in plan.forecasts),
        labels=False,
    )
    forecasts = follows.forecasts
    if is_rare:  # it leaves less to measure; which kind is for the even classes of the prior
        kept = "residuals" if plan.chosen.measured in OF_RESIDUALS else "tables"
        forecasts = tuple(sorted(forecasts, key=lambda one: one.measured != kept))
    elif plan.chosen.measured in POOLS:  # where it is taken, the whole budget decided
        forecasts = (replace(plan.chosen, budget=plan.after_balance), *forecasts)
    return replace(
        follows,
        forecasts=forecasts,
        n_records=plan.n_records,
        left_out=plan.left_out,
        balance=None,
        announced=plan,
        even_records=even,
        coarser=plan.coarser,
    )


def _worth(forecast: Forecast) -> float:
    """Return what kinds are ordered by."""
    if forecast.measured in BY_SIGNAL:
        return 1 + forecast.accuracy
    if forecast.screening is not None:
        return forecast.accuracy + forecast.lag
    return forecast.accuracy - (RESIDUALS_LEAD if forecast.measured == "residuals" else 0.0)


def _forecasts(scale: Scale, law: str, records: bool, lag: float | None) -> list[Forecast]:
    """Return what is expected of every kind under one budget; `lag` None: none is screened."""
    domain, budget, known = scale.domain, scale.budget, scale.n_records
    found = [Forecast(f"posterior forest{law}", budget, scale.right(scale.posterior), "tables")]
    if scale.width == 1:
        return found
    if records and scale.suits_residuals:
        right = scale.right(scale.residual)
        found.append(Forecast(f"residual forest{law}", budget, right, "residuals"))
    screening = planned_screening(domain, budget, n_records=known, neighboring=scale.neighboring)
    if lag is not None and screening is not None:
        best = max(found, key=lambda one: one.accuracy)
        measured = best.measured if screening.enough is not None else "tables"
        right = scale.right_of_screened(screening, residuals=measured == "residuals")
        name = f"{len(screening.choices)} screened attributes"
        name += f", else {best.name}" if screening.enough is not None else law
        found.append(Forecast(name, budget, right, measured, screening, lag))
    return found
