"""A scaled sum of effects: its middle by enumeration, and the scale that records ask for."""

from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit, softmax
from sklearn.metrics import log_loss

from mrf_matrix import Domain
from mrf_matrix.estimators import ResidualForestClassifier
from mrf_matrix.estimators.given_data import EncodedRecords
from mrf_matrix.mechanisms import ZCDP, PureDP
from mrf_matrix.mechanisms.budget import total_budget
from mrf_matrix.posterior import (
    SCALES,
    ClassStates,
    Pooling,
    ResidualState,
    Smoothness,
    SumOfEffects,
    beside_totals,
    penalties_of_scales,
    scaled_states,
    sum_of_effects,
)
from mrf_matrix.release.curator import Live
from mrf_matrix.residual import residual_plan
from mrf_matrix.residual.learning import learned
from mrf_matrix.residual.questions import AskedSteps, ResidualRecords, scored_records

SIZES = (2, 3, 4)
POOLING = Pooling(Smoothness(0.1, 0.95), 2.0, 0.1, 0.25, 1.0)


def states_of(generator, k):
    """States with effects on every attribute, as if tables had told them."""
    margins = tuple(generator.dirichlet(np.full(size, 3.0)) for size in SIZES)
    columns = []
    for base in generator.normal(size=1 if k == 2 else k):
        state = ResidualState(SIZES, (False,) * 3, 1000.0, float(base), 0.01, margins, POOLING, ())
        for i, size in enumerate(SIZES):
            counts = state.expected_counts((i,))
            state = state.with_block(state.unseen_block((i,)))
            state, _ = state.visited(i, counts * generator.normal(size=size), counts, 1.0)
        columns.append(state)
    return ClassStates(tuple(columns), np.ones(len(columns)), 0.25)


@pytest.mark.parametrize("k", [2, 3, 5])
def test_the_middle_lies_half_way_between_the_classes(k):
    """Against all records there may be, each class's attributes drawn one by one."""
    states = states_of(np.random.default_rng(k), k)
    found = sum_of_effects(states)
    base = np.append(0.0, found.base) if k == 2 else found.base
    effects = [
        np.column_stack([np.zeros(len(one)), one]) if k == 2 else one for one in found.effects
    ]
    means = np.zeros((k, k))  # of each class's records, each score
    for c in range(k):
        shares = []
        for margin, one in zip(states.first.margins, effects, strict=True):
            weights = margin * softmax(base + one, axis=1)[:, c]
            shares.append(weights / weights.sum())
        for cell in product(*map(range, SIZES)):
            chance = np.prod([share[code] for share, code in zip(shares, cell, strict=True)])
            means[c] += chance * sum(one[code] for one, code in zip(effects, cell, strict=True))
    if k == 2:
        assert_allclose(found.middle, [means[:, 1].mean()])
        return
    totals = softmax(base)
    for c in range(k):
        against = [(means[c, c] - means[c, o] + means[o, c] - means[o, o]) / 2 for o in range(k)]
        assert found.middle[c] == pytest.approx(totals @ against)


@pytest.mark.parametrize("k", [2, 3])
def test_a_scaled_state_scores_by_the_scaled_sum(k):
    states = states_of(np.random.default_rng(7), k)
    effects = sum_of_effects(states)
    after = scaled_states(states, effects, 0.4)
    for c, (old, new) in enumerate(zip(states.columns, after.columns, strict=True)):
        assert new.intercept == pytest.approx(old.intercept - 0.4 * effects.middle[c])
        assert new.base_variance == max(old.base_variance, 0.05)
        for one, other in zip(old.blocks, new.blocks, strict=True):
            assert_allclose(other.mean, 0.4 * one.mean)
            assert_allclose(other.covariance, 0.16 * one.covariance)


@pytest.mark.parametrize("k", [2, 3])
def test_mean_and_spread_are_those_of_independent_attributes(k):
    states = states_of(np.random.default_rng(8), k)
    effects = sum_of_effects(states)
    sums, chances = [], []
    for cell in product(*map(range, SIZES)):
        sums.append(sum(one[code] for one, code in zip(effects.effects, cell, strict=True)))
        margins = zip(states.first.margins, cell, strict=True)
        chances.append(np.prod([margin[code] for margin, code in margins]))
    mean = np.average(sums, axis=0, weights=chances)
    assert_allclose(effects.mean, mean, atol=1e-12)
    assert_allclose(effects.spread**2, np.average((sums - mean) ** 2, axis=0, weights=chances))


