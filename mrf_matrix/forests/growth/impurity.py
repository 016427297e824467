"""Impurity of a node: Gini or entropy, as sums over class counts.

Both are written with a function f of one class count, so that moving one record from right to
left changes two terms only, whatever the number of classes. With c the class counts of a node of
n records and ``F = sum_c f(c)``, ::

    gini      f(c) = c²         purity n (1 - T) = F / n
    entropy   f(c) = c ln c     purity    -n T   = F - n ln n

so that the impurity decrease of a split (equation 4 of Bai et al. 2021) is ::

    I = (purity(left) + purity(right) - purity(node)) / n
"""

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.arrays import Array
from mrf_matrix.base.shown import shown

Criterion = Literal["gini", "entropy"]

CRITERIA: tuple[str, ...] = get_args(Criterion)


@dataclass(frozen=True)
class Impurity:
    """Gini index or Shannon entropy (in nats).

    Raises ValueError if the criterion is unknown.

    >>> float(Impurity("gini").of(np.array([2, 2])))
    0.5
    """

    criterion: Criterion = "gini"

    def __post_init__(self) -> None:
        if self.criterion not in CRITERIA:
            raise ValueError(
                f"criterion={shown(self.criterion)}: expected one of "
                f"{', '.join(map(repr, CRITERIA))}."
            )

    def terms(self, counts: NDArray[Any]) -> Array:
        """Return f of each class count."""
        given = np.asarray(counts, dtype=np.float64)
        return given * given if self.criterion == "gini" else _x_log_x(given)

    def sums(self, left: Array, total: Array) -> tuple[Array, Array]:
        """Return ``sum f`` over axis 1 on the left and on the right of cuts.

        `left` (cuts, k, nodes); `total` (k, nodes).
        """
        if self.criterion != "gini":
            return self.terms(left).sum(axis=1), self.terms(total - left).sum(axis=1)
        squares = np.einsum("ikn,ikn->in", left, left)
        mixed = np.einsum("ikn,kn->in", left, total)
        return squares, squares - 2 * mixed + np.einsum("kn,kn->n", total, total)

    def purity(self, total: NDArray[Any], n: NDArray[Any]) -> Array:
        """Return ``F / n`` or ``F - n ln n`` of nodes with ``sum f = total``; 0 where n is 0."""
        if self.criterion == "gini":
            return np.asarray(total / np.maximum(n, 1))
        return np.asarray(total - _x_log_x(np.asarray(n, dtype=np.float64)))

    def of(self, counts: NDArray[Any]) -> Array:
        """Return the impurity T of nodes with these class counts (..., k); 0 for an empty node."""
        counts = np.asarray(counts)
        n = counts.sum(axis=-1)
        purity = self.purity(self.terms(counts).sum(axis=-1), n) / np.maximum(n, 1)
        return np.asarray(np.where(n > 0, 1.0 - purity if self.criterion == "gini" else -purity, 0))

    def decrease(self, left: NDArray[Any], right: NDArray[Any]) -> Array:
        """Return equation 4 from class counts (..., k) of both sides; 0 for an empty node."""
        left, right = np.asarray(left), np.asarray(right)
        both = left + right
        n = both.sum(axis=-1)
        gain = sum(
            sign * self.purity(self.terms(side).sum(axis=-1), side.sum(axis=-1))
            for sign, side in ((1.0, left), (1.0, right), (-1.0, both))
        )
        return np.asarray(gain / np.maximum(n, 1))


def _x_log_x(x: Array) -> Array:
    return np.asarray(x * np.log(np.maximum(x, 1.0)))
