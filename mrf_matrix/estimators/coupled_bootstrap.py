r"""Two tables from one noisy table: one to train on, one to test on, with unrelated errors.

A release gives unbiased cells ``y`` of covariance Σ: the noise's, which is known exactly, and the
sampling of the records, which under Poisson counts has the variance λ of each cell. With
``ω ~ N(0, Σ)`` drawn afresh and any γ > 0 ::

    train = y + √γ ω          cov(train, test) = Σ - Σ = 0
    test  = y - ω / √γ        E[train] = E[test] = E[y]

so that whatever labels l are learned from `train`, ``Σ_x test[x, l(x)] / N`` estimates without
optimism how often they are right on fresh records, for training on a table whose errors are
``1 + γ`` times as large (Oliveira, Lei and Tibshirani, "Unbiased risk estimation in the normal
means problem via coupled bootstrap techniques", 2021; data fission and data thinning are its
relatives).
With Gaussian errors the tables are independent and the estimate exactly unbiased; with discrete
Laplace noise they are uncorrelated, and near to it where leaves add up several cells.

Where no noise was added, whole counts are split by exact binomial thinning instead: every record
goes to `train` with probability ``1 / (1 + γ)``.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.mechanisms import Release
from mrf_matrix.mechanisms.least_squares import estimated_cells
from strategies.operators import Identity, RowSpaceError, check_allocation

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class NoisyCells:
    """A release's estimates of all cells.

    Attributes
    ----------
    release : Release
    values : ndarray of shape (n, k)
        Unbiased.
    noise : ndarray of shape (n,)
        Variance of the noise in each cell and class, exact.
    sampling : ndarray of shape (n, k)
        Estimated variance of each count as a sample.
    """

    release: Release
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
        draws = generator.normal(scale=np.sqrt(self.release.variance), size=shape)
        omega = _cells(self.release, draws)
        omega += np.sqrt(self.sampling) * generator.standard_normal(self.values.shape)
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
    n = release.matrix.shape[1]
    check_allocation("estimates of the cells", (n, 4 * release.n_classes))
    cells = Identity(n, release.sizes)
    try:
        values, noise = release.ask(cells), release.row_variances(cells)
    except RowSpaceError as error:
        raise RowSpaceError(
            f"release does not determine the single cells of its domain, on which forests are "
            f"scored without optimism: expected a release of cells, such as strategy='identity' "
            f"({error})"
        ) from error
    return NoisyCells(release, values, noise, _sampling_variances(values, noise))


def _cells(release: Release, answers: Array) -> Array:
    found = estimated_cells(release.mechanism.rounded.recovery, answers)
    assert found is not None  # the cells themselves were asked before
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
