"""The multinomial random forest, grown from public records (Algorithm 1 of Bai et al.)."""

from dataclasses import dataclass

from mrf_matrix.forests.growth.growth import Growth, Stopping
from mrf_matrix.forests.growth.impurity import Impurity
from mrf_matrix.forests.growth.points import Partition
from mrf_matrix.forests.growth.split_rules import AllAttributes, Softmax
from mrf_matrix.forests.learned.grown_trees import GrownTrees


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
