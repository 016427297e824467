"""Residual forests: every share announced before data, a kind of plan, and effects recovered."""

import json
from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.special import expit, logit, softmax
from sklearn.metrics import log_loss

from mrf_matrix import Domain
from mrf_matrix.estimators import ResidualForestClassifier, from_design
from mrf_matrix.mechanisms import ZCDP, BudgetError, PureDP
from mrf_matrix.mechanisms.budget import total_budget
from mrf_matrix.planning import plan, tune
from mrf_matrix.posterior import (
    SCALES,
    ClassStates,
    PoolingSettings,
    ResidualState,
    Smoothness,
    add_first_table,
    penalties_of_scales,
    scale_states,
    sum_of_effects,
)
from mrf_matrix.study import effect, explained, importance


def plan_of(sizes, budget, n_records, neighboring="add_remove", n_classes=2):
    return plan(
        Domain.from_sizes(sizes, n_classes=n_classes), "additive", n_records=n_records,
        neighboring=neighboring, random_state=0, **{budget.parameter: budget.amount},
    )  # fmt: skip


@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=12),
    st.sampled_from(
        [PureDP("0.1" and 0.1), PureDP(Fraction(1, 3)), PureDP(7), ZCDP(0.02), ZCDP(3)]
    ),
    st.sampled_from([None, 1, 500, 10**4, 10**6]),
)
def test_shares_add_up_to_the_budget_exactly(sizes, budget, n_records):
    made = plan_of(sizes, budget, n_records)
    assert total_budget([one.budget for one in made.steps]) == budget
    assert all(step.budget.exact > 0 for step in made.steps)
    assert {len(one.order) for one in made.passes} <= {len(sizes)}
    assert len(made.first.visits) == len(sizes)


def test_more_signal_buys_passes_and_pairs():
    few, some, many = (plan_of([3] * 10, PureDP(1), n) for n in (400, 5000, 10**5))
    assert [1 + len(one.passes) for one in (few, some, many)] == [1, 2, 5]
    assert few.pairs is None
    assert len(some.pairs.choices) == 3
    assert len(many.pairs.choices) == 10


def test_few_records_take_one_pass_and_two_attributes_one_pair():
    passes = [1 + len(plan_of([3] * 10, PureDP(1), n).passes) for n in (490, 500, 1990)]
    assert passes == [1, 2, 2]
    assert len(plan_of([3, 3], PureDP(1), 10**5).pairs.choices) == 1
    assert len(plan_of([3, 3, 3], PureDP(1), 10**5).pairs.choices) == 3


@pytest.mark.parametrize("n_records", [490, 2000])
def test_measurements_are_counted(n_records):
    """Class totals, codes' counts, and residuals and curvature of each pass: without pairs."""
    made = plan_of([3] * 10, PureDP(1), n_records)
    later = sum(1 + 3 * len(one.visits) for one in made.passes)
    assert made.pairs is None
    assert made.most_measurements == 2 + 30 + 30 + later


def test_later_gaussian_passes_visit_fewer_attributes():
    made = plan_of([3] * 10, ZCDP(0.5), 10**5)
    assert [len(one.visits) for one in (made.first, *made.passes)] == [10, 7, 5, 4, 3]


@pytest.mark.parametrize("budget", [PureDP(1), ZCDP(0.05)], ids=repr)
def test_ample_signal_visits_all_attributes_and_no_record_counts_for_more(budget):
    """How often tables are measured changes; what one record adds to any of them does not."""
    some, ample = (plan_of([3] * 10, budget, n) for n in (10**5, 10**6))
    assert [len(one.visits) for one in (ample.first, *ample.passes)] == [10] * 8
    for made in (ample, some):
        assert total_budget([one.budget for one in made.steps]) == budget
    doubled = [one.visits[0].budget.exact for one in ample.passes]
    assert {later / sooner for sooner, later in pairwise(doubled)} == {2}
    of_kinds = [{(one.kind, one.sensitivity) for one in made.steps} for made in (some, ample)]
    assert of_kinds[0] == of_kinds[1]


