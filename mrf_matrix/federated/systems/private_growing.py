"""Trees that several parties grow privately: each chooses splits of its own records only.

Parties hold different records, so what they spend composes in parallel: a record pays for the
choices of its own party, whatever the others choose. Choices are made where the records are, so
nobody else is trusted with anything.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np

from mrf_matrix.base.arrays import Longs, Seed
from mrf_matrix.base.provenance import Provenance, spending_of
from mrf_matrix.domain import Domain
from mrf_matrix.federated.systems.growing import Part
from mrf_matrix.forests import Forest, PrivateMultinomialTrees, concatenate, forest_from_levels
from mrf_matrix.forests.assembly import Boxes, graft
from mrf_matrix.forests.growth.grow import bare_roots
from mrf_matrix.forests.growth.private import (
    PrivateGrowth,
    choices_of,
    chosen_levels,
    private_levels,
)
from mrf_matrix.forests.growth.records import Records
from mrf_matrix.forests.nodes import leaf_masks
from mrf_matrix.mechanisms import ZCDP, PrivacyLedger, PureDP
from mrf_matrix.mechanisms.ledger.payers import charge_together
from mrf_matrix.mechanisms.selection import Bits
from mrf_matrix.release.curator import Live
from mrf_matrix.release.plan import Places, PlanOfSteps


def grow_privately(
    domain: Domain,
    parts: Sequence[Part],
    trees: PrivateMultinomialTrees,
    *,
    collaborative: bool = True,
    noise: str = "exact",
    noise_state: Seed = None,
    ledgers: Sequence[PrivacyLedger] | None = None,
) -> Forest:
    """Grow trees whose splits are ε-differentially private for the records of every party.

    The m trees are cut into k subsets. Level l of subset s is split by party ``(s - l) mod k``, or
    all of it by party s. Every node takes its attribute and its cut by exponential mechanisms
    on the party's records. With L the most (tree, level) pairs that one party splits, each pair
    spends ``ε/L``: nodes of one level hold different records, the pairs of one party add up, and
    parties compose in parallel.

    Parameters
    ----------
    domain : Domain
        **Public**, with a target.
    parts : sequence of (codes, labels)
        Each party's records; none will do.
    trees : PrivateMultinomialTrees
        ε, the number m of trees, their depth and the score. `structure_share` and `disjoint` are
        of a single party and must stand at their defaults.
    collaborative : bool, default=True
        Whether levels of a tree are split by different parties.
    noise, noise_state
        As in `PrivateMultinomialTrees.grow`.
    ledgers : sequence of PrivacyLedger, optional
        One for each party, charged ε before its records are looked at.

    Returns
    -------
    Forest
        With its `provenance`: ε, or ρ. What leaves spend afterwards adds to it.

    Raises
    ------
    BudgetError
        If a ledger does not cover ε.
    ValueError
        If a parameter does not fit, or the trees could outgrow the limit on nodes.

    Notes
    -----
    Neighbours differ in a record of one party; with ``neighboring="replace_one"`` the record that
    comes belongs to the same party. A record that moves to another party is removed at the one
    and added at the other, which costs up to 2 ε of "add_remove".
    The largest arrays are the leaves of one subset times the codes of all attributes, in bytes,
    and 24 bytes for each record of a party and tree of a subset.

    Examples
    --------
    >>> domain = Domain.from_sizes([4, 4], 2)
    >>> codes = np.array([[0, 1], [3, 2]])
    >>> parts = [(codes, np.array([0, 1])), (codes[:0], np.empty(0, int))]
    >>> forest = grow_privately(domain, parts, PrivateMultinomialTrees(1, n_trees=4, max_depth=2))
    >>> forest.n_leaves, [one.budget for one in forest.provenance.spendings]
    (16, [PureDP(epsilon=1)])
    """
    k = len(parts)
    _check_arguments(trees, k, ledgers)
    if domain.is_read_off:
        raise ValueError(
            "domain was read off records, which no noise protects: expected a public domain, for "
            "trees that parties grow privately."
        )
    trees.sizes(domain).check()
    for codes, labels in parts:
        if len(codes):
            Records.of(domain, codes, labels)  # refuses what does not fit, before anything is spent
    bits = Bits.of(noise, noise_state)
    subsets = [len(part) for part in np.array_split(np.arange(trees.n_trees), k)]
    turns = [
        [(subset - level) % k if collaborative else subset for level in range(trees.max_depth)]
        for subset in range(k)
    ]
    step = replace(trees, n_trees=most_splits(subsets, turns), max_depth=1)
    budget = step.rates.budget
    kind = "none" if budget.is_infinite else noise
    spent = spending_of(budget, trees.neighboring, kind, "splits of trees")
    charge_together(ledgers or (), spent)
    known = Provenance.from_spending(spent)
    curators = {
        party: Live(plan, parts[party], nullcontext, noise, bits.generator, provenance=known)
        for party, plan in enumerate(party_plans(domain, trees, subsets, turns))
        if plan.steps
    }
    grown = []
    for n_trees, turn in zip(subsets, turns, strict=True):
        if not n_trees:
            continue
        forest = bare_roots(domain, n_trees, f"private trees of {k} parties{bits.remark}")
        for party in turn:
            asked, curator = LeafSplits(forest, step.growth), curators[party]
            mine = curator.plan.steps[len(curator.transcript.choices)]
            forest = asked.split_leaves(curator.choose(mine, asked), known)
        grown.append(forest)
    return concatenate(grown)


def party_plans(
    domain: Domain,
    trees: PrivateMultinomialTrees,
    subsets: Sequence[int],
    turns: Sequence[Sequence[int]],
) -> list[PlanOfSteps]:
    """Return what each party will choose: a step for each level that is its turn."""
    whole, most = trees.rates.budget, most_splits(subsets, turns)
    steps: list[list[SplitStep]] = [[] for _ in subsets]
    for n_trees, turn in zip(subsets, turns, strict=True):
        for party in turn if n_trees else ():
            share = whole * Fraction(n_trees, most)
            steps[party].append(SplitStep(f"splits of {n_trees} trees", share, trees.neighboring))
    return [PlanOfSteps(domain, tuple(mine)) for mine in steps]


@dataclass(frozen=True)
class SplitStep:
    """One level of some trees, which one party splits."""

    measured: str
    budget: PureDP | ZCDP
    neighboring: str
    kind: ClassVar[str] = "splits"


@dataclass(frozen=True, eq=False)
class LeafSplits:
    """Splits of all leaves of trees by one party's records, each of which is in a leaf a tree."""

    forest: Forest
    growth: PrivateGrowth
    kind: ClassVar[str] = SplitStep.kind

    def scores(self, data: Part) -> Part:
        return data

    def draw(self, scores: Part, step: SplitStep, bits: Bits) -> Places:
        """Choose the candidate of every leaf that can be split."""
        codes, labels = np.asarray(scores[0]), np.asarray(scores[1])
        leaf = self.forest.apply(codes)
        order = np.argsort(leaf, axis=None, kind="stable")
        node: Longs = leaf.ravel()[order].astype(np.int64)
        levels = private_levels(
            self.forest.domain, codes, labels, node, order // self.forest.n_trees,
            self.forest.n_leaves, self.growth, bits, _leaf_boxes(self.forest),
        )  # fmt: skip
        return choices_of(self.forest.domain.sizes, *levels[0])

    def check(self, chosen: Places) -> None:
        self.split_leaves(chosen, self.forest.provenance)

    def split_leaves(self, chosen: Places, provenance: Provenance) -> Forest:
        domain, boxes = self.forest.domain, _leaf_boxes(self.forest)
        levels = chosen_levels(domain.sizes, boxes, self.growth.max_depth, chosen)
        attributes, patterns = zip(*levels, strict=True)
        pool = self.forest.branches
        below = forest_from_levels(domain, attributes, patterns, pool, provenance=provenance)
        return graft(self.forest, below)


