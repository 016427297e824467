"""`delta=` of every classifier with `epsilon=`: claimed as asked, planned as it is fitted."""

import json
from fractions import Fraction

import numpy as np
import pytest
from command_line import commands, run
from sklearn.base import clone

import strategies
from mrf_matrix import Domain, PrivacyLedger, estimators, expected_error
from mrf_matrix.error import direct_error
from mrf_matrix.estimators import from_design
from mrf_matrix.mechanisms import ZCDP, BudgetError, PureDP
from mrf_matrix.planning import plan, tune
from mrf_matrix.study import compare

DELTA = 1e-6
COMPARE_LAWS = ("additive", "auto", "tables", "naive_bayes", "labels")
CHOICES = ("exponential",)
LARGE = 0.1
"""At which they take Gaussian noise here; at the small one Laplace noise."""
CLAIM = "(epsilon=1, delta=1e-06)-DP via "
DOMAIN = Domain.from_sizes([3, 4, 2, 2], n_classes=2)
RNG = np.random.default_rng(0)
X = np.stack([RNG.integers(0, size, 300) for size in DOMAIN.sizes], axis=1)
Y = (X[:, 0] > 1).astype(int)

TREES = {"n_trees": 3, "max_depth": 2, "strategy": "identity", "random_state": 0}
MADE = {
    "matrix": (estimators.MatrixForestClassifier, TREES),
    "shares": (
        estimators.MatrixForestClassifier,
        TREES | {"n_ensembles": 3, "budget_shares": [1, 2, 4]},
    ),
    "per tree": (estimators.MatrixForestClassifier, TREES | {"allocation": "per_tree"}),
    "batch": (estimators.BatchPredictionClassifier, TREES),
    "subsample": (estimators.SubsampleAggregateClassifier, TREES),
    "naive_bayes": (estimators.PrivateNaiveBayesClassifier, {}),
    "tables": (estimators.PosteriorForestClassifier, {"random_state": 0, "n_records": 300}),
    "additive": (estimators.ResidualForestClassifier, {"random_state": 0, "n_records": 300}),
    "auto": (estimators.PrivateForestClassifier, {"random_state": 0, "n_records": 100}),
    "labels": (estimators.LabelTreeClassifier, {"random_state": 0, "n_records": 300}),
    "pool": (estimators.PooledForestClassifier, {"random_state": 0, "n_records": 300}),
}
BY_GAUSSIAN = {
    f"{name}, Gaussian": (MADE[name][0], MADE[name][1] | {"delta": LARGE}) for name in COMPARE_LAWS
}
MADE |= BY_GAUSSIAN
CHOOSING = {
    "splits": (estimators.MultinomialForestClassifier, {"n_trees": 6, "max_depth": 3}),
    "stages": (
        estimators.MultinomialMatrixForestClassifier,
        {"strategy": "identity", "parts": "all"},
    ),
    "coins": (
        estimators.MultinomialMatrixForestClassifier,
        {"strategy": "identity", "max_depth": 2},
    ),
}
"""Their choices are drawn by exponential mechanisms, which compose under zCDP."""

PLANNED = ("matrix", "naive_bayes", "tables", "additive")
PLANNED += tuple(f"{name}, Gaussian" for name in PLANNED[1:])


def made(name, **changes):
    kind, settings = (MADE | CHOOSING)[name]
    return kind(DOMAIN, **{"epsilon": 1, "delta": DELTA} | settings | changes)


def released(model):
    """Return a fitted classifier that has released something."""
    model.fit(X, Y).predict(X[:5])
    return model


def test_every_classifier_with_epsilon_takes_delta():
    found = {
        name: getattr(estimators, name)().get_params()
        for name in estimators.__all__
        if name.endswith("Classifier") and not name.startswith("Released")
    }
    spending = {name for name, held in found.items() if "epsilon" in held}
    assert all("delta" in found[name] for name in spending)
    known = {kind.__name__ for kind, _ in (MADE | CHOOSING).values()}
    assert spending == known


@pytest.mark.parametrize("name", CHOOSING)
def test_choices_claim_what_is_asked_and_charge_it(name):
    ledger = PrivacyLedger(rho=10)
    model = made(name, ledger=ledger, random_state=0).fit(X, Y)
    budget = ZCDP.for_approximate_dp(1, DELTA)
    said = f"{CLAIM}{budget!r} under add_remove neighbours"
    assert model.privacy_report_.statement.startswith(f"Private release: {said}")
    assert ledger.spent == budget.exact
    assert [one.budget for one in model.forest_.provenance.spendings] == [budget]
    if name != "splits":
        assert model.release_.budget == (budget.split([3, 7])[1] if name == "stages" else budget)
        assert "discrete Gaussian" in model.privacy_report_.law
    assert CLAIM not in made(name, delta=0).fit(X, Y).privacy_report_.statement


