"""The whole protocol in one process: equal to the central release, charged, with the true law."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrf_matrix import RandomTrees, from_release, load_dataset
from mrf_matrix.federated import (
    BelowThresholdError,
    Network,
    ProtocolError,
    contribution,
    federate,
    run_federation,
)
from mrf_matrix.mechanisms import (
    ZCDP,
    BudgetError,
    CellCounts,
    PrivacyLedger,
    PureDP,
    SharedDiscreteGaussian,
    SharedDiscreteLaplace,
    count_cells,
    measure,
)
from strategies.operators import Dense, Identity

SIZES = (3, 2)
ENDLESS = PureDP(float("inf"))


def split_counts(codes, labels, owners, parties, sizes=SIZES, classes=2):
    """Each party's table, empty ones included."""
    return [
        count_cells(codes[owners == i], labels[owners == i], sizes, classes) for i in range(parties)
    ]


@given(st.data())
def test_without_noise_federated_is_central_bit_for_bit(data):
    """Any split of any records, parties without records included; any who vanish take theirs."""
    n = data.draw(st.integers(0, 12))
    seed = data.draw(st.integers(0, 2**16))
    parties = data.draw(st.integers(2, 5))
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(size, size=n) for size in SIZES], axis=1)
    labels, owners = rng.integers(2, size=n), rng.integers(parties, size=n)
    gone = data.draw(st.sampled_from([None, 0]))
    matrix = Dense(rng.integers(-3, 4, (4, 6)) + 5 * np.eye(4, 6, dtype=int))
    design = federate(matrix, ENDLESS, parties=parties, dropouts=1, n_classes=2)
    network = Network({} if gone is None else {gone: "masked"})
    parts = split_counts(codes, labels, owners, parties)
    found = run_federation(design, parts, network=network)
    kept = np.ones(n, dtype=bool) if gone is None else owners != gone
    central = measure(matrix, count_cells(codes[kept], labels[kept], SIZES, 2), ENDLESS)
    assert np.array_equal(found.release.answers, central.answers)
    assert found.release.noise == central.noise == "none"


@pytest.fixture
def parts():
    rng = np.random.default_rng(0)
    codes = np.stack([rng.integers(size, size=60) for size in SIZES], axis=1)
    return split_counts(codes, rng.integers(2, size=60), rng.integers(6, size=60), 6)


def test_releases_carry_the_law_of_those_who_contributed(parts):
    kept = federate(Identity(6, SIZES), PureDP(1), parties=6, dropouts=2, n_classes=2)
    whole = run_federation(kept, parts).release
    assert whole.law == SharedDiscreteLaplace(whole.noise_scale, kept.law(6).shape)
    fewer = run_federation(kept, parts, network=Network({1: "masked", 4: "keys"})).release
    assert fewer.law.shape == 1
    assert fewer.noise == "shares"
    assert fewer.is_private
    gaussian = federate(Identity(6, SIZES), ZCDP(1), parties=6, dropouts=2, n_classes=2)
    made = run_federation(gaussian, parts, network=Network({0: "shares"})).release
    assert made.law == SharedDiscreteGaussian(gaussian.layers[0].scale, 5)


@pytest.mark.parametrize(
    ("absent", "contributors", "revealing"),
    [
        ({}, 6, 6),
        ({3: "masked"}, 5, 5),
        ({3: "unmask"}, 6, 5),
        ({3: "excess"}, 6, 5),
        ({3: "keys", 4: "masked"}, 4, 0),
        ({1: "excess", 2: "excess", 3: "excess"}, 6, 0),
    ],
)
def test_excess_noise_is_taken_off_as_far_as_it_is_revealed(parts, absent, contributors, revealing):
    design = federate(
        Identity(6, SIZES), PureDP(1), parties=6, dropouts=2, n_classes=2, remove_excess=True
    )
    found = run_federation(design, parts, network=Network(absent))
    assert (len(found.contributors), len(found.revealing)) == (contributors, revealing)
    assert found.release.law == design.law(contributors, revealing)


def test_noise_of_runs_has_the_stated_variance():
    """4,000 integers, with drop-outs and removal: variance within five deviations."""
    n = 4000
    empty = [count_cells(np.zeros((0, 1), int), np.zeros(0, int), (n,), 1) for _ in range(6)]
    for budget, removal in ((PureDP(1), False), (PureDP(1), True), (ZCDP(1), False)):
        design = federate(
            Identity(n),
            budget,
            parties=6,
            dropouts=2,
            colluders=1,
            n_classes=1,
            remove_excess=removal,
        )
        release = run_federation(design, empty, network=Network({2: "masked"})).release
        drawn = release.answers.astype(float).ravel()
        spread = np.sqrt((drawn**4).mean() / n)
        assert abs((drawn**2).mean() - release.variance) < 5 * spread


