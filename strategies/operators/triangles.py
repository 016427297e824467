"""Lower triangles whose systems a stream solves with a few numbers in memory.

Row i of a lower triangle measures no cell after i. Solved with cell by cell, one of few bands keeps
the last cells; the inverse of one of two bands, and a sum of such inverses, a number each.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement

import numpy as np
import scipy
from scipy import linalg, sparse

from strategies.operators.base.arrays import Array, Longs, Real, check_allocation, real_array
from strategies.operators.base.operator import Norm, Operator, check_range
from strategies.operators.masks.anova import line_energies, structure_energies
from strategies.operators.ordered_sums import OrderedGram, ordered_gram
from strategies.operators.ranges import prefix_ends

BLOCK = 64  # rows that are written out at once
FEW = 64  # bands up to which products and solutions go band by band, by FFT beyond


@dataclass(frozen=True, eq=False, repr=False)
class Semiseparable(Operator):
    """``A_ij = Σ_m g_im t_(i-1),m ⋯ t_jm`` for ``i >= j``, else 0: b terms, each over n cells.

    Term m is ``diag(g_m)`` times the inverse of a matrix of two bands. So a product and a solution
    go cell by cell with b numbers between cells, whatever n is:

        s = x + 1,    y_k = g_k s,    x <- t_k s    (each times or plus the entry of cell k).

    Parameters
    ----------
    outputs : array-like of shape (n, b)
        g; no row sums to zero.
    factors : array-like of shape (n - 1, b)
        t, between neighbouring cells.

    Examples
    --------
    >>> Semiseparable(np.ones((3, 1)), np.full((2, 1), 0.5)).to_dense()
    array([[1.  , 0.  , 0.  ],
           [0.5 , 1.  , 0.  ],
           [0.25, 0.5 , 1.  ]])
    """

    outputs: Array
    factors: Array
    has_cheap_inverse = True

    def __post_init__(self) -> None:
        for name in ("outputs", "factors"):
            values = real_array(name, getattr(self, name), 2).astype(np.float64)
            object.__setattr__(self, name, values)
        n, terms = self.outputs.shape
        if n < 1 or terms < 1 or self.factors.shape != (n - 1, terms):
            raise ValueError(
                f"factors has shape {self.factors.shape}, outputs {self.outputs.shape}: expected "
                f"(n - 1, b) beside (n, b), with a cell and a term at least."
            )
        if not np.all(self.heads):
            raise ValueError("outputs has rows with sum 0: expected every cell to be measured.")

    @property
    def shape(self) -> tuple[int, int]:
        return (len(self.outputs),) * 2

    @cached_property
    def heads(self) -> Array:
        """The diagonal of A, shape (n,)."""
        return np.asarray(self.outputs.sum(axis=1))

    def _matmat(self, right: Array) -> Array:
        terms = zip(self.outputs.T, self.factors.T, strict=True)
        return np.asarray(sum(g[:, None] * decay(t, right) for g, t in terms))

    def _rmatmat(self, left: Array) -> Array:
        terms = zip(self.outputs.T, self.factors.T, strict=True)
        return np.asarray(sum(decay(t, g[:, None] * left, back=True) for g, t in terms))

    def to_dense(self) -> Array:
        n, terms = self.outputs.shape
        check_allocation("dense Semiseparable", (n, n))
        whole, states = np.zeros((n, n)), np.zeros((terms, 0))  # of all cells before a block
        for start in range(0, n, BLOCK):
            stop = min(start + BLOCK, n)
            onward = np.cumprod(self.factors[start : stop - 1], axis=0)
            onward = np.concatenate([np.ones((1, terms)), onward])
            whole[start:stop, :start] = (self.outputs[start:stop] * onward) @ states
            own = np.zeros((terms, stop - start))
            for k in range(start, stop):
                own[:, k - start] = 1.0
                whole[k, start:stop] = self.outputs[k] @ own
                if k < n - 1:
                    own *= self.factors[k][:, None]
            if stop < n:
                onward = onward[-1] * self.factors[stop - 1]
                states = np.concatenate([states * onward[:, None], own], axis=1)
        return whole

    def column_norms(self, norm: Norm) -> Array:
        if norm == "l1":
            if self.outputs.min() < 0 or self.factors.min(initial=0.0) < 0:
                return super().column_norms(norm)
            return self._rmatmat(np.ones((self.shape[0], 1)))[:, 0]
        return self._lengths

    @cached_property
    def _lengths(self) -> Array:
        squares = np.zeros((self.shape[0], 1))
        for a, b in combinations_with_replacement(range(self.outputs.shape[1]), 2):
            both = self.outputs[:, [a]] * self.outputs[:, [b]] * (1.0 if a == b else 2.0)
            squares += decay(self.factors[:, a] * self.factors[:, b], both, back=True)
        return np.sqrt(squares[:, 0])

    def solutions(self, answers: Iterable[Array]) -> Iterator[Array]:
        """Yield the cells that answers, one a row, stand for: b numbers are kept between them.

        The noise of a stream is ``A⁻¹`` times independent noise, in order.
        """
        state: Array = np.zeros((self.outputs.shape[1], 1))
        for k, answer in enumerate(answers):
            cell = (answer - self.outputs[k] @ state) / self.heads[k]
            yield cell
            if k < len(self.factors):
                state = self.factors[k][:, None] * (state + cell)

    def _solve(self, answers: Array) -> Array:
        return np.stack(list(self.solutions(answers)))

    def row_errors(self, workload: Operator) -> Array | None:
        """Return the errors of prefix sums, in any order and with any weights, else None."""
        rows = prefix_ends(workload)
        if rows is None:
            return super().row_errors(workload)
        ends, squares = rows
        return np.asarray(squares * self.prefix_errors(np.ones(self.shape[0]))[ends])

    def error_trace(self, workload: Operator) -> float | None:
        gram = ordered_gram(workload)
        return super().error_trace(workload) if gram is None else self.ordered_trace(gram)

    def ordered_trace(self, gram: OrderedGram) -> float:
        """Return ``tr(G (AᵀA)⁻¹)`` with ``G = diag(u) Pᵀ diag(d) P diag(u)``, P the prefix sums."""
        return float(gram.reversal.steps[::-1] @ self.prefix_errors(gram.low))

    def prefix_errors(self, weights: Array) -> Array:
        """Return ``||w_i A⁻¹||²`` of prefix sums w_i of weighted cells, (n,), in O(n b²).

        The covariance of the numbers that a stream of unit noise keeps, and of the sum so far.
        """
        n, terms = self.outputs.shape
        errors, spread = np.empty(n), np.zeros((terms + 1, terms + 1))
        entering, leaving = np.ones(terms + 1), np.ones(terms + 1)
        for k in range(n):
            gain = self.outputs[k] / self.heads[k]
            shared = spread[:, :terms] @ gain
            variance = float(gain @ shared[:terms]) + self.heads[k] ** -2
            entering[terms] = weights[k]
            change = np.multiply.outer(entering, shared - (variance / 2.0) * entering)
            spread -= change
            spread -= change.T
            errors[k] = spread[terms, terms]
            if k < n - 1:
                leaving[:terms] = self.factors[k]
                spread *= leaving
                spread *= leaving[:, None]
        return errors


def decay(factors: Array, right: Array, *, back: bool = False) -> Array:
    """Return x with ``x_k = right_k + t_(k-1) x_(k-1)``, or from the last on, (n, j)."""
    bands = np.ones((2, len(right)))
    bands[1, :-1] = -factors
    found, _ = linalg.lapack.dtbtrs(bands, right, uplo="L", trans="T" if back else "N", diag="U")
    return np.asarray(found)


@dataclass(frozen=True, eq=False, repr=False)
class Toeplitz(Operator):
    """``A_ij = c_(i-j)`` for ``0 <= i - j < b``, else 0: b bands over n cells.

    A solution goes cell by cell with the b - 1 last cells in memory.

    Parameters
    ----------
    n : int
        Number of cells.
    coefficients : array-like of shape (b,)
        c, with ``c_0`` not 0. Integers stay exact.

    Examples
    --------
    >>> Toeplitz(3, [2, 1]).to_dense()
    array([[2., 0., 0.],
           [1., 2., 0.],
           [0., 1., 2.]])
    """

    n: int
    coefficients: Real
    has_cheap_inverse = True

    def __post_init__(self) -> None:
        values = real_array("coefficients", self.coefficients, 1)
        if not 1 <= len(values) <= self.n or values[0] == 0:
            raise ValueError(
                f"coefficients has {len(values)} entries over n={self.n} cells, the first "
                f"{values[:1]}: expected between 1 and n, the first of them not 0."
            )
        object.__setattr__(self, "n", int(self.n))
        object.__setattr__(self, "coefficients", values)

    @property
    def shape(self) -> tuple[int, int]:
        return self.n, self.n

    @property
    def prefers_sparse(self) -> bool:
        return 3 * len(self.coefficients) < self.n

    @property
    def entries(self) -> int:
        return self.n * (len(self.coefficients) if self.prefers_sparse else self.n)

    def _matmat(self, right: Array) -> Array:
        return convolve(self.coefficients, right)

    def _rmatmat(self, left: Array) -> Array:
        return convolve(self.coefficients, left[::-1])[::-1]

    def to_dense(self) -> Array:
        check_allocation("dense Toeplitz", self.shape)
        first = np.zeros(self.n)
        first[: len(self.coefficients)] = self.coefficients
        return np.asarray(linalg.toeplitz(first, np.zeros(self.n)))

    def to_sparse(self) -> sparse.csr_array:
        bands = (len(self.coefficients), self.n)
        check_allocation("sparse Toeplitz", (2 * bands[0], bands[1]))
        values = np.broadcast_to(self.coefficients[:, None], bands)
        return sparse.csr_array(sparse.dia_array((values, -np.arange(bands[0])), shape=self.shape))

    @property
    def _last_bands(self) -> Longs:
        """The last band that each column holds, shape (n,)."""
        return np.minimum(np.arange(self.n, 0, -1), len(self.coefficients)) - 1

    def column_norms(self, norm: Norm) -> Array:
        sizes = np.abs(self.coefficients.astype(np.float64))
        if norm == "l1":
            return np.asarray(np.cumsum(sizes)[self._last_bands])
        return np.asarray(np.sqrt(np.cumsum(sizes**2)[self._last_bands]))

    def row_squares(self) -> Array:
        return np.asarray(self.column_norms("l2")[::-1] ** 2)

    def rounded(self, scale: int) -> Operator:
        values = np.rint(self.coefficients * float(scale))
        check_range(float(np.abs(values).max()))
        return Toeplitz(self.n, values.astype(np.int64)) if values[0] else super().rounded(scale)

    def integer_column_sums(self, norm: Norm) -> Longs:
        check_range(float(self.column_norms(norm)[0]) ** (2 if norm == "l2" else 1))
        sizes = np.abs(self.coefficients).astype(np.int64)
        return np.cumsum(sizes * sizes if norm == "l2" else sizes)[self._last_bands]

    @cached_property
    def inverse(self) -> Array:
        """First column of ``A⁻¹``, of the same form: the inverse of the power series of c."""
        if len(self.coefficients) <= FEW:
            return self._substitute(np.eye(self.n, 1))[:, 0]
        found = np.array([1.0 / self.coefficients[0]])
        while len(found) < self.n:
            length = min(2 * len(found), self.n)
            padded = np.zeros((length, 1))
            padded[: len(found), 0] = found
            residual = -convolve(self.coefficients[:length], padded)
            residual[0] += 2.0  # g <- g (2 - c g)
            found = convolve(found, residual)[:, 0]
        return found

    def _substitute(self, right: Array) -> Array:
        """Return ``A⁻¹ @ right`` of few bands, by substitution."""
        check_allocation("bands of Toeplitz", (len(self.coefficients), self.n))
        bands = np.repeat(self.coefficients.astype(np.float64)[:, None], self.n, axis=1)
        return np.asarray(linalg.lapack.dtbtrs(bands, right, uplo="L")[0])

    def _solve(self, answers: Array) -> Array:
        few = len(self.coefficients) <= FEW
        return self._substitute(answers) if few else convolve(self.inverse, answers)

    def solutions(self, answers: Iterable[Array]) -> Iterator[Array]:
        """Yield the cells that answers, one a row, stand for: the b - 1 last are kept."""
        kept: deque[Array] = deque(maxlen=len(self.coefficients) - 1)
        head, *others = self.coefficients.astype(np.float64)
        for answer in answers:
            cell = (answer - sum(c * one for c, one in zip(others, kept, strict=False))) / head
            kept.appendleft(cell)
            yield cell

    def row_errors(self, workload: Operator) -> Array | None:
        """Return the errors of prefix sums, ``Σ_(k<=i) b_k²`` with ``b = 1 / ((1 - x) c(x))``."""
        rows = prefix_ends(workload)
        if rows is None:
            return super().row_errors(workload)
        ends, squares = rows
        return np.asarray(squares * np.cumsum(np.cumsum(self.inverse) ** 2)[ends])


def convolve(series: Real, right: Array) -> Array:
    """Return the lower triangular Toeplitz matrix of a series times ``right`` (n, j)."""
    n = len(right)
    if len(series) <= FEW:
        found = series[0] * right
        for k in range(1, min(len(series), n)):
            found[k:] += series[k] * right[:-k]
        return np.asarray(found)
    size = scipy.fft.next_fast_len(2 * n, real=True)
    check_allocation("a convolution", (size, right.shape[1]), 16)
    spectrum = scipy.fft.rfft(right, size, axis=0)
    spectrum *= scipy.fft.rfft(series.astype(np.float64)[:n], size)[:, None]
    return np.asarray(scipy.fft.irfft(spectrum, size, axis=0)[:n])


structure_energies.register(Semiseparable, line_energies)
structure_energies.register(Toeplitz, line_energies)
