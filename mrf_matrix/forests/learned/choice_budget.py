"""What the private choices of multinomial trees may spend, under pure DP and under zCDP."""

from dataclasses import dataclass
from fractions import Fraction
from math import floor, isqrt

from mrf_matrix.mechanisms import ZCDP, BudgetError, PureDP
from mrf_matrix.mechanisms.budgets.claim import as_budget, claiming_budgets

Amount = Fraction | float
STEPS = 10**15
"""Rates of zCDP are square roots, rounded down to fractions of it."""


@dataclass(frozen=True)
class ChoiceBudget:
    r"""Rates of the exponential mechanisms of several trees, which compose to one budget.

    A choice of rate η weighs options by scores that one record moves by η in all, so it is η-DP
    and, by its bounded range, η²/8-zCDP (Cesar and Rogers 2021). One record passes one node of
    each of d levels, or is asked for one label, in each of t trees:

    .. math::
        t\,d\,(B_1 + B_2) \le \varepsilon,\quad t B_3 \le \varepsilon
        \qquad\text{or}\qquad
        t\,d\,\frac{B_1^2 + B_2^2}{8} \le \rho,\quad \frac{t B_3^2}{8} \le \rho.

    Replacing a record is two steps: half of every rate, which is a quarter of ρ.
    """

    budget: PureDP | ZCDP
    # attribute, cut, label: B₁, B₂ and B₃
    attribute: Amount
    cut: Amount
    label: Amount

    @classmethod
    def of(
        cls, budget: PureDP | ZCDP, trees: int, depth: int, share: float, neighboring: str
    ) -> "ChoiceBudget":
        """Return the rates of so many trees that see the same records.

        `share`: :math:`B_1/(B_1+B_2)`.

        >>> ChoiceBudget.of(PureDP(1), 5, 4, 0.5, "add_remove").cut
        Fraction(1, 40)
        >>> rates = ChoiceBudget.of(ZCDP(0.02), 5, 4, 0.5, "add_remove")
        >>> round(float(rates.cut), 4), round(float(rates.label), 4)
        (0.0632, 0.1789)
        """
        if budget.is_infinite:
            return cls(budget, *[float("inf")] * 3)
        steps = 2 if neighboring == "replace_one" else 1
        first = Fraction(repr(float(share)))
        if isinstance(budget, PureDP):
            label = budget.exact / (trees * steps)
            level = label / max(1, depth)
        else:
            squares = 8 * budget.exact / (trees * steps**2)
            label = root_below(squares)
            level = root_below(squares / (max(1, depth) * (first**2 + (1 - first) ** 2)))
        return cls(budget, level * first, level * (1 - first), label)

    @classmethod
    def claiming(
        cls,
        epsilon: object,
        delta: object,
        rho: object,
        *,
        trees: int,
        depth: int,
        share: float,
        neighboring: str,
    ) -> "ChoiceBudget":
        """Return the largest rates of choices that make the claim: of ε, of ρ, or of (ε, δ).

        Raises BudgetError, TypeError if there is not exactly one of ε and ρ, or δ does not go with
        it.
        """
        if epsilon is None or rho is not None:
            if delta != 0:
                raise BudgetError(f"delta={delta!r}: expected it beside a finite epsilon only.")
            budgets: tuple[PureDP | ZCDP, ...] = (as_budget(epsilon=epsilon, rho=rho),)
        else:
            budgets = claiming_budgets(epsilon, delta)
        rates = [cls.of(one, trees, depth, share, neighboring) for one in budgets]
        return max(rates, key=lambda one: one.attribute + one.cut)


def root_below(square: Fraction) -> Fraction:
    """Return the square root, rounded down."""
    return Fraction(isqrt(floor(square * STEPS**2)), STEPS)
