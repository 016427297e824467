"""`ObliqueTrees`: bootstrap trees whose nodes are cut by hyperplanes, level by level."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from rivals.oblique.axis_cuts import Level
from rivals.oblique.heterogeneous_cuts import heterogeneous_cuts
from rivals.oblique.oblique_forest import (
    Cuts,
    ObliqueForest,
    in_units,
    is_right,
    joined,
)
from rivals.oblique.projections import axis_cuts, projected_cuts
from rivals.oblique.proximal_planes import TIKHONOV, proximal_cuts

from mrf_matrix.base.arrays import Array, Longs
from mrf_matrix.base.checks import check_integer, short_repr
from mrf_matrix.domain.columns import plain_array
from mrf_matrix.forests.forest import RandomState
from mrf_matrix.forests.growth.growth import Bootstrap, random_subsets
from strategies.operators.base.arrays import plain_floats

MOST_PROBLEMS = 32
"""Partitions of a node's classes that a classifier tries, about, where there are many classes."""

BATCH = 1 << 22
"""Numbers (points x attributes of a node squared) of the trees that grow together: 32 MB."""

Split = Literal["axis", "pca", "lda", "mpsvm_t", "mpsvm_p", "mpsvm_n", "hobraf"]


@dataclass(frozen=True)
class ObliqueTrees:
    """Source of rotation and proximal-plane trees: not private, and no paths.

    Every node draws `max_features` attributes, each divided by its standard deviation, and
    looks for one hyperplane over them.

    Parameters
    ----------
    n_trees : int, default=100
    split : {"axis", "pca", "lda", "mpsvm_t", "mpsvm_p", "mpsvm_n", "hobraf"}, default="pca"
        "axis": the best cut of one attribute. "pca", "lda": the best cut along a principal or a
        discriminant axis of the node's points (rotation forests). "mpsvm_t", "_p", "_n": between
        the proximal planes of two hyperclasses, with Tikhonov's ridge, a cut along one attribute or
        the null space where these are not defined. "hobraf": the best of six linear classifiers
        over partitions of the classes, two of them fitted one node after another by scikit-learn.
    min_points : int, default=5
        Points that a cut leaves on either side.
    max_features : int or "sqrt", default="sqrt"
        Attributes that a node draws; "sqrt" is the rounded square root of their number.
    ridge : float, default=0.01
        What "mpsvm_t" adds to the diagonal of singular matrices.

    References
    ----------
    Zhang, Suganthan: Random forests with ensemble of feature spaces. Pattern Recognition 47 (2014);
    Oblique decision tree ensemble via multisurface proximal support vector machine. IEEE Trans.
    Cybernetics 45 (2015). Katuwal, Suganthan, Zhang: Heterogeneous oblique random forest. Pattern
    Recognition 99 (2020).
    """

    n_trees: int = 100
    split: Split = "pca"
    min_points: int = 5
    max_features: int | Literal["sqrt"] = "sqrt"
    ridge: float = TIKHONOV

    def __post_init__(self) -> None:
        check_integer("n_trees", self.n_trees, 1)
        check_integer("min_points", self.min_points, 1)
        if self.max_features != "sqrt":
            check_integer("max_features", self.max_features, 1)
        if not isinstance(self.ridge, int | float) or not 0 < self.ridge < math.inf:
            raise ValueError(f"ridge={short_repr(self.ridge)}: expected a number above 0.")
        if self.split not in CUTS:
            names = ", ".join(map(repr, CUTS))
            raise ValueError(f"split={short_repr(self.split)}: expected one of {names}.")

    def grow(
        self, X: ArrayLike, labels: ArrayLike, n_classes: int, random_state: RandomState = None
    ) -> ObliqueForest:
        """Grow trees on numeric records.

        Parameters
        ----------
        X : array of shape (N, d)
        labels : array of int, shape (N,)
        n_classes : int
        random_state : int, Generator or None

        Notes
        -----
        So many trees grow together that their points times squared attributes of a node stay below
        `BATCH` numbers.
        """
        given = np.ascontiguousarray(plain_floats("X", X))
        classes = plain_array("labels", labels).astype(np.int64, copy=False)
        generator = np.random.default_rng(random_state)
        centre, spread = given.mean(axis=0), given.std(axis=0)
        spread = np.where(spread > 0, spread, 1.0)
        points = (given - centre) / spread
        m = drawn_attributes(self.max_features, points.shape[1])
        problems = MOST_PROBLEMS if self.split == "hobraf" else 1
        together = max(1, BATCH // (len(points) * m * m * problems))
        grown = [
            self._grow(min(together, self.n_trees - begin), points, classes, n_classes, generator)
            for begin in range(0, self.n_trees, together)
        ]
        return in_units(joined(grown), centre, spread)

    def _grow(
        self, n_trees: int, X: Array, labels: Longs, k: int, generator: np.random.Generator
    ) -> ObliqueForest:
        (node, record), _ = Bootstrap().draw(len(X), n_trees, generator)
        found: list[tuple[Longs, Cuts, Longs]] = []
        n = n_trees
        while n:
            counts = np.bincount(node * k + labels[record], minlength=n * k).reshape(n, k)
            drawn = np.full(n, drawn_attributes(self.max_features, X.shape[1]))
            attributes = random_subsets(drawn, X.shape[1], generator).T
            cuts = self._cuts(X, labels, node, record, attributes, counts, generator)
            found.append((attributes, cuts, counts))
            kept = np.flatnonzero(cuts.is_cut[node])
            node, record = node[kept], record[kept]
            right = is_right(X, record, node, attributes, cuts.weights, cuts.threshold)
            node = 2 * (np.cumsum(cuts.is_cut) - 1)[node] + right
            order = np.argsort(node, kind="stable")
            node, record, n = node[order], record[order], 2 * int(cuts.is_cut.sum())
        return assembled(found, n_trees)

    def _cuts(
        self,
        X: Array,
        labels: Longs,
        node: Longs,
        record: Longs,
        attributes: Longs,
        counts: Longs,
        generator: np.random.Generator,
    ) -> Cuts:
        """Cut the nodes of several classes that are large enough; the others are leaves."""
        nodes, m = attributes.shape
        open_ = (counts.sum(axis=1) >= 2 * self.min_points) & ((counts > 0).sum(axis=1) > 1)
        cuts = Cuts(np.zeros((nodes, m)), np.zeros(nodes), np.zeros(nodes, dtype=np.bool_))
        if not open_.any():
            return cuts
        inside = open_[node]
        values = X[record[inside, None], attributes[node[inside]]]
        number = (np.cumsum(open_) - 1)[node[inside]]
        starts = np.flatnonzero(np.diff(number, prepend=-1))
        level = Level(
            values, labels[record[inside]], number, starts, counts[open_], self.min_points
        )
        made = CUTS[self.split](level, generator, self.ridge)
        cuts.weights[open_], cuts.threshold[open_] = made.weights, made.threshold
        cuts.is_cut[open_] = made.is_cut
        return cuts


CUTS: Mapping[str, Callable[[Level, np.random.Generator, float], Cuts]] = {
    "axis": lambda level, *_: axis_cuts(level),
    "pca": lambda level, *_: projected_cuts(level, "pca"),
    "lda": lambda level, *_: projected_cuts(level, "lda"),
    "mpsvm_t": lambda level, _, ridge: proximal_cuts(level, "tikhonov", ridge),
    "mpsvm_p": lambda level, *_: proximal_cuts(level, "parallel"),
    "mpsvm_n": lambda level, *_: proximal_cuts(level, "null_space"),
    "hobraf": lambda level, generator, _: heterogeneous_cuts(level, generator),
}


def drawn_attributes(count: int | Literal["sqrt"], n_attributes: int) -> int:
    """Return how many attributes a node draws."""
    return min(count, n_attributes) if count != "sqrt" else max(1, round(math.sqrt(n_attributes)))


def assembled(found: list[tuple[Longs, Cuts, Longs]], n_trees: int) -> ObliqueForest:
    """Give children their numbers: level by level, those of nodes that are cut in their order."""
    is_cut = np.concatenate([cuts.is_cut for _, cuts, _ in found])
    following = n_trees + 2 * (np.cumsum(is_cut) - is_cut)
    return ObliqueForest(
        np.concatenate([attributes for attributes, _, _ in found]),
        np.concatenate([cuts.weights for _, cuts, _ in found]),
        np.concatenate([cuts.threshold for _, cuts, _ in found]),
        np.where(is_cut, following, np.arange(len(is_cut))).astype(np.int64),
        n_trees,
        np.concatenate([counts for _, _, counts in found]),
    )
