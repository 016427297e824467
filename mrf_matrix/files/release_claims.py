"""What a release from a file claims, held against its own strategy and noise.

The noise itself cannot be checked: whether it was drawn is the word of whoever wrote the file.
What can be checked is that noise of the stated law, added to the stated strategy, gives the
privacy that is claimed.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import isclose

import numpy as np

from mrf_matrix.base.fields import FieldError
from mrf_matrix.files.release_shares import check_scale
from mrf_matrix.mechanisms.budgets.budget import ZCDP, PureDP
from mrf_matrix.mechanisms.budgets.claim import checked_neighboring, squared_factor
from mrf_matrix.mechanisms.measurement.mechanism import Mechanism, noise_for
from mrf_matrix.mechanisms.measurement.quorum import Quorum
from mrf_matrix.mechanisms.noise.law import NoiseLaw
from mrf_matrix.mechanisms.rounding.entries import check_entries, is_nonnegative
from mrf_matrix.mechanisms.rounding.rounding import RoundedStrategy, integer_form
from strategies.operator_files import encode
from strategies.operators import Norm, Operator, Scaled

FACTORS = (1e-100, 1e100)
"""Range of what a strategy is multiplied by before it is rounded."""

AGREEMENT = 1e-6
"""Relative difference of a sensitivity in integers from the same in floats."""


@dataclass(frozen=True, eq=False)
class Claims:
    """What a file says about a measurement."""

    budget: PureDP | ZCDP
    neighboring: str
    column_sum: int  # of the integer strategy: what the file states as its sensitivity
    noise_scale: Fraction
    scale: Fraction  # what the selected strategy was multiplied by
    is_lossy: bool
    method: str
    shares: tuple[Quorum, NoiseLaw] | None = None  # of noise that several parties shared


def verified_mechanism(matrix: Operator, recovery: Operator | None, claims: Claims) -> Mechanism:
    """Return the mechanism of a file, if its claims hold.

    Raises FieldError if the strategy's sensitivity is larger than claimed, or the noise smaller
    than the budget needs: the file claims more privacy than its noise gives; ValueError, TypeError
    if the strategy is not one of integers.
    """
    norm = claims.budget.norm
    check_entries(matrix)
    if recovery is not None:
        _check_recovery(matrix, recovery)
    exact = exact_sensitivity(matrix, norm)
    if not 0 < exact <= claims.column_sum:
        raise FieldError(
            f"sensitivity={claims.column_sum}: its strategy has {exact}, so the file claims "
            f"more privacy than its noise gives."
        )
    relation = checked_neighboring(claims.neighboring)
    factor = squared_factor(relation, norm, nonnegative=is_nonnegative(matrix))
    law = _law(claims, factor)
    rounded = RoundedStrategy(
        matrix=matrix,
        scale=claims.scale,
        norm=norm,
        column_sum=claims.column_sum,
        recovery=matrix if recovery is None else recovery,
        is_lossy=claims.is_lossy,
    )
    return Mechanism(rounded, law, claims.budget, relation, factor, claims.method)


def _check_recovery(matrix: Operator, recovery: Operator) -> None:
    """Refuse a real strategy that does not round to the one that was measured."""
    small, large = FACTORS
    if not isinstance(recovery, Scaled) or not small <= abs(recovery.weight) <= large:
        raise FieldError(
            f"recovery is {recovery!r}: expected a strategy scaled by {small} to {large}."
        )
    with np.errstate(all="ignore"):
        again = integer_form(recovery.inner, recovery.weight).matrix
    (tree, arrays), (expected, others) = encode(again), encode(matrix)
    if tree != expected or not all(np.array_equal(arrays[name], others[name]) for name in others):
        raise FieldError(
            "recovery does not round to the strategy that was measured: expected answers to be "
            "recovered with the strategy that was selected."
        )


def exact_sensitivity(matrix: Operator, norm: Norm) -> int:
    """Return the exact sensitivity of integers, computed twice so that no sum wraps around."""
    exact = int(matrix.integer_sensitivity(norm))
    real = matrix.sensitivity(norm) ** (1 if norm == "l1" else 2)
    if not isclose(float(exact), real, rel_tol=AGREEMENT):
        raise FieldError(
            f"the strategy's sensitivity is {exact} in integers and {real:.6g} in floats: "
            f"expected sums that 64 bits hold."
        )
    return exact


def _law(claims: Claims, factor: int) -> NoiseLaw:
    """Return the law of the claimed scale, which must be at least the one that is needed."""
    needed = noise_for(claims.column_sum, factor, claims.budget)
    if claims.budget.is_infinite:
        if claims.noise_scale:
            raise FieldError("noise of an infinite budget: expected a scale of 0.")
        return needed
    if claims.shares is not None:
        quorum, law = claims.shares
        check_scale(law, quorum, needed)
        return law
    if claims.noise_scale < needed.scale:
        raise FieldError(
            f"noise of scale {float(claims.noise_scale):.6g}: {claims.budget!r} under "
            f"{claims.neighboring} neighbours needs {float(needed.scale):.6g}, so the file "
            f"claims more privacy than its noise gives."
        )
    return type(needed)(claims.noise_scale)
