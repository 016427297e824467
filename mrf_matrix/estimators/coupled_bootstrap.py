r"""Two tables from one noisy table: one to train on, one to test on, with unrelated errors.

A release gives unbiased cells ``y`` of covariance Σ: the noise's, which is known exactly, and the
sampling of the records, which under Poisson counts has the variance λ of each cell. With fresh
``ω`` of covariance Σ and any γ > 0 ::

    train = y + √γ ω          cov(train, test) = Σ - Σ = 0
    test  = y - ω / √γ        E[train] = E[test] = E[y]

so that whatever labels l are learned from `train`, ``Σ_x test[x, l(x)] / N`` estimates without
optimism how often they are right on fresh records, for training on a table whose errors are
``1 + γ`` times as large (Oliveira, Lei and Tibshirani, "Unbiased risk estimation in the normal
means problem via coupled bootstrap techniques", 2021; data fission and data thinning are its
relatives). With normal errors and ω the tables are independent, and the estimate is unbiased for
any γ. Laplace noise is not normal; but with ω of the very law of the errors and γ = 1 the two may
be exchanged, so that ``E[test | train] = E[y]`` whatever that law: this is what is drawn then.
Only λ is estimated.

Where no noise was added, whole counts are split by exact binomial thinning instead: every record
goes to `train` with probability ``1 / (1 + γ)``.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.compilation import query_matrix
from mrf_matrix.mechanisms import Mechanism, Release
from mrf_matrix.mechanisms.least_squares import estimated_cells, recovered_squares
from strategies.merging import can_merge, merge_columns
from strategies.operators import (
    Identity,
    Marginals,
    MemoryCapError,
    Operator,
    RowSpaceError,
    Scaled,
    check_allocation,
)

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class NoisyCells:
    """A release's estimates of all cells, or of the groups of cells that it tells apart.

    Attributes
    ----------
    release : Release
    codes : ndarray of shape (n, d)
        Each cell, or the first cell of each group.
    matrix : Operator of shape (m, n)
        What recovers them from the answers.
    values : ndarray of shape (n, k)
        Unbiased.
    noise : ndarray of shape (n,)
        Variance of the noise in each cell and class, exact.
    sampling : ndarray of shape (n, k)
        Estimated variance of each count as a sample.
    """

    release: Release
    codes: NDArray[np.int32]
    matrix: Operator
    values: Array
    noise: Array
    sampling: Array

    @property
    def n_records(self) -> float:
        """Number of records, as far as the release tells; at least one."""
        return max(1.0, float(self.values.sum()))

    @property
    def variances(self) -> Array:
        """Variance of each cell, noise and sampling, shape (n, k)."""
        return np.asarray(self.noise[:, None] + self.sampling)

    def split(self, gamma: float, generator: np.random.Generator) -> tuple[Array, Array]:
        """Return tables to train and to test on, each of shape (n, k)."""
        if self.release.noise == "none":
            share = 1 / (1 + gamma)
            kept = generator.binomial(np.rint(self.values).astype(np.int64), share)
            return kept / share, (self.values - kept) / (1 - share)
        shape = (self.release.matrix.shape[0], self.values.shape[1])
        if gamma == 1:
            draws = self.release.law.research(shape, generator).astype(np.float64)
            sample = generator.poisson(self.sampling) - self.sampling
        else:
            draws = generator.normal(scale=np.sqrt(self.release.variance), size=shape)
            sample = np.sqrt(self.sampling) * generator.standard_normal(self.values.shape)
        omega = _cells(self.matrix, draws) + sample
        return self.values + np.sqrt(gamma) * omega, self.values - omega / np.sqrt(gamma)


def noisy_cells(release: Any) -> NoisyCells:
    """Return a release's cells.

    Raises
    ------
    TypeError
        If it is no release.
    RowSpaceError
        If it does not determine every cell.
    MemoryCapError
        If the cells cannot be enumerated.
    """
    if not isinstance(release, Release):
        raise TypeError(
            f"release is of type {type(release).__name__}: expected a Release, from measure(...)."
        )
    check_allocation("estimates of the cells", (release.matrix.shape[1], 4 * release.n_classes))
    matrix, numbers, noise = cell_recovery(release.mechanism, release.sizes)
    values = _cells(matrix, release.answers.astype(np.float64))
    if release.noise == "none":
        values = np.rint(values)
    codes = np.stack(np.unravel_index(numbers, release.sizes), axis=1).astype(np.int32)
    return NoisyCells(release, codes, matrix, values, noise, _sampling_variances(values, noise))


def cell_recovery(
    mechanism: Mechanism, sizes: tuple[int, ...]
) -> tuple[Operator, NDArray[np.int64], Array]:
    """Return how cells, or groups of cells, will be recovered: nothing of it needs the records.

    Returns
    -------
    matrix : Operator of shape (m, g)
        The measured matrix over the groups that it tells apart.
    numbers : ndarray of shape (g,)
        Number of the first cell of each group, in C order.
    noise : ndarray of shape (g,)
        Exact variance of each group's noise in every class.

    Raises
    ------
    RowSpaceError, MemoryCapError
        As `noisy_cells`.
    """
    matrix, numbers = _groups(mechanism.rounded.recovery)
    cells: Operator = Identity(len(numbers))
    if matrix is mechanism.rounded.recovery and _is_symmetric(matrix):  # one cell speaks for all
        cells = query_matrix(np.zeros((1, len(sizes)), dtype=np.int32), sizes)
    try:
        noise = mechanism.law.variance * recovered_squares(cells, matrix)
    except RowSpaceError as error:
        raise RowSpaceError(
            f"release does not determine the single cells of its domain, on which forests are "
            f"scored without optimism: expected a release of cells, such as strategy='identity' "
            f"({error})"
        ) from error
    return matrix, numbers, np.broadcast_to(noise, (len(numbers),))


def _is_symmetric(matrix: Operator) -> bool:
    """Tell whether any cell can be taken for any other: codes of an attribute are all alike."""
    return isinstance(matrix.inner if isinstance(matrix, Scaled) else matrix, Identity | Marginals)


def _groups(recovery: Operator) -> tuple[Operator, NDArray[np.int64]]:
    """Return the matrix over groups of equal columns, and the first cell of each."""
    if _is_symmetric(recovery):  # tells all cells apart, or determines none
        return recovery, np.arange(recovery.shape[1])
    if not can_merge(recovery):
        raise MemoryCapError(
            f"release: the {recovery.shape[1]} cells of its domain are too many to score forests "
            f"on one by one. Expected a smaller domain."
        )
    merging = merge_columns(recovery)
    return merging.apply(recovery), merging.grouping.representatives


def _cells(matrix: Operator, answers: Array) -> Array:
    found = estimated_cells(matrix, answers)
    if found is None:
        raise MemoryCapError(
            f"release: its strategy of shape {matrix.shape} is too large to recover cells from. "
            f"Expected a smaller domain, or strategy='identity'."
        )
    return found


def _sampling_variances(values: Array, noise: Array) -> Array:
    """Return each cell's expected count, shrunk toward its class's mean count by its noise.

    The weight of a cell's own value is ``s / (s + noise)``, with s the variance between cells of
    a class beyond noise and sampling (method of moments).
    """
    mean = np.maximum(values.mean(axis=0), 0.0)
    spread = ((values - mean) ** 2).mean(axis=0) - noise.mean() - mean
    signal = np.maximum(spread, 0.0)
    own = noise[:, None] + mean
    weight = np.divide(signal, signal + own, out=np.zeros(values.shape), where=signal + own > 0)
    return np.asarray(np.maximum(mean + weight * (values - mean), 0.0))
