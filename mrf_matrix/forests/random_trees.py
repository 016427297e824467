"""Structures grown without looking at any record: random trees, and refusals of learned ones."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from mrf_matrix.base.arrays import (
    Bools,
    Ints,
)
from mrf_matrix.base.checks import check_integer, name_some, one_word, short_repr
from mrf_matrix.base.provenance import FOREST
from mrf_matrix.domain import Domain
from mrf_matrix.forests.assembly import Boxes
from mrf_matrix.forests.forest import Forest, RandomState, check_growth, forest_from_levels
from mrf_matrix.forests.nodes import ARRAYS, threshold_pattern
from mrf_matrix.mechanisms.statement import compose_budgets

_SMALLER = "lower n_trees or max_depth, give fewer attributes, or coarsen the domain"


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


@runtime_checkable
class PathSource(Protocol):
    """Anything that grows a forest over a public domain, from no data.

    A path source is a frozen dataclass of parameters; growing changes nothing in it, and the
    same parameters, domain and integer `random_state` give the same forest in every process.
    """

    def grow(self, domain: Domain, random_state: RandomState = None) -> Forest:
        """Return a forest over the domain."""
        ...


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
