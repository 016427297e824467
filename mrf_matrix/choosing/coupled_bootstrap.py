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

from mrf_matrix.choosing.cell_recovery import CellRecovery
from mrf_matrix.mechanisms import Release

Array = NDArray[np.float64]

TOLD = 3.0
"""Standard errors above zero from which a number of records can be divided by."""


@dataclass(frozen=True, eq=False)
class NoisyCells:
    """A release's estimates of all cells, or of the groups of cells that it tells apart.

    Attributes
    ----------
    release : Release
    recovery : CellRecovery
        How they are recovered from the answers, and their noise.
    values : ndarray of shape (n, k)
        Unbiased.
    sampling : ndarray of shape (n, k)
        Estimated variance of each count as a sample.
    """

    release: Release
    recovery: CellRecovery
    values: Array
    sampling: Array

    @classmethod
    def of(cls, recovery: CellRecovery, release: Release) -> "NoisyCells":
        """Return the cells of a release that was made by the recovery's mechanism."""
        values = recovery.cells(release.answers.astype(np.float64))
        if release.noise == "none":
            values = np.rint(values)
        return cls(release, recovery, values, _sampling_variances(values, recovery.noise))

    def n_records(self) -> tuple[float, float]:
        """Return the number of records by the release, and the standard error of its noise."""
        return float(self.values.sum()), float(np.sqrt(self.recovery.noise_of_total))

    def tells_n_records(self) -> bool:
        """Tell whether the number of records stands clear of its noise, so as to divide by it."""
        number, error = self.n_records()
        return number >= max(1.0, TOLD * error)

    def variance_of_sum(self, noisy: Array, drawn: Array) -> float:
        """Return the variance of a sum of cells: of its noise, and of the records as a sample.

        Noise counts with all its covariances, see `mrf_matrix.choosing.cell_recovery`.

        Parameters
        ----------
        noisy, drawn : ndarray of shape (n, k)
            Weights of the cells against either.
        """
        noise = self.recovery.noise_of_sums(noisy).sum()
        return float(noise + (drawn**2 * self.sampling).sum())

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
        omega = self.recovery.cells(draws) + sample
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
    return NoisyCells.of(recovery_of(release), release)


def recovery_of(release: Any) -> CellRecovery:
    """Return how a release's cells are recovered; it refuses what `noisy_cells` does."""
    if not isinstance(release, Release):
        raise TypeError(
            f"release is of type {type(release).__name__}: expected a Release, from measure(...)."
        )
    return CellRecovery.of(release.mechanism, release.sizes, release.n_classes)


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