@pytest.mark.parametrize(("budget", "power"), [(PureDP(1), 1 / 3), (ZCDP(0.05), 1 / 2)])
def test_ample_signal_gives_long_attributes_more_whatever_the_order(budget, power):
    for one in plan_of([2, 100, 9], budget, 10**7).passes:
        again = one.with_order((2, 0, 1))
        assert again.with_order(one.order) == one
        visits = dict(zip(again.order, again.visits, strict=True))
        ratio = float(visits[1].budget.exact / visits[0].budget.exact)
        assert ratio == pytest.approx(50**power, rel=0.1)


def test_one_class_is_planned_as_others_are():
    assert plan_of([2], PureDP(1), 9, n_classes=1).totals.n_columns == 1


def test_attributes_of_too_many_codes_are_refused():
    with pytest.raises(ValueError, match="2001 codes: expected at most 2000"):
        plan_of([2, 2001], PureDP(1), 1000)
    with pytest.raises(ValueError, match="1001 codes: expected at most 1000"):
        plan_of([2, 1001], PureDP(1), 1000, n_classes=8)


@pytest.mark.parametrize("budget", [PureDP(10**12), PureDP(Fraction(1, 10**16)), ZCDP(10**20)])
def test_noise_that_cannot_be_drawn_is_refused_before_any_step(budget):
    with pytest.raises(ValueError, match=r"expected a (smaller|larger)"):
        plan_of([2, 2], budget, 10**15)


# As a kind of plan -------------------------------------------------------------------------------


DOMAIN, OF_THREE = (Domain.from_sizes([3, 4, 2], n_classes=k) for k in (2, 3))
BUDGETS = [{}, {"epsilon": 0.5}, {"rho": 0.1}, {"epsilon": 1, "delta": 1e-6}]


def outcome(call):
    """Return a plan's steps, or the type and text of what is raised."""
    try:
        made = call()
    except (ValueError, TypeError) as error:
        return type(error), str(error)
    return made.budget, made.delta, made.steps, [one.order for one in made.passes]


@given(
    st.sampled_from([*BUDGETS, {"rho": 1, "delta": 0.1}, {"epsilon": -1}]),
    st.sampled_from(["add_remove", "replace_one", "other"]),
    st.sampled_from([None, 100, 10**5, 0]),
    st.integers(0, 3),
    st.sampled_from([DOMAIN, OF_THREE]),
)
def test_what_is_planned_is_what_the_classifier_plans(budget, neighboring, n_records, seed, domain):
    words = {"neighboring": neighboring, "n_records": n_records, "random_state": seed, **budget}
    planned = outcome(lambda: plan(domain, "additive", **words))
    assert planned == outcome(lambda: ResidualForestClassifier(domain, **words).plan())


@pytest.mark.parametrize("budget", BUDGETS)
def test_figures_are_plain_and_add_up(budget):
    made = plan(DOMAIN, "additive", n_records=5000, **budget)
    figures = json.loads(json.dumps(made.to_dict()))
    assert len(figures["steps"]) == len(made.steps)
    assert figures["kind"] == "additive"
    assert total_budget([one.budget for one in made.steps]) == made.budget


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"n_trees": 3}, "n_trees with kind='additive'"),
        ({"n_blocks": 2}, "n_blocks=2"),
        ({"objective": "max"}, "objective with kind='additive'"),
        ({"queries": 5}, "queries and n_classes"),
        ({"target_rms": 5}, "target_rms with kind='additive'"),
        ({"voting": "hard"}, "voting='hard'"),
    ],
)
def test_words_of_other_kinds_are_refused(words, message):
    with pytest.raises(ValueError, match=message):
        plan(DOMAIN, "additive", **words)


def test_a_delta_stands_beside_epsilon_only():
    with pytest.raises(BudgetError):
        plan(DOMAIN, "additive", delta=0.1, rho=1)


@pytest.mark.parametrize("domain", [DOMAIN, OF_THREE])
def test_a_search_judges_it_beside_posterior_forests(domain):
    found = tune(
        domain, epsilon=0.2, n_records=3000, kind="auto",
        space=[{"kind": ["additive", "tables"]}],
        objective_options={"n_targets": 4, "n_queries": 64},
    )  # fmt: skip
    losses = {trial.design["kind"]: trial.value for trial in found.trials}
    assert 0 < losses["additive"] < 0.9 * (1 - 1 / domain.n_classes)
    model = from_design(found, next(t for t in found.trials if t.design["kind"] == "additive"))
    assert isinstance(model, ResidualForestClassifier)
    assert model.n_records == 3000
    again = from_design(plan(domain, "additive", rho=0.5, n_records=100))
    assert again.plan().budget == ZCDP(0.5)