def visited_once(generator):
    """One attribute after a table, of any size, noise and number of records."""
    size = int(generator.integers(1, 7))
    shares = generator.dirichlet(np.full(size, 10 ** generator.uniform(-1.5, 1))) + 0.1 / size**2
    n_records, noise = 10 ** generator.uniform(0.3, 6), 10 ** generator.uniform(-4, 7)
    unknown = float(generator.choice([1e-3, 0.01, 0.1, 0.5]))
    margins = (shares / shares.sum(),)
    state = ResidualState((size,), (False,), n_records, 0.0, unknown, margins, POOLING, ())
    states = ClassStates((state.with_block(state.unseen_block((0,))),), np.ones(1), 0.2)
    counts = states.first.expected_counts((0,))
    far = np.sqrt(noise + counts) * 10 ** generator.uniform(-1, 2)
    found, _ = states.visited(0, (far * generator.normal(size=size))[:, None], counts, noise)
    return beside_totals(states, found)


def test_no_scale_leaves_an_indefinite_covariance():
    """What effects have in common is taken out of them, but no more than they have."""
    generator = np.random.default_rng(0)
    for _ in range(3000):
        states = visited_once(generator)
        after = scaled_states(states, sum_of_effects(states), float(SCALES.max())).first
        prior = after.blocks[0].covariance + after.base_variance
        assert np.linalg.eigvalsh(prior).min() > -1e-6


def test_a_table_beside_the_totals_leaves_the_intercept():
    states = states_of(np.random.default_rng(2), 2)
    counts = states.first.expected_counts((1,))
    found, _ = states.visited(1, counts[:, None] * 0.2, counts, 1.0)
    kept = beside_totals(states, found)
    assert found.first.intercept != states.first.intercept
    assert kept.first.intercept == states.first.intercept
    assert kept.first.base_variance == states.first.base_variance
    assert kept.first.blocks[1] is found.first.blocks[1]


def test_scales_are_as_usual_as_a_laplace_law_says():
    rate = 0.01
    behind = penalties_of_scales(rate)
    logs = np.log(SCALES / 0.6)
    ratios = np.exp(-np.abs(logs) / 0.4)
    assert_allclose(np.exp(-rate * behind), ratios)
    assert SCALES[0] == 0.6  # the first of those that tie
    assert behind[0] == 0
    assert penalties_of_scales(float("inf")).max() == 0  # records alone decide
    assert_allclose(np.diff(np.sort(logs)), np.log(1.25))


@pytest.mark.parametrize(("k", "norm"), [(2, "l1"), (3, "l1"), (3, "l2")])
def test_balances_are_those_of_a_loop(k, norm):
    generator = np.random.default_rng(k)
    codes = generator.integers(0, SIZES, size=(80, 3))
    labels = generator.integers(0, k, 80)
    columns = 1 if k == 2 else k
    effects = SumOfEffects(
        tuple(generator.normal(size=(size, columns)) for size in SIZES),
        *generator.normal(size=(3, columns)), generator.uniform(0.5, 3, columns),
    )  # fmt: skip
    penalties = generator.uniform(0, 9, len(SCALES))
    found = ResidualRecords(codes, labels, SIZES, k).balances(effects, penalties, norm)
    for place, scale in enumerate(SCALES):
        total = 0.0
        for code, label in zip(codes, labels, strict=True):
            sums = sum(effects.effects[i][code[i]] for i in range(3))
            scores = scale * sums + effects.base - scale * effects.middle
            lifts = (sums - effects.mean) / effects.spread
            if k == 2:
                scores, lifts = np.append(0.0, scores), np.array([-lifts[0], lifts[0]])
            p, spoken = softmax(scores), int(np.argmax(lifts))
            moved = np.eye(k) - p
            if k == 2:
                size = 2 * p.max()
            elif norm == "l1":
                size = np.abs(moved).sum(axis=1).max()
            else:
                size = np.linalg.norm(moved, axis=1).max()
            total += moved[label, spoken] / size * min(max(lifts[spoken], 0.0), 1.0)
        largest = 1.0 if norm == "l2" else 0.5
        assert found[place] == pytest.approx(-abs(total) / largest - penalties[place], abs=2.2)


ZCDP_OF_ONE = {"epsilon": None, "rho": 1}


def drawn(copies, generator, n=20_000):
    """Labels by four attributes that are independent given the class, each so many times."""
    labels = generator.integers(0, 2, n)
    own = (generator.random((n, 4)) < np.where(labels == 1, 0.7, 0.3)[:, None]).astype(int)
    return np.repeat(own, copies, axis=1), labels


