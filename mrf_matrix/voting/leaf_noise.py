"""The noise in a forest's leaf values: exact, and known without data."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mrf_matrix.base.arrays import Array, plain_array
from mrf_matrix.forests import Forest
from mrf_matrix.mechanisms import Release, row_variances
from mrf_matrix.reconstruction import ShrunkLeaves, vote_noise_share
from mrf_matrix.reconstruction.shrinkage import (
    NodeAnswers,
    leaf_sums,
    node_matrix,
    parts_of_parents,
    shrink_nodes,
)
from mrf_matrix.voting.voting import Shrinkage


@dataclass(frozen=True, eq=False)
class LeafNoise:
    """What votes must know of the noise."""

    node_variances: Array
    """Shape (nodes,): variance of every node's noisy count, in each class, in records squared."""
    vote_share: float
    """Variance of a mean over trees as a share of one leaf's, see `vote_noise_share`."""


def noise_of_release(forest: Forest, release: Release) -> LeafNoise:
    """Return the noise of leaves that are answered by least squares from a release.

    Raises RowSpaceError if the release does not determine some node.
    """
    distinct, number, _ = node_matrix(forest).unique_rows()
    variances = row_variances(release, distinct)[number]
    return LeafNoise(variances, vote_noise_share(forest, release))


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
        """The noise: exact, known without data."""
        if isinstance(self.origin, LeafNoise):
            return self.origin
        if isinstance(self.origin, Release):
            return noise_of_release(self.forest, self.origin)
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

    def with_values(self, values: Array, noise: LeafNoise) -> "NoisyLeaves":
        """Return other values of the same leaves; what is known of the trees is kept."""
        return NoisyLeaves(self.forest, values, noise, self._parts)

    def shrunk(self, shrinkage: Shrinkage) -> ShrunkLeaves:
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
