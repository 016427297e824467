"""Noisy tables of disjoint blocks of attributes: what a forest of whole-block trees measures."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from mrf_matrix.base.arrays import Array, plain_floats


@dataclass(frozen=True, eq=False)
class BlockTable:
    """Noisy counts of every combination of a block's codes, in each class.

    Parameters
    ----------
    attributes : tuple of int
        Positions of the block's attributes in the domain.
    sizes : tuple of int
        Their numbers of codes. Cells are numbered with the last attribute running fastest.
    values : ndarray of shape (n_B, k)
        Unbiased estimates of the counts.
    variance : float
        Known noise variance of each entry, in records squared; 0 for exact counts.

    Raises
    ------
    ValueError
        If the shapes do not fit, a value is not finite, or the variance is negative.
    """

    attributes: tuple[int, ...]
    sizes: tuple[int, ...]
    values: Array
    variance: float

    def __post_init__(self) -> None:
        values = plain_floats("values", self.values)
        if len(self.sizes) != len(self.attributes) or values.ndim != 2:
            raise ValueError(
                f"a block of attributes {self.attributes} has sizes {self.sizes} and values of "
                f"shape {values.shape}: expected a size each, and values of shape (cells, k)."
            )
        if len(values) != prod(self.sizes):
            raise ValueError(
                f"values has {len(values)} rows: expected {prod(self.sizes)}, a row for each cell "
                f"of sizes {self.sizes}."
            )
        if not np.isfinite(values).all():
            raise ValueError("values holds NaN or infinity: expected finite numbers.")
        if not 0 <= self.variance < np.inf:
            raise ValueError(f"variance={self.variance!r}: expected a finite non-negative number.")
        object.__setattr__(self, "values", values)

    @property
    def n_cells(self) -> int:
        """Number of cells n_B."""
        return len(self.values)

    @property
    def n_classes(self) -> int:
        """Number of classes k."""
        return int(self.values.shape[1])

    @property
    def totals(self) -> Array:
        """Class totals by this block alone, of variance ``n_B * variance`` each, shape (k,)."""
        return np.asarray(self.values.sum(axis=0))

    def cells(self, codes: NDArray[np.integer[Any]]) -> NDArray[np.intp]:
        """Return the cells of records given by the codes of all the domain's attributes, (b,)."""
        cells = np.zeros(len(codes), dtype=np.intp)
        for attribute, size in zip(self.attributes, self.sizes, strict=True):
            cells *= size
            cells += codes[:, attribute]
        return cells

    def codes(self) -> NDArray[np.intp]:
        """Return every cell's code of each attribute of the block, shape (n_B, m)."""
        return np.stack(np.unravel_index(np.arange(self.n_cells), self.sizes), axis=1)


def check_blocks(tables: Sequence[BlockTable], n_classes: int) -> None:
    """Refuse blocks that share an attribute, or count other classes.

    Raises ValueError if they do.
    """
    seen = [i for table in tables for i in table.attributes]
    if len(seen) != len(set(seen)):
        raise ValueError(f"blocks of attributes {seen} overlap: expected each attribute once.")
    for table in tables:
        if table.n_classes != n_classes:
            raise ValueError(
                f"block {table.attributes} counts {table.n_classes} classes: expected {n_classes}."
            )


CERTAIN = 30.0  # standard errors above zero from which a total needs no correction

USUAL_SPREAD = 0.5
"""Spread of class totals around their mean, relative to it, that is taken as usual."""

LEAST_SHARE = 0.01
"""Least share of a class under noise; without noise, least total of a class that has none."""

LEAST_OF_MEAN = 0.5
"""Least total of a class relative to the mean of all: counts where there are many classes."""

LEAST_TOTAL = 5.0


@dataclass(frozen=True, eq=False)
class ClassTotals:
    """How many records each class has, as far as a release tells.

    Attributes
    ----------
    values : ndarray of shape (k,)
        Positive.
    error : float
        Standard error of the unbiased estimates behind them, in records.
    """

    values: Array
    error: float

    @property
    def shares(self) -> Array:
        """Share of each class."""
        return np.asarray(self.values / self.values.sum())


def class_totals(tables: Sequence[BlockTable], measured: BlockTable | None = None) -> ClassTotals:
    """Combine every estimate of the class totals.

    Parameters
    ----------
    tables : sequence of BlockTable
        Each sums to the class totals.
    measured : BlockTable, optional
        The totals' own measurement: a block of no attributes.

    Returns
    -------
    ClassTotals
    """
    sources = [*tables, *([] if measured is None else [measured])]
    variances = np.array([table.n_cells * table.variance for table in sources])
    least = float(variances.min())
    weights = least / variances if least > 0 else (variances == 0).astype(np.float64)
    totals = np.stack([table.totals for table in sources])
    combined = weights @ totals / weights.sum()
    error = float(np.sqrt(least / weights.sum()))
    return ClassTotals(_plausible(combined, error), error)


def _plausible(totals: Array, error: float) -> Array:
    if error == 0:
        return np.maximum(totals, LEAST_SHARE)
    k = len(totals)
    mean = max(_positive(float(totals.sum()), error * np.sqrt(k)), LEAST_TOTAL) / k
    deviations = totals - totals.mean()
    if k > 1:
        estimate = (deviations**2).sum() / (k - 1) - error**2
        signal = max(min(estimate, (k - 1) * mean**2), (USUAL_SPREAD * mean) ** 2)
        deviations = deviations * signal / (signal + error**2)
    least = min(LEAST_SHARE * k, LEAST_OF_MEAN) * mean
    values = np.maximum(mean + deviations, least)
    return np.asarray(values * (k * mean / values.sum()))


def _positive(total: float, error: float) -> float:
    """Return the mean of a normal law of this mean and error, given that it is positive."""
    if total > CERTAIN * error:
        return total
    if total < -CERTAIN * error:
        return float(error**2 / -total)
    ratio = total / error
    return float(total + error * np.exp(norm.logpdf(ratio) - norm.logcdf(ratio)))
