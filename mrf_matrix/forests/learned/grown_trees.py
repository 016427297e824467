"""Forests grown from public records by one engine: Breiman's and the multinomial."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from numpy.typing import NDArray

from mrf_matrix.base.checks import check_integer
from mrf_matrix.domain import Domain
from mrf_matrix.forests.forest import RandomState
from mrf_matrix.forests.growth.grow import Grown, grow_forest
from mrf_matrix.forests.growth.growth import (
    GREEDY,
    AllAttributes,
    Bootstrap,
    Criterion,
    Growth,
    Impurity,
    Partition,
    RandomAttributes,
    Softmax,
    Stopping,
)


@dataclass(frozen=True)
class GrownTrees(ABC):
    """A forest whose structure is learned from records, without privacy.

    Parameters
    ----------
    n_trees : int, default=100
    criterion : {"gini", "entropy"}, default="gini"
    min_points : int, default=5
        Minimum leaf size k.
    max_depth : int, optional
        Splits on a path; no limit by default.
    nominal : sequence of str or int, default=()
        Attributes without an order: cut as "this code or not". All others are cut by
        thresholds on their codes.
    """

    n_trees: int = 100
    criterion: Criterion = "gini"
    min_points: int = 5
    max_depth: int | None = None
    nominal: Sequence[str | int] = ()

    def __post_init__(self) -> None:
        check_integer("n_trees", self.n_trees, 1)
        check_integer("min_points", self.min_points, 1)
        if self.max_depth is not None:
            check_integer("max_depth", self.max_depth, 0)
        Impurity(self.criterion)
        object.__setattr__(self, "nominal", tuple(self.nominal))
        _ = self.growth  # refuses wrong parameters

    @property
    @abstractmethod
    def growth(self) -> Growth:
        """How this forest grows."""

    def grow(
        self,
        domain: Domain,
        codes: NDArray[Any],
        labels: NDArray[Any],
        random_state: RandomState = None,
        *,
        centres: Sequence[NDArray[Any] | None] | None = None,
        n_jobs: int | None = None,
    ) -> Grown:
        """Grow the forest from encoded records.

        Parameters
        ----------
        domain : Domain
            With a target.
        codes : ndarray of int, shape (N, d)
        labels : ndarray of int, shape (N,)
        random_state : int, Generator or None
            Equal seeds give equal forests, whatever `n_jobs`.
        centres : sequence of (ndarray or None), optional
            Raw values of the codes: thresholds then lie halfway between values.
        n_jobs : int, optional
            Threads.

        Returns
        -------
        Grown
            The forest and its leaves' class counts. **Not private.**
        """
        return grow_forest(
            domain,
            codes,
            labels,
            self.growth,
            self.n_trees,
            centres=centres,
            nominal=self.nominal,
            random_state=random_state,
            n_jobs=n_jobs,
        )


@dataclass(frozen=True)
class BreimanTrees(GrownTrees):
    """Random forest: bootstrap samples, the best cut among a few random attributes.

    Parameters
    ----------
    n_trees, criterion, min_points, max_depth, nominal
        See `GrownTrees`. Cuts keep `min_points` points on either side.
    max_features : int or "sqrt", default="sqrt"
        Attributes that a node looks at. Where none of them can be cut, more are drawn until one
        can.

    References
    ----------
    Breiman: Random forests. Machine Learning 45 (2001).
    """

    max_features: int | Literal["sqrt"] = "sqrt"

    @property
    def growth(self) -> Growth:
        """How this forest grows."""
        return Growth(
            points=Bootstrap(),
            attributes=RandomAttributes(self.max_features),
            cut=GREEDY,
            stopping=Stopping(self.min_points, "sides", self.max_depth),
            impurity=Impurity(self.criterion),
            source="Breiman trees",
        )


@dataclass(frozen=True)
class MultinomialTrees(GrownTrees):
    """Multinomial random forest: softmax over attributes, then softmax over cuts.

    Each record is a structure or an estimation point of a tree by an independent coin. A node's
    attribute is drawn from ``softmax(B₁ Î / 2)``, Î the attributes' largest impurity decreases
    scaled to [0, 1] by their minimum and maximum, and its cut from ``softmax(B₂ Î⁽ʲ⁾ / 2)``
    over that attribute's cuts. Nodes of at most k estimation points are leaves.

    ``b1 = b2 = 0`` is completely random, ``float("inf")`` greedy over all attributes.

    Parameters
    ----------
    n_trees, criterion, min_points, max_depth, nominal
        See `GrownTrees`.
    b1, b2 : float, default=10
        Sharpness of the two choices, from 0 to infinity.
    partition_rate : float, default=1
        Structure points per estimation point.
    split_pure : bool, default=False
        Go on splitting nodes whose structure points are of one class, as Algorithm 1 does to
        the letter; costs time, seldom changes accuracy.

    Notes
    -----
    The stopping rule reads the number of estimation points, which is private: this source is for
    public records. `PrivateMultinomialTrees` is the private one.

    References
    ----------
    Bai, Li, Li, Yang, Jiang, Xia: Multinomial random forest. Pattern Recognition 122 (2022).

    Examples
    --------
    >>> import numpy as np
    >>> from mrf_matrix.domain import Domain
    >>> domain = Domain.from_sizes([4, 4], n_classes=2)
    >>> codes = np.random.default_rng(0).integers(0, 4, size=(200, 2))
    >>> labels = (codes[:, 0] > 1).astype(int)
    >>> MultinomialTrees(n_trees=3, b1=50, b2=50).grow(domain, codes, labels, 0).forest
    Forest(3 trees, 6 leaves, depth 1, over 2 attributes, multinomial trees, data-dependent)
    """

    b1: float = 10.0
    b2: float = 10.0
    partition_rate: float = 1.0
    split_pure: bool = False

    @property
    def growth(self) -> Growth:
        """How this forest grows."""
        return Growth(
            points=Partition(self.partition_rate),
            attributes=AllAttributes(),
            cut=Softmax(self.b1, self.b2),
            stopping=Stopping(self.min_points, "node", self.max_depth, self.split_pure),
            impurity=Impurity(self.criterion),
            source="multinomial trees",
        )
