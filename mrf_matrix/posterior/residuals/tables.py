"""Estimates from the two kinds of plain tables that a residual forest starts with."""

from math import log

import numpy as np

from mrf_matrix.base.arrays import Array

LEAST_SHARE = 0.01  # no class is taken to be rarer

USUAL_LEAN, LARGEST_LEAN = 0.15, 0.3
"""Usual distance of a class's share from one half, and the largest that is thought usual."""

LEAST_OF_FAIR = 0.1
"""No code is taken to be rarer than this part of a fair share divided by the number of codes."""


def estimated_total(totals: Array, n_records: int | None) -> float:
    """Return the number of records: the public one, or what noisy class totals say, at least 1."""
    return float(n_records) if n_records is not None else max(float(totals.sum()), 1.0)


def intercept(totals: Array, variance: float, n_records: float) -> tuple[float, float]:
    """Return the log odds of class 1 and what is unknown of them, from noisy class totals.

    The share's distance from one half is shrunk by the noise it may be made of.

    Parameters
    ----------
    totals : ndarray of shape (2,)
    variance : float
        Of the noise on each total.
    n_records : float
        Public, or estimated.
    """
    lean, unknown = (totals[1] - totals[0]) / 2, variance / 2
    usual, largest = (USUAL_LEAN * n_records) ** 2, (LARGEST_LEAN * n_records) ** 2
    signal = min(max(lean**2 - unknown, usual), largest)
    share = 0.5 + lean * signal / (signal + unknown) / n_records
    share = float(np.clip(share, LEAST_SHARE, 1 - LEAST_SHARE))
    slope = n_records * share * (1 - share)
    return log(share / (1 - share)), min(unknown / slope**2, 0.5) + 1e-3


def intercepts(totals: Array, variance: float, n_records: float) -> tuple[Array, Array]:
    """Return the scores of several classes and what is unknown of each, from noisy class totals.

    `totals` (k,); `variance`: of the noise on each; `n_records`: public, or estimated.
    """
    shares = margin(totals, variance, n_records)
    return np.log(shares), np.minimum(variance / (n_records * shares) ** 2, 0.5) + 1e-3


def shrunk_counts(counts: Array, expected: Array, variance: float) -> Array:
    """Return noisy counts, shrunk toward expected ones as far as noise explains the distance.

    Parameters
    ----------
    counts, expected : ndarray of shape (n,)
    variance : float
        Of the noise on each count.
    """
    gaps = counts - expected
    signal = max(float(np.mean(gaps**2)) - variance, 0.0)
    return expected + gaps * (signal / (signal + variance) if signal else 0.0)


def margin(counts: Array, variance: float, n_records: float) -> Array:
    """Return the shares of an attribute's codes from noisy counts; positive, summing to one."""
    fair = np.full(len(counts), n_records / len(counts))
    centred = counts + (n_records - counts.sum()) / len(counts)
    kept = shrunk_counts(centred, fair, variance)
    positive = np.maximum(kept, LEAST_OF_FAIR * fair / len(counts))
    return np.asarray(positive / positive.sum())
