"""Budgets of pure and of zero-concentrated privacy, their shares, and the (ε, δ) they imply.

*Shares of one budget for several strategies on the same records, in closed form.* Strategy k with
loss L_k has the total error ``2 L_k/ε_k²`` under pure privacy and ``L_k/(2 ρ_k)`` under zero-
concentrated privacy. With ``Σ ε_k``, or ``Σ ρ_k``, given,

    least sum of errors:      ε_k ∝ L_k^(1/3)      ρ_k ∝ L_k^(1/2)
    least largest error:      ε_k ∝ L_k^(1/2)      ρ_k ∝ L_k

by Lagrange's condition, and by making all errors equal.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context
from fractions import Fraction
from functools import lru_cache, total_ordering
from math import inf, isinf, log, sqrt
from numbers import Real
from reprlib import repr as short
from typing import ClassVar, Literal, Self, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.checks import (
    BudgetError,
    checked_shares,
    exact_positive,
    format_number,
    magnitude,
    one_word,
)

UPWARD = Context(prec=6, rounding=ROUND_CEILING)

BISECTIONS = 60
LARGEST = 10**6
"""Larger ε are converted as this: the ρ found implies them too."""
LEAST = 1e-300  # smaller ρ are converted as this: an upper bound, and finite arithmetic

LEAST_CONVERTED = 1e-140  # ε beside δ whose ρ, about its square, is a float above `LEAST`


def renyi_orders(rho: float, delta: float) -> NDArray[np.float64]:
    """Return Rényi orders around the one that converts ρ at δ best, increasing."""
    best = 1 + sqrt(log(1 / delta) / rho)
    return 1 + np.geomspace(max((best - 1) / 100, 0.011), (best - 1) * 100 + 1, 2000)


def implied_epsilon(rho: float, delta: float) -> float:
    from dp_accounting import rdp

    slack = log(1 / delta)
    orders = renyi_orders(rho, delta)
    found = float(rdp.compute_epsilon(orders, rho * orders, delta)[0])
    # orders near 1 are not among them: beyond ρ of 1000 the classical conversion is the sharper
    return min(found, rho + 2 * sqrt(rho * slack))


def largest_rho(epsilon: float | Fraction, delta: float | Fraction) -> Fraction | float:
    """Return the largest ρ found that implies (ε, δ), see `ZCDP.for_approximate_dp`."""
    target = exact_positive("epsilon", epsilon, allow_infinite=True)
    checked = checked_delta(delta)
    if isinf(target):
        return target
    if target < LEAST_CONVERTED:
        raise BudgetError(
            f"epsilon={magnitude(Fraction(target))}: expected at least 1e-140 beside delta."
        )
    goal = float(min(target, LARGEST))
    slack = log(1 / checked)
    # the classical conversion ε = ρ + 2 sqrt(ρ log(1/δ)) is never better: a safe start, the
    # square of sqrt(slack + ε) - sqrt(slack) without a difference of nearly equal numbers
    low = (goal / (sqrt(slack + goal) + sqrt(slack))) ** 2 * (1 - 1e-9)
    high = goal + 4 * low
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if implied_epsilon(middle, checked) <= goal else (low, middle)
    return Fraction(repr(low * (1 - 1e-9)))  # converted back it is within goal


def checked_delta(delta: object) -> float:
    exact = exact_positive("delta", delta)
    if exact >= 1 or float(exact) < LEAST:
        given = float(delta) if isinstance(delta, Fraction) else delta
        raise BudgetError(
            f"delta={given!r}: expected a probability between 0 and 1, exclusive, and of 1e-300 or "
            f"more."
        )
    return float(exact)


Norm = Literal["l1", "l2"]


@total_ordering
class Budget:
    """A positive exact amount of privacy loss, infinite for no privacy at all.

    Budgets of one kind add, subtract, scale, split and compare exactly, never as floats.

    Parameters
    ----------
    epsilon or rho : int, float, Fraction or Decimal
        Positive; ``float("inf")`` for no noise. A float is taken as the decimal it prints as.

    Raises
    ------
    BudgetError
        If it is zero, negative or NaN.
    TypeError
        If it is no real number.
    """

    parameter: ClassVar[str]
    norm: ClassVar[Norm]

    def __init_subclass__(cls) -> None:
        """Refuse subclasses of a kind: they could print or calibrate as another amount."""
        if cls.__bases__ != (Budget,):
            raise TypeError(f"{cls.__name__}: expected PureDP or ZCDP itself, not a subclass.")

    def __post_init__(self) -> None:
        exact = exact_positive(self.parameter, getattr(self, self.parameter), allow_infinite=True)
        object.__setattr__(self, self.parameter, exact)

    @property
    def amount(self) -> Fraction | float:
        """The exact amount; ``float("inf")`` where nothing is protected."""
        value: Fraction | float = getattr(self, self.parameter)
        return value

    @property
    def exact(self) -> Fraction:
        """The amount of a finite budget, as a fraction."""
        if not isinstance(self.amount, Fraction):
            raise BudgetError(f"{self!r} is infinite: expected a finite budget here.")
        return self.amount

    @property
    def is_infinite(self) -> bool:
        """Whether the budget is unlimited, so that no noise is added."""
        return self.amount == inf

    @classmethod
    def of(cls, amount: Fraction | float) -> Self:
        """Return the budget of an amount."""
        return cls(**{cls.parameter: amount})

    def to_dict(self) -> dict[str, str]:
        """Return ``{"epsilon": "1/2"}`` or the like, exact, for JSON."""
        return {self.parameter: str(self.amount)}

    def claim(self, delta: float) -> str:
        """Return what is claimed: the budget, or with δ the (ε, δ) that it implies, ε upward.

        Examples
        --------
        >>> ZCDP(0.02).claim(0), ZCDP(0.02).claim(1e-6)
        ('ZCDP(rho=0.02)', '(epsilon=0.899936, delta=1e-06)-DP via ZCDP(rho=0.02)')
        """
        if not delta or self.is_infinite:
            return repr(self)
        epsilon = format_number(self.claimed_epsilon(delta))
        return f"(epsilon={epsilon}, delta={delta!r})-DP via {self!r}"

    def claimed_epsilon(self, delta: float) -> Fraction:
        """Return the ε of a finite budget's (ε, δ) claim: of a pure one its own."""
        return self.exact

    def split(self, shares: int | Sequence[object]) -> tuple[Self, ...]:
        """Split into budgets that add up to this one exactly.

        `shares`: A number of equal shares, or one weight a share: ``[1, 4]`` is a fifth and the
        rest.

        Raises BudgetError, TypeError if there is no share, or one is not a positive number.

        Examples
        --------
        >>> PureDP(1).split(3)[0]
        PureDP(epsilon=1/3)
        """
        weights = checked_shares(shares)
        if self.is_infinite:
            return tuple(self for _ in weights)
        total = sum(weights)
        return tuple(self.of(self.exact * weight / total) for weight in weights)

    def __add__(self, other: Self) -> Self:
        self._check_same_kind(other)
        return self if self.is_infinite else self.of(other.amount + self.amount)

    def __sub__(self, other: Self) -> Self:
        """Return what is left; a budget is positive, so all of it cannot be taken this way."""
        self._check_same_kind(other)
        if other.amount >= self.amount and not (self.is_infinite and not other.is_infinite):
            raise BudgetError(
                f"{other!r} cannot be taken from {self!r}: nothing would be left. Compare the "
                f"amounts first."
            )
        return self if self.is_infinite else self.of(self.amount - other.amount)

    def __mul__(self, factor: object) -> Self:
        exact = exact_positive("factor", factor)
        return self if self.is_infinite else self.of(self.exact * exact)

    __rmul__ = __mul__

    def __lt__(self, other: Self) -> bool:
        self._check_same_kind(other)
        return self.amount < other.amount

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.parameter}={format_number(self.amount)})"

    def _check_same_kind(self, other: object) -> None:
        if type(other) is not type(self):
            raise TypeError(
                f"{other!r} is no {type(self).__name__}: budgets of different kinds do not "
                f"combine; convert with PureDP.to_zcdp()."
            )


