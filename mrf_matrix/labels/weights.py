r"""What numbers of records are worth to a label: whole numbers, which one record more moves little.

``weight(n)`` is ``2**160 exp(rate n)``, rounded down so that no ratio of neighbouring weights
is above ``exp(rate)``, and none below 1. Weights of trees are sums of products of these, of whole
numbers without rounding, so that their ratios are bounded exactly.

Where ``rate n`` passes `STEEPEST`, each further piece of the same growth is twice as wide: numbers
would have more bits than there are records, and what is so far ahead needs no more.
"""

from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from math import ceil, isqrt, log, log2

import numpy as np
from numpy.typing import NDArray

BITS = 160
"""Bits behind the point. Weights of up to 2**34 records are off by 2**-124 of themselves."""

SLACK, FAINTEST = 80, 60
"""Bits after which ``exp(rate)`` is cut off, and rates from which weights rise at all, ``2**-60``:
more than all that is rounded later, so that ratios stay where they belong."""

LARGEST = 1 << 60  # counts that no data have

STEEPEST = Fraction(256)
"""What the logarithm of a weight rises by before it rises half as steeply."""

Numbers = NDArray[np.object_]
"""Python's integers, of any size."""


def weights(rate: Fraction, largest: int) -> Numbers:
    """Return the weights of 0 to `largest` records.

    The largest array has a number for each, of `bytes_of` each.

    Examples
    --------
    >>> found = weights(Fraction(1, 2), 4)
    >>> round(found[4] / found[3], 9)
    1.648721271
    """
    step, width = _step(rate), _width(rate)
    found = _powers(step, min(width, largest))
    while len(found) <= largest:  # another piece, half as steep and twice as wide
        step, width = isqrt(step << BITS), 2 * width
        further = _powers(step, min(width, largest + 1 - len(found)))
        found = np.concatenate([found, further[1:] * found[-1] >> BITS])
    return found


def bytes_of(rate: Fraction, largest: int) -> int:
    """Return what one of the weights of 0 to `largest` records takes at most, with its pointer."""
    width = _width(rate)
    pieces = log2(1 + largest / width)  # or a part of the first
    rise = float(min(rate, STEEPEST)) * width / log(2)  # bits that each piece adds
    return 40 + 4 * ceil((BITS + rise * pieces) / 30)


def _width(rate: Fraction) -> int:
    """Return the counts up to which weights rise by the whole rate."""
    return min(ceil(STEEPEST / rate), LARGEST) if rate else LARGEST


def _step(rate: Fraction) -> int:
    """Return ``2**160 exp(rate)``, below it by one in `SLACK` bits; flat where that is nothing."""
    context = Context(prec=400, rounding=ROUND_FLOOR)
    steepest = min(rate, STEEPEST)
    exact = context.divide(Decimal(steepest.numerator), Decimal(steepest.denominator))
    step = int(context.multiply(context.exp(exact), Decimal(1 << BITS)))
    step -= (step >> SLACK) + 2
    return step if step - (1 << BITS) > 1 << (BITS - FAINTEST) else 1 << BITS


def _powers(step: int, most: int) -> Numbers:
    """Return the powers 0 to `most` of ``step / 2**160``, each from one of half as many."""
    found, power = np.array([1 << BITS], dtype=np.object_), step
    while len(found) <= most:
        found = np.concatenate([found, found * power >> BITS])
        power = power * power >> BITS
    return found[: most + 1]
