"""Shares of noise, capacities and turns of parties, by their parts."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.special import logsumexp

from mrf_matrix.compilation import leaf_counts
from mrf_matrix.domain import Domain
from mrf_matrix.federated import CapacityError, contribution, federate
from mrf_matrix.federated.noisy_answers import PartyCurator, capacity, tail
from mrf_matrix.federated.shares.noise import gaussian_share, spread_of_sums
from mrf_matrix.federated.systems import (
    adjusted_leaves,
    grow_collaboratively,
    grow_privately,
    private_growing,
)
from mrf_matrix.federated.systems.growing import node_counts
from mrf_matrix.federated.systems.private_growing import LeafSplits, most_splits, party_plans
from mrf_matrix.forests import BreimanTrees, PrivateMultinomialTrees
from mrf_matrix.forests.growth import private as private_module
from mrf_matrix.mechanisms import (
    ZCDP,
    BudgetError,
    CellCounts,
    PrivacyLedger,
    PureDP,
    SharedDiscreteGaussian,
    SharedDiscreteLaplace,
    count_cells,
)
from mrf_matrix.mechanisms.selection import Bits
from mrf_matrix.release.curator import Live
from strategies.operators import Dense, Identity


def divergence_rate(mass, shift, alpha):
    """Rényi divergence over its order, of a law and itself shifted."""
    ahead, behind = np.log(mass[shift:]), np.log(mass[:-shift])
    return logsumexp(alpha * ahead + (1 - alpha) * behind) / (alpha - 1) / alpha


@pytest.mark.parametrize("parties", [2, 3, 4])
@pytest.mark.parametrize("variance", [0.2, 0.3, 0.5, 1.0, 2.0])
def test_sums_of_discrete_gaussians_protect_as_claimed(variance, parties):
    """By direct convolution; without the correction the claim is false where v is small."""
    reach = np.arange(-60, 61)
    share = np.exp(-(reach**2) / (2 * variance))
    share /= share.sum()
    mass = share
    for _ in range(parties - 1):
        mass = np.convolve(mass, share)
    mass = mass[mass > 1e-250]
    excess = [
        divergence_rate(mass, shift, alpha) - shift**2 / (2 * parties * variance)
        for shift in (1, 2, 3)
        for alpha in (1.001, 1.1, 1.5, 2.0, 3.0, 4.0)
    ]
    assert max(excess) <= spread_of_sums(variance, parties) * (1 + 1e-9) + 1e-12
    if variance <= 0.5:
        assert max(excess) > 1e-4


@pytest.mark.parametrize("neighboring", ["add_remove", "replace_one"])
@pytest.mark.parametrize("rho", [Fraction(1, 10), Fraction(5)])
@pytest.mark.parametrize(("dropouts", "colluders"), [(0, 0), (3, 2)])
def test_gaussian_shares_spend_at_most_the_budget(neighboring, rho, dropouts, colluders):
    design = federate(
        Identity(9),
        ZCDP(rho),
        parties=12,
        dropouts=dropouts,
        colluders=colluders,
        n_classes=2,
        neighboring=neighboring,
    )
    mechanism = design.mechanism
    variance = design.layers[0].scale ** 2
    square = mechanism.rounded.column_sum * mechanism.squared_factor
    honest = design.quorum.honest
    spent = (
        Fraction(square) / (2 * honest * variance)
        + Fraction(spread_of_sums(float(variance), honest)) * 18
    )
    assert variance >= 4
    assert spent <= rho
    assert spent == pytest.approx(rho, rel=1e-6)
    assert isinstance(design.law(), SharedDiscreteGaussian)


def test_a_correction_that_eats_the_budget_is_refused():
    with pytest.raises(ValueError, match="correction"):
        gaussian_share(4, 1, 10**30, Fraction(1), 2)


# Answers of one party -----------------------------------------------------------------------------

SIZES = (3, 2)


def split_counts(codes, labels, owners, parties, sizes=SIZES, classes=2):
    """Each party's table, empty ones included."""
    return [
        count_cells(codes[owners == i], labels[owners == i], sizes, classes) for i in range(parties)
    ]


