"""Kronecker products of p-Identity strategies, one factor for each attribute.

A p-Identity factor over n codes is ``A(Θ) = [I; Θ] diag(1/(1 + Σ_k Θ_kj))`` with Θ >= 0 of shape
(p, n): every column has L1 norm 1, so the Kronecker product has sensitivity 1. For a workload
whose rows are combinations M of Kronecker products of masks the loss is

    Σ_{rs} (MᵀM)_rs Π_i v_ri (A_iᵀA_i)⁻¹ v_siᵀ,

a sum over pairs of paths of a product over attributes. With all other factors fixed it is
``tr(G_i (A_iᵀA_i)⁻¹)`` for one small Gram G_i: the factors take turns, each descending by
L-BFGS-B. ``(A_iᵀA_i)⁻¹`` comes from a Cholesky factor of ``I + ΘᵀΘ >= I``; no traces are
subtracted.

References
----------
McKenna, Miklau, Hay, Machanavajjhala: Optimizing error of high-dimensional statistical queries
under differential privacy (HDMM, 2018), sections 5.2 and 6.1. Written from the formulas.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy import linalg, sparse

from strategies.bounds.path_bounds import PatternRows, distinct_paths
from strategies.methods.family import Family, Search, checked_count, factory
from strategies.operators import Array, Dense, Identity, Kronecker, Operator, RowKronecker
from strategies.operators.kronecker import kronecker_blocks
from strategies.operators.masks.components import mask_rows
from strategies.problem.problem import Problem

LARGEST_FACTOR = 256  # codes of an attribute up to which its factor is optimised

MOST_PAIRS = 2_000_000  # pairs of paths that occur together in a row of the workload

PATIENCE = 4  # restarts after which the Identity is returned when none has beaten it

GAIN = 1e-9  # relative gain below which the Identity is returned instead


@dataclass(frozen=True, eq=False)
class PairLoss:
    """The loss as a sum over pairs of paths of products over attributes."""

    paths: PatternRows
    # first, second: (N,): the pairs of paths with ``(MᵀM)_rs != 0``
    first: NDArray[np.int64]
    second: NDArray[np.int64]
    values: Array  # (N,): ``(MᵀM)_rs``

    @classmethod
    def of(cls, paths: PatternRows) -> "PairLoss":
        """List the pairs of a workload."""
        pairs = sparse.coo_array(paths.mix.T @ paths.mix)
        row, column = pairs.coords
        return cls(paths, row.astype(np.int64), column.astype(np.int64), pairs.data)

    def entries(self, i: int, inverse: Array) -> Array:
        """Return ``v_ri X v_siᵀ`` of every pair for one attribute's ``X = (AᵀA)⁻¹``."""
        mask = self.paths.patterns[i].astype(np.float64)
        number = self.paths.numbers[i]
        return np.asarray((mask @ inverse @ mask.T)[number[self.first], number[self.second]])

    def factor_gram(self, i: int, others: Array) -> Array:
        """Return the Gram G_i that one attribute's factor has to serve, given the others."""
        mask = self.paths.patterns[i].astype(np.float64)
        number, count = self.paths.numbers[i], len(mask)
        place = number[self.first] * count + number[self.second]
        sums = np.bincount(place, self.values * others, minlength=count * count)
        return np.asarray(mask.T @ sums.reshape(count, count) @ mask)


def p_identity_inverse(theta: Array) -> tuple[Array, Array]:
    """Return ``(I + ΘᵀΘ)⁻¹`` and the scales ``1 + Σ_k Θ_kj``."""
    n = theta.shape[1]
    factor = linalg.cho_factor(np.eye(n) + theta.T @ theta)
    return np.asarray(linalg.cho_solve(factor, np.eye(n))), 1 + theta.sum(axis=0)


def p_identity_error(flat: Array, gram: Array) -> tuple[float, Array]:
    """Return ``log tr(G (AᵀA)⁻¹)`` of a p-Identity factor and its gradient in Θ.

    `flat`: (p * n,), Θ, none negative; `gram`: (n, n).
    """
    theta = flat.reshape(-1, len(gram))
    inverse, scales = p_identity_inverse(theta)
    scaled = scales[:, None] * gram * scales
    error = float(np.einsum("ij,ij->", scaled, inverse))
    through_inverse = -2 * theta @ (inverse @ scaled @ inverse)
    through_scales = 2 * (gram * inverse) @ scales
    return float(np.log(error)), ((through_inverse + through_scales) / error).ravel()


def descend(theta: Array, gram: Array, iterations: int) -> Array:
    """Descend from Θ; the result is never worse than the start."""
    result = scipy.optimize.minimize(
        p_identity_error,
        theta.ravel(),
        args=(gram,),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, None)] * theta.size,
        options={"maxiter": iterations},
    )
    better = result.fun <= p_identity_error(theta.ravel(), gram)[0]
    return np.asarray(result.x).reshape(theta.shape) if better else theta


