"""Residual forests: every share announced before data, a kind of plan, and effects recovered."""

import json
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from command_line import run
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.special import expit, logit

from mrf_matrix import Domain
from mrf_matrix.estimators import ResidualForestClassifier, from_design
from mrf_matrix.mechanisms import ZCDP, BudgetError, DiscreteGaussian, DiscreteLaplace, PureDP
from mrf_matrix.planning import plan, tune
from mrf_matrix.planning.plans.kind import kind_of
from mrf_matrix.posterior.effects import constant, contributions, terms
from mrf_matrix.residual import (
    ResidualPlan,
    residual_budget,
    residual_plan,
    residual_signal,
    suits_residual_forest,
)
from mrf_matrix.residual.step import ResidualStep, sums_of_values


def plan_of(sizes, budget, n_records, neighboring="add_remove"):
    return residual_plan(
        Domain.from_sizes(sizes, n_classes=2),
        budget,
        np.random.default_rng(0),
        n_records=n_records,
        neighboring=neighboring,
    )


@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=12),
    st.sampled_from(
        [PureDP("0.1" and 0.1), PureDP(Fraction(1, 3)), PureDP(7), ZCDP(0.02), ZCDP(3)]
    ),
    st.sampled_from([None, 1, 500, 10**4, 10**6]),
)
def test_shares_add_up_to_the_budget_exactly(sizes, budget, n_records):
    plan = plan_of(sizes, budget, n_records)
    assert plan.spent == budget
    assert all(step.budget.exact > 0 for step in plan.steps)
    assert {len(one.order) for one in plan.passes} <= {len(sizes)}
    assert len(plan.first.visits) == len(sizes)


@pytest.mark.parametrize(
    ("kind", "budget", "neighboring", "column_sum", "squared_scale"),
    [
        ("residuals", PureDP(1), "add_remove", 512, 512**2),
        ("residuals", PureDP(1), "replace_one", 512, 1024**2),
        ("residuals", ZCDP(1), "add_remove", 512**2, 512**2 / 2),
        ("residuals", ZCDP(1), "replace_one", 512**2, 1024**2 / 2),
        ("curvature", PureDP(1), "add_remove", 256, 256**2),
        ("curvature", ZCDP(1), "replace_one", 256**2, 256**2),
        ("counts", PureDP(1), "add_remove", 1, 1),
        ("totals", PureDP(1), "replace_one", 1, 4),
    ],
)
def test_sensitivities_and_noise(kind, budget, neighboring, column_sum, squared_scale):
    step = ResidualStep(kind, "", budget, neighboring)
    law = DiscreteLaplace if isinstance(budget, PureDP) else DiscreteGaussian
    assert step.column_sum == column_sum
    moved = (squared_scale if isinstance(budget, PureDP) else 2 * squared_scale) ** 0.5
    assert step.sensitivity == pytest.approx(moved / step.units)
    assert isinstance(step.law, law)
    assert float(step.law.scale) ** 2 == pytest.approx(squared_scale)
    assert step.law == step.mechanism(7).law  # whatever the table's size


@pytest.mark.parametrize("kind", ["residuals", "curvature"])
@pytest.mark.parametrize("n_cells", [1, 3, 300])
def test_sums_of_values_sum_them(kind, n_cells):
    low, values = (-512, 1025) if kind == "residuals" else (0, 257)
    matrix = sums_of_values(ResidualStep(kind, "", PureDP(1), "add_remove").values, n_cells)
    cells = np.array([0, n_cells - 1])
    added = np.array([5, values - 1])
    columns = matrix.columns(cells * values + added).toarray()
    expected = np.zeros((n_cells, 2))
    expected[cells, [0, 1]] = low + added
    assert np.array_equal(columns, expected)


@pytest.mark.parametrize("neighboring", ["add_remove", "replace_one"])
def test_choices_spend_their_share(neighboring):
    pure = ResidualStep("choice", "", PureDP(Fraction(1, 10)), neighboring)
    factor = 2 if neighboring == "add_remove" else 4
    assert pure.choice_rate == Fraction(1, 10 * factor)
    concentrated = ResidualStep("choice", "", ZCDP(Fraction(1, 50)), neighboring)
    epsilon = concentrated.choice_epsilon
    assert epsilon**2 / 8 <= Fraction(1, 50) < (epsilon + Fraction(1, 2**20)) ** 2 / 8
    assert concentrated.choice_rate == epsilon / factor


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
    plan = plan_of([3] * 10, PureDP(1), n_records)
    later = sum(1 + 3 * len(one.visits) for one in plan.passes)
    assert plan.pairs is None
    assert plan.most_measurements == 2 + 30 + 30 + later


def test_later_gaussian_passes_visit_fewer_attributes():
    plan = plan_of([3] * 10, ZCDP(0.5), 10**5)
    assert [len(one.visits) for one in (plan.first, *plan.passes)] == [10, 7, 5, 4, 3]