def test_objectives_of_strategies_refuse_it_by_name():
    found = tune(DOMAIN, epsilon=1, n_records=100, kind="additive", space={}, objective="flip")
    (trial,) = found.trials
    assert np.isinf(trial.value)
    assert "objective 'flip_probability' cannot judge kind='additive'" in trial.note


# What is recovered -------------------------------------------------------------------------------


SIZES = (10, 4, 4, 3, 2)
RATES = np.array([0.01, 0.02, 0.03, 0.03, 0.04, 0.05, 0.06, 0.08, 0.12, 0.3])
NO_NOISE = float("inf")


def fitted(X, y, epsilon=NO_NOISE, n_classes=2):
    domain = Domain.from_sizes(SIZES, n_classes=n_classes)
    return ResidualForestClassifier(
        domain, epsilon=epsilon, n_records=len(y), noise="research", noise_state=0, random_state=0
    ).fit(X, y)


def records(n, draw):
    return np.column_stack([draw.integers(0, size, n) for size in SIZES])


def labels(shares, draw):
    return (draw.random(len(shares)) < shares).astype(int)


def strongest_pair(model):
    sizes = importance(model)
    return max((sizes[name] for name in sizes if isinstance(name, tuple)), default=0)


def farthest_code(model, X, y, least):
    """How far the mean forecast of a code is from its counts, on the log odds, at the worst."""
    codes, shares = X[:, 0], model.predict_proba(X)[:, 1]
    counts, positive = np.bincount(codes), np.bincount(codes, y)
    gaps = logit(np.bincount(codes, shares) / counts) - logit(positive / counts)
    return np.abs(gaps[positive > least]).max()


@pytest.mark.parametrize("n", [50_000, pytest.param(1_000_000, marks=pytest.mark.long)])
@pytest.mark.parametrize("epsilon", [NO_NOISE, 1_000_000])
def test_a_strong_effect_on_a_rare_class_is_recovered(n, epsilon):
    """The code of the largest rate had .40 in place of .30, and the next less than it should."""
    draw = np.random.default_rng(1)
    X = records(n, draw)
    y = labels(RATES[X[:, 0]], draw)
    model = fitted(X, y, epsilon / n)
    assert farthest_code(model, X, y, 1000) < np.log(1.06)
    assert strongest_pair(model) < 0.01


@pytest.mark.parametrize("top", [0.08, 0.5])
def test_a_code_is_recovered_however_far_it_is_from_the_others(top):
    draw = np.random.default_rng(2)
    X = records(30_000, draw)
    y = labels(np.append(RATES[:9], top)[X[:, 0]], draw)
    assert farthest_code(fitted(X, y), X, y, 200) < 0.1


def test_a_class_of_several_is_recovered():
    draw = np.random.default_rng(3)
    X = records(30_000, draw)
    y = labels(RATES[X[:, 0]], draw)
    y[draw.random(len(y)) < 0.3] = 2
    shares = fitted(X, y, n_classes=3).predict_proba(X)
    for code in (8, 9):
        here = X[:, 0] == code
        of_counts = np.bincount(y[here], minlength=3) / here.sum()
        assert_allclose(shares[here].mean(axis=0), of_counts, rtol=0.05)


def test_an_interaction_is_told_from_its_margins():
    draw = np.random.default_rng(4)
    X = records(30_000, draw)
    alike = np.where(X[:, 1] % 2 == X[:, 2] % 2, 0.5, -0.5)
    odds = logit(RATES)[X[:, 0]] + np.array([0, 0.4, 0.8, 1.2])[X[:, 1]] + alike
    model = fitted(X, labels(expit(odds), draw))
    found = importance(model)
    assert found["x1", "x2"] == pytest.approx(0.5, abs=0.1)
    assert found["x1"] == pytest.approx(0.45, abs=0.05)
    assert found["x2"] < 0.1


@pytest.mark.parametrize("size", [1.0, 1.5])
def test_a_strong_interaction_of_a_rare_class_is_found_at_its_strength(size):
    """They were found as .85 and 1.1: a pair is visited once, and its table is not linear there."""
    draw = np.random.default_rng(6)
    X = records(50_000, draw)
    alike = np.where(X[:, 1] % 2 == X[:, 2] % 2, size, -size)
    model = fitted(X, labels(expit(alike - 3), draw))
    sizes = importance(model)
    assert sizes.pop(("x1", "x2")) == pytest.approx(size, rel=0.07)
    assert max(sizes.values()) < 0.1


