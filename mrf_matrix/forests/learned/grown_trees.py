"""What the forests grown from public records share: parameters, and one engine."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from mrf_matrix.base.checks import check_integer
from mrf_matrix.domain import Domain
from mrf_matrix.forests.growth.grow import Grown, grow_forest
from mrf_matrix.forests.growth.growth import Growth
from mrf_matrix.forests.growth.impurity import Criterion, Impurity
from mrf_matrix.forests.sources.source import RandomState


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
