"""Forests over subsets of the attributes: the ensembles of Algorithm 3, and trees of blocks.

Each ensemble sees a few attributes only, so that its domain stays small. Its forest, workload and
strategy live on that sub-domain. All of it is public and drawn without data (Tajima, Wu and
Houmansadr, AAAI 2025, Algorithm 3, lines 1 to 3).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import log, prod
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from mrf_matrix.base.arrays import Codes, Ints, Longs
from mrf_matrix.base.checks import short_repr, whole_number
from mrf_matrix.base.provenance import FOREST, ChosenTuple, Provenance, provenance_of
from mrf_matrix.domain import Domain
from mrf_matrix.domain.columns import checked_codes
from mrf_matrix.forests.forest import (
    Forest,
    RandomState,
    check_growth,
    forest_from_levels,
    seen_columns,
)
from mrf_matrix.forests.random_trees import (
    RandomTrees,
    check_as_public,
    check_asks_no_records,
    check_structure_is_public,
    grow_public_forest,
)

Use = Literal["plan", "release", "study"]

PURPOSE = {"plan": "a plan without data", "release": "what claims privacy"}


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


@dataclass(frozen=True)
class EnsembleDesign:
    """The public design of ensembles: their number, trees and attributes."""

    n_ensembles: object = 1  # number of ensembles q
    max_features: object = None  # attributes that each ensemble draws (d̄); None for all of them
    # the attributes of each ensemble, by hand; then none are drawn
    feature_subsets: Sequence[Sequence[str | int]] | None = None
    # n_trees, max_depth, splits: the random trees of all ensembles together, see `RandomTrees`
    n_trees: Any = 128
    max_depth: int = 4
    splits: Any = "multiway"
    forest: Any = None  # what to use instead of random trees: one for all ensembles, or one each

    def grow(
        self, domain: Domain, structure: np.random.Generator, *, use: Use = "plan"
    ) -> tuple[Ensemble, ...]:
        """Draw the attributes of every ensemble and grow its forest, without data.

        `use` {"plan", "release", "study"}: a plan takes structures grown without data only; a
        private release also those that were paid for; a study without privacy
        takes any.

        Raises ValueError, TypeError if a parameter is out of range, or does not fit another one or
        the domain, or a forest was learned from records (a `LearnedStructureError`).
        """
        count = self.checked_count()
        sources = self._sources(count)  # refused before subsets are drawn
        subsets = self._subsets(domain, count, structure)
        ensembles = []
        for subset, source in zip(subsets, sources, strict=True):
            whole = subset == tuple(range(domain.n_attributes))
            part = domain if whole else domain.select(subset)
            if use == "plan":
                check_asks_no_records(source)
            given = isinstance(source, Forest)
            forest = source if given else grow_public_forest(source, part, structure)
            _check_fits(forest, part)
            if self.feature_subsets is not None:
                known = provenance_of(self.feature_subsets, "feature subsets")
                forest = replace(forest, provenance=known)
            if use != "study":
                paid = use == "release"
                check_structure_is_public(forest, PURPOSE[use], allow_spent=paid)
            limit = source.max_depth if isinstance(source, RandomTrees) else None
            ensembles.append(Ensemble(subset, forest, limit))
        return tuple(ensembles)

    def checked_count(self) -> int:
        count = whole_number("n_ensembles", self.n_ensembles)
        if count > MOST_ENSEMBLES:
            raise ValueError(
                f"n_ensembles={short_repr(count)}: expected at most {MOST_ENSEMBLES}. Each has a "
                f"share of the budget, which is nothing then."
            )
        if self.feature_subsets is None:
            return count
        if isinstance(self.feature_subsets, str) or not len(self.feature_subsets):
            raise ValueError(
                f"feature_subsets={short_repr(self.feature_subsets)}: expected one list of "
                f"attributes for each ensemble, for example [[0, 1], ['age', 'sex']]."
            )
        if count not in (1, len(self.feature_subsets)):
            raise ValueError(
                f"n_ensembles={count} and {len(self.feature_subsets)} feature_subsets: expected "
                f"as many of one as of the other; leave n_ensembles out."
            )
        return len(self.feature_subsets)

    def _subsets(
        self, domain: Domain, count: int, structure: np.random.Generator
    ) -> list[tuple[int, ...]]:
        if self.feature_subsets is not None:
            if self.max_features is not None:
                raise ValueError(
                    f"max_features={short_repr(self.max_features)} and feature_subsets are both "
                    f"given: expected one of them."
                )
            return [
                attribute_positions("feature_subsets", domain, subset)
                for subset in self.feature_subsets
            ]
        size = domain.n_attributes
        if self.max_features is not None:
            size = whole_number("max_features", self.max_features)
            if size > domain.n_attributes:
                raise ValueError(
                    f"max_features={size}: expected at most {domain.n_attributes}, the "
                    f"attributes of the domain."
                )
        if size == domain.n_attributes:
            return [tuple(range(size))] * count
        drawn = (structure.choice(domain.n_attributes, size, replace=False) for _ in range(count))
        return [tuple(int(i) for i in np.sort(positions)) for positions in drawn]

    def _sources(self, count: int) -> Sequence[Any]:
        RandomTrees(self.n_trees, self.max_depth, self.splits)  # refused even where not in use
        if self.forest is None:
            trees = whole_number("n_trees", self.n_trees)
            if trees < count:
                raise ValueError(
                    f"n_trees={trees} and n_ensembles={count}: expected at least one tree for "
                    f"each ensemble."
                )
            shares = [trees // count + (i < trees % count) for i in range(count)]
            return [RandomTrees(share, self.max_depth, self.splits) for share in shares]
        given = list(self.forest) if isinstance(self.forest, list | tuple) else [self.forest]
        if len(given) == 1 and (count == 1 or not isinstance(given[0], Forest)):
            return given * count
        if len(given) != count:
            raise ValueError(
                f"forest holds {len(given)} for {count} ensembles: expected one forest for each "
                f"of them, or one path source for all."
            )
        return given


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


def _check_fits(forest: Forest, domain: Domain) -> None:
    if forest.domain.sizes != domain.sizes:
        raise ValueError(
            f"forest has a domain of sizes {forest.domain.sizes}: expected the estimator's "
            f"domain, {domain.sizes}. Grow it over the same domain."
        )
    check_as_public(forest, domain)


DRAWN_QUERIES = 128  # queries that stand for those to come, where none are given

MOST_ENSEMBLES = 10_000

MOST_CODES = 2**27  # of drawn queries: half a gigabyte


def public_queries(domain: Domain, queries: ArrayLike | None) -> Codes:
    """Return the codes of public queries, shape (b, d).

    `queries` (b, d): codes of queries, or how many to draw uniformly from the domain, always the
    same.
    """
    if queries is None or np.ndim(queries) == 0:
        count = DRAWN_QUERIES if queries is None else whole_number("queries", queries)
        if count * domain.n_attributes > MOST_CODES:
            raise ValueError(
                f"queries={short_repr(count)}: expected at most "
                f"{MOST_CODES // domain.n_attributes}, whose codes of {domain.n_attributes} "
                f"attributes fit in memory."
            )
        generator = np.random.default_rng(0)
        drawn = [generator.integers(0, size, count) for size in domain.sizes]
        return np.stack(drawn, axis=1).astype(np.int32)
    codes = np.asarray(checked_codes(queries, domain.sizes, domain.names), dtype=np.int32)
    if not len(codes):
        raise ValueError("queries is empty: expected at least one query, or their number.")
    return codes


def query_keys(ensembles: Sequence[Ensemble], codes: Codes) -> Codes:
    """Return the codes of queries in the attributes that some ensemble sees."""
    seen = sorted(set().union(*(ensemble.features for ensemble in ensembles)))
    return np.ascontiguousarray(codes[:, seen])


def distinct_queries(ensembles: Sequence[Ensemble], codes: Codes) -> tuple[Codes, Longs, Longs]:
    """Return the queries that differ to some ensemble, as first asked, and how often each is.

    Last comes which of them each of the queries is, shape (b,).
    """
    keys = query_keys(ensembles, codes)
    _, first, which, counts = np.unique(
        keys, axis=0, return_index=True, return_inverse=True, return_counts=True
    )
    order = np.argsort(first)
    return codes[first[order]], counts[order].astype(np.int64), np.argsort(order)[which.ravel()]


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

    `domain`: the public schema. Attributes with one code only are left out: they tell nothing.

    Returns
    -------
    Forest
        Leaf values of tree i are counts of attribute i's codes, of the last tree class totals.

    Examples
    --------
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