def most_splits(subsets: Sequence[int], turns: Sequence[Sequence[int]]) -> int:
    """Return the most (tree, level) pairs that one party splits; 1 where there are none.

    `subsets`: trees of each subset; `turns`: the party of each level of each subset.
    """
    split = np.zeros(len(subsets), dtype=np.int64)
    for n_trees, turn in zip(subsets, turns, strict=True):
        np.add.at(split, np.asarray(turn, dtype=np.int64), n_trees)
    return max(1, int(split.max()))


def _leaf_boxes(forest: Forest) -> Boxes:
    masks = leaf_masks(forest)
    low = np.stack([mask.argmax(axis=1) for mask in masks], axis=1).astype(np.int32)
    held = np.stack([mask.sum(axis=1) for mask in masks], axis=1).astype(np.int32)
    return Boxes(low, low + held)


def _check_arguments(
    trees: PrivateMultinomialTrees, n_parties: int, ledgers: Sequence[PrivacyLedger] | None
) -> None:
    if not n_parties:
        raise ValueError("parts is empty: expected at least one party.")
    if trees.disjoint or trees.structure_share != 1:
        raise ValueError(
            f"trees has disjoint={trees.disjoint}, structure_share={trees.structure_share}: "
            f"expected False and 1; parties split trees by all of their records."
        )
    if ledgers is not None and len(ledgers) != n_parties:
        raise ValueError(f"ledgers has {len(ledgers)}: expected {n_parties}, one for each party.")
