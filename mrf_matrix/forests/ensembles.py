"""Forests over subsets of the attributes: one and the attributes that it sees, trees of blocks.

Each ensemble sees a few attributes only, so that its domain stays small. Its forest, workload and
strategy live on that sub-domain.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import log, prod

import numpy as np

from mrf_matrix.base.arrays import Codes, Ints
from mrf_matrix.base.checks import name_some, short_repr
from mrf_matrix.base.provenance import FOREST, ChosenTuple, Provenance, provenance_of
from mrf_matrix.domain import Domain
from mrf_matrix.forests.forest import (
    Forest,
    RandomState,
    check_growth,
    forest_from_levels,
    seen_columns,
)


@dataclass(frozen=True, eq=False)
class Ensemble:
    """One forest and the attributes that it sees."""

    # positions of its attributes in the whole domain, in the order of the forest's domain
    features: tuple[int, ...]
    forest: Forest  # over the sub-domain of these attributes
    # the depth that was asked for, where trees are as deep as their attributes allow
    depth_limit: int | None = None

    @property
    def depth_note(self) -> str | None:
        """A note where trees are less deep than was asked for."""
        depth = self.forest.max_depth
        if self.depth_limit is None or depth >= self.depth_limit:
            return None
        return f"max_depth={self.depth_limit}: trees are {depth} deep, all that attributes allow"

    def view(self, codes: Codes) -> Codes:
        """Return the columns of encoded records that the ensemble sees, shape (N, d̄)."""
        return seen_columns(codes, self.features)

    def leaves_reached(self, codes: Codes) -> Ints:
        """Return the leaf of each tree that each record reaches, shape (N, trees)."""
        return self.forest.apply(self.view(codes))


def attribute_positions(name: str, domain: Domain, subset: Sequence[str | int]) -> tuple[int, ...]:
    """Return the positions of attributes that are given by position or name.

    Raises ValueError if they are no list of the domain's attributes; `name` is the argument that is
    named.
    """
    if isinstance(subset, str) or np.ndim(subset) != 1 or not len(subset):
        raise ValueError(
            f"{name} holds {short_repr(subset)}: expected lists of attributes, such as [0, 1] or "
            f"['age', 'sex']."
        )
    place = {name: i for i, name in enumerate(domain.names)}
    chosen = domain.select(int(key) if isinstance(key, np.integer) else key for key in subset)
    return tuple(place[name] for name in chosen.names)


def attribute_indices(domain: Domain, attributes: Sequence[str | int], argument: str) -> list[int]:
    """Return the indices of attributes given by name or index.

    Raises ValueError if one is unknown; TypeError if one is neither, or a single name is given in
    place of a sequence. `argument` is what the caller calls them.
    """
    if isinstance(attributes, str):
        raise TypeError(f"{argument}={attributes!r}: expected a sequence, [{attributes!r}].")
    names, found = list(domain.names), []
    for one in attributes:
        if isinstance(one, bool) or not isinstance(one, str | int | np.integer):
            raise TypeError(f"{argument} holds {one!r}: expected names or indices.")
        if one not in names if isinstance(one, str) else not 0 <= one < len(names):
            raise ValueError(
                f"{argument} holds {one!r}: expected one of {name_some(names)}, or an index from "
                f"0 to {len(names) - 1}."
            )
        found.append(names.index(one) if isinstance(one, str) else int(one))
    return found


Block = tuple[int, ...]

_SMALLER = "make more, smaller blocks, or coarsen the domain"


@dataclass(frozen=True)
class BlockTrees:
    """One tree for each block of attributes, with a leaf for every combination of its codes.

    Blocks share no attribute, so every record is counted once a tree, and the trees' votes
    multiply: blocks of one attribute are naive Bayes, one block of all of them is the table of
    cells.

    Parameters
    ----------
    blocks : sequence of sequences of int
        Positions of each block's attributes.
    class_totals : bool, default=True
        Whether a last tree of a single leaf counts the records of each class.

    Raises
    ------
    ValueError
        If a block is empty or an attribute stands in two blocks.

    Examples
    --------
    >>> BlockTrees([[0, 2], [1]]).grow(Domain.from_sizes([2, 3, 2]))
    Forest(3 trees, 8 leaves, depth 2, over 3 attributes, tables of blocks [0, 2] [1])
    """

    blocks: Sequence[Sequence[int]]
    class_totals: bool = True

    def __post_init__(self) -> None:
        blocks = tuple(tuple(sorted(int(i) for i in block)) for block in self.blocks)
        seen = [i for block in blocks for i in block]
        if not blocks or not all(blocks) or len(seen) != len(set(seen)) or min(seen) < 0:
            raise ValueError(
                f"blocks={self.blocks!r}: expected at least one block, none of them empty, and "
                f"each attribute's position in one block only."
            )
        object.__setattr__(
            self, "blocks", ChosenTuple(blocks, provenance_of(self.blocks, "forest"))
        )

    def grow(self, domain: Domain, random_state: RandomState = None) -> Forest:
        """Return the trees, in the order of the blocks; nothing is random.

        Parameters
        ----------
        domain : Domain
        random_state : ignored
            Path sources have one.

        Raises
        ------
        ValueError
            If an attribute is not in the domain, or the trees have too many leaves.
        """
        largest = max(i for block in self.blocks for i in block)
        if largest >= domain.n_attributes:
            raise ValueError(
                f"blocks name attribute {largest}: the domain has {domain.n_attributes} "
                f"attributes, numbered from 0."
            )
        known = provenance_of(self.blocks, "forest")
        names = " ".join(map(str, map(list, self.blocks[:4])))
        more = " ..." if len(self.blocks) > 4 else ""
        tables = [*self.blocks, ()] if self.class_totals else self.blocks
        return table_forest(
            domain, tables, provenance=known, source=f"tables of blocks {names}{more}"
        )


def table_forest(
    domain: Domain, tables: Sequence[Sequence[int]], *, provenance: Provenance, source: str
) -> Forest:
    """Return a tree for each table: a leaf for every combination of its attributes' codes.

    Level by level, so that nothing is longer than the nodes: no row of a path is written down.

    `tables`: positions of each one's attributes, in the order in which its tree splits them; ``()``
    is one leaf. Attributes of a single code split nothing.

    Raises ValueError if the trees have too many leaves.
    """
    sizes = domain.sizes
    left = [[i for i in table if sizes[i] > 1] for table in tables]
    check_growth(2 * sum(prod(sizes[i] for i in table) for table in left), _SMALLER)
    nodes, levels = [1] * len(left), []
    while left:
        heads = [table[0] if table else -1 for table in left]
        levels.append(np.repeat(np.array(heads, dtype=np.int32), nodes))
        nodes = [count * sizes[table[0]] for count, table in zip(nodes, left, strict=True) if table]
        left = [table[1:] for table in left if table]
    return forest_from_levels(domain, levels, provenance=provenance, source=source)


NAIVE_BAYES_SOURCE = "a stump for each attribute, and the class totals"


def naive_bayes_forest(domain: Domain) -> Forest:
    """Return d trees of depth 1 and one of depth 0, the last.

    Leaf values of tree i are counts of attribute i's codes, of the last tree class totals.
    Attributes with one code only are left out: they tell nothing.

    >>> naive_bayes_forest(Domain.from_sizes([2, 3]))
    Forest(3 trees, 6 leaves, depth 1, over 2 attributes, a stump for each attribute, and the \
class totals)
    """
    tables = [(i,) for i, size in enumerate(domain.sizes) if size > 1]
    return table_forest(domain, [*tables, ()], provenance=FOREST, source=NAIVE_BAYES_SOURCE)


def balanced_blocks(attributes: Iterable[int], sizes: Sequence[int], n_blocks: int) -> list[Block]:
    """Split attributes into blocks with about equally many cells, the largest attributes first.

    `attributes`: positions; attributes of one size are taken in this order; `sizes`: sizes of all
    the domain's attributes; `n_blocks`: most blocks; no more than there are attributes are made.

    Raises ValueError if ``n_blocks`` is less than 1.

    >>> balanced_blocks([0, 1, 2], [2, 2, 4], 2)
    [(2,), (0, 1)]
    """
    if n_blocks < 1:
        raise ValueError(f"n_blocks={n_blocks!r}: expected a whole number of at least 1.")
    blocks: list[list[int]] = [[] for _ in range(n_blocks)]
    weights = np.zeros(n_blocks)
    for i in sorted(attributes, key=lambda i: -sizes[i]):
        lightest = int(np.argmin(weights))
        blocks[lightest].append(int(i))
        weights[lightest] += log(max(sizes[i], 1 + 1e-9))
    return [tuple(sorted(block)) for block in blocks if block]
