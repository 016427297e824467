"""What a study says of labels and probabilities on test records: scikit-learn's figures by name."""

import numpy as np
from sklearn.metrics import log_loss, recall_score, roc_auc_score

from mrf_matrix.base.arrays import AnyInts, Array
from mrf_matrix.study.calibration import expected_calibration_error

METRICS = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "auc": "AUC",
    "log_loss": "log-loss",
    "brier": "Brier score",
    "calibration": "calibration error (ECE)",
}
"""Names for programs and for people; the last four are of probabilities."""

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
    present = np.unique(labels)
    found: dict[str, float | None] = dict.fromkeys(METRICS)
    found["accuracy"] = float(np.mean(predicted == labels))
    found["balanced_accuracy"] = float(
        recall_score(labels, predicted, labels=present, average="macro")
    )
    if shares is None:
        return found
    k = shares.shape[1]
    distances = ((shares - np.eye(k)[labels]) ** 2).sum(axis=1)
    found["brier"] = float(distances.mean()) / (2 if k == 2 else 1)
    found["calibration"] = expected_calibration_error(labels, shares)
    if k > 1:
        found["log_loss"] = float(log_loss(labels, shares, labels=np.arange(k)))
    if len(present) == k > 1:
        scores = shares[:, 1] if k == 2 else shares
        found["auc"] = float(roc_auc_score(labels, scores, multi_class="ovr"))
    return found
