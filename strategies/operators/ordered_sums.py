"""Prefix sums and all ranges over ordered cells, and Grams known by two vectors.

``(WᵀW)_ij = u_min(i,j) v_max(i,j)``: prefix sums have ``u = 1, v_j = n - j`` (cells from 0), all
ranges ``u_i = i + 1, v_j = n - j``; reversing the cells exchanges the two. With ``t = u / v``,
which never falls where the matrix is positive semidefinite,

    G = FᵀF,    F_kj = sqrt(t_k - t_(k-1)) v_j for j >= k, else 0    (t_(-1) = 0)

so F is a matrix of suffix sums between two diagonals, and its inverse and the Gram's have two and
three diagonals.
"""

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property, singledispatch

import numpy as np

from strategies.operators.base.arrays import Array, check_allocation
from strategies.operators.base.operator import Norm, Operator
from strategies.operators.explicit import Gram
from strategies.operators.masks.anova import Energies, split_energies, structure_energies
from strategies.operators.wrappers import Scaled

PROBES = 4  # random vectors on which a Gram and its claimed form must agree (Freivalds 1977)
LARGEST_PROBE = 1024  # entries of the probes: integers of at most this size
SPREAD = 1e12  # largest ratio of two numbers of u or of v: beyond, the form is left alone
LEAST_STEP = 1e-9
"""Least relative rise of ``u / v``: cells nearer to each other cannot be told apart well."""
ROUNDING = 1e-11
"""Relative distance on the probes that passes as rounding, where entries are no integers."""


@dataclass(frozen=True, eq=False)
class OrderedGram:
    """The matrix ``G_ij = low_min(i,j) high_max(i,j)``.

    >>> OrderedGram(np.ones(3), np.array([3.0, 2.0, 1.0])).to_dense()
    array([[3., 2., 1.],
           [2., 2., 1.],
           [1., 1., 1.]])
    """

    low: Array  # u, (n,)
    high: Array  # v, (n,): positive as u is, with u / v rising

    @property
    def n(self) -> int:
        return len(self.low)

    @property
    def diagonal(self) -> Array:
        return self.low * self.high

    @cached_property
    def steps(self) -> Array:
        """``t_k - t_(k-1)`` with ``t = u / v``: the squared weights of the rows of F, over v."""
        return np.diff(self.low / self.high, prepend=0.0)

    @property
    def reversal(self) -> "OrderedGram":
        return OrderedGram(self.high[::-1], self.low[::-1])

    def coarse(self, factor: int) -> "OrderedGram":
        return self if factor == 1 else OrderedGram(self.low[::factor], self.high[::factor])

    @property
    def is_flipped(self) -> bool:
        """Whether the reversed order comes first in a fixed ranking of the two."""
        for one, other in ((self.diagonal, self.diagonal[::-1]), (self._ends[0], self._ends[1])):
            differ = np.flatnonzero(one != other)
            if len(differ):
                return bool(one[differ[0]] < other[differ[0]])
        return False

    @property
    def _ends(self) -> tuple[Array, Array]:
        """First row of the Gram, and the first row of its reversal."""
        return self.low[0] * self.high, self.high[-1] * self.low[::-1]

    def matmat(self, right: Array) -> Array:
        """Return ``G @ right`` for an (n, j) array by cumulated sums.

        ``v cumsum(u x) + u (sum(v x) - cumsum(v x))``.
        """
        low, high = self.low[:, None], self.high[:, None]
        below, above = np.cumsum(low * right, axis=0), np.cumsum(high * right, axis=0)
        return np.asarray(high * below + low * (above[-1] - above))

    def to_dense(self) -> Array:
        lower = np.outer(self.high, self.low)
        return np.minimum(np.outer(self.low, self.high), lower, out=lower)  # u / v rises

    def inverse_bands(self) -> tuple[Array, Array]:
        """Return the diagonal (n,) and the side diagonal (n - 1,) of ``G⁻¹``.

        ``G⁻¹ = diag(1/v) Δᵀ diag(1 / steps) Δ diag(1/v)`` with Δ the differences.
        """
        weights = 1.0 / self.steps
        diagonal = weights.copy()
        diagonal[:-1] += weights[1:]
        return diagonal / self.high**2, -weights[1:] / (self.high[:-1] * self.high[1:])


@dataclass(frozen=True, eq=False, repr=False)
class OrderedSums(Operator):
    """0/1 rows over n ordered cells; no two cells are in the same of them."""

    n: int
    is_binary = True
    has_distinct_columns = True

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ValueError(f"n={self.n}: expected at least one cell.")
        object.__setattr__(self, "n", int(self.n))

    @property
    @abstractmethod
    def ordered_gram(self) -> OrderedGram:
        """The Gram: how many sums hold both of two cells."""

    def gram_dense(self) -> Array:
        check_allocation(f"gram of {type(self).__name__}", (self.n, self.n))
        return self.ordered_gram.to_dense()

    def column_norms(self, norm: Norm) -> Array:
        """Return the norm of every column: the number of sums that hold the cell, or its root."""
        sums_over = self.ordered_gram.diagonal
        return sums_over if norm == "l1" else np.sqrt(sums_over)


