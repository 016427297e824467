"""Votes against a slow loop over records and trees; public rules for ties."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrf_matrix import Domain, RandomTrees
from mrf_matrix.base.checks import one_word
from mrf_matrix.voting import voting
from mrf_matrix.voting.voting import odds_logs


def slow_votes(forest, codes, table):
    leaves = forest.apply(codes)
    return np.array([sum(table[leaf] for leaf in row) for row in leaves])


@pytest.mark.parametrize("rule", voting.VOTINGS)
def test_votes_equal_a_loop_over_records(rule, monkeypatch):
    monkeypatch.setattr(voting, "ROUTED_AT_ONCE", 50)  # several blocks
    domain = Domain.from_sizes([3, 2, 4], n_classes=3)
    forest = RandomTrees(n_trees=7, max_depth=2).grow(domain, random_state=1)
    generator = np.random.default_rng(0)
    codes = np.stack([generator.integers(size, size=40) for size in domain.sizes], axis=1)
    values = generator.normal(size=(forest.n_leaves, 3))
    table = voting.leaf_votes(values, rule)
    votes = voting.forest_votes(forest, codes.astype(np.int32), table)
    np.testing.assert_allclose(votes, slow_votes(forest, codes, table))


def test_a_tied_leaf_shares_its_vote():
    table = voting.leaf_votes(np.array([[2.0, 2.0, 0.0], [0.0, 0.0, 0.0], [1.0, 3.0, 2.0]]), "hard")
    np.testing.assert_allclose(table, [[0.5, 0.5, 0], [1 / 3, 1 / 3, 1 / 3], [0, 1, 0]])


@given(st.integers(0, 2**32 - 1), st.integers(2, 5))
def test_shares_are_a_distribution_that_keeps_the_order(seed, n_classes):
    votes = np.random.default_rng(seed).normal(scale=3, size=(20, n_classes))
    shares = voting.vote_shares(votes)
    assert (shares >= 0).all()
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    np.testing.assert_array_equal(shares.argmax(axis=1), votes.argmax(axis=1))


def test_no_preference_is_uniform():
    np.testing.assert_allclose(voting.vote_shares(np.full((2, 4), -3.0)), 0.25)


@pytest.mark.parametrize("bad", ["soft", None, 1])
def test_unknown_voting_is_refused(bad):
    with pytest.raises(ValueError, match=r"voting=.*'hard', 'weight'"):
        one_word("voting", bad, voting.VOTINGS)


@pytest.mark.parametrize(("n_trees", "step"), [(1, 12), (5, 2), (12, 1), (100, 1)])
def test_blocks_are_as_large_as_they_may_be(n_trees, step, monkeypatch):
    monkeypatch.setattr(voting, "ROUTED_AT_ONCE", 12)
    blocks = list(voting.record_blocks(13, n_trees))
    assert [i for block in blocks for i in range(13)[block]] == list(range(13))
    assert {len(range(13)[block]) for block in blocks[:-1]} == {step}


# What one leaf may say ---------------------------------------------------------------------------


PRIORS = (np.array([0.5, 0.5]), np.array([0.9, 0.1]), np.array([0.2, 0.3, 0.5]))


@pytest.mark.parametrize("prior", PRIORS, ids=str)
def test_a_leaf_that_is_certain_of_a_class_is_taken_for_a_21st_prior(prior):
    """p(c | l) is ``20/21 share + 1/21 prior``: by hand, not through the constant."""
    for sure in range(len(prior)):
        share = np.eye(len(prior))[[sure]]
        mixed = (20 * share + prior) / 21
        assert odds_logs(share, prior) == pytest.approx(np.log(mixed / prior))
        others = np.arange(len(prior)) != sure
        assert np.exp(odds_logs(share, prior)[0, others]) == pytest.approx(1 / 21)


def test_a_silent_leaf_says_nothing():
    for prior in PRIORS:
        assert odds_logs(prior[None], prior) == pytest.approx(0)
