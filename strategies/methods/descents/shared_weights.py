"""One weight for all rows of a group, such as the nodes of a level of trees.

With ``G_l = N_lᵀN_l`` of the rows of group l, ``H = WᵀW`` and ``c_l`` the column sums of
``|N_l|^p``, p = 1 or 2,

    loss(w) = max_i (Σ_l w_l^p c_li)^(2/p) · tr H (Σ_l w_l² G_l)⁺ ,

descended over log w with the maximum replaced by a norm that sharpens round by round.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from strategies.methods.descents.descent import minimise
from strategies.methods.descents.p_identity_descent import REFUSED
from strategies.methods.descents.row_weights import LARGEST_LOG, LEAST_LOG, PRUNED, SHARPNESS
from strategies.operators import Array, Norm, RowKronecker, check_allocation
from strategies.problem.merging import merge_columns

RANK = 1e-10  # share of the largest eigenvalue of H below which one is rounding
ITERATIONS = 25
LARGEST = 300
"""Rank of the workload up to which weights are descended; above, the best start is returned."""


@dataclass(frozen=True, eq=False)
class SharedWeights:
    """A workload and groups of rows, over the workload's merged cells."""

    target: Array  # (r,): the eigenvalues of H
    grams: Array  # (groups, r, r): G_l on its eigenvectors
    sums: Array  # (groups, g): c_l
    norm: Norm

    @classmethod
    def of(
        cls, workload: RowKronecker, rows: RowKronecker, labels: NDArray[np.int32], norm: Norm
    ) -> "SharedWeights":
        """Return the same of 0/1 rows that are sums of the workload's, labels from 0 up.

        Raises MemoryCapError if the groups' Grams exceed the memory cap.
        """
        merging, groups = merge_columns(workload), int(labels.max()) + 1
        check_allocation(
            "Grams of groups of rows", (groups + 2, merging.n_groups, merging.n_groups)
        )
        distinct, number, _ = rows.unique_rows()
        over = merging.apply(distinct).to_dense()
        counts = np.zeros((groups, len(over)))
        np.add.at(counts, (labels, number), 1.0)
        values, vectors = linalg.eigh(merging.apply(workload).gram_dense())
        kept = values > RANK * values[-1]
        inner = over @ vectors[:, kept]
        grams = [inner.T @ (count[:, None] * inner) for count in counts]
        return cls(values[kept], np.array(grams), counts @ over, norm)

    def value(self, logs: Array, sharpness: float = np.inf) -> tuple[float, Array]:
        """Return the log of the smoothed loss at weights ``exp(logs)``, and its gradient."""
        power = 1 if self.norm == "l1" else 2
        weights = np.exp(np.clip(logs, LEAST_LOG, LARGEST_LOG))
        gram = np.tensordot(weights**2, self.grams, 1)
        triangle, info = linalg.lapack.dpotrf(gram, lower=True)
        if info != 0:
            return REFUSED, np.zeros_like(logs)
        inverse = linalg.lapack.dpotrs(triangle, np.eye(len(gram)), lower=True)[0]
        error = float(inverse.diagonal() @ self.target)
        pulled = (inverse * self.target) @ inverse
        pulls = weights**2 * (self.grams.reshape(len(weights), -1) @ pulled.ravel()) / error
        paid = weights[:, None] ** power * self.sums
        total = paid.sum(axis=0)
        largest = total.max()
        tops = (total / largest) ** sharpness if np.isfinite(sharpness) else total == largest
        shares = np.divide(tops, total, out=np.zeros_like(total), where=total > 0) / tops.sum()
        smooth = np.log(tops.sum()) / sharpness
        value = 2.0 / power * (np.log(largest) + smooth) + np.log(error)
        gradient = 2.0 * (paid @ shares) - 2.0 * pulls
        return float(value), np.where(logs > LEAST_LOG, gradient, 0.0)

    def best(self, starts: Sequence[Array]) -> Array:
        """Return the best weights found from some starts, the largest 1, negligible ones 0."""
        logs = [np.log(np.maximum(one / one.max(), np.exp(LEAST_LOG))) for one in starts]
        if len(self.target) <= LARGEST:
            logs += [self._descended(one) for one in sorted(logs, key=self.loss)[:2]]
        best = np.exp(min(logs, key=self.loss))
        return np.where(best > PRUNED * best.max(), best / best.max(), 0.0)

    def loss(self, logs: Array) -> float:
        """Return the log of the loss itself."""
        return self.value(logs)[0]

    def _descended(self, logs: Array) -> Array:
        for sharpness in SHARPNESS:
            logs, _ = minimise(lambda x, s=sharpness: self.value(x, s), logs, ITERATIONS)  # type: ignore[misc]
            logs = np.maximum(logs - logs.max(), LEAST_LOG)
        return logs