@pytest.mark.parametrize("budget", [PureDP(1), ZCDP(0.05)], ids=repr)
def test_ample_signal_visits_all_attributes_and_no_record_counts_for_more(budget):
    """How often tables are measured changes; what one record adds to any of them does not."""
    some, ample = (plan_of([3] * 10, budget, n) for n in (10**5, 10**6))
    assert [len(one.visits) for one in (ample.first, *ample.passes)] == [10] * 8
    assert ample.spent == some.spent == budget
    doubled = [one.visits[0].budget.exact for one in ample.passes]
    assert {later / sooner for sooner, later in pairwise(doubled)} == {2}
    of_kinds = [{(one.kind, one.sensitivity) for one in plan.steps} for plan in (some, ample)]
    assert of_kinds[0] == of_kinds[1]


@pytest.mark.parametrize(("budget", "power"), [(PureDP(1), 1 / 3), (ZCDP(0.05), 1 / 2)])
def test_ample_signal_gives_long_attributes_more_whatever_the_order(budget, power):
    for one in plan_of([2, 100, 9], budget, 10**7).passes:
        again = one.in_order((2, 0, 1))
        assert again.in_order(one.order) == one
        visits = dict(zip(again.order, again.visits, strict=True))
        ratio = float(visits[1].budget.exact / visits[0].budget.exact)
        assert ratio == pytest.approx(50**power, rel=0.1)


def test_law_is_chosen_by_its_variance():
    """Few visits and a large budget: Laplace; many visits: Gaussian."""
    few = residual_budget(PureDP(4), ZCDP.for_approximate_dp(4, 1e-6), 2, 500)
    many = residual_budget(PureDP(1), ZCDP.for_approximate_dp(1, 1e-6), 30, 50_000)
    assert isinstance(few, PureDP)
    assert isinstance(many, ZCDP)
    infinite = residual_budget(PureDP(float("inf")), ZCDP(float("inf")), 5, None)
    assert infinite.is_infinite


def test_gate_is_public_and_follows_the_signal():
    assert residual_signal(1000, PureDP(2), 10) == 200
    assert residual_signal(1000, ZCDP(0.05), 10) == pytest.approx(100)
    assert suits_residual_forest(1000, PureDP(2), 10, 2)
    assert not suits_residual_forest(1000, PureDP(1), 10, 2)
    assert not suits_residual_forest(10_000, PureDP(2), 10, 3)
    assert suits_residual_forest(10_000, ZCDP(0.05), 10, 3)
    assert suits_residual_forest(1000, ZCDP(0.05), 10, 3)  # a signal of 67
    assert not suits_residual_forest(700, ZCDP(0.05), 10, 3)
    assert not suits_residual_forest(None, PureDP(2), 10, 2)
    assert suits_residual_forest(10, PureDP(float("inf")), 10, 2)


def test_one_class_is_planned_as_others_are():
    plan = residual_plan(
        Domain.from_sizes([2], n_classes=1), PureDP(1), np.random.default_rng(0), n_records=9
    )
    assert plan.totals.n_columns == 1


@pytest.mark.parametrize("k", [3, 10])
@pytest.mark.parametrize("neighboring", ["add_remove", "replace_one"])
@pytest.mark.parametrize("budget", [PureDP(1), ZCDP(1)], ids=repr)
def test_a_table_of_several_classes_costs_one_record(budget, neighboring, k):
    """Whatever the classes: a joint norm of one."""
    step = ResidualStep("residuals", "", budget, neighboring, k)
    factor = 1 if neighboring == "add_remove" else 2
    assert step.sensitivity == pytest.approx(factor)
    assert step.n_columns == k
    assert step.mechanism(300).law == step.law
    unit = 1 if budget.norm == "l1" else 0.5**0.5
    assert float(step.law.scale) == pytest.approx(1024 * factor * unit)
    curvature = ResidualStep("curvature", "", budget, neighboring, k)
    assert curvature.column_sum == (512 if budget.norm == "l1" else 1024**2)


def test_more_classes_have_less_signal_and_prefer_gaussian_noise():
    assert residual_signal(1000, PureDP(2), 10, 4) == residual_signal(1000, PureDP(2), 10) / 2
    pure, concentrated = PureDP(4), ZCDP.for_approximate_dp(4, 1e-6)
    assert isinstance(residual_budget(pure, concentrated, 4, 2000, 2), PureDP)
    assert isinstance(residual_budget(pure, concentrated, 4, 2000, 9), ZCDP)


def test_attributes_of_too_many_codes_are_refused():
    with pytest.raises(ValueError, match="2001 codes: expected at most 2000"):
        plan_of([2, 2001], PureDP(1), 1000)
    of_eight = Domain.from_sizes([2, 1001], n_classes=8)
    with pytest.raises(ValueError, match="1001 codes: expected at most 1000"):
        residual_plan(of_eight, PureDP(1), np.random.default_rng(0), n_records=1000)


