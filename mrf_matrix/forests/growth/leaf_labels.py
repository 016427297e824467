"""Leaf labels from class counts: softmax(B₃ P / 2), privately or not."""

from fractions import Fraction
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.arrays import Longs
from mrf_matrix.base.checks import shown
from mrf_matrix.forests.growth.level import choose_rows
from mrf_matrix.forests.growth.private import GRID
from mrf_matrix.mechanisms.selection import LARGEST_GAP, Bits, Rate, select

LabelScore = Literal["share", "count"]
LABEL_SCORES: tuple[str, ...] = get_args(LabelScore)


def public_labels(counts: NDArray[Any], b3: float, generator: np.random.Generator) -> Longs:
    """Draw each leaf's label from ``softmax(b3 P / 2)``, P its class shares, without privacy.

    ``b3 = inf`` is the majority, ties at random; a leaf without points is labelled uniformly.

    `counts` (o, k); `b3`: from 0 to infinity.

    Of shape (o,).
    """
    counts = np.asarray(counts)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    # choose_rows scales scores to [0, 1] by their own range: hand the range back through B
    spread = shares.max(axis=1) - shares.min(axis=1)
    with np.errstate(invalid="ignore"):
        sharpness = np.where(spread > 0, b3 * np.where(spread > 0, spread, 1.0), 0.0)
    return choose_rows(shares.T, sharpness, generator.random(len(counts)))


def label_gaps(counts: NDArray[Any], score: LabelScore) -> Longs:
    """Return how far every public class is behind, as integers, (k, o).

    *share* (Bai et al.): class shares on a grid of 1/4096, all 0 in a leaf without points; one
    record moves them by at most 1. *count*: class counts; one record more moves one of them up
    by 1.
    """
    table = np.asarray(counts).T.astype(np.int64)
    if score == "share":
        n = np.maximum(table.sum(axis=0), 1)
        table = table * GRID // n
    return np.asarray(table.max(axis=0) - table)


def label_rate(epsilon: Fraction | float, score: LabelScore) -> Rate:
    """Return the rate at which a leaf's label is ε-DP under add/remove neighbours.

    Shares have sensitivity 1 and move both ways: ``exp(ε share / 2)``. Counts move up only:
    ``exp(ε count)``.
    """
    if epsilon == float("inf"):
        return Rate(None)
    if score == "share":
        return Rate.below(Fraction(epsilon) / (2 * GRID), GRID)
    return Rate.below(Fraction(epsilon), LARGEST_GAP)


def check_label_score(score: object) -> None:
    """Refuse an unknown score of labels.

    Raises ValueError.
    """
    if score not in LABEL_SCORES:
        raise ValueError(
            f"label_score={shown(score)}: expected one of {', '.join(map(repr, LABEL_SCORES))}."
        )


def private_labels(
    counts: NDArray[Any], epsilon: Fraction | float, score: LabelScore, bits: Bits
) -> Longs:
    """Choose every leaf's label among all public classes by the exponential mechanism.

    The leaves of one tree hold different records, so one tree spends ε.
    """
    check_label_score(score)
    gaps = label_gaps(counts, score)
    return select(gaps, np.ones(gaps.shape, dtype=np.bool_), label_rate(epsilon, score), bits)


def right_by_codes(counts: Longs) -> int:
    """Return how many records are right if each cell says its largest class: a monotone count.

    `counts` (cells, k).

    Examples
    --------
    >>> import numpy as np
    >>> right_by_codes(np.array([[3, 1], [0, 2]]))
    5
    """
    return int(counts.max(axis=1, initial=0).sum())
