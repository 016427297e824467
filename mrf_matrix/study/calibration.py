"""Measures of predicted labels and probabilities: figures, reliability, and a public grid.

Of the
records whose label is predicted with a probability of about .8, four of five should have that
label. Confidence is the largest predicted probability of a record; bins divide [0, 1] equally.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from mrf_matrix.base.arrays import AnyInts, Array, Codes
from mrf_matrix.base.checks import short_repr, whole_number
from mrf_matrix.domain.columns import plain_array
from strategies.operators.base.validation import plain_floats

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


TOLERANCE = 1e-6


@dataclass(frozen=True, eq=False)
class Reliability:
    """Confidence and accuracy of each bin that has records.

    Attributes
    ----------
    confidence : ndarray of shape (m,)
        Mean confidence.
    accuracy : ndarray of shape (m,)
        Share of records with the predicted label.
    counts : ndarray of int, shape (m,)
        Records.
    """

    confidence: Array
    accuracy: Array
    counts: NDArray[np.int64]

    @property
    def error(self) -> float:
        """Expected calibration error."""
        gaps = np.abs(self.accuracy - self.confidence)
        return float((self.counts * gaps).sum() / self.counts.sum())


def reliability(
    y: object, proba: object, n_bins: int = 15, *, classes: object = None
) -> Reliability:
    """Return confidence and accuracy by bins of confidence.

    Parameters
    ----------
    y : array of shape (b,)
        The records' classes.
    proba : array of shape (b, k)
        Predicted probabilities; rows sum to 1. Of equal ones the first counts as predicted.
    n_bins : int, default=15
        Equal bins of [0, 1].
    classes : array of shape (k,), optional
        The class of each column, such as ``classifier.classes_``; 0 to k - 1 by default.

    Returns
    -------
    Reliability

    Raises
    ------
    ValueError
        If shapes do not fit, rows are no probabilities, or there is no record or bin.
    """
    shares = _probabilities(proba)
    truth = plain_array("y", y)
    names = np.arange(shares.shape[1]) if classes is None else np.asarray(classes)
    if truth.shape != shares.shape[:1] or names.shape != shares.shape[1:]:
        raise ValueError(
            f"y has shape {truth.shape} and classes {names.shape}: expected {shares.shape[:1]} and "
            f"{shares.shape[1:]}, for proba of shape {shares.shape}."
        )
    n_bins = whole_number("n_bins", n_bins, most=MOST_BINS)
    confidence = shares.max(axis=1)
    right = names[shares.argmax(axis=1)] == truth
    place = np.minimum((confidence * n_bins).astype(np.int64), n_bins - 1)
    counts = np.bincount(place, minlength=n_bins)
    there = counts > 0
    sums = (np.bincount(place, weights=w, minlength=n_bins) for w in (confidence, right))
    mean_confidence, accuracy = (total[there] / counts[there] for total in sums)
    return Reliability(mean_confidence, accuracy, counts[there])


def expected_calibration_error(
    y: object, proba: object, n_bins: int = 15, *, classes: object = None
) -> float:
    r"""Return the mean gap between confidence and accuracy.

    .. math::

        \mathrm{ECE} = \sum_{m} \frac{|B_m|}{b}\,
            \bigl| \operatorname{accuracy}(B_m) - \operatorname{confidence}(B_m) \bigr|,

    the bins :math:`B_m` dividing confidence equally (Naeini, Cooper and Hauskrecht, 2015). With few
    records a bin, chance alone makes it larger than 0.

    Parameters
    ----------
    y, proba, n_bins, classes
        See `reliability`.

    Returns
    -------
    float
        Between 0 and 1.

    Raises
    ------
    ValueError
        See `reliability`.

    Examples
    --------
    >>> sure = [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]
    >>> expected_calibration_error([0, 1, 1, 1], sure)
    0.25
    """
    return reliability(y, proba, n_bins, classes=classes).error


def _probabilities(proba: object) -> Array:
    shares = plain_floats("proba", proba)
    if shares.ndim != 2 or 0 in shares.shape:
        raise ValueError(
            f"proba has shape {shares.shape}: expected (records, classes), at least one of each, "
            f"as from predict_proba."
        )
    sums = shares.sum(axis=1)
    if not (bool((shares >= -TOLERANCE).all()) and bool((np.abs(sums - 1) <= TOLERANCE).all())):
        raise ValueError("proba: expected probabilities, rows of which sum to 1.")
    return shares


METRICS = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "auc": "AUC",
    "log_loss": "log-loss",
    "brier": "Brier score",
    "calibration": "calibration error (ECE)",
}
"""Names for programs and for people; the last four are of probabilities."""

SMALLER_IS_BETTER = ("log_loss", "brier", "calibration")
PERCENT = ("accuracy", "balanced_accuracy")  # those that tables give in percent


def all_metrics(
    labels: AnyInts, predicted: AnyInts, shares: Array | None
) -> dict[str, float | None]:
    """Return every figure of `METRICS`, None where it is not defined.

    Balanced accuracy is the mean recall of the classes among the labels. The AUC of more than two
    classes is the mean of one class against the rest; it needs every class among the labels. The
    Brier score is the mean squared distance of the probabilities from what happened, halved for
    two classes.

    `labels`, `predicted`: (b,), codes of the classes, and of the predicted ones; `shares`: (b, k),
    probability of each class; None for a method that gives none.

    >>> truth = np.array([0, 0, 0, 1])
    >>> found = all_metrics(truth, np.zeros(4, int), np.tile([0.75, 0.25], (4, 1)))
    >>> found["accuracy"], found["balanced_accuracy"], found["auc"], found["brier"]
    (0.75, 0.5, 0.5, 0.1875)
    """
    present, sizes = np.unique(labels, return_counts=True)
    found: dict[str, float | None] = dict.fromkeys(METRICS)
    right = predicted == labels
    found["accuracy"] = float(np.mean(right))
    found["balanced_accuracy"] = float(np.mean([right[labels == one].mean() for one in present]))
    if shares is None:
        return found
    k = shares.shape[1]
    distances = ((shares - np.eye(k)[labels]) ** 2).sum(axis=1)
    found["brier"] = float(distances.mean()) / (2 if k == 2 else 1)
    found["calibration"] = expected_calibration_error(labels, shares)
    if k > 1:
        least = np.finfo(np.float64).eps
        own = np.clip(shares[np.arange(len(labels)), labels], least, 1 - least)
        found["log_loss"] = float(-np.log(own).mean())
    if len(present) == k > 1:
        found["auc"] = float(_auc_by_class(labels, shares, sizes)[k == 2 :].mean())
    return found


def _auc_by_class(labels: AnyInts, shares: Array, sizes: AnyInts) -> Array:
    """Return each class's area under the ROC curve against the rest, (k,): Mann and Whitney's U.

    `sizes`: records of each class. scikit-learn's curves took an eighth of a comparison's time.
    """
    ranks = rankdata(shares, axis=0)  # ties share their mean rank
    own = np.array([ranks[labels == one, one].sum() for one in range(len(sizes))])
    return np.asarray((own - sizes * (sizes + 1) / 2) / (sizes * (len(labels) - sizes)))
