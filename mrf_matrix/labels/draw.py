r"""Trees and their labels, drawn together by the exponential mechanism, exactly.

*Weights: whole numbers, one for each number of records.*
``weight(n)`` is ``2**160 exp(rate n)``, rounded down so that no ratio of neighbouring weights is
above ``exp(rate)``, and none below 1. Weights of trees are sums of products of these, of whole
numbers without rounding, so that their ratios are bounded exactly.

Where ``rate n`` passes `STEEPEST`, each further piece of the same growth is twice as wide. Numbers
would have more bits than there are records otherwise, and a lead so large needs no more.

*Sums and products of large whole numbers, rounded, with a bound on how far they are off.* A number
is ``part * 2**power``, a double and an integer, so that none is too large. Let sums have at most
``s = 2**16`` terms (those of plans: 64 cuts, 1000 classes), and paths four cuts. Every step is
rounded to one in ``2**53`` (IEEE 754; scaling by a power of two is exact, or loses less than
``2**-1022``), nothing is negative, and so a number that r steps led to, its own and those of its
factors together, is off by a factor of :math:`(1 - 2^{-53})^r` to :math:`(1 + 2^{-53})^r`:

- of a cell: its weights, their scaling and their sum, at most ``r(0) = s + 3`` steps;
- of a node with q cuts on each path: products, their scaling and their sum, at most
  ``r(q) = 2 r(q - 1) + s + 2``; running sums over what begins with each cut are such sums too,
  and ``r(4) = 31 s + 78 < 2**21``.

So all are off by less than `OFF` of themselves. Parts stay between ``2**-16`` and ``2**496``,
beside which ``s`` times ``2**-1022`` is nothing.

A tree t with labels l is right on :math:`\sum_v n_v(l_v)` records, v its cells. Each is drawn with
probability proportional to :math:`\exp(r \sum_v n_v(l_v))`, r the rate, for which nobody has to
write out all trees: labels of different cells, and what lies on either side of a cut, are
independent given the tree above them:

.. math:: Z(v) = \sum_{\text{cuts}} Z(v_\text{below})\, Z(v_\text{above}), \qquad
    Z(\text{cell}) = \sum_c \exp(r\,n(c)) .

Cuts are drawn from the root down in proportion to their terms, then labels to theirs. With whole
numbers in place of the exponentials all of this is exact. Rounded numbers decide only where the
whole ones decide alike. One record more raises the number of records that are right by 0 or 1, for
every tree and labels: sensitivity 1, monotone.

Draws of a later round are below the cells of the tree so far, which hold different records. One
record more is in one of them, and a replaced record moves each of two by a half of what the rate
allows. So all draws of a round together cost what one does.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import partial
from itertools import accumulate
from math import ceil, isqrt, log, log2
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.arrays import Array, Longs
from mrf_matrix.base.checks import PrivateValue
from mrf_matrix.base.provenance import current_choice_provenance
from mrf_matrix.base.work import Choice, enter_draw, tell
from mrf_matrix.forests.label_tree import Cut, LabelTree
from mrf_matrix.labels.plan import DEEP
from mrf_matrix.mechanisms.selection import Bits

BITS = 160
"""Bits behind the point. Weights of up to 2**34 records are off by 2**-124 of themselves."""

SLACK, FAINTEST = 80, 60
"""Bits after which ``exp(rate)`` is cut off, and rates from which weights rise at all, ``2**-60``:
more than all that is rounded later, so that ratios stay where they belong."""

LARGEST = 1 << 60  # counts that no data have

STEEPEST = Fraction(256)
"""Rise of the logarithm of a weight before it rises half as steeply."""

Numbers = NDArray[np.object_]
"""Python's integers, of any size."""