@dataclass(frozen=True, eq=False, repr=False)
class PrefixSums(OrderedSums):
    """The n prefix sums over n ordered cells: row i sums cells 0 to i.

    Parameters
    ----------
    n : int
        Number of cells.

    Examples
    --------
    >>> import numpy as np
    >>> PrefixSums(4).matmat(np.arange(4.0))
    array([0., 1., 3., 6.])
    """

    @property
    def shape(self) -> tuple[int, int]:
        return self.n, self.n

    @property
    def ordered_gram(self) -> OrderedGram:
        """``n - max(i, j)``."""
        return OrderedGram(np.ones(self.n), np.arange(self.n, 0.0, -1.0))

    def _matmat(self, right: Array) -> Array:
        return np.asarray(np.cumsum(right, axis=0))

    def _rmatmat(self, left: Array) -> Array:
        return np.asarray(np.cumsum(left[::-1], axis=0)[::-1])

    def to_dense(self) -> Array:
        check_allocation("dense PrefixSums", self.shape)
        return np.tri(self.n)

    def row_gram(self) -> Array:
        """Return ``min(i, j) + 1``, refused above the memory cap."""
        return self.gram_dense()[::-1, ::-1]

    def row_squares(self) -> Array:
        return np.arange(1.0, self.n + 1.0)


@dataclass(frozen=True, eq=False, repr=False)
class AllRanges(OrderedSums):
    """The ``n (n + 1) / 2`` sums over intervals of n ordered cells.

    Rows are ordered by their first cell, then by their last. Products take cumulated sums, so
    that a product costs its own result; the matrix is built only where it fits.

    Parameters
    ----------
    n : int
        Number of cells.

    Examples
    --------
    >>> AllRanges(2).to_dense()
    array([[1., 0.],
           [1., 1.],
           [0., 1.]])
    """

    @property
    def shape(self) -> tuple[int, int]:
        return self.n * (self.n + 1) // 2, self.n

    @property
    def ordered_gram(self) -> OrderedGram:
        """``(min(i, j) + 1) (n - max(i, j))``."""
        return OrderedGram(np.arange(1.0, self.n + 1.0), np.arange(self.n, 0.0, -1.0))

    def _matmat(self, right: Array) -> Array:
        check_allocation("sums over all ranges", (self.shape[0], right.shape[1]))
        sums = np.zeros((self.n + 1, right.shape[1]))
        np.cumsum(right, axis=0, out=sums[1:])
        return np.concatenate([sums[first + 1 :] - sums[first] for first in range(self.n)])

    def _rmatmat(self, left: Array) -> Array:
        steps = np.zeros((self.n + 1, left.shape[1]))
        start = 0
        for first in range(self.n):
            part = left[start : start + self.n - first]
            steps[first] += part.sum(axis=0)
            steps[first + 1 :] -= part
            start += self.n - first
        return np.asarray(np.cumsum(steps[:-1], axis=0))

    def to_dense(self) -> Array:
        check_allocation("dense AllRanges", self.shape)
        (first, last), cells = np.triu_indices(self.n), np.arange(self.n)
        return ((cells >= first[:, None]) & (cells <= last[:, None])).astype(np.float64)

    def row_squares(self) -> Array:
        check_allocation("lengths of all ranges", (self.shape[0],))
        return np.concatenate([np.arange(1.0, self.n - first + 1.0) for first in range(self.n)])


@singledispatch
def ordered_gram(workload: Operator) -> OrderedGram | None:
    """Return the Gram of a workload over ordered cells, None where it is not of that form.

    The candidate follows from two columns of the Gram; that it is the Gram is checked on random
    integer vectors, exactly where all numbers are integers. Reversing the cells keeps the form,
    and the order of the rows does not matter.
    """
    n = workload.shape[1]
    ends = np.zeros((n, 2))
    ends[0, 0] = ends[-1, 1] = 1.0
    first, last = gram_product(workload, ends).T
    if not (np.all(first > 0) and np.all(last > 0)):
        return None
    if first.max() > SPREAD * first.min() or last.max() > SPREAD * last.min():
        return None
    found = OrderedGram(last / first[-1], first)
    if not np.all(found.steps > LEAST_STEP * (found.low / found.high)):
        return None
    probes = np.random.default_rng(0).integers(-LARGEST_PROBE, LARGEST_PROBE + 1, (n, PROBES))
    vectors = np.concatenate([ends, probes.astype(np.float64)], axis=1)
    got, claimed = gram_product(workload, vectors), found.matmat(vectors)
    whole = bool(np.all(first == np.rint(first)) and np.all(found.low == np.rint(found.low)))
    size = 0.0 if whole else ROUNDING * found.matmat(np.abs(vectors))
    return found if np.all(np.abs(got - claimed) <= size) else None


def gram_product(workload: Operator, right: Array) -> Array:
    if isinstance(workload, Gram):
        return np.asarray(workload.array @ right)
    return workload.rmatmat(workload.matmat(right))


@ordered_gram.register
def ordered_sums_gram(workload: OrderedSums) -> OrderedGram:
    return workload.ordered_gram


@ordered_gram.register
def scaled_ordered_gram(workload: Scaled) -> OrderedGram | None:
    inner = ordered_gram(workload.inner)
    if inner is None or workload.weight == 0:
        return None
    return OrderedGram(inner.low, workload.weight**2 * inner.high)


@structure_energies.register
def ordered_energies(workload: OrderedSums) -> Energies:
    """Return the energies of the mean column and of the rest, from the Gram's two vectors.

    With u / v rising, ``aI + bJ`` is the Gram of at most two cells.
    """
    gram = workload.ordered_gram
    n, whole = gram.n, gram.diagonal
    mean = float(gram.matmat(np.ones((n, 1))).sum()) / n
    return split_energies(mean, float(whole.sum()), n, n <= 2 and float(np.ptp(whole)) == 0)