def test_too_few_open_nothing_and_are_charged_once_they_sent(parts):
    design = federate(Identity(6, SIZES), PureDP(1), parties=6, dropouts=1, n_classes=2)
    early, late = ([PrivacyLedger(epsilon=2) for _ in parts] for _ in range(2))
    with pytest.raises(BelowThresholdError):
        run_federation(design, parts, network=Network({0: "keys", 1: "shares"}), ledgers=early)
    assert [ledger.spent for ledger in early] == [0] * 6
    server = PrivacyLedger(epsilon=2)
    with pytest.raises(BelowThresholdError, match="charged all the same"):
        run_federation(
            design,
            parts,
            network=Network({0: "masked", 1: "unmask"}),
            ledgers=late,
            server_ledger=server,
        )
    assert [ledger.spent for ledger in late] == [0, 1, 1, 1, 1, 1]
    assert server.spent == 1
    assert server.charges[0].noise == "shares"
    assert server.is_private


def test_a_ledger_that_does_not_cover_it_sends_nothing(parts):
    design = federate(Identity(6, SIZES), PureDP(1), parties=6, n_classes=2)
    with pytest.raises(BudgetError, match=r"remains"):
        contribution(design, parts[0], ledger=PrivacyLedger(epsilon=0.5))


def test_a_party_counts_its_records_once(parts, monkeypatch):
    design = federate(Identity(6, SIZES), PureDP(1), parties=6, n_classes=2)
    asked, real = [], CellCounts.answers

    def counted(self, matrix):
        asked.append(matrix)
        return real(self, matrix)

    monkeypatch.setattr(CellCounts, "answers", counted)
    contribution(design, parts[0])
    assert len(asked) == 1


def test_late_answers_are_refused_and_count_as_vanished(parts):
    design = federate(Identity(6, SIZES), PureDP(1), parties=6, dropouts=2, n_classes=2)
    delays = np.zeros((6, 4))
    delays[4, 2] = 60.0
    found = run_federation(design, parts, network=Network({}, delays, 30.0))
    assert found.contributors == (0, 1, 2, 3, 5)
    assert found.late == 1


def test_random_networks_are_reproducible():
    one, two = (Network.random(50, 0.2, 7, mean_delay=1.0) for _ in range(2))
    assert one.absent == two.absent
    assert np.array_equal(one.delays, two.delays)
    assert 0 < len(one.absent) < 25


def test_research_noise_is_seeded_and_makes_no_private_release(parts):
    design = federate(Identity(6, SIZES), PureDP(1), parties=6, n_classes=2)
    one, two = (
        run_federation(design, parts, noise="research", random_state=3).release for _ in range(2)
    )
    assert np.array_equal(one.answers, two.answers)
    other = run_federation(design, parts, noise="research", random_state=4).release
    assert not np.array_equal(one.answers, other.answers)
    assert not one.is_private
    assert run_federation(design, parts).release.is_private
    with pytest.raises(ValueError, match="without a generator"):
        contribution(design, parts[0], generator=np.random.default_rng(0))
    with pytest.raises(ProtocolError, match="expected 6"):
        run_federation(design, parts[:5])


def test_many_parties_take_part():
    counts = count_cells(np.zeros((1, 1), int), np.zeros(1, int), (2,), 1)
    design = federate(Identity(2), PureDP(1), parties=30, dropouts=10, n_classes=1)
    found = run_federation(design, [counts] * 30, network=Network.random(30, 0.1, 0))
    assert 20 <= len(found.contributors) < 30


@pytest.mark.slow
def test_forests_of_car_by_ten_parties_are_as_good_as_central_ones():
    """Research noise, four runs each: means of accuracy within four deviations.

    The control is a federation of a quarter of the budget, which is found to be worse.
    """
    car = load_dataset("car")
    codes, labels = car.domain.encode(car.X), car.domain.encode_target(car.y)
    sizes, classes = car.domain.sizes, car.domain.n_classes
    owners = np.random.default_rng(0).integers(10, size=len(codes))
    parts = split_counts(codes, labels, owners, 10, sizes, classes)
    strategy = Identity(int(np.prod(sizes)), sizes)
    forest = RandomTrees(32, 3).grow(car.domain, random_state=0)
    whole = count_cells(codes, labels, sizes, classes)

    def federated(epsilon, seed):
        design = federate(strategy, PureDP(epsilon), parties=10, n_classes=classes)
        return run_federation(design, parts, noise="research", random_state=seed).release

    def central(epsilon, seed):
        return measure(strategy, whole, PureDP(epsilon), noise="research", random_state=seed)

    def scores(release, epsilon):
        models = [from_release(release(epsilon, i), car.domain, forest=forest) for i in range(4)]
        return [model.score(car.X, car.y) for model in models]

    def differ(one, two):
        spread = (np.var(one, ddof=1) + np.var(two, ddof=1)) / 4
        return abs(np.mean(one) - np.mean(two)) >= 4 * np.sqrt(spread + 1e-6)

    ours, expected = scores(federated, 1), scores(central, 1)
    assert not differ(ours, expected)
    assert differ(scores(federated, 1 / 4), expected)
    assert min(np.mean(ours), np.mean(expected)) > 0.7
