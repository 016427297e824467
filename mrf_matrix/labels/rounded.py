r"""Sums and products of large whole numbers, rounded, with a bound on how far they are off.

A number is ``part * 2**power``, a double and an integer, so that none is too large. Let sums have
at most ``s = 2**16`` terms (those of plans: 64 cuts, 1000 classes), and paths four cuts. Every
step is rounded to one in ``2**53`` (IEEE 754; scaling by a power of two is exact, or loses less
than ``2**-1022``), nothing is negative, and so a number that r steps led to, its own and those of
its factors together, is off by a factor of :math:`(1 - 2^{-53})^r` to :math:`(1 + 2^{-53})^r`:

- of a cell: its weights, their scaling and their sum, at most ``r(0) = s + 3`` steps;
- of a node with q cuts on each path: products, their scaling and their sum, at most
  ``r(q) = 2 r(q - 1) + s + 2``; running sums over what begins with each cut are such sums too,
  and ``r(4) = 31 s + 78 < 2**21``.

So all are off by less than `OFF` of themselves. Parts stay between ``2**-16`` and ``2**496``,
beside which ``s`` times ``2**-1022`` is nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mrf_matrix.base.arrays import Array, Longs
from mrf_matrix.labels.weights import Numbers

OFF = 2.0**-32


class Rounded(NamedTuple):
    """Numbers ``parts * 2**powers``."""

    parts: Array
    powers: Longs


@dataclass(frozen=True, eq=False)
class Rounding:
    """What trees are worth to the exponential mechanism, to within `OFF`; see `Exponential`."""

    weights: Rounded  # of 0 to all records

    @classmethod
    def of(cls, weights: Numbers) -> "Rounding":
        """Return the arithmetic of weights: quotients of integers, each rounded once."""
        n = len(weights)
        parts = np.fromiter((one / (1 << one.bit_length()) for one in weights), np.float64, n)
        powers = np.fromiter((one.bit_length() for one in weights), np.int64, n)
        return cls(Rounded(parts, powers))

    def labels(self, counts: Longs) -> Rounded:
        """Return the weights of counts."""
        return Rounded(self.weights.parts[counts], self.weights.powers[counts])

    def either(self, worth: Rounded) -> Rounded:
        """Return the sum, along the last axis."""
        top = worth.powers.max(axis=-1, keepdims=True)
        return Rounded(scaled(worth.parts, worth.powers - top).sum(axis=-1), top[..., 0])

    def both(self, one: Rounded, other: Rounded) -> Rounded:
        """Return the product."""
        return Rounded(one.parts * other.parts, one.powers + other.powers)

    def each(self, worth: Rounded) -> Sequence[Rounded]:
        """Return the numbers one by one."""
        return [Rounded(*one) for one in zip(worth.parts, worth.powers, strict=True)]


def scaled(parts: Array, powers: Longs) -> Array:
    """Return ``parts * 2**powers``, powers up to 0; what is lost is within the bound."""
    with np.errstate(under="ignore"):
        return np.asarray(np.ldexp(parts, np.maximum(powers, -(1 << 30)).astype(np.intc)))


def running_sums(numbers: Sequence[Rounded]) -> tuple[Array, int, bool]:
    """Return running sums of numbers, and how many bits the last one has.

    Returns
    -------
    upto : ndarray, shape (n,)
        Divided by ``2**size``: each is off by less than `OFF`, absolutely.
    size : int
    sure : bool
        Whether the exact sum has `size` bits: where it is not too near to a power of two.
    """
    parts, powers = np.array([one.parts for one in numbers]), [int(one.powers) for one in numbers]
    top = max(powers)
    upto = np.cumsum(scaled(parts, np.array(powers) - top))
    ends = upto[-1] * np.array([1 - 2 * OFF, 1, 1 + 2 * OFF])
    least, size, most = np.frexp(ends)[1].tolist()
    return np.ldexp(upto, -size), top + size, least == most
