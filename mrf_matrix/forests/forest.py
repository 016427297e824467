"""A forest over a public domain as parallel arrays: assembled by levels, and walked by records."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.arrays import AnyInts, Bools, Codes, Ints, Longs
from mrf_matrix.base.provenance import DOMAIN, NOTHING, Provenance
from mrf_matrix.domain import Domain
from mrf_matrix.domain.columns import checked_codes, plain_array
from mrf_matrix.domain.serialization import readable_count
from mrf_matrix.forests.export import decision_paths, export_text
from mrf_matrix.forests.nodes import (
    ARRAYS,
    LEAF_PATTERN,
    ForestError,
    Nodes,
    branch_pool,
    check_partition,
    count_children,
    multiway_pattern,
    nearest_same_attribute,
)
from mrf_matrix.forests.partition import check_branches_are_reached
from strategies.operators.base.arrays import read_only

UNSTATED = Provenance.unstated("forest")
"""The provenance of arrays whose origin nobody stated."""

RandomState = int | np.random.Generator | None


@dataclass(frozen=True, eq=False, repr=False)
class Forest(Nodes):
    """Trees whose splits send integer codes to branches, and whose leaves partition the domain.

    Nodes of all trees share five arrays. A record with code ``c`` in the attribute of node ``v``
    goes to the child ::

        first_child[v] + branches[pattern[v] + c]

    so one lookup from (node, code) to branch serves multi-way splits (``0 1 2 ...``), thresholds
    (``0 0 1 1``) and category subsets (``0 1 0``) alike, and nodes that branch alike share one
    window of the pool `branches`. A leaf has attribute -1, is its own first child, and points
    at a run of zeros.

    Parameters
    ----------
    domain : Domain
        The public domain of the codes.
    roots : ndarray of int, shape (trees,)
        Root node of each tree.
    attribute : ndarray of int, shape (nodes,)
        Attribute that each node splits, -1 at leaves.
    first_child : ndarray of int, shape (nodes,)
        First of the node's consecutive children; a leaf's own number.
    pattern : ndarray of int, shape (nodes,)
        Where the node's branch table starts in `branches`.
    branches : ndarray of int, shape (pool,)
        Branch numbers, a table after the other or overlapping; see `branch_pool`.
    provenance : Provenance, optional
        Where the structure came from: ``Provenance.public("forest", why)`` where no record was
        looked at, ``Provenance.spent(budget)`` where it was released elsewhere. Path sources and
        whatever grows trees state it themselves; of bare arrays it is unknown until it is stated,
        and nothing private is claimed over them. That of the domain is added. Copies, parts and
        ``dataclasses.replace`` keep it, whatever else they are told.
    source : str, default=""
        The path source, in words.
    allow_empty : bool, default=False
        Accept leaves that no cell reaches (an attribute split twice on a path may make them),
        and skip looking for them.

    Raises
    ------
    ForestError
        If the arrays' shapes or ranges are wrong, a branch is empty, or some tree does not
        partition the domain (a node with two parents, none, or on a cycle).

    Notes
    -----
    Memory is 12 bytes a node and 4 bytes a tree and pool entry. Arrays are kept as read-only
    int32; derived fields are computed on first use and kept.
    Leaves are numbered tree by tree, left to right, and row r of the path matrix is leaf r.
    Two forests are equal when domain and arrays are equal: node numbering counts, and where they
    came from does not.

    Examples
    --------
    One tree over attributes of sizes 2 and 3: split the first; below its code 1, the threshold
    "second attribute below 2".

    >>> import numpy as np
    >>> from mrf_matrix.domain import Domain
    >>> forest = Forest(
    ...     domain=Domain.from_sizes([2, 3]),
    ...     roots=np.array([0]),
    ...     attribute=np.array([0, -1, 1, -1, -1]),
    ...     first_child=np.array([1, 1, 3, 3, 4]),
    ...     pattern=np.array([6, 0, 1, 0, 0]),
    ...     branches=np.array([0, 0, 0, 1, 1, 1, 0, 1, 2]),
    ... )
    >>> forest
    Forest(1 tree, 3 leaves, depth 2, over 2 attributes)
    >>> forest.apply(np.array([[0, 2], [1, 1], [1, 2]])).ravel()
    array([0, 1, 2], dtype=int32)
    """

    provenance: Provenance = UNSTATED
    source: str = ""
    allow_empty: bool = False
    _carried: Provenance | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.domain, Domain):
            raise TypeError(
                f"domain is {type(self.domain).__name__}: expected a Domain, for example "
                f"Domain.from_sizes([4, 3])."
            )
        for name in ARRAYS:
            object.__setattr__(self, name, _read_only(name, getattr(self, name)))
        check_partition(self)
        if not self.allow_empty:
            above, edge = nearest_same_attribute(self)
            if (above >= 0).any():  # some path splits an attribute twice
                check_branches_are_reached(self, above, edge)
        if not isinstance(self.provenance, Provenance):
            raise TypeError(
                f"provenance is of type {type(self.provenance).__name__}: expected "
                f"Provenance.public('forest', why), or Provenance.spent(budget)."
            )
        before = NOTHING if self._carried is None else self._carried
        known = before | self.provenance
        if replace(known, declared=known.declared - DOMAIN.declared) == NOTHING:
            known |= UNSTATED  # the provenance of a domain is none of a forest over it
        found = known | self.domain.provenance
        object.__setattr__(self, "provenance", found)
        object.__setattr__(self, "_carried", found)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take the arrays of a copy or a pickle, which nobody can write to either."""
        vars(self).update(state, **{name: read_only(state[name]) for name in ARRAYS})

    @property
    def is_data_dependent(self) -> bool:
        """Whether the structure was learned from records, with a budget or without."""
        return self._is_learned or bool(self.provenance.released)

    @property
    def _is_learned(self) -> bool:
        """Whether more than its domain was read off records, by whatever name."""
        return not self.provenance.read_off <= self.domain.provenance.read_off

    @cached_property
    def router(self) -> "Router":
        """The tables packed for routing: 8 bytes a node and a pool entry."""
        return Router.build(self)

    def apply(self, codes: NDArray[Any]) -> Ints:
        """Return the leaf that every record reaches in every tree.

        Parameters
        ----------
        codes : ndarray of int, shape (N, d)
            Encoded records, ``0 <= codes[:, i] < domain.sizes[i]``.

        Returns
        -------
        ndarray of int32, shape (N, n_trees)
            Leaf numbers 0..n_leaves-1: the rows of the path matrix that hold the record's cell.

        Raises
        ------
        ValueError
            If the codes' shape, type or range does not fit the domain.

        Notes
        -----
        The result takes 4 N n_trees bytes. Records are routed in blocks of at most 16384 (record,
        tree) states, so temporaries stay near 1 MB whatever N; counting leaves needs no array
        of N x n_trees, see `mrf_matrix.compilation.leaf_counts`.
        """
        codes = checked_codes(codes, self.domain.sizes, self.domain.names)
        result = np.empty((len(codes), self.n_trees), dtype=np.int32)
        for records, trees, nodes in self.router.blocks(codes):
            result[records, trees] = self.leaf_index[nodes].T
        return result

    def paths(self) -> Ints:
        """Return each leaf as the code it fixes per attribute, -1 where free; (n_leaves, d).

        Only forests of multi-way splits can be written so; see `decision_paths`.
        """
        return decision_paths(self)

    def export_text(self, tree: int = 0, max_leaves: int = 100) -> str:
        """Draw one tree as lines of text; see `mrf_matrix.forests.export_text`."""
        return export_text(self, tree, max_leaves)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Forest):
            return NotImplemented
        return all(
            np.array_equal(mine, yours) if isinstance(mine, np.ndarray) else mine == yours
            for mine, yours in (
                (getattr(self, one.name), getattr(other, one.name))
                for one in fields(self)
                if one.name not in ("provenance", "_carried")
            )
        )

    def __hash__(self) -> int:
        return hash((self.domain, self.n_trees, self.n_nodes, self.attribute.tobytes()))

    def __repr__(self) -> str:
        trees = f"{self.n_trees} tree{'s' if self.n_trees > 1 else ''}"
        leaves = f"{self.n_leaves} lea{'ves' if self.n_leaves > 1 else 'f'}"
        origin = f", {self.source}" if self.source else ""
        dependent = ", data-dependent" if self.is_data_dependent else ""
        return (
            f"Forest({trees}, {leaves}, depth {self.max_depth}, over {self.domain.n_attributes} "
            f"attribute{'s' if self.domain.n_attributes > 1 else ''}{origin}{dependent})"
        )