def test_a_delta_that_nothing_is_claimed_of_is_refused_by_name():
    with pytest.raises(BudgetError, match="epsilon=None, which claims nothing"):
        estimators.MultinomialForestClassifier(DOMAIN, delta=DELTA).fit(X, Y)
    strategy = strategies.evaluate(np.eye(48), np.eye(48), norm="l1")
    with pytest.raises(ValueError, match="stage 2 adds Gaussian noise"):
        made("coins", strategy=strategy).fit(X, Y)


@pytest.mark.parametrize("name", MADE)
def test_the_claim_is_as_asked_and_no_stronger(name):
    model = released(made(name))
    report, delta = model.privacy_report_, model.delta
    spent = report.budget.split(" of ")[0]
    claim = f"(epsilon=1, delta={delta:g})-DP via "
    assert report.statement.startswith(f"Private release: {claim}{spent} under add_remove")
    assert report.delta == delta
    is_pure = name in COMPARE_LAWS
    assert spent == ("PureDP(epsilon=1)" if is_pure else repr(ZCDP.for_approximate_dp(1, delta)))
    laws = {one.law for one in report.measurements if not one.law.startswith(CHOICES)}
    assert all(("Laplace" if is_pure else "discrete Gaussian") in law for law in laws)
    assert json.loads(json.dumps(report.to_dict()))["delta"] == delta


@pytest.mark.parametrize("name", MADE)
def test_the_ledger_is_charged_what_the_claim_takes(name):
    ledger = PrivacyLedger(rho=10)
    model = released(made(name, ledger=ledger))
    budget = PureDP(1) if name in COMPARE_LAWS else ZCDP.for_approximate_dp(1, model.delta)
    assert ledger.spent == (budget if isinstance(budget, ZCDP) else budget.to_zcdp()).amount
    if isinstance(budget, ZCDP):
        assert 0.999 < ledger.spent_epsilon(model.delta) <= 1
        pure = PrivacyLedger(epsilon=10)
        with pytest.raises(BudgetError, match="pure DP"):
            released(made(name, ledger=pure))
        assert pure.spent == 0


@pytest.mark.parametrize("name", MADE)
def test_a_ledger_of_the_claim_is_used_up_by_it_whichever_law_is_taken(name):
    ledger = PrivacyLedger(epsilon=1, delta=made(name).delta)
    released(made(name, ledger=ledger))
    assert sum(ledger.shares) == 1
    with pytest.raises(BudgetError, match="nothing remains"):
        released(made(name, ledger=ledger))


@pytest.mark.parametrize("name", MADE | CHOOSING)
@pytest.mark.parametrize(
    ("budget", "message"),
    [
        ({"epsilon": float("inf")}, "infinite epsilon"),
        ({"delta": 1.5}, "between 0 and 1"),
    ],
)
def test_what_no_claim_is_made_of_is_refused_by_name(name, budget, message):
    with pytest.raises(BudgetError, match=message):
        made(name, **budget).fit(X, Y)
    if name in MADE:
        with pytest.raises(BudgetError, match=r"delta=(1e-06|0\.1) and rho=1"):
            made(name, epsilon=None, rho=1).fit(X, Y)


@pytest.mark.parametrize("name", PLANNED)
def test_the_plan_promises_what_fit_claims(name):
    model = made(name)
    settings = {"delta": DELTA} | MADE[name][1]
    planned = plan(DOMAIN, name.partition(",")[0], epsilon=1, **settings)
    model.fit(X, Y)
    assert (planned.budget, planned.delta) == (model.plan_.budget, model.plan_.delta)
    said = f"(epsilon=1, delta={model.delta:g})-DP via {planned.budget!r}"
    assert planned.to_dict()["claim"] == said
    again = from_design(planned)
    assert (again.epsilon, again.delta) == (1, model.delta)
    assert again.fit(X, Y).privacy_report_.budget == model.privacy_report_.budget


def test_a_plan_at_another_budget_claims_what_is_named():
    planned = plan(DOMAIN, epsilon=1, delta=DELTA, **TREES)
    assert "(epsilon=1, delta=1e-06)-DP via ZCDP" in repr(planned)
    doubled = planned.at(epsilon=2, delta=DELTA)
    assert (doubled.budget, doubled.delta) == (ZCDP.for_approximate_dp(2, DELTA), DELTA)
    assert planned.at(rho=planned.budget.rho).delta == 0


