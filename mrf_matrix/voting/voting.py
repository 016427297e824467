"""Votes from leaf values and their noise: post-processing of what was already released.

Every rule multiplies a sparse incidence (records x leaves) by a small (leaves x classes) table.
Ties are broken by public rules only. A leaf whose largest values tie shares its vote among the tied
classes, and a record whose largest votes tie gets the class that comes first in `classes_`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import prod
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mrf_matrix.base.arrays import Array, Codes, Ints, Longs
from mrf_matrix.base.checks import whole_number
from mrf_matrix.compilation import path_matrix, prediction_workload, query_matrix
from mrf_matrix.domain.columns import plain_array
from mrf_matrix.error.noise_sums import NoiseTerm
from mrf_matrix.forests import Forest
from mrf_matrix.forests.forest import seen_columns
from mrf_matrix.mechanisms import CellCounts, Release, reconstruct, row_variances
from mrf_matrix.mechanisms.counts import distinct_cells
from mrf_matrix.reconstruction import ShrunkLeaves, vote_noise_share
from mrf_matrix.reconstruction.shrinkage import (
    NodeAnswers,
    leaf_sums,
    node_matrix,
    parts_of_parents,
    shrink_nodes,
)
from mrf_matrix.voting.evidence import (
    class_prior,
    evidence_scale,
    odds_logs,
    posterior_shares,
    product_logs,
    vote_shares,
)
from mrf_matrix.voting.intervals import vote_terms
from strategies import Strategy
from strategies.operators import Operator

Voting = Literal["hard", "weight"]
VOTINGS: tuple[Voting, ...] = get_args(Voting)
NoiseAwareVoting = Literal["hard", "weight", "product", "shares", "posterior"]
NOISE_AWARE_VOTINGS: tuple[NoiseAwareVoting, ...] = get_args(NoiseAwareVoting)
Shrinkage = Literal["none", "votes", "leaves"]
SHRINKAGES: tuple[Shrinkage, ...] = get_args(Shrinkage)

ROUTED_AT_ONCE = 2**22  # leaf numbers held at once while predicting (16 MiB of int32)

MANY_TREES = 8
"""Trees from which routing a record takes longer than sorting its cell's number (measured)."""

FEW_RECORDS = 2**12  # records that are voted on one by one: there is nothing to save


def leaf_votes(leaf_values: Array, voting: Voting) -> Array:
    """Return what each leaf adds to the votes of a record that reaches it, shape (o, k).

    `leaf_values` (o, k): released (noisy) class counts of the leaves; `voting` {"hard", "weight"}:
    "hard": one vote for the leaf's largest class, shared equally among ties. "weight": the class
    counts themselves, as in ``V = Q Tᵀ C``.
    """
    if voting == "weight":
        return leaf_values
    best = leaf_values == leaf_values.max(axis=1, keepdims=True)
    return np.asarray(best / best.sum(axis=1, keepdims=True))


def forest_votes(forest: Forest, codes: Codes, votes_of_leaf: Array) -> Array:
    """Return the votes of every record, ``Q Tᵀ`` times the leaves' votes, shape (b, k).

    The largest temporary is the leaf numbers of one block of records (`ROUTED_AT_ONCE`).
    """
    routed = partial(_routed_votes, forest, votes_of_leaf=votes_of_leaf)
    return per_distinct_row(
        routed, codes, forest.domain.sizes, expensive=forest.n_trees >= MANY_TREES
    )


def per_distinct_row(
    votes: Callable[[Codes], Array], codes: Codes, sizes: tuple[int, ...], *, expensive: bool
) -> Array:
    """Return the votes of every record, worked out once for a cell where many records share it.

    `votes`: from codes of shape (b, d) to votes of shape (b, k), row by row; `codes` (b, d);
    `sizes`: attribute sizes of the domain; `expensive`: whether a record's votes take longer than
    sorting its cell's number.
    """
    if len(codes) < FEW_RECORDS or prod(sizes) > (2**62 if expensive else 4 * len(codes)):
        return votes(codes)
    rows, own = distinct_cells(codes, sizes)
    return (
        votes(rows.astype(np.int32, copy=False))[own]
        if 2 * len(rows) <= len(codes)
        else votes(codes)
    )


def _routed_votes(forest: Forest, codes: Codes, votes_of_leaf: Array) -> Array:
    total = np.empty((len(codes), votes_of_leaf.shape[1]))
    for block in record_blocks(len(codes), forest.n_trees):
        leaves = forest.apply(codes[block])
        incidence = sparse.csr_array(
            (np.ones(leaves.size), leaves.ravel(), np.arange(0, leaves.size + 1, forest.n_trees)),
            shape=(len(leaves), forest.n_leaves),
        )
        total[block] = np.asarray(incidence @ votes_of_leaf)
    return total