@runtime_checkable
class PathSource(Protocol):
    """Anything that grows a forest over a public domain, from no data.

    A path source is a frozen dataclass of parameters; growing changes nothing in it, and the
    same parameters, domain and integer `random_state` give the same forest in every process.
    """

    def grow(self, domain: Domain, random_state: RandomState = None) -> Forest:
        """Return a forest over the domain."""
        ...


class LearnedStructureError(ValueError):
    """A structure learned from records was given where only a public or paid-for one may be."""


def seen_columns(codes: Codes, features: tuple[int, ...]) -> Codes:
    """Return the columns of encoded records that a forest over some attributes sees, (N, d̄)."""
    if features == tuple(range(codes.shape[1])):
        return codes
    return np.ascontiguousarray(codes[:, features])


def _read_only(name: str, array: object) -> Ints:
    given = plain_array(name, array)
    if given.ndim != 1 or (given.dtype.kind not in "iu" and given.size):
        raise ForestError(
            f"{name} has shape {given.shape} and type {given.dtype}: expected a one-dimensional "
            f"array of integers."
        )
    if given.size and (given.max() > np.iinfo(np.int32).max or given.min() < -1):
        raise ForestError(f"{name} has entries outside -1..2**31-1, the range of node numbers.")
    return read_only(given.astype(np.int32, copy=False))


