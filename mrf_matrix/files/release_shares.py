"""What a file says of noise that several parties shared, held against what it claims."""

from fractions import Fraction

from mrf_matrix.base.fields import FieldError, JsonObject, fraction_of, integer_of, object_of
from mrf_matrix.mechanisms.budgets.budget import ZCDP, PureDP
from mrf_matrix.mechanisms.measurement.quorum import Quorum
from mrf_matrix.mechanisms.measurement.release import Release
from mrf_matrix.mechanisms.noise.law import NoiseLaw
from mrf_matrix.mechanisms.noise.shared import SharedDiscreteGaussian, SharedDiscreteLaplace

QUORUM_KEYS = ("parties", "dropouts", "colluders")
ROUNDING = 1 - Fraction(1, 2**50)
"""The scale that is needed was rounded up to a double."""

LEAST_SQUARE = 2
"""Least σ² of each party's discrete Gaussian draw."""


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
