"""What a user's words claim: which budget, and between which neighbouring data sets.

Write ``a_i`` for column i of the strategy A, ``Δ`` for its largest column norm. A record in cell
i of class c adds ``a_i`` to column c of the m x k answers ``A D``.

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

from functools import lru_cache
from math import sqrt
from numbers import Real
from reprlib import repr as short
from typing import Literal, TypeVar, get_args

from mrf_matrix.base.checks import BudgetError, exact_positive, magnitude, one_word
from mrf_matrix.mechanisms.budgets.budget import ZCDP, PureDP

Given = TypeVar("Given")

Neighboring = Literal["add_remove", "replace_one"]
NEIGHBORING: tuple[Neighboring, ...] = get_args(Neighboring)

LARGEST_CLAIMED = 10**200
"""Finite ε and ρ up to which a claim is reckoned with: times numbers of records they are floats."""


def checked_neighboring(neighboring: object) -> Neighboring:
    """Return a known neighbouring relation, or refuse."""
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
        return (_reckoned(as_budget(epsilon_or_default(epsilon, rho), rho)),)
    if rho is not None:
        raise BudgetError(
            f"delta={short(delta)} and rho={short(rho)}: expected delta= beside epsilon= only."
        )
    pure = _reckoned(as_budget(epsilon_or_default(epsilon, rho)))
    if pure.is_infinite:
        raise BudgetError(
            f"delta={short(delta)} with an infinite epsilon, which claims nothing: expected "
            f"delta=0, or a finite epsilon."
        )
    return pure, _gaussian(pure.exact, exact_positive("delta", delta, range_words=DELTA))


def _reckoned(budget: PureDP | ZCDP) -> PureDP | ZCDP:
    """Return a budget that can be reckoned with, or refuse it."""
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