@dataclass(frozen=True, repr=False)
class PureDP(Budget):
    """Pure ε-differential privacy, paid by discrete Laplace noise.

    A mechanism M is ε-DP if ``P(M(D) ∈ S) <= exp(ε) P(M(D') ∈ S)`` for all neighbours D, D' and
    all S (Dwork, McSherry, Nissim and Smith, 2006).

    Examples
    --------
    >>> PureDP(0.1)
    PureDP(epsilon=0.1)
    >>> 10 * PureDP(0.1) == PureDP(1)
    True
    """

    parameter: ClassVar[str] = "epsilon"
    norm: ClassVar[Norm] = "l1"
    epsilon: Fraction | float

    def to_zcdp(self) -> "ZCDP":
        """Return the zCDP budget ρ = ε²/2 that ε-DP implies (Bun and Steinke 2016, Prop. 1.4)."""
        return ZCDP(self.epsilon if self.is_infinite else self.exact**2 / 2)


@dataclass(frozen=True, repr=False)
class ZCDP(Budget):
    """Zero-concentrated differential privacy, paid by discrete Gaussian noise.

    M is ρ-zCDP if the Rényi divergences of its outputs on neighbours satisfy
    ``D_α(M(D) || M(D')) <= ρ α`` for all α > 1 (Bun and Steinke, 2016).

    Examples
    --------
    >>> ZCDP(0.5)
    ZCDP(rho=0.5)
    """

    parameter: ClassVar[str] = "rho"
    norm: ClassVar[Norm] = "l2"
    rho: Fraction | float

    def epsilon(self, delta: float) -> float:
        """Return an ε for which ρ-zCDP implies (ε, δ)-DP; infinite where ρ is.

        ``ε = min over α > 1 of ρ α + log(1 - 1/α) - log(δ α)/(α - 1)``: ρ-zCDP is (α, ρα)-RDP for
        every α (Bun and Steinke 2016), converted by Proposition 12 of Canonne, Kamath and Steinke
        (2020) as dp-accounting does it. δ is well below one over the number of records.

        >>> round(ZCDP(0.5).epsilon(1e-6), 2)
        5.22
        """
        checked = checked_delta(delta)
        return inf if self.is_infinite else implied_epsilon(max(float(self.rho), LEAST), checked)

    def claimed_epsilon(self, delta: float) -> Fraction:
        """Return `epsilon` of δ, rounded upward to six digits: no claim is too strong."""
        return Fraction(UPWARD.create_decimal_from_float(self.epsilon(delta)))

    @classmethod
    def for_approximate_dp(cls, epsilon: float | Fraction, delta: float | Fraction) -> "ZCDP":
        """Return the budget of the largest ρ found for which ρ-zCDP implies (ε, δ)-DP.

        Raises BudgetError if ε is below `LEAST_CONVERTED`, or δ none from `LEAST` to 1.

        >>> 0.99 < ZCDP.for_approximate_dp(1.0, 1e-6).epsilon(1e-6) <= 1.0
        True
        """
        return cls(largest_rho(epsilon, delta))


def total_budget(budgets: Sequence[PureDP | ZCDP]) -> PureDP | ZCDP:
    total = budgets[0]
    for budget in budgets[1:]:
        total = total + budget  # type: ignore[operator]
    return total


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
