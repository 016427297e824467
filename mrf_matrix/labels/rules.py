"""By what a tree is drawn: how much trees are worth together, and which one it becomes."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Protocol, TypeVar

import numpy as np

from mrf_matrix.base.arrays import Longs
from mrf_matrix.labels.rounded import OFF, Rounding, running_sums
from mrf_matrix.labels.weights import Numbers
from mrf_matrix.mechanisms.selection.bits import Bits

MARGIN = 4 * OFF
"""How far a number stays from a rounded sum that it is compared with."""

Worth = TypeVar("Worth")
"""What labels, or trees, are worth: integers of any size, rounded or not, or right records."""


class Arithmetic(Protocol[Worth]):
    """How what trees are worth is put together."""

    def labels(self, counts: Longs) -> Worth:
        """Return what labels are worth that so many records have."""

    def either(self, worth: Worth) -> Worth:
        """Return what several together are worth, along the last axis."""

    def both(self, one: Worth, other: Worth) -> Worth:
        """Return what two trees side by side are worth."""

    def each(self, worth: Worth) -> Sequence[Worth]:
        """Return what several are worth by themselves, along the only axis."""


class Options(Protocol):
    """What there is to choose from."""

    def __call__(self, rules: Arithmetic[Worth], /) -> Sequence[Worth]:
        """Return what each option is worth."""


class Rules(Protocol):
    """How one of several is drawn."""

    def draw(self, options: Options) -> int:
        """Return the place of one."""


@dataclass(frozen=True, eq=False)
class Exponential:
    """The exponential mechanism: whole numbers, products and sums."""

    weights: Numbers  # of 0 to all records
    bits: Bits
    rounding: Rounding = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rounding", Rounding.of(self.weights))

    def labels(self, counts: Longs) -> Numbers:
        """Return the weights of counts."""
        return np.asarray(self.weights[counts])

    def either(self, worth: Numbers) -> Numbers:
        """Return the sum."""
        return np.asarray(worth.sum(axis=-1))

    def both(self, one: Numbers, other: Numbers) -> Numbers:
        """Return the product."""
        return np.asarray(one * other)

    def each(self, worth: Numbers) -> Sequence[Numbers]:
        """Return the numbers one by one."""
        return list(worth)

    def draw(self, options: Options) -> int:
        r"""Draw a place with probability proportional to its number, exactly.

        Numbers of as many bits as the sum of all has are drawn until one is below that sum. Its
        place is how many running sums :math:`S_j` it has reached. Over ``2**size`` rounded sums are
        within `OFF` of these, and the number, as a double, within ``2**-53``. So it has reached all
        whose rounded sums are `MARGIN` below it or more, and none whose are further above: if none
        lies between, the place is known. Else the same number is compared with the whole sums, as
        it is from the start where the last may be a power of two: in nodes without records, and
        less than once in a million trees of two classes. What is drawn never depends on how
        anything is rounded.
        """
        number = None
        upto, size, sure = running_sums(options(self.rounding))
        while sure:
            number = self.bits.number(size)
            share = number / (1 << size)
            ends = np.searchsorted(upto, (share - MARGIN, share + MARGIN), side="right")
            place, most = int(ends[0]), int(ends[1])
            if place < most:
                break
            if place < len(upto):
                return place
        return self._compared(options(self), number)

    def _compared(self, numbers: Sequence[Numbers], number: int | None) -> int:
        """Draw a place in whole numbers, with the number that is drawn already, if there is one."""
        upto = list(accumulate(int(one) for one in numbers))
        if number is None or number >= upto[-1]:
            number = self.bits.number_below(upto[-1])
        return bisect_right(upto, number)


@dataclass(frozen=True)
class MostRight:
    """Without noise: the first of the trees that are right on the most records."""

    def labels(self, counts: Longs) -> Longs:
        """Return the records that are right."""
        return counts

    def either(self, worth: Longs) -> Longs:
        """Return the best."""
        return np.asarray(worth.max(axis=-1))

    def both(self, one: Longs, other: Longs) -> Longs:
        """Return the records that are right on both sides."""
        return np.asarray(one + other)

    def each(self, worth: Longs) -> Sequence[Longs]:
        """Return the records one by one."""
        return list(worth)

    def draw(self, options: Options) -> int:
        """Return the first of the best."""
        return int(np.argmax(options(self)))
