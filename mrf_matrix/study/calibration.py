"""Measures of predicted labels and probabilities: figures and reliability.

Of the records whose label is predicted with a probability of about .8, four of five should have
that label. Confidence is the largest predicted probability of a record; bins divide [0, 1] equally.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from mrf_matrix.base.arrays import AnyInts, Array
from mrf_matrix.base.checks import whole_number
from mrf_matrix.domain.columns import plain_array
from strategies.operators.base.arrays import plain_floats

MOST_BINS = 10_000  # finer ones hold nothing but noise
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
