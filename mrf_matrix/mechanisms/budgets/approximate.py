"""Totals of approximate privacy: (ε, δ), exact, for what is released together."""

from dataclasses import dataclass
from fractions import Fraction
from math import isinf

from mrf_matrix.base.checks import BudgetError, exact_positive, readable
from mrf_matrix.mechanisms.budgets.budget import LEAST, LEAST_CONVERTED


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
        return f"(epsilon={readable(self.epsilon)}, delta={readable(self.delta)})"

    def __repr__(self) -> str:
        return f"ApproximateDP{self}"
