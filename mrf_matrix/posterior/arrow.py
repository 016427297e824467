r"""Equations of terms that all classes share and of terms that each class has to itself.

The information of a block's model is an arrow: classes meet in the common terms only,

.. math::

    \begin{pmatrix} C & B_1^\top & \cdots & B_k^\top \\ B_1 & A_1 & & \\
        \vdots & & \ddots & \\ B_k & & & A_k \end{pmatrix}, \qquad
    S = C - \sum_c B_c^\top A_c^{-1} B_c .

With :math:`U_c = A_c^{-1} B_c`, blocks of its inverse are :math:`S^{-1}`, :math:`-U_c S^{-1}` and
:math:`[c = d] A_c^{-1} + U_c S^{-1} U_d^\top`: k small systems in place of one of all terms.
"""

from dataclasses import dataclass

import numpy as np

from mrf_matrix.base.arrays import Array


@dataclass(frozen=True, eq=False)
class Arrow:
    """A symmetric positive definite matrix of this shape: w own terms a class, P common ones."""

    common: Array  # (P, P): C
    cross: Array  # (k, w, P): each class's own terms against the common ones, B
    own: Array  # (k, w, w): A

    def solve(self, common: Array, own: Array) -> tuple[Array, Array]:
        """Return the solution for right-hand sides of shapes (P,) and (k, w), in these shapes."""
        sides = np.concatenate([self.cross, own[:, :, None]], axis=2)
        solved = np.linalg.solve(self.own, sides)
        slopes, alone = solved[:, :, :-1], solved[:, :, -1]
        left = self._left(slopes)
        found = np.linalg.solve(left, common - np.einsum("cwp,cw->p", self.cross, alone))
        return np.asarray(found), np.asarray(alone - slopes @ found)

    def inverse(self) -> "ArrowInverse":
        """Return the inverse, in its parts."""
        own = np.linalg.inv(self.own)
        slopes = own @ self.cross
        left = self._left(slopes)
        return ArrowInverse(np.asarray(np.linalg.inv(left)), np.asarray(slopes), np.asarray(own))

    def _left(self, slopes: Array) -> Array:
        """Return what is left of the common terms' precision, S: one product a class."""
        left = self.common.copy()
        for cross, slope in zip(self.cross, slopes, strict=True):
            left -= cross.T @ slope
        return left


@dataclass(frozen=True, eq=False)
class ArrowInverse:
    """The inverse of an `Arrow`: a covariance of common terms and of every class's own."""

    common: Array  # (P, P): covariance of the common terms
    slopes: Array  # (k, w, P): by which own terms fall where common ones rise, U
    alone: Array  # (k, w, w): covariance of own terms were the common ones known

    def own(self, terms: slice) -> Array:
        """Return the covariance of some own terms of each class, shape (k, n, n)."""
        slopes = self.slopes[:, terms]
        moved = slopes @ self.common @ slopes.transpose(0, 2, 1)
        return np.asarray(self.alone[:, terms, terms] + moved)

    def of_two(self, one: int, other: int) -> Array:
        """Return the covariance of the common terms, and of the first P own ones of two classes.

        Shape (3 P, 3 P), in this order.
        """
        width = len(self.common)
        moves = np.vstack([np.eye(width), -self.slopes[one, :width], -self.slopes[other, :width]])
        found = moves @ self.common @ moves.T
        for place, number in ((1, one), (2, other)):
            here = slice(place * width, (place + 1) * width)
            found[here, here] += self.alone[number, :width, :width]
        return np.asarray(found)

    @property
    def is_finite(self) -> bool:
        """Whether all of it is."""
        return all(np.isfinite(one).all() for one in (self.common, self.slopes, self.alone))
