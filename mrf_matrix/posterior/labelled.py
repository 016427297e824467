r"""What labels of cells imply: shares of all classes, which are the same in every cell.

A cell that said class c has that class with probability :math:`q = E[p_c \mid c]`, and each other
one with :math:`(1-q)/(k-1)`. Log odds of two classes are so a table of few attributes with three
values: one class was said, or the other, or neither.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mrf_matrix.base.arrays import AnyInts, Array, Longs

TINY = np.finfo(np.float64).tiny


@dataclass(frozen=True, eq=False)
class LabelEvidence:
    """Weighted draws of a cell's class shares, that of the class which it says first.

    Attributes
    ----------
    shares : ndarray of shape (draws, k)
    weights : ndarray of shape (draws,)
        They sum to one.
    """

    shares: Array
    weights: Array

    @cached_property
    def right(self) -> float:
        """Expected share of the class that is said, ``q``."""
        return float(self.weights @ self.shares[:, 0])

    @property
    def probabilities(self) -> Array:
        """Expected shares: of the class that is said, then of the others; shape (k,)."""
        others = self.shares.shape[1] - 1
        return np.array([self.right, *[(1 - self.right) / others] * others])

    @property
    def log_odds(self) -> float:
        """Log odds of the class that is said against another one."""
        first, second, *_ = self.probabilities
        return float(np.log(first) - np.log(second))

    @cached_property
    def deviations(self) -> tuple[float, float]:
        """Root mean squares of log odds around `log_odds`, and of two others' around 0."""
        logs = np.log(np.maximum(self.shares, TINY))
        first = logs[:, 0] - logs[:, 1] - self.log_odds
        others = logs[:, 1] - logs[:, -1]
        return float(np.sqrt(self.weights @ first**2)), float(np.sqrt(self.weights @ others**2))

    def half_width(self, level: float) -> float:
        """Return how far the log odds of the class said against the next are from `log_odds`.

        So far they are, at most, with probability `level`.
        """
        logs = np.log(np.maximum(self.shares, TINY))
        away = np.abs(logs[:, 0] - logs[:, 1:].max(axis=1) - self.log_odds)
        order = np.argsort(away)
        reached = np.searchsorted(np.cumsum(self.weights[order]), level)
        return float(away[order[min(int(reached), len(order) - 1)]])


@dataclass(frozen=True, eq=False)
class LabelPosterior:
    """The label of every cell of a table over few attributes, and what a label says.

    Attributes
    ----------
    attributes : tuple of int
    places : tuple of ndarrays of int64
        For each code of each attribute, its row in the table.
    labels : ndarray of int64
        Of the cells, an axis for each attribute.
    evidence : LabelEvidence
    """

    attributes: tuple[int, ...]
    places: tuple[Longs, ...]
    labels: Longs
    evidence: LabelEvidence

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return int(self.evidence.shares.shape[1])

    def labels_at(self, codes: AnyInts) -> Longs:
        """Return the label of each record's cell, shape (b,)."""
        places = tuple(
            place[codes[:, i]] for i, place in zip(self.attributes, self.places, strict=True)
        )
        return np.asarray(self.labels[places])

    def probabilities(self, codes: AnyInts) -> Array:
        """Return class probabilities, shape (b, k)."""
        right, other = self.evidence.probabilities[:2]
        shares = np.full((len(codes), self.n_classes), other)
        shares[np.arange(len(codes)), self.labels_at(codes)] = right
        return shares

    def log_odds(self, one: int, other: int) -> tuple[Array, Array]:
        """Return log odds of class `one` against `other` in each cell, and their deviations."""
        of_label, of_others = self.evidence.deviations
        signs = (self.labels == one).astype(np.int64) - (self.labels == other)
        return signs * self.evidence.log_odds, np.where(signs == 0, of_others, of_label)

    def __repr__(self) -> str:
        return (
            f"LabelPosterior(labels by attributes {list(self.attributes)}, "
            f"labels right with probability {self.evidence.right:.3g})"
        )
