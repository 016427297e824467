"""What is spent of a ledger: by searches, and by any number of threads on one fitted object."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from threading import Barrier, Event

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import GridSearchCV, cross_val_score

from mrf_matrix import (
    BatchPredictionClassifier,
    Domain,
    MatrixForestClassifier,
    PrivacyLedger,
    SubsampleAggregateClassifier,
    load_dataset,
)
from mrf_matrix.kinds.matrix import Matrix
from mrf_matrix.mechanisms import BudgetError
from mrf_matrix.planning.plans import build
from mrf_matrix.release import curator

# Searches -----------------------------------------------------------------------------------------


DATA = load_dataset("monks_1")
HALF = Fraction(1, 2)


def forest(ledger, **parameters):
    return MatrixForestClassifier(
        DATA.domain,
        **{
            "n_trees": 3,
            "max_depth": 2,
            "strategy": "identity",
            "random_state": 0,
            "ledger": ledger,
            **parameters,
        },
    )


def search(ledger, n_jobs=None, refit=True, epsilons=(0.1, 0.3), **parameters):
    return GridSearchCV(
        forest(ledger, **parameters), {"epsilon": epsilons}, cv=3, n_jobs=n_jobs, refit=refit
    )


def test_cross_validation_is_charged():
    ledger = PrivacyLedger(epsilon=2)
    cross_val_score(forest(ledger, epsilon=0.3), DATA.X, DATA.y, cv=5)
    assert ledger.spent == Fraction(3, 2)


@pytest.mark.parametrize("backend", ["sequential", "threading"])
def test_grid_search_in_this_process_is_charged_exactly(backend):
    ledger = PrivacyLedger(epsilon=2)
    with parallel_config(backend=backend):
        found = search(ledger, n_jobs=1 if backend == "sequential" else 2).fit(DATA.X, DATA.y)
    best = found.best_params_["epsilon"]
    assert ledger.spent == 3 * (Fraction(1, 10) + Fraction(3, 10)) + Fraction(str(best))
    assert len(ledger.charges) == 7
    assert ledger.is_private


@pytest.mark.filterwarnings("ignore:One or more of the test scores are non-finite")
def test_grid_search_stops_spending_at_the_total():
    ledger = PrivacyLedger(epsilon=1)
    with pytest.warns(FitFailedWarning, match="remains"):
        found = search(ledger, refit=False, epsilons=(0.2, 0.3)).fit(DATA.X, DATA.y)
    assert ledger.spent == 3 * Fraction(1, 5) + Fraction(3, 10)
    assert np.isnan(found.cv_results_["mean_test_score"]).tolist() == [False, True]


@pytest.mark.parametrize(
    ("noise", "reason"), [("exact", "worker process"), ("research", "lives in another process")]
)
def test_grid_search_in_two_processes_is_refused_with_the_reason(noise, reason):
    ledger = PrivacyLedger(epsilon=2)
    ledger.charge(forest(ledger)._budget, "before", neighboring="add_remove")
    with pytest.raises(ValueError, match=reason):
        search(ledger, n_jobs=2, noise=noise).fit(DATA.X, DATA.y)
    assert (ledger.spent, len(ledger.charges)) == (1, 1)


def test_grid_search_in_two_processes_is_charged_exactly_by_a_file(tmp_path):
    ledger = PrivacyLedger.open(tmp_path / "ledger.json", epsilon=2)
    found = search(ledger, n_jobs=2, noise="research").fit(DATA.X, DATA.y)
    best = Fraction(str(found.best_params_["epsilon"]))
    assert ledger.spent == 3 * (Fraction(1, 10) + Fraction(3, 10)) + best
    assert len(ledger.charges) == 7
    assert not ledger.is_private
    assert found.best_estimator_.predict(DATA.X).shape == DATA.y.shape


def test_several_estimators_share_one_ledger_of_either_noise():
    ledger = PrivacyLedger(rho=1)
    forest(ledger, epsilon=1).fit(DATA.X, DATA.y)
    forest(ledger, epsilon=None, rho=HALF).fit(DATA.X, DATA.y)
    assert ledger.remaining == 0
    with pytest.raises(BudgetError, match="relation of this ledger"):
        forest(ledger, epsilon=0.1, neighboring="replace_one").fit(DATA.X, DATA.y)


def test_a_fit_without_noise_is_listed_where_the_ledger_has_no_bounds():
    with pytest.raises(BudgetError, match="ledger=None"):
        forest(PrivacyLedger(epsilon=1), epsilon=float("inf")).fit(DATA.X, DATA.y)
    ledger = PrivacyLedger(epsilon=float("inf"))
    forest(ledger, epsilon=float("inf")).fit(DATA.X, DATA.y)
    assert [charge.noise for charge in ledger.charges] == ["none"]
    assert not ledger.is_private


# Threads ------------------------------------------------------------------------------------------


DOMAIN = Domain.from_sizes([8, 3], n_classes=2)
RNG = np.random.default_rng(0)
X = np.stack([RNG.integers(8, size=60), RNG.integers(3, size=60)], axis=1)
Y = RNG.integers(2, size=60)
KINDS = [BatchPredictionClassifier, SubsampleAggregateClassifier]
N_THREADS = 8


def model_of(kind, **changes):
    small = {"n_trees": 2, "max_depth": 2, "strategy": "identity", "random_state": 0}
    return kind(DOMAIN, epsilon=1, **(small | changes))


@pytest.fixture
def slow_planning(monkeypatch):
    """Make every thread that plans wait for the others, if they were let in."""
    together = Barrier(N_THREADS)
    choose = build.choose_strategies

    def waiting(*args, **keywords):
        if not together.broken:
            try:
                together.wait(timeout=0.2)
            except Exception:
                together.abort()
        return choose(*args, **keywords)

    monkeypatch.setattr(build, "choose_strategies", waiting)


def at_once(*calls):
    """Return what calls give or raise, all started at the same time."""
    ready = Barrier(len(calls))

    def run(call):
        ready.wait()
        try:
            return call()
        except BudgetError as error:
            return error

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_batches", [1, 3])
def test_different_queries_spend_what_was_planned(kind, n_batches, slow_planning):
    ledger = PrivacyLedger(epsilon=100)
    model = model_of(kind, n_batches=n_batches, ledger=ledger).fit(X, Y)
    queries = [np.array([[value, 0]]) for value in range(N_THREADS)]
    found = at_once(*[lambda one=one: model.predict_proba(one) for one in queries])
    refused = [one for one in found if isinstance(one, BudgetError)]
    assert len(refused) == N_THREADS - n_batches
    assert len(model.batches_) == n_batches
    assert model.privacy_report_.budget == "PureDP(epsilon=1) of PureDP(epsilon=1)"
    assert ledger.spent == 1


@pytest.mark.parametrize("kind", KINDS)
def test_identical_queries_get_one_answer(kind, slow_planning):
    model = model_of(kind, n_batches=N_THREADS).fit(X, Y)
    found = at_once(*[lambda: model.predict_proba(X[:20])] * N_THREADS)
    assert len(model.batches_) == 1
    for one in found:
        np.testing.assert_array_equal(one, found[0])


@pytest.mark.parametrize("kind", KINDS)
def test_a_reservation_returns_if_planning_fails(kind, monkeypatch):
    ledger = PrivacyLedger(epsilon=1)
    model = model_of(kind, ledger=ledger).fit(X, Y)

    def fail(*args, **keywords):
        raise MemoryError

    with monkeypatch.context() as broken:
        broken.setattr(build, "choose_strategies", fail)
        with pytest.raises(MemoryError):
            model.predict(X)
    assert ledger.spent == 0
    assert model.privacy_report_.budget == "nothing"
    model.predict(X)
    assert ledger.spent == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
def test_a_reservation_stays_and_is_reported_if_measuring_fails(kind, error, monkeypatch):
    model = model_of(kind, n_batches=2).fit(X, Y)

    def fail(*args, **keywords):
        raise error

    with monkeypatch.context() as broken:
        broken.setattr(curator, "measure", fail)
        with pytest.raises(error):
            model.predict(X[:1])
    report = model.privacy_report_
    assert report.budget == "PureDP(epsilon=0.5) of PureDP(epsilon=1)"
    assert report.statement.startswith("Nothing was released, but PureDP(epsilon=0.5) is spent")
    model.predict(X)
    report = model.privacy_report_
    assert report.statement.startswith("Private release: PureDP(epsilon=1) under add_remove")
    assert "1 batch failed after the charge" in report.notes[1]
    with pytest.raises(BudgetError, match="is spent"):
        model.predict(np.array([[v, c] for v in range(8) for c in range(3)]))


def test_a_ledger_that_refuses_returns_the_reservation():
    ledger = PrivacyLedger(epsilon=1)
    one, other = (model_of(BatchPredictionClassifier, ledger=ledger).fit(X, Y) for _ in range(2))
    one.predict(X)
    with pytest.raises(BudgetError):
        other.predict(X)
    assert other.privacy_report_.budget == "nothing"


def test_terms_changed_while_a_batch_is_planned_are_not_obeyed(monkeypatch):
    model = model_of(SubsampleAggregateClassifier, voting="hard").fit(X, Y)
    choose = build.choose_strategies

    def changing(*args, **keywords):
        model.set_params(voting="weight", noise="research", noise_state=0, epsilon=9)
        return choose(*args, **keywords)

    monkeypatch.setattr(build, "choose_strategies", changing)
    model.predict(X)
    (release,) = model.batches_[0].releases
    assert (release.noise, release.budget.epsilon) == ("exact", 1)
    assert release.mechanism.squared_factor == 4


def test_a_pickled_object_has_a_lock_of_its_own():
    model = model_of(BatchPredictionClassifier, keep_records_in_pickle=True).fit(X, Y)
    with model._fitted.lock:
        again = pickle.loads(pickle.dumps(model))
        found = at_once(lambda: again.predict(X))
    assert found[0].shape == (60,)
    assert model.privacy_report_.budget == "nothing"


def test_two_fits_at_once_leave_one_of_them_whole(monkeypatch):
    model = MatrixForestClassifier(
        DOMAIN, epsilon=1, n_trees=2, max_depth=1, strategy="identity", random_state=0
    )
    inside, go_on = Event(), Event()
    learn = Matrix.learn

    def waiting(self, plan, curator):
        learned = learn(self, plan, curator)
        if plan.budget.epsilon == 1:
            inside.set()
            assert go_on.wait(10)
        return learned

    monkeypatch.setattr(Matrix, "learn", waiting)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(model.fit, X, Y)
        assert inside.wait(10)
        model.set_params(epsilon=4).fit(X, Y)  # while the first has measured, but not ended
        assert model.model_.plan.budget.epsilon == 4
        go_on.set()
        first.result()
    assert model.model_.plan.budget.epsilon == 1
    assert model.privacy_report_.budget == "PureDP(epsilon=1)"


def test_a_fit_reads_its_parameters_once(monkeypatch):
    model = MatrixForestClassifier(
        DOMAIN, n_trees=2, max_depth=1, strategy="identity", random_state=0,
        ledger=PrivacyLedger(epsilon=1),
    )  # fmt: skip
    planned = MatrixForestClassifier._plan

    def changing(self, domain):
        model.set_params(noise="research", noise_state=0)
        return planned(self, domain)

    monkeypatch.setattr(MatrixForestClassifier, "_plan", changing)
    model.fit(X, Y)
    assert model.model_.transcript.noise == "exact"
    assert (model.noise, model.privacy_report_.noise) == ("research", "exact")
