r"""Labels that fresh noise would leave alone: the noise's law is known, so it can be drawn again.

Votings that shrink, multiply or count have margins of no known variance. But the error that noise
puts on the leaf values, :math:`T A^+ z`, has a law that is known exactly. Draw it again and add it
to what was released: how often the label stays the same tells how easily noise made it. This is the
parametric bootstrap (Efron, 1979), with all that is estimated from the release estimated anew, by
the same rule and for the same noise. It is post-processing: nothing is spent.

What was released has noise already, so the redrawn votes have it twice, and look more alive than
they are: labels are withheld rather too often than not often enough.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.arrays import Array, Codes, Longs
from mrf_matrix.base.checks import whole_number
from mrf_matrix.compilation import path_matrix
from mrf_matrix.forests import Forest
from mrf_matrix.mechanisms import Release, reconstruct
from mrf_matrix.voting.ensemble_votes import ensemble_votes
from mrf_matrix.voting.leaf_noise import NoisyLeaves
from mrf_matrix.voting.voting import NoiseAwareVoting, Shrinkage

ENTRIES = 2**22  # noise draws that are held at a time


class RedrawableEnsemble(Protocol):
    """One ensemble whose noise can be drawn again."""

    @property
    def features(self) -> tuple[int, ...]:
        """Positions of its attributes in the domain."""

    @property
    def leaves(self) -> NoisyLeaves:
        """Its leaf values with their noise."""

    @property
    def release(self) -> Release:
        """The release that answered its leaves."""

    def redrawn_noise(self, draws: int, generator: np.random.Generator) -> Array:
        """Return fresh errors of the leaf values, shape (o, k, draws)."""


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
    ensembles: Sequence[RedrawableEnsemble],
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
                (one.features, _with_errors(one.leaves, noise[:, :, number]))
                for one, noise in zip(ensembles, noises, strict=True)
            ]
            agree += ensemble_votes(parts, codes, *rule).argmax(axis=1) == labels
    return agree


def _with_errors(leaves: NoisyLeaves, errors: Array) -> NoisyLeaves:
    return leaves.with_values(leaves.values + errors, leaves.noise)


def _batches(ensembles: Sequence[RedrawableEnsemble], draws: int) -> Iterator[int]:
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
