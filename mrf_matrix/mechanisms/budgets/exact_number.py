"""Numbers as a person wrote them: 0.1 is one tenth, not the nearest double."""

from collections.abc import Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from math import isfinite
from numbers import Integral, Rational, Real

from mrf_matrix.base.shown import shown

MOST_BITS = 13_000
"""Of a numerator or denominator: some 3900 digits. Python writes no number above 4300."""


class BudgetError(ValueError):
    """A privacy budget that cannot be: not positive, not a number, or more than there is."""


def exact_positive(name: str, value: object, *, allow_infinite: bool = False) -> Fraction | float:
    """Return a positive number as an exact fraction, or infinity where it is allowed.

    A float stands for the shortest decimal that prints as it, so ten times 0.1 is 1.

    Raises TypeError if the value is no real number: a string, a bool, a complex number, None, an
    array; BudgetError if the value is zero, negative, NaN, too long to write, or infinite where
    that is not allowed.

    Examples
    --------
    >>> exact_positive("epsilon", 0.1)
    Fraction(1, 10)
    """
    expected = "a positive number" + (' or float("inf")' if allow_infinite else "")
    if isinstance(value, bool) or not isinstance(value, Real | Decimal):
        raise TypeError(
            f"{name}={shown(value)} is of type {type(value).__name__}: expected {expected}, "
            f"for example {name}=1.0."
        )
    if value != value:
        raise BudgetError(f"{name} is NaN: expected {expected}.")
    if value <= 0:
        raise BudgetError(f"{name}={shown(value)}: expected {expected}.")
    if not isinstance(value, Rational) and not isfinite(value):
        if not allow_infinite:
            raise BudgetError(f"{name}={value}: expected {expected}, and finite.")
        return float("inf")
    exact = as_fraction(value)
    if max(exact.numerator, exact.denominator).bit_length() > MOST_BITS:
        raise BudgetError(f"{name}={shown(value)}: expected {expected} of at most 3900 digits.")
    return exact


def as_fraction(value: object) -> Fraction:
    """Return a finite real number exactly as it is written."""
    if isinstance(value, Rational):
        return Fraction(int(value.numerator), int(value.denominator))
    if isinstance(value, Decimal):
        return Fraction(value)
    if isinstance(value, float):  # np.float64 too, whose own repr is no number
        return Fraction(repr(float(value)))
    return Fraction(str(value))  # other NumPy floats print their shortest decimal


def readable(value: Fraction | float) -> str:
    """Write an exact number for people: as a short decimal where it is one, else as a fraction.

    Examples
    --------
    >>> readable(Fraction(1, 10)), readable(Fraction(1, 3)), readable(float("inf"))
    ('0.1', '1/3', 'inf')
    """
    if not isinstance(value, Fraction):
        return str(value)
    if value.denominator == 1:
        return str(value.numerator)
    try:
        short = repr(float(value))
    except OverflowError:
        return str(value)
    return short if Fraction(short) == value else str(value)


def checked_shares(shares: int | Sequence[object]) -> list[Fraction]:
    """Return the weights of shares: of a number of equal ones, or one weight a share.

    Raises BudgetError, TypeError if there is no share, or one is not a positive number.
    """
    if isinstance(shares, bool | str) or not isinstance(shares, Integral | Iterable):
        raise TypeError(
            f"shares={shown(shares)}: expected a number of shares or a list of weights."
        )
    if isinstance(shares, Integral):
        if shares < 1:
            raise BudgetError(f"shares={shares}: expected at least one share.")
        return [Fraction(1)] * int(shares)
    weights = list(shares)
    if not weights:
        raise BudgetError("shares is empty: expected at least one weight.")
    for weight in weights:
        exact_positive("share", weight)
    return [as_fraction(weight) for weight in weights]
