"""Votes of ensembles under every voting rule, and under fresh noise of the known law.

============  ==================================================  ==============================
voting        a leaf adds                                         a record's votes
============  ==================================================  ==============================
"hard"        one vote for its largest class                      summed over trees
"weight"      its class counts                                    summed
"product"     ``log p(leaf | class)``, smoothed                   summed, scaled, plus log prior
"shares"      its class shares under the known noise              summed
"posterior"   ``log p(class | leaf) / p(class)``, noise known     summed, scaled, plus log prior
============  ==================================================  ==============================

Scaled: see `leaf_evidence`. Under "shares" and "posterior" a leaf's shares are shrunk toward its
ancestors' and the root's toward equal classes, by how much of them can be noise: a leaf without
signal says what its parent says, and adds nothing to the odds.

*Labels that fresh noise would leave alone: the noise's law is known, so it can be drawn again.*
Votings that shrink, multiply or count have margins of no known variance. But the error that noise
puts on the leaf values, :math:`T A^+ z`, has a law that is known exactly. Draw it again and add it
to what was released: how often the label stays the same tells how easily noise made it. This is the
parametric bootstrap (Efron, 1979), with all that is estimated from the release estimated anew, by
the same rule and for the same noise. It is post-processing: nothing is spent.

What was released has noise already, so the redrawn votes have it twice, and look more alive than
they are: labels are withheld rather too often than not often enough.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.arrays import Array, Codes, Longs
from mrf_matrix.base.checks import whole_number
from mrf_matrix.compilation import path_matrix
from mrf_matrix.forests import Forest
from mrf_matrix.forests.forest import seen_columns
from mrf_matrix.mechanisms import Release, reconstruct
from mrf_matrix.voting.evidence import (
    class_prior,
    evidence_scale,
    odds_logs,
    posterior_shares,
    product_logs,
)
from mrf_matrix.voting.leaf_noise import NoisyLeaves
from mrf_matrix.voting.voting import (
    NoiseAwareVoting,
    Shrinkage,
    forest_votes,
    leaf_votes,
    vote_shares,
)

LeafTable = Callable[[Forest, Array, Array, Array], Array]
"""From a forest, its leaf values, class shares and class totals: what each leaf adds, (o, k)."""


@dataclass(frozen=True)
class VotingRule:
    """One row of the table above."""

    leaf_table: LeafTable
    in_logs: bool = False  # whether sums are logs of odds, to which the classes' prior is added
    always_shrunk: bool = False  # whether leaves are shrunk where no shrinkage is asked for


def _hard(forest: Forest, values: Array, shares: Array, totals: Array) -> Array:
    told = values.sum(axis=1, keepdims=True) > 0  # shares tell where a leaf has no records at all
    return leaf_votes(np.where(told, values, shares), "hard")


def _posterior(forest: Forest, values: Array, shares: Array, totals: Array) -> Array:
    return odds_logs(shares, class_prior(totals, noisy=True))


RULES: Mapping[str, VotingRule] = {
    "hard": VotingRule(_hard),
    "weight": VotingRule(lambda forest, values, shares, totals: values),
    "product": VotingRule(
        lambda forest, values, shares, totals: product_logs(forest, values), in_logs=True
    ),
    "shares": VotingRule(lambda forest, values, shares, totals: shares, always_shrunk=True),
    "posterior": VotingRule(_posterior, in_logs=True, always_shrunk=True),
}


def leaf_evidence(
    leaves: NoisyLeaves, voting: NoiseAwareVoting, shrinkage: Shrinkage
) -> tuple[Array, Array]:
    """Return what each leaf adds to a record's votes (o, k), and the records of each class (k,).

    `voting`: see the table above; `shrinkage` {"none", "votes", "leaves"}: "none" leaves values as
    they are; "shares" and "posterior", which cannot do without, take "votes" then.
    """
    forest, rule = leaves.forest, RULES[voting]
    if shrinkage == "none" and rule.always_shrunk:
        shrinkage = "votes"
    if shrinkage == "none":
        values = shares = leaves.values
    else:
        shrunk = leaves.shrunk(shrinkage)
        values, shares = shrunk.values, shrunk.shares
    totals = values.sum(axis=0) / forest.n_trees
    return rule.leaf_table(forest, values, shares, totals), totals


def ensemble_votes(
    parts: Sequence[tuple[tuple[int, ...], NoisyLeaves]],
    codes: Codes,
    voting: NoiseAwareVoting,
    shrinkage: Shrinkage = "none",
) -> Array:
    """Return the votes of every record, shape (b, k); see the table above.

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
