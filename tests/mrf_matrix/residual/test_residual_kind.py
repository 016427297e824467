"""A residual forest is a kind of plan: planned, tuned and fitted by the same call."""

import json

import numpy as np
import pytest
from command_line import run
from hypothesis import given
from hypothesis import strategies as st

from mrf_matrix import Domain
from mrf_matrix.estimators import ResidualForestClassifier, from_design
from mrf_matrix.mechanisms import ZCDP, BudgetError
from mrf_matrix.planning import plan, tune
from mrf_matrix.planning.kinds.words import kind_of
from mrf_matrix.residual import ResidualPlan

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