def weights(rate: Fraction, largest: int) -> Numbers:
    """Return the weights of 0 to `largest` records.

    The largest array has a number for each, of `bytes_of` each.

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
    """Return the most bytes that a weight of 0 to `largest` records takes, with its pointer."""
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


OFF = 2.0**-32


class ScaledNumbers(NamedTuple):
    """Numbers ``parts * 2**powers``."""

    parts: Array
    powers: Longs


@dataclass(frozen=True, eq=False)
class Rounding:
    """Weights of the exponential mechanism to within `OFF`; see `Exponential`."""

    weights: ScaledNumbers  # of 0 to all records

    @classmethod
    def of(cls, weights: Numbers) -> "Rounding":
        n = len(weights)
        parts = np.fromiter((one / (1 << one.bit_length()) for one in weights), np.float64, n)
        powers = np.fromiter((one.bit_length() for one in weights), np.int64, n)
        return cls(ScaledNumbers(parts, powers))

    def labels(self, counts: Longs) -> ScaledNumbers:
        return ScaledNumbers(self.weights.parts[counts], self.weights.powers[counts])

    def total(self, worth: ScaledNumbers) -> ScaledNumbers:
        top = worth.powers.max(axis=-1, keepdims=True)
        return ScaledNumbers(scale_parts(worth.parts, worth.powers - top).sum(axis=-1), top[..., 0])

    def product(self, one: ScaledNumbers, other: ScaledNumbers) -> ScaledNumbers:
        return ScaledNumbers(one.parts * other.parts, one.powers + other.powers)

    def items(self, worth: ScaledNumbers) -> Sequence[ScaledNumbers]:
        return [ScaledNumbers(*one) for one in zip(worth.parts, worth.powers, strict=True)]


def scale_parts(parts: Array, powers: Longs) -> Array:
    """Return ``parts * 2**powers``, powers up to 0; what is lost is within the bound."""
    with np.errstate(under="ignore"):
        return np.asarray(np.ldexp(parts, np.maximum(powers, -(1 << 30)).astype(np.intc)))


def running_sums(numbers: Sequence[ScaledNumbers]) -> tuple[Array, int, bool]:
    """Return running sums of numbers divided by ``2**size``, (n,), `size`, and whether it is sure.

    Each sum is off by less than `OFF`, absolutely. The exact one of all has `size` bits for sure
    where it is not too near to a power of two.
    """
    parts, powers = np.array([one.parts for one in numbers]), [int(one.powers) for one in numbers]
    top = max(powers)
    upto = np.cumsum(scale_parts(parts, np.array(powers) - top))
    ends = upto[-1] * np.array([1 - 2 * OFF, 1, 1 + 2 * OFF])
    least, size, most = np.frexp(ends)[1].tolist()
    return np.ldexp(upto, -size), top + size, least == most


MARGIN = 4 * OFF
"""Least distance of a number from a rounded sum that it is compared with."""


@dataclass(frozen=True, eq=False, repr=False)
class JointCounts(PrivateValue):
    """Counts of a node's records, by class: of all of them, and of those above several cuts."""

    total: Longs  # (..., k)
    # (..., s, ..., s, k): above `order` cuts, which may be the same; of order 0 this is `total`
    above: Longs
    order: int  # 0, a cell, to 4

    def split(self) -> tuple["JointCounts", "JointCounts"]:
        """Return the counts below and above each cut, along a new axis of all cuts.

        Their order is one less: the largest arrays are two of the size of `above`.
        """
        axis = self.total.ndim - 1
        totals = rest = np.expand_dims(self.total, axis)
        single = self.above
        if self.order > 1:  # two cuts that are the same are one
            single = fewer = _diagonal(self.above, axis)
            rest = np.expand_dims(fewer, axis)
            for _ in range(self.order - 2):
                single = _diagonal(single, axis)
        lower = JointCounts(totals - single, rest - self.above, self.order - 1)
        return lower, JointCounts(single, self.above, self.order - 1)

    def at(self, place: int) -> "JointCounts":
        return JointCounts(self.total[place], self.above[place], self.order)


def _diagonal(above: Longs, axis: int) -> Longs:
    """Return the entries that are at the same cut along two following axes, there as one axis."""
    return np.moveaxis(np.diagonal(above, axis1=axis, axis2=axis + 1), -1, axis)


Worth = TypeVar("Worth")
"""Weights of labels or trees: integers of any size, rounded or not, or numbers of right records."""


class Arithmetic(Protocol[Worth]):
    """Arithmetic of weights of trees."""

    def labels(self, counts: Longs) -> Worth:
        """Return the weights of labels of so many records."""

    def total(self, worth: Worth) -> Worth:
        """Return the sum of weights along the last axis."""

    def product(self, one: Worth, other: Worth) -> Worth:
        """Return the weight of two trees side by side."""

    def items(self, worth: Worth) -> Sequence[Worth]:
        """Return the weights along the only axis, one by one."""


