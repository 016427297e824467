"""A forest over a public domain as parallel arrays, its path sources, and its trees as text."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.arrays import Codes, Ints, Longs
from mrf_matrix.base.provenance import DOMAIN, NOTHING, Provenance
from mrf_matrix.domain import Attribute, Domain
from mrf_matrix.domain.columns import checked_codes, plain_array
from mrf_matrix.forests.nodes import ARRAYS, ForestError, Nodes, Router
from mrf_matrix.forests.partition import check_partition, decision_paths
from mrf_matrix.mechanisms.statement import compose_budgets
from strategies.operators.base.validation import read_only


def export_text(
    forest: Nodes,
    tree: int = 0,
    max_leaves: int = 100,
    *,
    leaves: Sequence[str] | None = None,
    title: bool = True,
) -> str:
    """Draw one tree as lines of text.

    Parameters
    ----------
    forest : Nodes
        A `Forest`.
    tree : int, default=0
        Which tree.
    max_leaves : int, default=100
        Leaves after which the drawing stops, and says how many it leaves out.
    leaves : sequence of str, optional
        What to write at each leaf, by its number; by default "leaf" and its number.
    title : bool, default=True
        Whether the first line names the tree.

    Returns
    -------
    str
        A line per branch: the attribute and the codes' labels that follow it, and at leaves
        their number.

    Raises
    ------
    ValueError
        If there is no such tree.

    Examples
    --------
    >>> from mrf_matrix.domain import Attribute, Domain
    >>> from mrf_matrix.forests.random_trees import RandomTrees
    >>> weather = Domain([Attribute("outlook", categories=["sunny", "overcast", "rainy"])])
    >>> print(export_text(RandomTrees(n_trees=1, max_depth=1).grow(weather)))
    tree 0
    ├── outlook = sunny: leaf 0
    ├── outlook = overcast: leaf 1
    └── outlook = rainy: leaf 2
    """
    if isinstance(tree, bool) or not isinstance(tree, int | np.integer):
        raise TypeError(f"tree={tree!r}: expected an integer.")
    if not 0 <= tree < forest.n_trees:
        raise ValueError(f"tree={tree}: expected 0 to {forest.n_trees - 1}.")
    root = int(forest.roots[tree])
    if leaves is None:
        leaves = [f"leaf {i}" for i in range(forest.n_leaves)]
    if forest.attribute[root] < 0:
        only = leaves[int(forest.leaf_index[root])]
        return f"tree {tree}: {only}" if title else only
    lines, drawn = [f"tree {tree}"] if title else [], 0
    for line, is_leaf in _lines(forest, root, leaves):
        drawn += is_leaf
        if drawn > max_leaves:
            total = int(np.count_nonzero(forest.leaf_tree == tree))
            lines.append(f"... {total - max_leaves} more leaves; raise max_leaves to see them")
            break
        lines.append(line)
    return "\n".join(lines)


def _lines(forest: Nodes, root: int, leaves: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """Yield the drawing's lines, depth first, from a stack: trees may be deep."""
    stack = [(root, "", "")]
    while stack:
        node, indent, text = stack.pop()
        leaf = int(forest.leaf_index[node])
        if text:
            yield (f"{text}: {leaves[leaf]}", True) if leaf >= 0 else (text, False)
        fan = int(forest.n_children[node])
        for branch in reversed(range(fan)):
            last = branch == fan - 1
            line = indent + ("└── " if last else "├── ") + condition(forest, node, branch)
            below = indent + ("    " if last else "│   ")
            stack.append((int(forest.first_child[node]) + branch, below, line))


def condition(forest: Nodes, node: int, branch: int) -> str:
    attribute = forest.domain.attributes[forest.attribute[node]]
    start = int(forest.pattern[node])
    codes = np.flatnonzero(forest.branches[start : start + attribute.size] == branch)
    return describe_codes(attribute, codes)


def describe_codes(attribute: Attribute, codes: Longs) -> str:
    """Say which labels some codes have, runs of codes as ranges."""
    labels = attribute.labels
    if len(codes) == 1:
        return f"{attribute.name} = {labels[int(codes[0])]}"
    first, last = int(codes[0]), int(codes[-1])
    if len(codes) > 3 and last - first + 1 == len(codes):
        return f"{attribute.name} in {labels[first]} .. {labels[last]}"
    shown = ", ".join(str(labels[int(code)]) for code in codes[:6])
    more = f", ... {len(codes) - 6} more" if len(codes) > 6 else ""
    return f"{attribute.name} in {{{shown}{more}}}"


UNSTATED = Provenance.unstated("forest")
"""The provenance of arrays whose origin nobody stated."""


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
        check_partition(self, allow_empty=self.allow_empty)
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
    def router(self) -> Router:
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


class LearnedStructureError(ValueError):
    """A structure learned from records was given where only a public or paid-for one may be."""


def check_structure_is_public(forest: Forest, purpose: str, *, allow_spent: bool = False) -> None:
    """Refuse a forest whose structure was learned from records.

    Parameters
    ----------
    forest : Forest
    purpose : str
        What the structure was to be used for, for the message.
    allow_spent : bool, default=False
        Accept a structure that was grown privately: a release may go on from it, and claims what
        the structure cost too. Planning without data may not.

    Raises
    ------
    LearnedStructureError
        If the forest was learned from records and is not accepted.

    Examples
    --------
    >>> from mrf_matrix.domain import Domain
    >>> from mrf_matrix.forests.random_trees import RandomTrees
    >>> forest = RandomTrees(1, 1).grow(Domain.from_sizes([2]))
    >>> check_structure_is_public(forest, "a plan without data")
    """
    if not forest.is_data_dependent:
        return
    if not forest._is_learned:
        if allow_spent:
            return
        spent, _ = compose_budgets(forest.provenance.spendings)
        raise LearnedStructureError(
            f"forest ({forest.source or 'learned'}) was grown from records at the cost of "
            f"{spent}: {purpose} must not depend on records. Plan with a structure "
            f"grown without data, such as RandomTrees or PureTrees."
        )
    raise LearnedStructureError(
        f"forest ({forest.source or 'learned'}) was learned from records without a budget: its "
        f"splits reveal them, so {purpose} over it would not be private, whatever the noise. Use a "
        f"structure grown without data (RandomTrees, PureTrees), one that was grown privately, or "
        f"epsilon=float('inf') for non-private work; if it was learned from public records only, "
        f"say so where it is made: from_sklearn(..., provenance=Provenance.public('forest', why))."
    )


RandomState = int | np.random.Generator | None


@runtime_checkable
class PathSource(Protocol):
    """Anything that grows a forest over a public domain, from no data.

    A path source is a frozen dataclass of parameters; growing changes nothing in it, and the
    same parameters, domain and integer `random_state` give the same forest in every process.
    """

    def grow(self, domain: Domain, random_state: RandomState = None) -> Forest:
        """Return a forest over the domain."""
        ...