def test_targets_find_the_least_budget_with_its_claim():
    planned = plan(DOMAIN, delta=DELTA, target_rms=5, **TREES)
    assert isinstance(planned.budget, ZCDP)
    assert planned.worst_rms <= 5
    assert planned.to_dict()["claim"].endswith(f"delta=1e-06)-DP via {planned.budget!r}")


def test_errors_are_those_of_the_gaussian_budget():
    rho = ZCDP.for_approximate_dp(1, DELTA).rho
    one, other = ({"epsilon": 1, "delta": DELTA}, {"rho": rho})
    matrix, asked = np.eye(4), np.tri(4)
    assert (
        expected_error(matrix, asked, **one).total == expected_error(matrix, asked, **other).total
    )
    assert direct_error(asked, **one).total == direct_error(asked, **other).total
    moved = expected_error(matrix, asked, rho=1).at(**one)
    assert moved.total == expected_error(matrix, asked, **other).total


def test_batches_claim_what_they_have_cost_so_far():
    model = made("batch", n_batches=2).fit(X, Y)
    said = []
    for batch in np.unique(X, axis=0)[[[0], [-1]]]:
        model.predict(batch)
        said.append(model.privacy_report_.statement)
    assert CLAIM in said[1]
    half = Fraction(said[0].split("epsilon=")[1].split(",")[0])
    assert Fraction(1, 2) < half < 1  # ρ adds, ε does not


def test_clones_ask_for_the_same():
    assert clone(made("matrix")).get_params()["delta"] == DELTA


@pytest.mark.parametrize(("n_trees", "best"), [(4, 0), (24, DELTA)])
def test_searches_take_the_law_of_the_smaller_error(n_trees, best):
    found = tune(
        DOMAIN, epsilon=1, delta=DELTA, n_records=300, objective="error",
        space={"max_depth": [1], "n_trees": [n_trees], "allocation": ["per_tree"]},
    )  # fmt: skip
    assert [trial.design["delta"] for trial in found.trials] == [best, DELTA - best]
    assert found.best_params["delta"] == best
    said = from_design(found).fit(X, Y).privacy_report_.statement
    assert (CLAIM in said) == bool(best)


def test_studies_compare_under_the_claim():
    settings = {"n_trees": 3, "max_depth": 1, "n_splits": 1, "n_draws": 1, "strategy": "identity"}
    methods = ["matrix", "per_tree", "batch", "tables", "uniform_levels", "no_noise"]
    study = compare("monks_1", epsilons=[1.0], delta=DELTA, kind=methods, **settings)
    assert study.settings["delta"] == DELTA
    pure = compare("monks_1", epsilons=[1.0], kind=["majority"], **settings)
    errors = [one.strategies[-1].rms_per_leaf[1.0] for one in (study, pure)]
    rho = float(ZCDP.for_approximate_dp(1, DELTA).rho)
    assert errors[0] ** 2 / errors[1] ** 2 == pytest.approx(1 / (4 * rho), rel=0.1)


@pytest.mark.parametrize(
    "words",
    [
        ["plan", "monks_1", "--strategy", "identity", "--n-trees", "3", "--no-pictures"],
        ["plan", "monks_1", "--kind", "additive"],
        ["tune", "monks_1", "--no-pictures", "--max-depth", "1", "--n-trees", "3",
         "--strategy", "identity"],
        ["fit", "monks_1", "--kind", "tables"],
        ["fit", "monks_1"],
        ["compare", "monks_1", "--no-pictures", "--kind", "naive_bayes", "--epsilons", "1",
         "--n-splits", "1", "--n-draws", "1", "--n-trees", "3", "--max-depth", "1",
         "--strategy", "identity"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_the_command_line_takes_delta(words, tmp_path):
    place = ["--output", str(tmp_path / "made")]
    done = run(*words, "--delta", "1e-6", "--json", *place)
    assert done.exit_code == 0, done.output
    assert '"delta": 1e-06' in done.output
    again = tmp_path / "refused"
    refused = run(*words, "--delta", "2", "--output", str(again))
    assert refused.exit_code != 0
    assert "--delta 2.0: expected a probability" in refused.output
    assert not again.exists()


def test_every_command_with_epsilon_takes_delta():
    found = {path[-1]: {one.name for one in command.params} for path, command in commands()}
    spending = {name for name, options in found.items() if options & {"epsilon", "epsilons"}}
    assert {"fit", "plan", "tune", "compare", "evaluate", "simulate", "ledger"} <= spending
    assert all("delta" in found[name] for name in spending)