@pytest.fixture
def parts():
    rng = np.random.default_rng(0)
    codes = np.stack([rng.integers(size, size=60) for size in SIZES], axis=1)
    return split_counts(codes, rng.integers(2, size=60), rng.integers(6, size=60), 6)


def test_a_party_sees_counts_and_noise_within_a_verb_alone(parts, monkeypatch):
    design = federate(Identity(6, SIZES), PureDP(1), parties=6, n_classes=2)
    inside, real = [], PartyCurator.measure

    def opened(*args):
        inside.append(1)
        try:
            return real(*args)
        finally:
            inside.pop()

    def watched(law, answers):
        assert inside, "noise outside of a curator's verb"
        return answers

    monkeypatch.setattr(PartyCurator, "measure", opened)
    monkeypatch.setattr(SharedDiscreteLaplace, "exact", watched)
    contribution(design, parts[0])
    with pytest.raises(AssertionError, match="outside"):  # the control
        design.layers[0].exact(np.zeros(1, dtype=np.int64))


def test_integers_too_large_for_the_sum_are_refused_before_a_charge():
    largest = 2**28
    design = federate(Dense([[largest]]), PureDP(largest), parties=4, n_classes=1)
    most = capacity(design)
    codes, ledger = np.zeros((1, 1), int), PrivacyLedger(epsilon=2 * largest)
    fits, over = (
        CellCounts(codes, np.array([[records]]), (1,))
        for records in (most // largest, most // largest + 1)
    )
    with pytest.raises(CapacityError, match=r"Nothing was sent or charged") as told:
        contribution(design, over, ledger=ledger)
    assert str(most // largest + 1) not in str(told.value)
    assert ledger.spent == 0
    contribution(design, fits, ledger=ledger)
    assert ledger.spent == largest


def test_tails_are_passed_as_rarely_as_stated():
    """Against the laws' own probabilities."""
    for law in (
        SharedDiscreteLaplace(4, 3),
        SharedDiscreteLaplace(100, 1),
        SharedDiscreteGaussian(5, 7),
    ):
        reach = tail(law, 1000)
        values = np.arange(reach + 1, 3 * reach)
        assert 2 * 1000 * law.pmf(values).sum() < 2.0**-40


# Private growing ----------------------------------------------------------------------------------

K = 4
TREES = BreimanTrees(9, "entropy", 1, max_features=K)


def random_parts(sizes=(60, 0, 45, 20), seed=0):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 6, (sum(sizes), 3))
    labels = (codes[:, 0] + codes[:, 1] + rng.integers(0, 3, len(codes))) // 5
    ends = np.cumsum(sizes)[:-1]
    domain = Domain.from_sizes([6, 6, 6], 3)
    return domain, list(zip(np.split(codes, ends), np.split(labels, ends), strict=True))


def test_pooled_leaves_are_those_of_all_records_together():
    domain, parts = random_parts()
    forest = grow_collaboratively(domain, parts, TREES, random_state=0)
    whole = tuple(np.concatenate(column) for column in zip(*parts, strict=True))
    counts = leaf_counts(forest, *whole, 3)
    expected = counts / counts.sum(axis=1, keepdims=True)
    np.testing.assert_array_equal(adjusted_leaves(forest, parts, "pooled"), expected)
    for aggregate in ("all", "reached"):
        np.testing.assert_array_equal(adjusted_leaves(forest, [whole], aggregate), expected)
    roots = node_counts(forest, counts)[forest.roots]
    assert (roots == np.bincount(whole[1], minlength=3)).all()


# Private growing ---------------------------------------------------------------------------------


CODES_EACH = 3
THREES = Domain.from_sizes([2] * CODES_EACH, 2)


def attribute_of(party, count=40):
    codes = np.zeros((count, CODES_EACH), dtype=int)
    codes[count // 2 :, party] = 1
    return codes, codes[:, party].copy()


PARTS = [attribute_of(party) for party in range(CODES_EACH)]


@pytest.mark.parametrize("collaborative", [True, False])
@pytest.mark.parametrize(("n_trees", "depth", "parties"), [(4, 2, 3), (9, 5, 3), (2, 3, 5)])
def test_no_party_spends_more_than_epsilon(n_trees, depth, parties, collaborative, monkeypatch):
    """Count each party's choices as they are made, and what they cost."""
    looked = []
    original = private_module._choose_level

    def counting(domain, codes, labels, node, record, boxes, candidates, growth, bits):
        looked.append((int(labels[0]), len(boxes.low), growth))
        return original(domain, codes, labels, node, record, boxes, candidates, growth, bits)

    monkeypatch.setattr(private_module, "_choose_level", counting)
    domain = Domain.from_sizes([16, 16], parties)
    codes = np.random.default_rng(0).integers(0, 16, (20, 2))
    parts = [(codes, np.full(20, party)) for party in range(parties)]
    source = PrivateMultinomialTrees(Fraction(1, 2), n_trees=n_trees, max_depth=depth)
    forest = grow_privately(domain, parts, source, collaborative=collaborative)
    subsets = [len(part) for part in np.array_split(np.arange(n_trees), parties)]
    pairs = np.zeros(parties, dtype=int)
    for (party, nodes, _), (subset, level) in zip(
        looked, ((s, d) for s in range(parties) if subsets[s] for d in range(depth)), strict=True
    ):
        assert party == ((subset - level) % parties if collaborative else subset)
        assert nodes <= subsets[subset] * 2**level
        pairs[party] += subsets[subset]
    turns = [
        [(s - d) % parties if collaborative else s for d in range(depth)] for s in range(parties)
    ]
    most = most_splits(subsets, turns)
    assert most == pairs.max()
    expected = PrivateMultinomialTrees(Fraction(1, 2), n_trees=most, max_depth=1)
    rates = expected.rates
    assert (rates.attribute + rates.cut) * most == Fraction(1, 2)
    assert all(growth == expected.growth for _, _, growth in looked)
    assert [one.budget for one in forest.provenance.spendings] == [PureDP(Fraction(1, 2))]


def test_parties_are_charged_before_their_records_are_seen(monkeypatch):
    ledgers = [PrivacyLedger(epsilon=2) for _ in range(CODES_EACH)]
    source = PrivateMultinomialTrees(1.5, n_trees=2, max_depth=1)
    forest = grow_privately(THREES, PARTS, source, ledgers=ledgers)
    assert [ledger.spent for ledger in ledgers] == [Fraction(3, 2)] * CODES_EACH
    assert [one.budget for one in forest.provenance.spendings] == [PureDP(1.5)]
    assert forest.is_data_dependent
    monkeypatch.setattr(private_module, "candidate_scores", None)  # would fail if called
    with pytest.raises(BudgetError):
        grow_privately(THREES, PARTS, source, ledgers=ledgers)


def test_records_and_noise_of_parties_meet_within_the_verbs_of_their_curators_alone(monkeypatch):
    inside, verb, real = [], Live._take_choice, private_growing.private_levels

    def opened(*args):
        inside.append(1)
        try:
            return verb(*args)
        finally:
            inside.pop()

    def watched(*args):
        assert inside, "splits outside of a curator's verb"
        return real(*args)

    monkeypatch.setattr(Live, "_take_choice", opened)
    monkeypatch.setattr(private_growing, "private_levels", watched)
    trees = PrivateMultinomialTrees(1, n_trees=3, max_depth=2)
    forest = grow_privately(THREES, PARTS, trees)
    with pytest.raises(AssertionError, match="outside"):  # the control
        LeafSplits(forest, trees.growth).draw(PARTS[0], None, Bits())


@pytest.mark.parametrize("collaborative", [False, True])
@pytest.mark.parametrize("budget", [{"epsilon": 1}, {"epsilon": None, "rho": 1}])
def test_no_party_is_announced_more_than_it_is_charged(collaborative, budget):
    trees = PrivateMultinomialTrees(**budget, n_trees=7, max_depth=3)
    subsets = [3, 2, 2]
    turns = [
        [(subset - level) % 3 if collaborative else subset for level in range(3)]
        for subset in range(3)
    ]
    spent = [one.budget for one in party_plans(THREES, trees, subsets, turns)]
    assert max(spent) == trees.rates.budget
