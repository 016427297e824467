r"""A public grid of probabilities, and figures of a table of counts over it, under known noise.

All are of the forecast whose probabilities are rounded to the midpoints of their bins, so that a
table without noise gives just what scikit-learn gives of that forecast.

Intervals are from draws of the table's noise law. With ``m`` the figure of the noisy table, a draw
``z`` shows the error ``m(y + z) - m(y)``, whose quantiles are turned about ``m(y)`` (basic
bootstrap). The calibration error is a sum of absolute values, which noise raises; there
``|S| <= |S + z| ± z`` and ``|S + z| <= |S| + |z|`` bin by bin give an interval whatever S is.
"""

from dataclasses import dataclass, replace

import numpy as np

from mrf_matrix.base.arrays import Array, Codes
from mrf_matrix.base.checks import short_repr, whole_number
from mrf_matrix.mechanisms import NoiseLaw
from mrf_matrix.study.calibration import MOST_BINS
from strategies.operators import check_allocation

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
                    f"threshold={short_repr(threshold)} with {n_classes} classes: expected None, "
                    f"for a threshold is of two classes."
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
    def correct(self) -> Array:
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
        return self.correct - np.tile(self.midpoints, 2)[:, None]


def _edges(low: float, bins: int) -> Array:
    angles = np.linspace(0, np.pi / 2, bins + 1)
    return np.unique(np.round(low + (1 - low) * np.sin(angles) ** 2, 4))


def checked_threshold(threshold: object) -> float:
    """Return a probability between 0 and 1, or refuse."""
    if not isinstance(threshold, float | np.floating) or not 0 < threshold < 1:
        raise ValueError(f"threshold={short_repr(threshold)}: expected a number between 0 and 1.")
    return float(threshold)


# Figures -----------------------------------------------------------------------------------------


DRAWS = 2000  # draws of the noise behind an interval

CLEAR = 8.0  # standard deviations of noise above which a number of records may be divided by

Terms = list[tuple[Array, Array]]
"""Numerators and denominators over the cells; a figure is the mean of their ratios."""


@dataclass(frozen=True)
class Figure:
    """A figure, its interval for the noise alone, and the standard error of sampling records.

    All are None where too few records are seen through the noise.
    """

    value: float | None
    low: float | None
    high: float | None
    sampling_error: float | None


UNKNOWN_FIGURE = Figure(None, None, None, None)


def figures(table: Array, law: NoiseLaw, grid: ProbabilityGrid, level: float) -> dict[str, Figure]:
    """Return every figure of a noisy table of shape (rows, k).

    AUC, log-loss, Brier score, and recall and precision of the second class are of two classes.
    """
    check_allocation("draws of the noise", (DRAWS, *table.shape))
    drawn = law.research((DRAWS, *table.shape), np.random.default_rng(0)).astype(np.float64)
    found = {
        name: _ratio_figure(table, drawn, terms, law, level)
        for name, terms in _ratios(grid).items()
    }
    if grid.n_classes == 2:
        found["auc"] = _auc_figure(table, drawn, law, level)
    found["calibration"] = _calibration(table, drawn, grid, law, level)
    return {name: _clip_figure(found[name], name) for name in ORDER if name in found}


ORDER = (
    "accuracy", "balanced_accuracy", "auc", "log_loss", "brier", "calibration", "recall",
    "precision",
)  # fmt: skip


def grid_error(table: Array) -> float:
    """Return how far the AUC of the probabilities themselves can be from that of their bins.

    Pairs in one bin count half: they may all be in order, or none.
    """
    no, yes = table.T
    return float(abs(no @ yes) / (2 * no.sum() * yes.sum()))


def _ratios(grid: ProbabilityGrid) -> dict[str, Terms]:
    right, ones = grid.correct, np.ones((grid.n_rows, grid.n_classes))
    columns = [ones * row for row in np.eye(grid.n_classes)]
    found = {
        "accuracy": [(right, ones)],
        "balanced_accuracy": [(right * column, column) for column in columns],
    }
    if grid.n_classes == 2:
        hits, distance = right * columns[1], np.abs(grid.gaps)
        found["brier"] = [(distance**2, ones)]
        found["log_loss"] = [(-np.log1p(-distance), ones)]
        found["recall"] = [(hits, columns[1])]
        found["precision"] = [(hits, np.repeat(right[:, 1:], 2, axis=1))]
    return found


