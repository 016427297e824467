"""Claims: which budget, in which shares, between which neighbouring data sets.

*Shares of one budget for several strategies on the same records, in closed form.* Strategy k with
loss L_k has the total error ``2 L_k/ε_k²`` under pure privacy and ``L_k/(2 ρ_k)`` under zero-
concentrated privacy. With ``Σ ε_k``, or ``Σ ρ_k``, given,

    least sum of errors:      ε_k ∝ L_k^(1/3)      ρ_k ∝ L_k^(1/2)
    least largest error:      ε_k ∝ L_k^(1/2)      ρ_k ∝ L_k

by Lagrange's condition, and by making all errors equal.

*Neighbouring data sets.* Write ``a_i``
for column i of the strategy A, ``Δ`` for its largest column norm. A record in cell i of class c
adds ``a_i`` to column c of the m x k answers ``A D``.

``add_remove``
    Neighbours differ by one record more or less: the answers change by one column of A, by at
    most Δ in either norm.
``replace_one``
    Neighbours differ in one record, which may change cell and class: (i, c) becomes (j, c').
    In the L1 norm the answers change by at most ``|a_i|_1 + |a_j|_1 <= 2Δ``, reached whenever two
    cells (or one cell in two classes) have the largest norm.
    In the L2 norm, with another class, by ``sqrt(|a_i|² + |a_j|²) <= sqrt(2) Δ``. With the same
    class by ``|a_i - a_j| = sqrt(|a_i|² + |a_j|² - 2 a_i·a_j)``: at most ``2Δ``, and at most
    ``sqrt(2) Δ`` again where no entry of A is negative, for then ``a_i·a_j >= 0``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import inf, isinf, sqrt
from numbers import Real
from reprlib import repr as short
from typing import Literal, TypeVar, get_args

from mrf_matrix.base.checks import BudgetError, exact_positive, format_number, magnitude, one_word
from mrf_matrix.mechanisms.budget import LEAST, LEAST_CONVERTED, ZCDP, PureDP


@dataclass(frozen=True, repr=False)
class ApproximateDP:
    """What all releases together may cost, as (ε, δ)-differential privacy.

    ``P(M(D) ∈ S) <= exp(ε) P(M(D') ∈ S) + δ`` for all neighbours D, D' and all S (Dwork et al.,
    2006). It is a total of a `PrivacyLedger`: no noise is calibrated to it, for a release takes a
    pure ε, or the ρ that implies the claim (`ZCDP.for_approximate_dp`).

    Parameters
    ----------
    epsilon, delta : int, float, Fraction or Decimal
        Finite and positive, ε 1e-140 or more, δ from 1e-300 to below 1. A float is taken as the
        decimal it prints as.

    Raises
    ------
    BudgetError
        If one is out of its range.
    TypeError
        If one is no real number.

    Examples
    --------
    >>> ApproximateDP(3, 1e-6)
    ApproximateDP(epsilon=3, delta=1e-06)
    """

    epsilon: Fraction
    delta: Fraction

    def __post_init__(self) -> None:
        epsilon = exact_positive("epsilon", self.epsilon, allow_infinite=True)
        if isinf(epsilon):
            raise BudgetError(
                "epsilon=inf with delta, which claims nothing: expected a finite epsilon, or an "
                "infinite one without delta."
            )
        delta = Fraction(exact_positive("delta", self.delta))
        if delta >= 1 or delta < Fraction(LEAST):
            raise BudgetError(
                "delta is out of its range: expected a probability of 1e-300 or more and below 1, "
                "well below one over the number of records."
            )
        if epsilon < LEAST_CONVERTED:
            raise BudgetError("epsilon is too small: expected at least 1e-140 beside delta.")
        object.__setattr__(self, "epsilon", Fraction(epsilon))
        object.__setattr__(self, "delta", delta)

    @property
    def is_infinite(self) -> bool:
        """False: an (ε, δ) total is always finite."""
        return False

    def to_dict(self) -> dict[str, str]:
        """Return ``{"epsilon": "3", "delta": "1/1000000"}``, exact, for JSON."""
        return {"epsilon": str(self.epsilon), "delta": str(self.delta)}

    def __str__(self) -> str:
        return f"(epsilon={format_number(self.epsilon)}, delta={format_number(self.delta)})"

    def __repr__(self) -> str:
        return f"ApproximateDP{self}"


ShareRule = Literal["equal", "total", "max"]
SHARE_RULES: tuple[ShareRule, ...] = ("equal", "total", "max")
POWERS = {("total", "l1"): 1 / 3, ("max", "l1"): 1 / 2, ("total", "l2"): 1 / 2, ("max", "l2"): 1.0}


def budget_shares(
    losses: Sequence[float], norm: Literal["l1", "l2"], rule: ShareRule = "total"
) -> tuple[float, ...]:
    """Return each strategy's share of a budget, in all 1.

    Parameters
    ----------
    losses : sequence of float
        ``||A||² ||W A⁺||_F²`` of every strategy on its own workload, positive; for the worst row
        its share of it.
    norm : {"l1", "l2"}
        "l1" where ε is shared, "l2" where ρ is.
    rule : {"equal", "total", "max"}, default="total"
        "total" makes the sum of all errors least, "max" the largest strategy's error.

    Raises
    ------
    ValueError
        If there is no loss, one is not positive and finite, or the norm or rule is unknown.

    Examples
    --------
    >>> [round(share, 4) for share in budget_shares([1.0, 8.0], "l1")]
    [0.3333, 0.6667]
    >>> budget_shares([1.0, 3.0], "l2", "max")
    (0.25, 0.75)
    """
    if rule not in SHARE_RULES:
        raise ValueError(f"rule={rule!r}: expected 'equal', 'total' or 'max'.")
    if norm not in ("l1", "l2"):
        raise ValueError(f"norm={norm!r}: expected 'l1' (epsilon) or 'l2' (rho).")
    values = [float(loss) for loss in losses]
    if not values or not all(0 < loss < inf for loss in values):
        raise ValueError(f"losses={losses!r}: expected at least one, each positive and finite.")
    if rule == "equal":
        return (1 / len(values),) * len(values)
    largest = max(values)  # powers of ratios neither overflow nor vanish
    powers = [(loss / largest) ** POWERS[rule, norm] for loss in values]
    return tuple(power / sum(powers) for power in powers)


Given = TypeVar("Given")

Neighboring = Literal["add_remove", "replace_one"]
NEIGHBORING: tuple[Neighboring, ...] = get_args(Neighboring)

LARGEST_CLAIMED = 10**200
"""Largest finite ε or ρ of a claim: times a number of records it is still a float."""


def checked_neighboring(neighboring: object) -> Neighboring:
    return one_word("neighboring", neighboring, NEIGHBORING)


def squared_factor(neighboring: object, norm: Literal["l1", "l2"], *, nonnegative: bool) -> int:
    """Return the *square* of what the relation multiplies the sensitivity by: 1, 2 or 4.

    Parameters
    ----------
    neighboring : {"add_remove", "replace_one"}
    norm : {"l1", "l2"}
    nonnegative : bool
        Whether no entry of the strategy is negative, as far as is known.

    Examples
    --------
    >>> squared_factor("replace_one", "l1", nonnegative=True)
    4
    >>> squared_factor("replace_one", "l2", nonnegative=True)
    2
    """
    if checked_neighboring(neighboring) == "add_remove":
        return 1
    return 2 if norm == "l2" and nonnegative else 4


def neighboring_factor(neighboring: object, norm: Literal["l1", "l2"] = "l1") -> float:
    """Return what the relation multiplies the sensitivity by, for any strategy: 1 or 2.

    In the L2 norm and for a strategy without negative entries, sqrt(2) suffices under
    "replace_one": see `squared_factor`.
    """
    return sqrt(squared_factor(neighboring, norm, nonnegative=False))


def as_budget(epsilon: object = None, rho: object = None) -> PureDP | ZCDP:
    """Return the budget of exactly one of ε and ρ.

    Raises
    ------
    BudgetError
        If none or both are given, or the one given is zero, negative or NaN.
    TypeError
        If it is no real number.

    Examples
    --------
    >>> as_budget(epsilon=1.0), as_budget(rho=0.25)
    (PureDP(epsilon=1), ZCDP(rho=0.25))
    """
    if epsilon is None and rho is None:
        raise BudgetError(
            "no budget: expected epsilon= (pure DP, Laplace noise) or rho= (zCDP, Gaussian noise)."
        )
    if epsilon is not None and rho is not None:
        raise BudgetError(
            f"epsilon={short(epsilon)} and rho={short(rho)}: expected exactly one of the "
            f"two, the other None."
        )
    kind, amount = (ZCDP, rho) if epsilon is None else (PureDP, epsilon)
    return kind.of(exact_positive(kind.parameter, amount, allow_infinite=True))


def epsilon_or_default(epsilon: Given, rho: object) -> Given | int:
    """Return the ε that estimators, plans and searches take: 1 where neither budget is given."""
    return 1 if epsilon is None and rho is None else epsilon


DELTA = "0 (the default: no δ), or a number between 0 and 1, exclusive, such as delta=1e-6"

_gaussian = lru_cache(ZCDP.for_approximate_dp)  # the conversion searches, a third of a second long


def claiming_budgets(
    epsilon: object = None, delta: object = 0, rho: object = None
) -> tuple[PureDP | ZCDP, ...]:
    """Return the budgets of which each makes the claim: of ε, of ρ, or of (ε, δ); ε = 1 by default.

    (ε, δ) is claimed by Laplace noise of ε, or by Gaussian noise of the largest ρ that implies it,
    in this order. ρ-zCDP holds of discrete Gaussian noise as it is drawn (Canonne, Kamath and
    Steinke 2020, Theorem 14); the closed form for the continuous Gaussian understates δ of it.

    Raises BudgetError if δ is not between 0 and 1, stands beside ρ, or beside an infinite ε, or a
    finite ε or ρ is above `LARGEST_CLAIMED`; TypeError if a number is none.

    >>> claiming_budgets(), claiming_budgets(rho=0.5)
    ((PureDP(epsilon=1),), (ZCDP(rho=0.5),))
    >>> pure, gaussian = claiming_budgets(epsilon=1, delta=1e-6)
    >>> pure, round(float(gaussian.rho), 4)
    (PureDP(epsilon=1), 0.0244)
    """
    if isinstance(delta, Real) and delta == 0:
        return (_checked_amount(as_budget(epsilon_or_default(epsilon, rho), rho)),)
    if rho is not None:
        raise BudgetError(
            f"delta={short(delta)} and rho={short(rho)}: expected delta= beside epsilon= only."
        )
    pure = _checked_amount(as_budget(epsilon_or_default(epsilon, rho)))
    if pure.is_infinite:
        raise BudgetError(
            f"delta={short(delta)} with an infinite epsilon, which claims nothing: expected "
            f"delta=0, or a finite epsilon."
        )
    return pure, _gaussian(pure.exact, exact_positive("delta", delta, range_words=DELTA))


def _checked_amount(budget: PureDP | ZCDP) -> PureDP | ZCDP:
    """Return a budget of at most `LARGEST_CLAIMED`, or an infinite one; refuse others."""
    if not budget.is_infinite and budget.exact > LARGEST_CLAIMED:
        raise BudgetError(
            f"{budget.parameter}={magnitude(budget.exact)}: expected at most "
            f"{float(LARGEST_CLAIMED):g}, or float('inf') for no noise."
        )
    return budget


def claimed_budget(epsilon: object = None, delta: object = 0, rho: object = None) -> PureDP | ZCDP:
    """Return the budget of a claim where laws are not compared: of Gaussian noise under δ.

    Raises BudgetError, TypeError as `claiming_budgets`.
    """
    return claiming_budgets(epsilon, delta, rho)[-1]


def choice_epsilon(budget: PureDP | ZCDP) -> float:
    """Return the pure ε that a choice of this budget would have.

    >>> choice_epsilon(ZCDP(2))
    4.0
    """
    if budget.is_infinite:
        return float("inf")
    amount = float(budget.exact)
    return amount if budget.parameter == "epsilon" else sqrt(8 * amount)
