"""What private growth needs in memory, from public numbers alone: asked before anything is spent.

The number of records takes no part, for it is private: a refusal that depended on it would tell.
Work over records is cut into parts instead, so that no array has a row for each record and tree.
"""

from dataclasses import dataclass
from math import prod

from mrf_matrix.domain import Domain
from mrf_matrix.forests.assembly import check_growth

POINTS = 1 << 20  # records of all trees that are grown together, unless one tree has more

BOXES = 1 << 23  # codes that bound the nodes of trees grown together: 64 MB, and a few times that

_SMALLER = "lower n_trees or max_depth"


@dataclass(frozen=True)
class GrowthSizes:
    """The most that private trees over a domain can come to.

    >>> GrowthSizes(Domain.from_sizes([2, 2], 2), n_trees=3, max_depth=10).leaves_of_a_tree
    4
    """

    domain: Domain
    n_trees: int
    max_depth: int

    @property
    def leaves_of_a_tree(self) -> int:
        """``min(2**depth, n)``: splits are in two, and every leaf holds a cell."""
        cells = prod(self.domain.sizes)
        return min(1 << min(self.max_depth, cells.bit_length()), cells)

    @property
    def leaves(self) -> int:
        """Leaves of all trees."""
        return self.n_trees * self.leaves_of_a_tree

    @property
    def arrays(self) -> tuple[tuple[str, tuple[int, ...], int], ...]:
        """The largest arrays: what each is, its shape, and bytes an entry with its copies."""
        sizes, k = self.domain.sizes, self.domain.n_classes
        return (
            ("bounds of a tree's nodes", (self.leaves_of_a_tree, len(sizes)), 32),
            ("class counts of a node's candidates", (sum(sizes), k), 48),
            ("class counts of all leaves", (self.leaves, k), 48),
        )

    def check(self) -> None:
        """Refuse trees that could outgrow the limit on a forest's nodes.

        Raises ValueError: with the public numbers that are too large; nothing was allocated.
        """
        check_growth(self.n_trees * (2 * self.leaves_of_a_tree - 1), _SMALLER)

    def trees_at_once(self, n_records: int) -> int:
        """Return how many trees to grow together: few when there are many records or nodes."""
        bounds = max(1, self.leaves_of_a_tree * len(self.domain.sizes))
        return max(1, min(self.n_trees, POINTS // max(1, n_records), BOXES // bounds))