def _is_clear(table: Array, cells: Array, law: NoiseLaw) -> bool:
    """Tell whether the number of records in some cells stands clear of its noise."""
    records = float((table * cells).sum())
    return records > 0 and records > CLEAR * np.sqrt(law.variance * float((cells**2).sum()))


def _sums(tables: Array, cells: Array) -> Array:
    return np.asarray(np.tensordot(tables, cells, axes=2), dtype=np.float64)


def _ratio_figure(table: Array, drawn: Array, terms: Terms, law: NoiseLaw, level: float) -> Figure:
    if not all(_is_clear(table, below, law) for _, below in terms):
        return UNKNOWN_FIGURE
    noisy = table + drawn
    influence, value, values = np.zeros_like(table), 0.0, np.zeros(len(drawn))
    for above, below in terms:
        ratio = float(_sums(table, above) / _sums(table, below))
        influence += (above - ratio * below) / _sums(table, below)
        value += ratio
        values += _sums(noisy, above) / _sums(noisy, below)
    n = len(terms)
    return _basic_bootstrap(value / n, values / n, _sampling_error(table, influence / n), level)


def _auc(tables: Array) -> Array:
    """Return the share of pairs in order, pairs of one bin counting half, of tables (..., m, 2)."""
    no, yes = tables[..., 0], tables[..., 1]
    below = no.cumsum(axis=-1) - no / 2
    return np.asarray((yes * below).sum(-1) / (no.sum(-1) * yes.sum(-1)), dtype=np.float64)


def _auc_figure(table: Array, drawn: Array, law: NoiseLaw, level: float) -> Figure:
    columns = [np.ones_like(table) * row for row in np.eye(2)]
    if not all(_is_clear(table, column, law) for column in columns):
        return UNKNOWN_FIGURE
    value = float(_auc(table))
    no, yes = table.T
    below = (no.cumsum() - no / 2) / no.sum()
    above = 1 - (yes.cumsum() - yes / 2) / yes.sum()
    influence = np.column_stack([(above - value) / no.sum(), (below - value) / yes.sum()])
    return _basic_bootstrap(value, _auc(table + drawn), _sampling_error(table, influence), level)


def _calibration(
    table: Array, drawn: Array, grid: ProbabilityGrid, law: NoiseLaw, level: float
) -> Figure:
    ones = np.ones_like(table)
    if not _is_clear(table, ones, law):
        return UNKNOWN_FIGURE
    sums, noise = _bin_sums(table, grid), _bin_sums(drawn, grid)
    records = float(table.sum())
    value = float(np.abs(sums).sum()) / records
    tail = (1 + level) / 2
    low = value - float(np.quantile(np.abs(noise).sum(axis=-1), tail)) / records
    high = value + float(np.quantile(noise.sum(axis=-1), tail)) / records
    signs = np.tile(np.sign(sums), grid.n_rows // len(sums))[:, None]
    influence = (signs * grid.gaps - value) / records
    return Figure(value, low, high, _sampling_error(table, influence))


def _bin_sums(tables: Array, grid: ProbabilityGrid) -> Array:
    by_row = (tables * grid.gaps).sum(axis=-1)
    return np.asarray(by_row.reshape(*by_row.shape[:-1], -1, len(grid.midpoints)).sum(axis=-2))


def _basic_bootstrap(value: float, values: Array, sampling: float, level: float) -> Figure:
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return Figure(value, 2 * value - float(high), 2 * value - float(low), sampling)


def _sampling_error(table: Array, influence: Array) -> float:
    """Return the standard error of a figure from its change by one record (delta method)."""
    return float(np.sqrt((np.maximum(table, 0) * influence**2).sum()))


def _clip_figure(figure: Figure, name: str) -> Figure:
    top = np.inf if name == "log_loss" else 1.0
    if figure.value is None or figure.low is None or figure.high is None:
        return figure
    value, low, high = np.clip([figure.value, figure.low, figure.high], 0, top).tolist()
    return Figure(value, low, high, figure.sampling_error)