@pytest.mark.parametrize("n_classes", [2, 3])
def test_pairs_have_no_margins_and_terms_still_add_up(n_classes):
    draw = np.random.default_rng(5)
    X = records(20_000, draw)
    y = labels(np.where(X[:, 1] % 2 == X[:, 3] % 2, 0.7, 0.2) * (1 + X[:, 4]) / 2, draw)
    y = np.minimum(y + (X[:, 0] == X[:, 1]), n_classes - 1)
    model = fitted(X, y, n_classes=n_classes)
    names, added = explained(model, X, classes=(1, 0))
    pairs = [name for name in names if isinstance(name, tuple)]
    assert pairs
    for name in pairs:
        table = effect(model, name, classes=(1, 0)).log_odds
        margins = [effect(model, one, classes=(1, 0)).shares for one in name]
        for axis in range(table.ndim):
            means = np.moveaxis(table, axis, 0)
            for other in reversed([*margins[:axis], *margins[axis + 1 :]]):
                means = means @ other
            assert_allclose(means, 0, atol=1e-12)
    shares = model.predict_proba(X)
    assert_allclose(added.sum(axis=1), np.log(shares[:, 1] / shares[:, 0]), rtol=1e-9, atol=1e-9)


# The scale of a sum of effects --------------------------------------------------------------------

SCALE_SIZES = (2, 3, 4)
POOLING = PoolingSettings(Smoothness(0.1, 0.95), 2.0, 0.1, 0.25, 1.0)


def states_of(generator, k):
    """States with effects on every attribute, as if tables had told them."""
    margins = tuple(generator.dirichlet(np.full(size, 3.0)) for size in SCALE_SIZES)
    columns = []
    for base in generator.normal(size=1 if k == 2 else k):
        state = ResidualState(
            SCALE_SIZES, (False,) * 3, 1000.0, float(base), 0.01, margins, POOLING, ()
        )
        for i, size in enumerate(SCALE_SIZES):
            counts = state.expected_counts((i,))
            state = state.with_block(state.empty_block((i,)))
            state, _ = state.visit(i, counts * generator.normal(size=size), counts, 1.0)
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
        for cell in product(*map(range, SCALE_SIZES)):
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
    after = scale_states(states, effects, 0.4)
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
    for cell in product(*map(range, SCALE_SIZES)):
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
    states = ClassStates((state.with_block(state.empty_block((0,))),), np.ones(1), 0.2)
    counts = states.first.expected_counts((0,))
    far = np.sqrt(noise + counts) * 10 ** generator.uniform(-1, 2)
    found, _ = states.visit(0, (far * generator.normal(size=size))[:, None], counts, noise)
    return add_first_table(states, found)


def test_no_scale_leaves_an_indefinite_covariance():
    """What effects have in common is taken out of them, but no more than they have."""
    generator = np.random.default_rng(0)
    for _ in range(1000):
        states = visited_once(generator)
        after = scale_states(states, sum_of_effects(states), float(SCALES.max())).first
        prior = after.blocks[0].covariance + after.base_variance
        assert np.linalg.eigvalsh(prior).min() > -1e-6


def test_a_table_beside_the_totals_leaves_the_intercept():
    states = states_of(np.random.default_rng(2), 2)
    counts = states.first.expected_counts((1,))
    found, _ = states.visit(1, counts[:, None] * 0.2, counts, 1.0)
    kept = add_first_table(states, found)
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


ZCDP_OF_ONE = {"epsilon": None, "rho": 1}


def drawn(copies, generator, n=10_000):
    """Labels by four attributes that are independent given the class, each so many times."""
    labels = generator.integers(0, 2, n)
    own = (generator.random((n, 4)) < np.where(labels == 1, 0.7, 0.3)[:, None]).astype(int)
    return np.repeat(own, copies, axis=1), labels


@pytest.mark.parametrize(
    ("copies", "budget"),
    [(1, {"epsilon": 4}), (5, {"epsilon": 4}), (25, ZCDP_OF_ONE)],
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
