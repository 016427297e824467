"""A public grid of predicted probabilities: which cell of a small table a test record counts in."""

from dataclasses import dataclass, replace

import numpy as np

from mrf_matrix.base.arrays import Array, Codes
from mrf_matrix.base.checks import whole_number
from mrf_matrix.base.shown import shown

MOST_BINS = 10_000  # finer ones hold nothing but noise
SAME = 1e-12  # distance below which a threshold is an edge


@dataclass(frozen=True, eq=False)
class ProbabilityGrid:
    """Bins of probability, and what a record in each cell says; no record is needed for it.

    A cell is a row and a column, the record's class. Of two classes a row is a bin of the
    probability p of the second, right where ``p > threshold`` says so. Of more, it is a bin of the
    largest probability, once for wrong labels and once for right ones. Either way one record is
    counted in one cell.
    """

    edges: Array  # (m + 1,): rising, from 0 or 1/k to 1; a bin holds its right edge
    n_classes: int  # classes k
    threshold: float | None  # an inner edge for two classes, else None

    @classmethod
    def of(cls, n_classes: int, n_bins: object, threshold: object) -> "ProbabilityGrid":
        r"""Return bins with one more edge where the threshold is none.

        Edges are :math:`\sin^2(\pi b / 2m)`, rounded to four digits: a share of records seen in a
        bin has about the same error in each of them, and bins are narrow where outcomes are rare.

        Raises ValueError if a number is out of range, or there is a threshold for more than two
        classes.
        """
        bins = whole_number("n_bins", n_bins, least=2, most=MOST_BINS)
        if n_classes < 2:
            raise ValueError("model has one class: expected at least two, or nothing is told.")
        if n_classes > 2:
            if threshold is not None:
                raise ValueError(
                    f"threshold={shown(threshold)} with {n_classes} classes: expected None, for a "
                    f"threshold is of two classes."
                )
            return cls(_edges(1 / n_classes, bins), n_classes, None)
        cut = 0.5 if threshold is None else checked_threshold(threshold)
        edges = _edges(0.0, bins)
        if not np.isclose(edges, cut, rtol=0, atol=SAME).any():
            edges = np.union1d(edges, cut)
        return cls(edges, n_classes, None).at(cut)

    def at(self, threshold: object) -> "ProbabilityGrid":
        """Return the same bins with another of their edges as threshold."""
        inner = self.edges[1:-1]
        cut = checked_threshold(threshold)
        if self.n_classes > 2:
            raise ValueError(f"threshold={cut:g} with {self.n_classes} classes: expected two.")
        nearest = float(inner[np.abs(inner - cut).argmin()])
        if abs(nearest - cut) > SAME:
            raise ValueError(
                f"threshold={cut:g}: expected an inner edge of the grid, which was fixed before "
                f"the measurement; the nearest is {nearest:g}."
            )
        return replace(self, threshold=nearest)

    @property
    def n_rows(self) -> int:
        """Rows of the table: m of two classes, 2 m of more."""
        return (len(self.edges) - 1) * (1 if self.n_classes == 2 else 2)

    @property
    def midpoints(self) -> Array:
        """The probability that each bin stands for, shape (m,)."""
        return np.asarray((self.edges[1:] + self.edges[:-1]) / 2, dtype=np.float64)

    def rows(self, shares: Array, labels: Codes) -> Codes:
        """Return the row of every record, shape (N,), from probabilities (N, k) and classes."""
        scores = shares[:, 1] if self.n_classes == 2 else shares.max(axis=1)
        found = np.searchsorted(self.edges[1:-1], scores, side="left")
        if self.n_classes > 2:
            found = found + (len(self.edges) - 1) * (shares.argmax(axis=1) == labels)
        return found.astype(np.int32)

    @property
    def right(self) -> Array:
        """1 where a record's label is right, of each cell, shape (rows, k)."""
        if self.threshold is None:
            halves = np.repeat([0.0, 1.0], len(self.midpoints))
            return np.tile(halves[:, None], self.n_classes)
        positive = (self.midpoints > self.threshold).astype(np.float64)
        return np.column_stack([1 - positive, positive])

    @property
    def gaps(self) -> Array:
        """What happened less what was predicted, of each cell, shape (rows, k)."""
        if self.n_classes == 2:
            return np.array([0.0, 1.0]) - self.midpoints[:, None]
        return self.right - np.tile(self.midpoints, 2)[:, None]


def _edges(low: float, bins: int) -> Array:
    angles = np.linspace(0, np.pi / 2, bins + 1)
    return np.unique(np.round(low + (1 - low) * np.sin(angles) ** 2, 4))


def checked_threshold(threshold: object) -> float:
    """Return a probability between 0 and 1, or refuse."""
    if not isinstance(threshold, float | np.floating) or not 0 < threshold < 1:
        raise ValueError(f"threshold={shown(threshold)}: expected a number between 0 and 1.")
    return float(threshold)
