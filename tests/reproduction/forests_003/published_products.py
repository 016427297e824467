"""The published optimiser for training: Kronecker products of p-Identities, one an attribute.

A factor over n codes is ``A(Θ) = [I; Θ] diag(1/(1 + Σ_k Θ_kj))`` with Θ >= 0 of shape (p, n): every
column has L1 norm 1, so the product has sensitivity 1. For a workload whose rows are combinations M
of Kronecker products of masks the loss is

    Σ_{rs} (MᵀM)_rs Π_i v_ri (A_iᵀA_i)⁻¹ v_siᵀ,

a sum over pairs of paths of a product over attributes. With all other factors fixed it is
``tr(G_i (A_iᵀA_i)⁻¹)`` for one small Gram G_i: the factors take turns.

References
----------
McKenna, Miklau, Hay, Machanavajjhala: Optimizing error of high-dimensional statistical queries
under differential privacy (HDMM, 2018), sections 5.2 and 6.1. Written from the formulas.
"""

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy import linalg, sparse

from strategies.bounds.path_bounds import PatternRows
from strategies.operators import Array


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