@pytest.mark.parametrize("budget", [PureDP(10**12), PureDP(Fraction(1, 10**16)), ZCDP(10**20)])
def test_noise_that_cannot_be_drawn_is_refused_before_any_step(budget):
    with pytest.raises(ValueError, match=r"expected a (smaller|larger)"):
        plan_of([2, 2], budget, 10**17)


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
    assert isinstance(made, ResidualPlan)
    figures = json.loads(json.dumps(made.to_dict()))
    assert len(figures["steps"]) == len(made.steps)
    assert figures["kind"] == kind_of("additive").name
    assert made.spent == made.budget


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


def test_the_command_prints_its_steps(tmp_path):
    file = tmp_path / "schema.json"
    DOMAIN.save(file)
    words = ["plan", str(file), "--kind", "additive", "--output", str(tmp_path)]
    done = run(*words)
    assert done.exit_code == 0, done.output
    assert "class totals" in done.output
    assert json.loads((tmp_path / "plan.json").read_text())["kind"] == "additive"


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
    return max((t.size for t in terms(model.posterior_, 1, 0) if len(t.attributes) > 1), default=0)


def farthest_code(model, X, y, least):
    """How far the mean forecast of a code is from its counts, on the log odds, at the worst."""
    codes, shares = X[:, 0], model.predict_proba(X)[:, 1]
    counts, positive = np.bincount(codes), np.bincount(codes, y)
    gaps = logit(np.bincount(codes, shares) / counts) - logit(positive / counts)
    return np.abs(gaps[positive > least]).max()


@pytest.mark.parametrize("n", [100_000, pytest.param(1_000_000, marks=pytest.mark.long)])
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
    X = records(60_000, draw)
    y = labels(np.append(RATES[:9], top)[X[:, 0]], draw)
    assert farthest_code(fitted(X, y), X, y, 400) < 0.1


def test_a_class_of_several_is_recovered():
    draw = np.random.default_rng(3)
    X = records(60_000, draw)
    y = labels(RATES[X[:, 0]], draw)
    y[draw.random(len(y)) < 0.3] = 2
    shares = fitted(X, y, n_classes=3).predict_proba(X)
    for code in (8, 9):
        here = X[:, 0] == code
        of_counts = np.bincount(y[here], minlength=3) / here.sum()
        assert_allclose(shares[here].mean(axis=0), of_counts, rtol=0.05)


def test_an_interaction_is_told_from_its_margins():
    draw = np.random.default_rng(4)
    X = records(60_000, draw)
    alike = np.where(X[:, 1] % 2 == X[:, 2] % 2, 0.5, -0.5)
    odds = logit(RATES)[X[:, 0]] + np.array([0, 0.4, 0.8, 1.2])[X[:, 1]] + alike
    model = fitted(X, labels(expit(odds), draw))
    found = {t.attributes: t for t in terms(model.posterior_, 1, 0)}
    assert found[1, 2].size == pytest.approx(0.5, abs=0.1)
    assert found[1,].size == pytest.approx(0.45, abs=0.05)
    assert found[2,].size < 0.1


@pytest.mark.parametrize("size", [1.0, 1.5])
def test_a_strong_interaction_of_a_rare_class_is_found_at_its_strength(size):
    """They were found as .85 and 1.1: a pair is visited once, and its table is not linear there."""
    draw = np.random.default_rng(6)
    X = records(100_000, draw)
    alike = np.where(X[:, 1] % 2 == X[:, 2] % 2, size, -size)
    model = fitted(X, labels(expit(alike - 3), draw))
    sizes = {t.attributes: t.size for t in terms(model.posterior_, 1, 0)}
    assert sizes.pop((1, 2)) == pytest.approx(size, rel=0.07)
    assert max(sizes.values()) < 0.1


@pytest.mark.parametrize("n_classes", [2, 3])
def test_pairs_have_no_margins_and_terms_still_add_up(n_classes):
    draw = np.random.default_rng(5)
    X = records(20_000, draw)
    y = labels(np.where(X[:, 1] % 2 == X[:, 3] % 2, 0.7, 0.2) * (1 + X[:, 4]) / 2, draw)
    y = np.minimum(y + (X[:, 0] == X[:, 1]), n_classes - 1)
    model = fitted(X, y, n_classes=n_classes)
    found = terms(model.posterior_, 1, 0)
    pairs = [term for term in found if len(term.attributes) > 1]
    assert pairs
    for term in pairs:
        axes = range(term.log_odds.ndim)
        for rest in (tuple(j for j in axes if j != axis) for axis in axes):
            assert_allclose((term.shares * term.log_odds).sum(axis=rest), 0, atol=1e-12)
    shares = model.predict_proba(X)
    told = constant(model.posterior_, 1, 0) + contributions(found, X).sum(axis=1)
    assert_allclose(told, np.log(shares[:, 1] / shares[:, 0]), rtol=1e-9, atol=1e-9)
