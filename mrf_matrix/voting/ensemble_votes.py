"""Votes of one or several forests under every voting rule, and class shares from them.

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
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mrf_matrix.base.arrays import Array, Codes
from mrf_matrix.forests import Forest
from mrf_matrix.forests.forest import seen_columns
from mrf_matrix.voting.leaf_evidence import class_prior, evidence_scale, odds_logs, product_logs
from mrf_matrix.voting.leaf_noise import NoisyLeaves
from mrf_matrix.voting.naive_bayes import posterior_shares
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


def what_leaves_say(
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
    (b, d): encoded records, over the whole domain; `voting`, `shrinkage`: see `what_leaves_say`.
    """
    votes: Array = np.zeros((len(codes), 1))
    totals = []
    for features, leaves in parts:
        table, own = what_leaves_say(leaves, voting, shrinkage)
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