def record_blocks(n_records: int, n_trees: int) -> Iterator[slice]:
    """Cut the records into blocks of at most `ROUTED_AT_ONCE` (record, tree) pairs."""
    step = max(1, ROUTED_AT_ONCE // max(1, n_trees))
    return (slice(start, start + step) for start in range(0, n_records, step))


def leaf_labels(counts: CellCounts, preference: Array) -> CellCounts:
    """Return the hard votes of leaves: one vote for the largest class of each leaf with records.

    `counts`: records of each class in each leaf that has any; `preference` (o, k): public random
    numbers: among tied classes the one of the largest number gets the vote.
    """
    leaves = counts.codes[:, 0]
    tied = counts.counts == counts.counts.max(axis=1, keepdims=True, initial=0)
    winner = np.where(tied, preference[leaves], -1.0).argmax(axis=1)
    votes = np.zeros_like(counts.counts)
    votes[np.arange(len(votes)), winner] = 1
    return CellCounts(counts.codes, votes, counts.sizes, _provenance=counts.provenance)


@dataclass(frozen=True, eq=False)
class LeafNoise:
    """The noise of leaf values, as far as votes depend on it."""

    node_variances: Array
    """Shape (nodes,): variance of every node's noisy count, in each class, in records squared."""
    vote_share: float
    """Variance of a mean over trees as a share of one leaf's, see `vote_noise_share`."""


def independent_noise(forest: Forest, variance: float) -> LeafNoise:
    """Return the noise of leaves that were measured themselves, each with its own draw."""
    leaves = np.full(forest.n_leaves, variance)
    return LeafNoise(np.asarray(leaf_sums(forest) @ leaves), 1 / forest.n_trees)


@dataclass(frozen=True, eq=False)
class NoisyLeaves:
    """Noisy class counts of a forest's leaves, with their noise."""

    forest: Forest
    values: Array  # shape (o, k)
    origin: LeafNoise | Release | float
    """The noise, or what it follows from when it is first asked for: the release that answered the
    leaves by least squares, or the variance of leaves that were measured themselves."""
    known_parts: Array | None = None
    """Nodes as parts of their parents, where they were worked out before for the same trees."""

    def __post_init__(self) -> None:
        # one layout, so that sums have one order and files predict the same to the last digit
        object.__setattr__(self, "values", np.ascontiguousarray(plain_array("values", self.values)))

    @cached_property
    def noise(self) -> LeafNoise:
        """The noise: exact, known without data.

        Raises RowSpaceError if the release does not determine some node.
        """
        if isinstance(self.origin, LeafNoise):
            return self.origin
        if isinstance(self.origin, Release):
            distinct, number, _ = node_matrix(self.forest).unique_rows()
            variances = row_variances(self.origin, distinct)[number]
            return LeafNoise(variances, vote_noise_share(self.forest, self.origin))
        return independent_noise(self.forest, self.origin)

    @property
    def variances(self) -> Array:
        """Noise variance of every leaf value, in records squared, shape (o,)."""
        return np.asarray(self.noise.node_variances[self.forest.leaves])

    @property
    def is_noisy(self) -> bool:
        """Whether there is any noise."""
        return bool(self.noise.node_variances.any())

    @cached_property
    def _parts(self) -> Array:
        return parts_of_parents(self.forest) if self.known_parts is None else self.known_parts

    def with_errors(self, errors: Array) -> "NoisyLeaves":
        """Return the leaves with further errors of the same law."""
        return NoisyLeaves(self.forest, self.values + errors, self.noise, self._parts)

    def shrink(self, shrinkage: Shrinkage) -> ShrunkLeaves:
        """Return the leaves shrunk toward their ancestors: for "leaves", or for "votes" only.

        "leaves" sets weights against all the noise of a leaf, "votes" against the part that is
        left in a mean over trees. Inner nodes are the sums of their leaves, which for answers by
        least squares are the nodes' own answers.
        """
        return self._shrunk_for_votes if shrinkage == "votes" else self._shrunk_for_leaves

    @cached_property
    def _shrunk_for_votes(self) -> ShrunkLeaves:
        return shrink_nodes(self.forest, self._nodes, noise_share=self.noise.vote_share)

    @cached_property
    def _shrunk_for_leaves(self) -> ShrunkLeaves:
        return shrink_nodes(self.forest, self._nodes)

    @cached_property
    def _nodes(self) -> NodeAnswers:
        counts = np.asarray(leaf_sums(self.forest) @ self.values)
        return NodeAnswers(counts, self.noise.node_variances, self._parts)


LeafTable = Callable[[Forest, Array, Array, Array], Array]
"""From a forest, its leaf values, class shares and class totals: what each leaf adds, (o, k)."""


@dataclass(frozen=True)
class VotingRule:
    """A way to vote: the votes of leaves, and how they are added up."""

    leaf_table: LeafTable
    in_logs: bool = False  # whether sums are logs of odds, to which the classes' prior is added
    always_shrunk: bool = False  # whether leaves are shrunk where no shrinkage is asked for


def _hard_table(forest: Forest, values: Array, shares: Array, totals: Array) -> Array:
    told = values.sum(axis=1, keepdims=True) > 0  # shares tell where a leaf has no records at all
    return leaf_votes(np.where(told, values, shares), "hard")


def _posterior_table(forest: Forest, values: Array, shares: Array, totals: Array) -> Array:
    return odds_logs(shares, class_prior(totals, noisy=True))


RULES: Mapping[str, VotingRule] = {
    "hard": VotingRule(_hard_table),
    "weight": VotingRule(lambda forest, values, shares, totals: values),
    "product": VotingRule(
        lambda forest, values, shares, totals: product_logs(forest, values), in_logs=True
    ),
    "shares": VotingRule(lambda forest, values, shares, totals: shares, always_shrunk=True),
    "posterior": VotingRule(_posterior_table, in_logs=True, always_shrunk=True),
}


def leaf_evidence(
    leaves: NoisyLeaves, voting: NoiseAwareVoting, shrinkage: Shrinkage
) -> tuple[Array, Array]:
    """Return what each leaf adds to a record's votes (o, k), and the records of each class (k,).

    `voting`: a word of `RULES`; `shrinkage` {"none", "votes", "leaves"}: "none" leaves values as
    they are; "shares" and "posterior", which cannot do without, take "votes" then.
    """
    forest, rule = leaves.forest, RULES[voting]
    if shrinkage == "none" and rule.always_shrunk:
        shrinkage = "votes"
    if shrinkage == "none":
        values = shares = leaves.values
    else:
        shrunk = leaves.shrink(shrinkage)
        values, shares = shrunk.values, shrunk.shares
    totals = values.sum(axis=0) / forest.n_trees
    return rule.leaf_table(forest, values, shares, totals), totals


def ensemble_votes(
    parts: Sequence[tuple[tuple[int, ...], NoisyLeaves]],
    codes: Codes,
    voting: NoiseAwareVoting,
    shrinkage: Shrinkage = "none",
) -> Array:
    """Return the votes of every record, shape (b, k).

    `parts`: each forest's leaves, and the positions of its attributes in the whole domain; `codes`
    (b, d): encoded records, over the whole domain; `voting`, `shrinkage`: see `leaf_evidence`.
    """
    votes: Array = np.zeros((len(codes), 1))
    totals = []
    for features, leaves in parts:
        table, own = leaf_evidence(leaves, voting, shrinkage)
        seen = seen_columns(codes, features)
        votes = votes + forest_votes(leaves.forest, seen, table)
        totals.append(own)
    if not RULES[voting].in_logs:
        return votes
    scale = evidence_scale([(features, leaves.forest) for features, leaves in parts])
    noisy = any(leaves.is_noisy for _, leaves in parts)  # takes time: asked here only
    prior = class_prior(np.mean(totals, axis=0), noisy=noisy)
    with np.errstate(divide="ignore"):  # a class without records, where nothing is noisy
        return np.asarray(scale * votes + np.log(prior))


def shares_of_votes(votes: Array, voting: NoiseAwareVoting) -> Array:
    """Return class shares from votes: posteriors where votes are logs, shares of votes else."""
    return posterior_shares(votes) if RULES[voting].in_logs else vote_shares(votes)


ENTRIES = 2**22  # noise draws that are held at a time


def fresh_leaf_noise(
    release: Release, forest: Forest | None, draws: int, generator: np.random.Generator
) -> Array:
    """Return fresh errors of leaf values, shape (o, k, draws).

    `release`: its law is drawn from; its answers are not looked at; `forest`: whose leaves the
    release answers by least squares; None where leaves were measured; `generator`: not of a private
    release: nothing hangs on it.
    """
    rows, classes = release.answers.shape
    fresh = release.law.research((rows, classes * draws), generator)
    if forest is None:
        errors = fresh / float(release.scale)
    else:
        drawn = replace(release, answers=fresh, domain=None, measured=None)
        errors = reconstruct(drawn, path_matrix(forest))
    return np.asarray(errors.reshape(len(errors), classes, draws))


def agreements(
    ensembles: Sequence["ReleasedEnsemble"],
    codes: Codes,
    labels: NDArray[np.intp],
    rule: tuple[NoiseAwareVoting, Shrinkage],
    draws: int,
    generator: np.random.Generator,
) -> Longs:
    """Return how many of the redrawn votes give each record its label, shape (b,).

    `codes` (b, d): encoded records; `labels` (b,): numbers of their classes.
    """
    agree = np.zeros(len(codes), dtype=np.int64)
    for some in _batches(ensembles, draws):
        noises = [one.redrawn_noise(some, generator) for one in ensembles]
        for number in range(some):
            parts = [
                (one.features, one.leaves.with_errors(noise[:, :, number]))
                for one, noise in zip(ensembles, noises, strict=True)
            ]
            agree += ensemble_votes(parts, codes, *rule).argmax(axis=1) == labels
    return agree


def _batches(ensembles: Sequence["ReleasedEnsemble"], draws: int) -> Iterator[int]:
    """Cut the draws into batches whose noise fits."""
    entries = max(max(one.release.answers.size, one.leaves.values.size) for one in ensembles)
    step = max(1, ENTRIES // entries)
    return (min(step, draws - start) for start in range(0, draws, step))


def checked_draws(n_draws: object, level: float) -> int:
    """Return the number of draws, enough for the level to be reached, or refuse.

    Raises ValueError if even agreement of all draws would not reach the level.
    """
    count = whole_number("n_draws", n_draws)
    if count < level * (count + 1):
        needed = int(np.ceil(level / (1 - level)))
        raise ValueError(
            f"n_draws={count}: too few to tell a share of level={level} from all. Expected at "
            f"least {needed}, or a lower level."
        )
    return count


@dataclass(frozen=True, eq=False)
class ReleasedEnsemble:
    """One ensemble after its release; nothing in it is private."""

    features: tuple[int, ...]  # positions of its attributes in the domain
    forest: Forest  # its structure, over these attributes
    # (o, k): noisy class counts of the leaves, in the order of the domain's classes
    leaf_values: Array
    release: Release  # the noisy measurement
    strategy: Strategy | None = None  # the strategy in use, where there was one
    # whether the release holds the leaves themselves, as the baselines' do; else it answers them
    leaves_measured: bool = False

    @cached_property
    def leaves(self) -> NoisyLeaves:
        noise = self._own_variance if self.leaves_measured else self.release
        return NoisyLeaves(self.forest, self.leaf_values, noise)

    @property
    def leaf_variances(self) -> Array:
        """Noise variance of every leaf value, in each class, shape (o,)."""
        return self.leaves.variances

    def vote_variances(self, codes: Codes) -> Array:
        """Return the expected squared error of every record's weight votes, per class, (b,)."""
        if self._own_weights is not None:
            squares = self._own_weights[self._reached_leaves(codes)] ** 2
            return np.asarray(self.release.variance * squares.sum(axis=1))
        return row_variances(self.release, self._vote_workload(codes))

    def vote_terms(self, codes: Codes) -> list[NoiseTerm] | None:
        if self._own_weights is not None:
            weights = self._own_weights[self._reached_leaves(codes)]
            return [NoiseTerm.of(row, self.release.law) for row in weights]
        return vote_terms(self._vote_workload, self.release, codes)

    def redrawn_noise(self, draws: int, generator: np.random.Generator) -> Array:
        """Return fresh errors of the leaf values, shape (o, k, draws)."""
        answered = None if self.leaves_measured else self.forest
        return fresh_leaf_noise(self.release, answered, draws, generator)

    @cached_property
    def _own_weights(self) -> Array | None:
        """Weight of each leaf's own noise draw, (o,); None where leaves are answered together."""
        if self.leaves_measured:
            return np.full(self.forest.n_leaves, 1 / float(self.release.scale))
        recovery = self.release.mechanism.rounded.recovery
        found = recovery.own_multiples(path_matrix(self.forest))
        return None if found is None else np.abs(found)

    def _reached_leaves(self, codes: Codes) -> Ints:
        return self.forest.apply(seen_columns(codes, self.features))

    @property
    def _own_variance(self) -> float:
        return self.release.variance / float(self.release.scale) ** 2

    def _vote_workload(self, codes: Codes) -> Operator:
        queries = query_matrix(seen_columns(codes, self.features), self.forest.domain)
        return prediction_workload(self.forest, queries)