MOST_NODES = 1 << 24
"""Nodes a path source may grow: 200 MB of arrays, and a few times that while they are made."""


def check_growth(n_nodes: int, remedy: str) -> None:
    """Refuse a level that would take a forest beyond `MOST_NODES`, before it is allocated.

    Raises ValueError if ``n_nodes`` exceeds the limit.
    """
    if n_nodes > MOST_NODES:
        raise ValueError(
            f"the forest would have more than {readable_count(n_nodes)} nodes, above the limit of "
            f"{MOST_NODES:,}: {remedy}."
        )


def forest_from_levels(
    domain: Domain,
    attribute: Sequence[Ints],
    pattern: Sequence[Ints] | None = None,
    branches: Ints | None = None,
    *,
    provenance: Provenance = UNSTATED,
    source: str = "",
    allow_empty: bool = False,
) -> Forest:
    """Return the forest whose levels are given, every level's nodes in the order of their parents.

    Numbering nodes level by level, the children of the inner nodes follow each other, so that
    ``first_child`` is the number of trees plus a running sum of branches.

    Parameters
    ----------
    domain : Domain
        The public domain.
    attribute, pattern : sequences of ndarray
        Per level, each node's attribute (-1: a leaf) and where its table starts in `branches`;
        without patterns all splits are multi-way.
    branches : ndarray, optional
        The pool of branch tables, `branch_pool` by default.
    provenance, source, allow_empty
        As in `Forest`.
    """
    attributes = np.concatenate(attribute).astype(np.int32, copy=False)
    branches = branch_pool(domain.sizes) if branches is None else branches
    starts = multiway_pattern(domain.sizes) if pattern is None else np.concatenate(pattern)
    leaf = attributes < 0
    patterns = np.where(leaf, LEAF_PATTERN, starts).astype(np.int32, copy=False)
    n_trees = len(attribute[0])
    n_children = count_children(domain.sizes, attributes, patterns, branches)
    start = n_trees + np.cumsum(n_children) - n_children
    return Forest(
        domain=domain,
        roots=np.arange(n_trees, dtype=np.int32),
        attribute=attributes,
        first_child=np.where(leaf, np.arange(len(attributes)), start).astype(np.int32),
        pattern=patterns,
        branches=branches,
        provenance=provenance,
        source=source,
        allow_empty=allow_empty,
    )


BLOCK = 16384  # states (records x trees) routed together, at most

