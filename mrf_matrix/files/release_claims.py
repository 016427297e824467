"""What a release from a file claims, held against its own strategy and noise.

The noise itself cannot be checked: whether it was drawn is the word of whoever wrote the file.
What can be checked is that noise of the stated law, added to the stated strategy, gives the
privacy that is claimed.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import isclose

import numpy as np

from mrf_matrix.base.fields import FieldError, JsonObject, fraction_of, integer_of, object_of
from mrf_matrix.mechanisms.budgets.budget import ZCDP, PureDP
from mrf_matrix.mechanisms.budgets.claim import checked_neighboring, squared_factor
from mrf_matrix.mechanisms.measurement.mechanism import Mechanism, noise_for
from mrf_matrix.mechanisms.measurement.quorum import Quorum
from mrf_matrix.mechanisms.measurement.release import Release
from mrf_matrix.mechanisms.noise.law import NoiseLaw
from mrf_matrix.mechanisms.noise.shared import SharedDiscreteGaussian, SharedDiscreteLaplace
from mrf_matrix.mechanisms.rounding.entries import check_entries, is_nonnegative
from mrf_matrix.mechanisms.rounding.rounding import RoundedStrategy, integer_form
from strategies.operator_files import encode
from strategies.operators import Norm, Operator, Scaled

FACTORS = (1e-100, 1e100)  # range of what a strategy is multiplied by before it is rounded

AGREEMENT = 1e-6  # relative difference of a sensitivity in integers from the same in floats


QUORUM_KEYS = ("parties", "dropouts", "colluders")
ROUNDING = 1 - Fraction(1, 2**50)
"""The scale that is needed was rounded up to a double."""
LEAST_SQUARE = 2  # least σ² of each party's discrete Gaussian draw


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


def shares_content(release: Release) -> JsonObject:
    """Return the key of a release of shares as JSON, and nothing for any other."""
    if release.quorum is None:
        return {}
    quorum, law = release.quorum, release.law
    if isinstance(law, SharedDiscreteLaplace):
        drawn: JsonObject = {"shape": str(law.shape)}
    elif isinstance(law, SharedDiscreteGaussian):
        drawn = {"contributors": law.parties}
    else:
        raise FieldError(f"law: {law} is no noise of shares, so it has no form in files.")
    plain: JsonObject = {name: getattr(quorum, name) for name in QUORUM_KEYS}
    return {"shares": plain | drawn}


def shares_of(data: object, budget: PureDP | ZCDP, scale: Fraction) -> tuple[Quorum, NoiseLaw]:
    """Return on whom a release of a file rests, and the law of its noise.

    Raises FieldError if it is not of that form, or the noise is less than the honest contributors'
    must be.
    """
    pure = isinstance(budget, PureDP)
    found = object_of(data, "shares", {*QUORUM_KEYS, "shape" if pure else "contributors"})
    quorum = Quorum(*(integer_of(found[name], name) for name in QUORUM_KEYS))
    if pure:
        shape = fraction_of(found["shape"], "shape")
        # n contributors, of whom C collude, have a shape of at least n/(n - C) in all
        least = Fraction(quorum.parties, quorum.parties - quorum.colluders)
        if not least <= shape <= Fraction(quorum.parties, quorum.honest):
            raise FieldError(
                f"shares: shape {float(shape):.6g}, expected {least} to "
                f"{Fraction(quorum.parties, quorum.honest)}: the file claims more privacy than "
                f"its noise gives, or noise that nobody added."
            )
        return quorum, SharedDiscreteLaplace(scale, shape)
    count = integer_of(found["contributors"], "contributors", quorum.threshold, quorum.parties)
    if scale**2 < LEAST_SQUARE:
        raise FieldError(f"shares: a scale of {float(scale):.6g}, expected at least sqrt(2).")
    return quorum, SharedDiscreteGaussian(scale, count)


def check_scale(
    law: NoiseLaw, quorum: Quorum, needed: NoiseLaw, where: str = "noise of shares"
) -> None:
    """Refuse shares whose honest part is narrower than the budget needs.

    For sums of discrete Gaussians the part of the budget that covers their being none is taken as
    spent: a narrower scale than without it is refused.
    """
    square = law.scale**2 * (quorum.honest if isinstance(law, SharedDiscreteGaussian) else 1)
    if square < needed.scale**2 * ROUNDING:
        raise FieldError(
            f"{where}: {law} of {quorum.honest} honest parties is less than the budget needs, so "
            f"the file claims more privacy than its noise gives."
        )