class Options(Protocol):
    """Options to choose from, as weights by some arithmetic."""

    def __call__(self, rules: Arithmetic[Worth], /) -> Sequence[Worth]: ...


class Rules(Protocol):
    """A rule that draws one of several options."""

    def draw(self, options: Options) -> int: ...


@dataclass(frozen=True, eq=False)
class Exponential:
    """The exponential mechanism: whole numbers, products and sums."""

    weights: Numbers  # of 0 to all records
    bits: Bits
    rounding: Rounding = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rounding", Rounding.of(self.weights))

    def labels(self, counts: Longs) -> Numbers:
        return np.asarray(self.weights[counts])

    def total(self, worth: Numbers) -> Numbers:
        return np.asarray(worth.sum(axis=-1))

    def product(self, one: Numbers, other: Numbers) -> Numbers:
        return np.asarray(one * other)

    def items(self, worth: Numbers) -> Sequence[Numbers]:
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
        return self._draw_exactly(options(self), number)

    def _draw_exactly(self, numbers: Sequence[Numbers], number: int | None) -> int:
        """Draw a place in whole numbers, with the number that is drawn already, if there is one."""
        upto = list(accumulate(int(one) for one in numbers))
        if number is None or number >= upto[-1]:
            number = self.bits.number_below(upto[-1])
        return bisect_right(upto, number)


@dataclass(frozen=True)
class MostAccurate:
    """Without noise: the first of the trees that are right on the most records."""

    def labels(self, counts: Longs) -> Longs:
        return counts

    def total(self, worth: Longs) -> Longs:
        return np.asarray(worth.max(axis=-1))

    def product(self, one: Longs, other: Longs) -> Longs:
        return np.asarray(one + other)

    def items(self, worth: Longs) -> Sequence[Longs]:
        return list(worth)

    def draw(self, options: Options) -> int:
        return int(np.argmax(options(self)))


MOST_SUMMED = 2**53  # doubles are whole numbers below


def draw_tree(cuts: Sequence[Cut], counts: JointCounts, rules: Rules) -> tuple[LabelTree, Longs]:
    """Draw a tree with its labels.

    `counts`: **Private**: those of the root, by all of `cuts`. Beside the tree comes how many
    records of each class its cells hold, (n_cells, k): **Private**.
    """
    tell(lambda: f"Drawing a tree of {1 << counts.order} cells and their labels")
    nodes: list[JointCounts] = [counts]
    drawn: list[Cut] = []
    labels: list[int] = []
    enter_draw(Choice).outcome = drawn, labels  # kept as they are drawn
    for _ in range(counts.order):
        below = []
        for node in nodes:
            lower, upper = node.split()
            place = rules.draw(partial(_cut_worths, lower, upper))
            drawn.append(cuts[place])
            below += [lower.at(place), upper.at(place)]
        nodes = below
    labels.extend(rules.draw(partial(_label_worths, cell)) for cell in nodes)
    known = current_choice_provenance()
    tree = LabelTree(tuple(drawn), np.array(labels, dtype=np.int64), provenance=known)
    return tree, np.array([cell.total for cell in nodes], dtype=np.int64)


def _cut_worths(
    lower: JointCounts, upper: JointCounts, rules: Arithmetic[Worth]
) -> Sequence[Worth]:
    """Return the weight of all trees that begin with each cut.

    Of deep trees one cut at a time: the largest arrays hold a number for all that may follow one.
    """
    if lower.order < DEEP - 1:
        return rules.items(rules.product(_worth(lower, rules), _worth(upper, rules)))
    return [
        rules.product(_worth(lower.at(place), rules), _worth(upper.at(place), rules))
        for place in range(len(lower.total))
    ]


def _label_worths(cell: JointCounts, rules: Arithmetic[Worth]) -> Sequence[Worth]:
    return rules.items(rules.labels(cell.total))


def _worth(node: JointCounts, rules: Arithmetic[Worth]) -> Worth:
    """Return the weight of all trees of the nodes together, with the labels of their cells."""
    if node.order == 0:
        return rules.total(rules.labels(node.total))
    lower, upper = node.split()
    return rules.total(rules.product(_worth(lower, rules), _worth(upper, rules)))