ROWS = 256  # records in a block when there are many trees (measured: best from 64 to 1024)


@dataclass(frozen=True, eq=False)
class Router:
    """A forest's tables in the form that routing reads."""

    # (nodes,): ``first_child << (window_bits + attribute_bits) | pattern << attribute_bits |
    # attribute``; leaves carry attribute 0 and a window of zeros, so they step to themselves
    words: Longs
    branches: Longs  # the forest's pool
    roots: Longs
    is_inner: Bools  # (nodes,)
    depth: Longs  # (trees,): steps that each tree needs
    attribute_bits: int
    window_bits: int

    @classmethod
    def build(cls, forest: Nodes) -> "Router":
        attribute_bits = max(forest.domain.n_attributes - 1, 1).bit_length()
        window_bits = len(forest.branches).bit_length()
        if forest.n_nodes.bit_length() + window_bits + attribute_bits > 63:
            raise ForestError(
                f"{forest.n_nodes} nodes, {len(forest.branches)} branches and "
                f"{forest.domain.n_attributes} attributes do not pack into 63 bits: share branch "
                f"tables (branch_pool) or split the forest (take_trees)."
            )
        words = forest.first_child.astype(np.int64) << window_bits
        words = (words | forest.pattern) << attribute_bits | np.maximum(forest.attribute, 0)
        depth = np.zeros(forest.n_trees, dtype=np.int64)
        np.maximum.at(depth, forest.leaf_tree, forest.depth[forest.leaves])
        return cls(
            words=words,
            branches=forest.branches.astype(np.int64),
            roots=forest.roots.astype(np.int64),
            is_inner=forest.attribute >= 0,
            depth=depth,
            attribute_bits=attribute_bits,
            window_bits=window_bits,
        )

    def blocks(self, codes: AnyInts) -> Iterator[tuple[slice, slice, Longs]]:
        """Yield (records, trees, leaf nodes of shape (trees, records)) block by block."""
        n_records, n_trees = len(codes), len(self.roots)
        together = min(n_trees, max(BLOCK // min(max(n_records, 1), ROWS), 1))
        rows = BLOCK // together
        for first in range(0, n_records, rows):
            records = slice(first, min(first + rows, n_records))
            block = np.ascontiguousarray(codes[records], dtype=np.int64)
            for tree in range(0, n_trees, together):
                trees = slice(tree, min(tree + together, n_trees))
                yield records, trees, self.route(block, trees)

    def route(self, block: Longs, trees: slice) -> Longs:
        """Return the leaf nodes that a block of records reaches, shape (trees, records)."""
        n, d = block.shape
        roots = self.roots[trees]
        node = np.repeat(roots, n)
        row = np.tile(np.arange(0, n * d, d), len(roots))
        self._walk(block.ravel(), node, row, int(self.depth[trees].max()))
        return node.reshape(-1, n)

    def _walk(self, flat: Longs, node: Longs, row: Longs, steps: int) -> None:
        """Move every state of a block to its leaf, in place; drop those that have arrived."""
        word, index, value = np.empty_like(node), np.empty_like(node), np.empty_like(node)
        attribute_mask = (1 << self.attribute_bits) - 1
        window_mask = (1 << self.window_bits) - 1
        for step in range(steps):
            if step and step % 4 == 0:
                alive = np.flatnonzero(self.is_inner[node])
                if len(alive) < len(node) / 2:
                    rest = node[alive]
                    self._walk(flat, rest, row[alive], steps - step)
                    node[alive] = rest
                    return
            # mode="clip" only skips NumPy's bounds check: a validated forest and checked codes
            # never leave the tables.
            np.take(self.words, node, out=word, mode="clip")
            np.bitwise_and(word, attribute_mask, out=index)
            np.add(index, row, out=index)
            np.take(flat, index, out=value, mode="clip")
            np.right_shift(word, self.attribute_bits, out=word)
            np.bitwise_and(word, window_mask, out=index)
            np.add(index, value, out=index)
            np.take(self.branches, index, out=value, mode="clip")
            np.right_shift(word, self.window_bits, out=word)
            np.add(word, value, out=node)
