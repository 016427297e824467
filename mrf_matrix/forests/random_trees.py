"""Structures grown without looking at any record: random trees, ensembles, refusals of others.

Ensembles are those of Tajima, Wu and Houmansadr (AAAI 2025), Algorithm 3, lines 1 to 3: each sees a
few attributes only, drawn without data, so that its domain stays small.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any, Literal

import numpy as np

from mrf_matrix.base.arrays import Bools, Ints
from mrf_matrix.base.checks import check_integer, one_word, short_repr, whole_number
from mrf_matrix.base.provenance import FOREST, provenance_of
from mrf_matrix.domain import Domain
from mrf_matrix.forests.assembly import Boxes
from mrf_matrix.forests.ensembles import Ensemble, attribute_indices, attribute_positions
from mrf_matrix.forests.forest import (
    Forest,
    LearnedStructureError,
    RandomState,
    check_growth,
    forest_from_levels,
)
from mrf_matrix.forests.nodes import ARRAYS, threshold_pattern
from mrf_matrix.mechanisms.statement import compose_budgets

_SMALLER = "lower n_trees or max_depth, give fewer attributes, or coarsen the domain"

Use = Literal["plan", "release", "study"]
PURPOSE = {"plan": "a plan without data", "release": "what claims privacy"}

MOST_ENSEMBLES = 10_000


@dataclass(frozen=True)
class RandomTrees:
    """Random decision trees, grown without looking at any record.

    Every node draws its attribute uniformly among those it can still split, independently of
    all other nodes.

    - ``splits="multiway"`` (ID3 style, the trees of the M-RF paper): one branch a code, so an
      attribute is never used again on a path.
    - ``splits="binary"``: a threshold drawn uniformly between the codes that remain on the path
      (codes below it go left); an attribute can be used again while it keeps two codes.

    Attributes of size 1 are never drawn. A node at ``max_depth``, or one with nothing left to
    split, is a leaf.

    Parameters
    ----------
    n_trees : int, default=128
        Number of trees.
    max_depth : int, default=4
        Most splits on a path, 0 for trees of a single leaf. With multi-way splits every path has
        exactly this many, or as many as there are attributes to split.
    splits : {"multiway", "binary"}, default="multiway"
        Kind of splits.
    attributes : sequence of str or int, optional
        Names or indices of the attributes that may be split; all by default.

    Raises
    ------
    ValueError, TypeError
        If a parameter is out of range or of the wrong type.

    References
    ----------
    Tajima, Wu, Houmansadr: Improving Private Random Forest Prediction Using Matrix
    Representation (2025), ``BuildTree``; Fan et al., Is random model better? On its accuracy and
    efficiency (2003).

    Examples
    --------
    >>> from mrf_matrix.domain import Domain
    >>> car = Domain.from_sizes([4, 4, 4, 3, 3, 3])
    >>> RandomTrees(n_trees=2, max_depth=1, splits="binary").grow(car, random_state=0)
    Forest(2 trees, 4 leaves, depth 1, over 6 attributes, random binary trees)
    """

    n_trees: int = 128
    max_depth: int = 4
    splits: Literal["multiway", "binary"] = "multiway"
    attributes: Sequence[str | int] | None = None

    def __post_init__(self) -> None:
        check_integer("n_trees", self.n_trees, 1)
        check_integer("max_depth", self.max_depth, 0)
        one_word("splits", self.splits, ("multiway", "binary"))
        object.__setattr__(self, "attributes", attribute_choice(self.attributes))

    def grow(self, domain: Domain, random_state: RandomState = None) -> Forest:
        """Draw a forest over a public domain.

        Parameters
        ----------
        domain : Domain
            The public domain.
        random_state : int, numpy Generator or None, default=None
            Seed of the structure; an integer gives the same forest in every process.

        Returns
        -------
        Forest
            Grown without data: taken as public.

        Raises
        ------
        ValueError
            If `attributes` does not fit the domain, or the forest would be too large.

        Notes
        -----
        All nodes of all trees at one depth are drawn together. The largest temporary array is
        (nodes at depth ``max_depth - 1``) x attributes: booleans for multi-way splits, two of
        int32 for binary ones.
        """
        check_growth(self.n_trees, _SMALLER)
        generator = np.random.default_rng(random_state)
        usable = splittable_attributes(domain, self.attributes)
        if self.splits == "multiway":
            levels = self._multiway(domain, usable, generator)
            return forest_from_levels(
                domain, levels, provenance=FOREST, source="random multi-way trees"
            )
        attribute, pattern = self._binary(domain, usable, generator)
        return forest_from_levels(
            domain, attribute, pattern, provenance=FOREST, source="random binary trees"
        )

    def _multiway(
        self, domain: Domain, usable: Bools, generator: np.random.Generator
    ) -> list[Ints]:
        sizes = np.asarray(domain.sizes, dtype=np.int64)
        available = np.tile(usable, (self.n_trees, 1))
        attributes, total = [], self.n_trees
        for _ in range(min(self.max_depth, int(usable.sum()))):
            chosen = draw_available(available, generator)
            attributes.append(chosen)
            fan = sizes[chosen]
            total += int(fan.sum())
            check_growth(total, _SMALLER)
            available[np.arange(len(chosen)), chosen] = False
            available = np.repeat(available, fan, axis=0)
        attributes.append(np.full(len(available), -1, dtype=np.int32))
        return attributes

    def _binary(
        self, domain: Domain, usable: Bools, generator: np.random.Generator
    ) -> tuple[list[Ints], list[Ints]]:
        boxes = Boxes.whole(domain.sizes, self.n_trees)
        attributes, patterns, total = [], [], self.n_trees
        for _ in range(self.max_depth):
            chosen = draw_available((boxes.high - boxes.low >= 2) & usable, generator)
            rows = np.flatnonzero(chosen >= 0)
            i = chosen[rows]
            cut = generator.integers(boxes.low[rows, i] + 1, boxes.high[rows, i])
            pattern = np.zeros(len(chosen), dtype=np.int32)
            pattern[rows] = threshold_pattern(domain.sizes, cut)
            attributes.append(chosen)
            patterns.append(pattern)
            total += 2 * len(rows)
            check_growth(total, _SMALLER)
            boxes = boxes.halves(rows, i, cut)
        attributes.append(np.full(len(boxes.low), -1, dtype=np.int32))
        patterns.append(np.zeros(len(boxes.low), dtype=np.int32))
        return attributes, patterns


def attribute_choice(attributes: Sequence[str | int] | None) -> tuple[str | int, ...] | None:
    """Return names or indices of attributes as a tuple; None stays None.

    Raises TypeError if a single name is given in place of a sequence.
    """
    if attributes is None:
        return None
    if isinstance(attributes, str):
        raise TypeError(
            f"attributes={short_repr(attributes)}: expected a sequence of names or indices, "
            f"for example [{attributes!r}]."
        )
    return tuple(attributes)


def splittable_attributes(domain: Domain, attributes: Sequence[str | int] | None = None) -> Bools:
    """Return which attributes a tree may split: those asked for that have at least two codes.

    Raises ValueError if an attribute is unknown, named twice, or none can be split.
    """
    if attributes is None:
        chosen = np.ones(domain.n_attributes, dtype=np.bool_)
    else:
        index = attribute_indices(domain, attributes, "attributes")
        if len(set(index)) < len(index):
            raise ValueError(f"attributes={short_repr(attributes)} names an attribute twice.")
        chosen = np.zeros(domain.n_attributes, dtype=np.bool_)
        chosen[index] = True
    return chosen & (np.asarray(domain.sizes, dtype=object) >= 2).astype(np.bool_)


def draw_available(available: Bools, generator: np.random.Generator) -> Ints:
    """Draw for every row one of its True columns uniformly; -1 where there is none.

    `available` (nodes, attributes).

    >>> draw_available(np.array([[False, True], [False, False]]), np.random.default_rng(0))
    array([ 1, -1], dtype=int32)
    """
    rank = np.cumsum(available, axis=1, dtype=np.int32)
    count = rank[:, -1]
    drawn = generator.integers(0, np.maximum(count, 1))
    chosen = np.argmax(rank > drawn[:, np.newaxis], axis=1)
    return np.where(count > 0, chosen, -1).astype(np.int32)


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


def grow_public_forest(source: Any, domain: Domain, structure: np.random.Generator) -> Forest:
    """Return the forest that a path source grows; where it states no provenance, it is public.

    Whoever gives the source declares it to be so.
    """
    forest = source.grow(domain, structure)
    if not isinstance(forest, Forest) or not forest.provenance.unknown:
        return forest  # type: ignore[no-any-return]
    arrays = {name: getattr(forest, name) for name in ARRAYS}
    known = replace(forest.provenance, unknown=frozenset()) | FOREST
    return Forest(
        forest.domain, **arrays, provenance=known, source=forest.source,
        allow_empty=forest.allow_empty,
    )  # fmt: skip


def check_asks_no_records(source: object) -> None:
    """Refuse a path source that grows from records: a plan has none to give."""
    if isinstance(source, Forest):
        return
    asked = signature(source.grow).parameters if hasattr(source, "grow") else {}
    if "domain" not in asked or {"codes", "labels", "X", "y"} & set(asked):
        raise LearnedStructureError(
            f"forest={short_repr(source)}: expected a Forest, or a path source that grows from the "
            f"public domain alone, such as RandomTrees or PureTrees. One that learns from records "
            f"cannot be planned without data."
        )


def check_as_public(forest: Forest, domain: Domain) -> None:
    """Refuse a forest over a domain that was read off records where the given one is public.

    Raises LearnedStructureError: its splits are at edges that the records said.
    """
    if forest.domain.is_read_off and not domain.is_read_off:
        raise LearnedStructureError(
            "forest was grown over a domain that was read off records, and the domain beside it "
            "is public: expected one that was grown over this domain."
        )


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


def _check_fits(forest: Forest, domain: Domain) -> None:
    if forest.domain.sizes != domain.sizes:
        raise ValueError(
            f"forest has a domain of sizes {forest.domain.sizes}: expected the estimator's "
            f"domain, {domain.sizes}. Grow it over the same domain."
        )
    check_as_public(forest, domain)
