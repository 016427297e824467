"""Scores of public split candidates, as integer gaps whose sensitivity is exact.

*normalized* (Bai et al., 2021). A node's scores are scaled to [0, 1] by their own minimum and
maximum, and rounded to a grid of 1/4096. Whatever the records, a gap lies between 0 and 4096: so
one record more or less moves each by at most 4096 (and that much is possible: a node whose
scores were all equal, where every gap is 0 by definition, may get gaps of 4096). Hence
``exp(-B gap / (2 * 4096))`` is B-DP: weights change by a factor of at most ``exp(B/2)``, and so
does their sum. The bound needs no property of the floating-point scores behind the grid.

*majority* (the "max operator" of Friedman and Schuster, 2010). The score is the number of records
that their side's majority class labels right: an integer that one more record moves by 0 or 1,
never down. Weights ``exp(B score)`` then change by a factor in [1, exp(B)], and so does their
sum, so the choice is B-DP without the half. The scale is records, not shares: the signal grows
with the node.
"""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.arrays import Array, Bools, Longs
from mrf_matrix.forests.growth.growth import Impurity
from mrf_matrix.mechanisms.selection.exponential import LARGEST_GAP, Rate

Score = Literal["normalized", "majority"]
SCORES: tuple[str, ...] = get_args(Score)

GRID = 4096  # steps of a normalised score


@dataclass(frozen=True)
class PrivateScore:
    """How public candidates are scored, and the rate that spends a budget."""

    kind: Score = "normalized"
    impurity: Impurity = field(default_factory=Impurity)  # only for "normalized"

    def __post_init__(self) -> None:
        if self.kind not in SCORES:
            raise ValueError(
                f"score={self.kind!r}: expected one of {', '.join(map(repr, SCORES))}."
            )

    def rate(self, epsilon: Fraction | float) -> Rate:
        """Return the rate at which one choice spends ε under add/remove neighbours."""
        if epsilon == float("inf"):
            return Rate(None)
        if self.kind == "normalized":
            return Rate.below(Fraction(epsilon) / (2 * GRID), GRID)
        return Rate.below(Fraction(epsilon), LARGEST_GAP)

    def of(self, left: NDArray[Any], right: NDArray[Any]) -> Array:
        """Return raw scores from class counts (..., k) on both sides of a cut."""
        if self.kind == "normalized":
            return self.impurity.decrease(left, right)
        return np.asarray(left.max(axis=-1) + right.max(axis=-1), dtype=np.float64)

    def gaps(self, scores: Array, options: Bools) -> Longs:
        """Return how far each option is behind, as integers; (options, nodes) as given."""
        high = np.where(options, scores, -np.inf).max(axis=0, initial=-np.inf)
        high = np.where(np.isfinite(high), high, 0.0)
        if self.kind == "majority":
            return (high - np.where(options, scores, high)).astype(np.int64)
        low = np.where(options, scores, np.inf).min(axis=0, initial=np.inf)
        spread = np.where(high > low, high - low, 1.0)
        scored = np.where(options & (high > low), scores, high)
        share = (high - scored) / spread
        return np.asarray(np.clip(np.floor(share * GRID), 0, GRID), dtype=np.int64)