def alternate(
    loss: PairLoss, thetas: dict[int, Array], rounds: int, iterations: int
) -> tuple[float, dict[int, Array]]:
    """Let the factors descend in turn; return the loss and the factors' Θ."""
    entries = {i: loss.entries(i, _cell_inverse(theta)) for i, theta in thetas.items()}
    value = np.inf
    for _ in range(rounds):
        for i in thetas:
            others = np.ones(len(loss.values))
            for j, entry in entries.items():
                if j != i:
                    others *= entry
            gram = loss.factor_gram(i, others)
            thetas[i] = descend(thetas[i], (gram + gram.T) / 2, iterations)
            entries[i] = loss.entries(i, _cell_inverse(thetas[i]))
        found = float(loss.values @ np.prod(list(entries.values()), axis=0))
        if found > value * (1 - 1e-6):
            break
        value = found
    return value, thetas


def _cell_inverse(theta: Array) -> Array:
    """Return ``(AᵀA)⁻¹`` of a factor."""
    inverse, scales = p_identity_inverse(theta)
    return np.asarray(scales[:, None] * inverse * scales)


def product_of_p_identities(problem: Problem, search: Search, p: int | None = None) -> Operator:
    """Return the best Kronecker product of p-Identity factors found; the Identity at worst."""
    rows = mask_rows(problem.workload)
    if rows is None:
        raise ValueError(
            f"workload {problem.workload!r} has no rows of masks: expected RowKronecker, or "
            f"combinations of its rows. Use p_identity instead."
        )
    loss = PairLoss.of(distinct_paths(rows))
    sizes = rows.sizes
    plain = {i: np.zeros((1, sizes[i])) for i in loss.paths.varied}
    if not plain:  # sums over all cells, which nothing of this form serves
        return Identity(problem.workload.shape[1], sizes)
    entries = [loss.entries(i, _cell_inverse(theta)) for i, theta in plain.items()]
    identity = float(loss.values @ np.prod(entries, axis=0))
    cost = turn_seconds([sizes[i] for i in plain], len(loss.values))
    best: tuple[float, dict[int, Array]] = (identity * (1 - GAIN), {})
    for turn in range(max(1, min(30, int(search.work / (1e-3 + cost))))):
        if turn == PATIENCE and not best[1]:
            break
        start = {i: search.generator.uniform(size=(p or ranks(sizes[i]), sizes[i])) for i in plain}
        best = min(best, alternate(loss, start, 8, 60), key=lambda found: found[0])
    if not best[1]:
        return Identity(problem.workload.shape[1], sizes)
    return Kronecker([_factor(best[1].get(i), size) for i, size in enumerate(sizes)])


ROW_SECONDS = 4e-7
PAIR_SECONDS = 1.6e-8
"""For each attribute of a row, and for each two: 1.28 million rows of 30 attributes in 35 s."""


def turn_seconds(sizes: list[int], pairs: int) -> float:
    """Return the seconds of one start on the reference machine."""
    return sum(4e-4 + 1e-8 * size**3 for size in sizes) * 60 + 1e-7 * pairs * len(sizes)


def least_seconds(problem: Problem) -> float:
    """Return the seconds of one start, and of what is listed before it: rows and their factors."""
    sizes, rows = problem.workload.sizes or (), problem.workload.shape[0]
    listed = rows * (ROW_SECONDS * len(sizes) + PAIR_SECONDS * len(sizes) ** 2)
    return turn_seconds([size for size in sizes if size > 1], rows) + listed


def ranks(size: int) -> int:
    """Return the rows p of Θ for an attribute: one for each 16 codes, at least one."""
    return max(1, size // 16)


def _factor(theta: Array | None, size: int) -> Operator:
    if theta is None:
        return Identity(size)
    scales = 1 + theta.sum(axis=0)
    return Dense(np.concatenate([np.eye(size), theta]) / scales)


def applies(problem: Problem) -> bool:
    """Tell whether rows of masks over two or more small attributes are at hand."""
    sizes = problem.workload.sizes
    if sizes is None or len(sizes) < 2 or max(sizes) > LARGEST_FACTOR:
        return False
    by_products = isinstance(problem.workload, RowKronecker)
    if problem.merging is None and not by_products and kronecker_blocks(problem.workload) is None:
        return False  # a product has more rows than cells: its errors could not be evaluated
    rows = mask_rows(problem.workload)
    if rows is None:
        return False
    if rows.mix is None:
        return True
    lengths = np.diff(rows.mix.indptr).astype(np.float64)
    return bool((lengths**2).sum() <= MOST_PAIRS)


@factory
def kronecker_p_identity(*, p: int | None = None) -> Family:
    """Measure a product of p-Identities, one an attribute: rows of products, Laplace noise.

    Parameters
    ----------
    p : int, optional
        Rows of every attribute beside those of its codes. By default one for each 16 codes.

    Raises
    ------
    ValueError
        If p is no integer of at least 1.
    """
    checked_count("p", p, 1, "the rows of an attribute beside those of its codes")
    return Family(
        "kronecker_p_identity",
        "domain",
        frozenset({"l1"}),
        applies,
        partial(product_of_p_identities, p=p),
        share=0.5,
        least=least_seconds,
    )