@pytest.mark.parametrize(
    ("copies", "budget"),
    [(1, {"epsilon": 4}), (2, ZCDP_OF_ONE), (5, {"epsilon": 4}), (25, ZCDP_OF_ONE)],
    ids=str,
)
def test_copies_ask_for_their_part_of_the_sum(copies, budget):
    """Independent attributes are believed as a product would, copies by their number less."""
    codes, labels = drawn(copies, np.random.default_rng(0))
    domain = Domain.from_sizes([2] * codes.shape[1], n_classes=2)
    model = ResidualForestClassifier(
        domain, **budget, n_records=len(codes), noise="research", noise_state=0, random_state=0
    ).fit(codes, labels)
    # tables are linear in effects, which they so see smaller than they are
    assert 0.8 / copies < model.scale_ < 1.7 / copies
    odds = np.log(7 / 3) * (2 * codes - 1).sum(axis=1) / copies
    found = model.predict_proba(codes)
    assert np.abs(found[:, 1] - expit(odds)).mean() < 0.03
    best = log_loss(labels, expit(odds))
    assert log_loss(labels, found) < best + 0.01


@dataclass(frozen=True)
class Some:
    """Some steps of a plan, by themselves."""

    domain: Domain
    steps: tuple
    n_records: int | None = None
    delta: float = 0.0
    neighboring: str = "add_remove"

    @property
    def budget(self):
        return total_budget([one.budget for one in self.steps])


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("budget", [PureDP(2), ZCDP(1)], ids=repr)
def test_records_have_the_scores_that_are_predicted(budget, k):
    """After the first pass: nothing that was scaled is added to records otherwise."""
    generator = np.random.default_rng(k)
    codes = generator.integers(0, SIZES, size=(400, 3))
    labels = (codes.sum(axis=1) + generator.integers(0, 2, 400)) % k
    domain = Domain.from_sizes(SIZES, n_classes=k)
    plan = residual_plan(domain, budget, generator, n_records=400)
    first = replace(plan, passes=(), pairs=None)
    alone = Some(domain, first.steps)
    records = EncodedRecords(domain, codes, labels)
    asked = AskedSteps(first, Live(alone, records, nullcontext, "research", generator))
    posterior = learned(first, asked)
    expected = np.column_stack([one.log_odds(codes) for one in posterior.columns])
    assert_allclose(scored_records(first, asked.effects, records)._scores, expected)
    assert np.abs(expected - expected.mean(axis=0)).max() > 0.01


@pytest.mark.parametrize(("k", "expected"), [(2, 0.05), (3, None)])
def test_the_curvature_of_the_first_pass_is_that_of_the_totals(monkeypatch, k, expected):
    """Of a class of one in ten, a tenth of ½; of several, by the weights of their shares."""
    generator = np.random.default_rng(0)
    labels = np.repeat(np.arange(k), [900, 100] if k == 2 else [700, 200, 100])
    codes = generator.integers(0, SIZES, size=(1000, 3))
    domain = Domain.from_sizes(SIZES, n_classes=k)
    plan = residual_plan(domain, PureDP(float("inf")), generator, n_records=1000)
    known, honest = [], ClassStates.with_curvature

    def noted(self, curvature):
        known.append(curvature)
        return honest(self, curvature)

    monkeypatch.setattr(ClassStates, "with_curvature", noted)
    records = EncodedRecords(domain, codes, labels)
    learned(plan, AskedSteps(plan, Live(plan, records, nullcontext, "exact")))
    if expected is None:
        shares = np.array([0.7, 0.2, 0.1])
        expected = 0.5 / (1 - 0.1) * (1 - (shares**2).sum())
    assert known[0] == pytest.approx(expected, abs=2e-3)


@pytest.mark.parametrize("budget", [PureDP(float("inf")), ZCDP(float("inf"))], ids=repr)
def test_the_first_pass_sees_no_other_attribute(budget):
    """Without noise, an attribute's table is the same whatever was measured before it."""
    codes, labels = drawn(1, np.random.default_rng(1), 500)
    tables = []
    for order in ([0, 1, 2, 3], [3, 1, 0, 2]):
        model = ResidualForestClassifier(
            Domain.from_sizes([2] * 4, n_classes=2),
            **{"epsilon": None, budget.parameter: float("inf")},
            n_records=500,
            random_state=0,
        ).fit(codes[:, order], labels)
        first = model.releases_[5:9]  # after class totals and four tables of counts
        tables.append({i: first[place].answers for place, i in enumerate(order)})
    for i in range(4):
        assert np.array_equal(tables[0][i], tables[1][i])
