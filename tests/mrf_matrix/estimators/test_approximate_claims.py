"""Claims of (ε, δ): as asked, as planned, and against what an attacker can prove."""

import json
import math
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from command_line import commands, run
from scipy import stats

import strategies
from mrf_matrix import (
    BatchPredictionClassifier,
    Domain,
    MatrixForestClassifier,
    PrivacyLedger,
    RandomTrees,
    SubsampleAggregateClassifier,
    estimators,
    expected_error,
)
from mrf_matrix.error import direct_error
from mrf_matrix.estimators import from_design, prediction
from mrf_matrix.estimators.record_source import EncodedRecords
from mrf_matrix.mechanisms import ZCDP, BudgetError, PureDP, measure
from mrf_matrix.mechanisms.measurement import measure as measuring
from mrf_matrix.mechanisms.measurement import mechanism
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
def test_the_claim_is_as_asked_and_no_stronger_and_charged_at_what_it_takes(name):
    ledger = PrivacyLedger(rho=10)
    model = released(made(name, ledger=ledger))
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


# Audits -------------------------------------------------------------------------------------------


RUNS = 500
FAILURE = 1e-3
EPSILON = 1.0
AUDITED = Domain.from_sizes([2, 2], n_classes=2)
AUDITED_TREES = RandomTrees(2, 1).grow(AUDITED, random_state=0)
CELLS = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], dtype=np.int32)
CODES = CELLS[[2, 3, 3, 3, 2, 0, 1]]  # chosen such that the last record turns a leaf's vote
LABELS = np.array([1, 0, 1, 0, 0, 1, 1])
PUBLIC = {"forest": AUDITED_TREES, "random_state": 1, "strategy": "identity"}


def train(codes, labels, **privacy):
    """Return what is measured: pairs of a calibrated mechanism and the private table."""
    model = MatrixForestClassifier(AUDITED, **PUBLIC, **privacy)
    made = model.fit(codes, labels).plan_
    coins, records = np.random.default_rng(1), EncodedRecords(AUDITED, codes, labels)
    tables = [made.kind.table(one.ensemble, records, coins) for one in made.parts]
    return [(one.mechanism, t) for one, t in zip(made.parts, tables, strict=True)]


def answer(kind, codes, labels, *, asked=CELLS, **privacy):
    model = kind(AUDITED, **PUBLIC, **privacy).fit(codes, labels)
    parts = model.plan(asked).parts
    return [(one.mechanism, t) for one, t in zip(parts, model._fitted.tables, strict=True)]


MODES = {
    "matrix": train,
    "batch": partial(answer, BatchPredictionClassifier),
    "subsample, weight": partial(answer, SubsampleAggregateClassifier),
    "subsample, hard": partial(answer, partial(SubsampleAggregateClassifier, voting="hard")),
    "subsample, one query at a time": partial(
        answer, partial(SubsampleAggregateClassifier, allocation="per_query"), asked=CELLS[-1:]
    ),
}


def neighbours(relation):
    """Yield every neighbour of the data that ends in another record, or in none."""
    if relation == "add_remove":
        yield CODES[:-1], LABELS[:-1]
        return
    for cell in CELLS:
        for label in (0, 1):
            yield np.vstack([CODES[:-1], cell]), np.append(LABELS[:-1], label)


def exact_answers(pairs):
    return np.concatenate([table.answers(made.rounded.matrix).ravel() for made, table in pairs])


def noisy_answers(pairs):
    """Return the answers of many releases, (RUNS, answers): columns of classes have own noise."""
    found = []
    for made, table in pairs:
        many = replace(table, counts=np.tile(table.counts, RUNS))
        answers = measure(made, many).answers
        columns = answers.reshape(len(answers), RUNS, -1)
        found.append(np.moveaxis(columns, 1, 0).reshape(RUNS, -1))
    return np.concatenate(found, axis=1)


def audited(kind, relation):
    """Return a lower confidence bound on ε, and the exact ε of the neighbours audited.

    The attacker chooses the neighbour that moves the answers most.
    """
    measured = partial(MODES[kind], epsilon=EPSILON, neighboring=relation)
    pairs = [measured(CODES, LABELS)]
    exact = [exact_answers(pairs[0])]
    others = [measured(*data) for data in neighbours(relation)]
    pairs.append(max(others, key=lambda other: np.abs(exact_answers(other) - exact[0]).sum()))
    exact.append(exact_answers(pairs[1]))
    scale = float(pairs[0][0][0].law.scale)

    def evidence(noisy):
        """Log-likelihood ratios of released answers, in favour of the first data set."""
        away = [np.abs(noisy - one).sum(axis=1) for one in exact]
        return (away[1] - away[0]) / scale

    most = np.abs(exact[1] - exact[0]).sum() / scale
    seen = [(evidence(noisy_answers(one)) >= most / 2).sum() for one in pairs]
    return math.log(lower(seen[0], RUNS) / upper(seen[1], RUNS)), most


def lower(count, runs):
    return stats.beta.ppf(FAILURE / 2, count, runs - count + 1) if count else 1e-12


def upper(count, runs):
    return stats.beta.ppf(1 - FAILURE / 2, count + 1, runs - count) if count < runs else 1.0


@pytest.fixture
def coins_thrown_alike(monkeypatch):
    """Audit given the coins: they are independent of the records, so the claim holds for each."""
    monkeypatch.setattr(
        prediction, "record_coins", lambda noise, budget, seed: np.random.default_rng(seed)
    )


CASES = [(kind, "add_remove") for kind in MODES] + [
    (kind, "replace_one") for kind in ("batch", "subsample, weight")
]


@pytest.mark.usefixtures("coins_thrown_alike")
@pytest.mark.parametrize(("kind", "relation"), [*CASES, ("subsample, hard", "replace_one")])
def test_no_more_is_learned_than_claimed(kind, relation):
    bound, most = audited(kind, relation)
    assert most <= EPSILON * (1 + 1e-9)  # the exact likelihood ratio of these neighbours
    assert bound < EPSILON


@pytest.mark.usefixtures("coins_thrown_alike")
@pytest.mark.parametrize(("kind", "relation"), CASES)
def test_noise_halved_on_purpose_is_caught(kind, relation, monkeypatch):
    """Negative control: with half the noise the same audit proves more than the claimed ε."""
    right = measuring.noise_for

    def halved(sensitivity, squared, budget, law=None):
        return right(sensitivity, squared, budget * 2, law)

    for place in (mechanism, measuring):
        monkeypatch.setattr(place, "noise_for", halved)
    bound, most = audited(kind, relation)
    assert most > EPSILON
    assert bound > EPSILON
