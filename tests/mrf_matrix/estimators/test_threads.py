"""Any number of threads on one fitted object spend exactly what was planned."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event

import numpy as np
import pytest
from joblib import Parallel, delayed

from mrf_matrix import (
    BatchPredictionClassifier,
    Domain,
    MatrixForestClassifier,
    PrivacyLedger,
    SubsampleAggregateClassifier,
)
from mrf_matrix.kinds.matrix import Matrix
from mrf_matrix.mechanisms import BudgetError
from mrf_matrix.planning.plans import plan_of
from mrf_matrix.release import curator

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
    choose = plan_of.choose_strategies

    def waiting(*args, **keywords):
        if not together.broken:
            try:
                together.wait(timeout=0.2)
            except Exception:
                together.abort()
        return choose(*args, **keywords)

    monkeypatch.setattr(plan_of, "choose_strategies", waiting)


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
def test_the_threading_backend_of_joblib_too(kind, slow_planning):
    model = model_of(kind, n_batches=2).fit(X, Y)

    def ask(value):
        try:
            return model.predict(np.array([[value, 1]]))
        except BudgetError:
            return None

    found = Parallel(n_jobs=4, backend="threading")(delayed(ask)(value) for value in range(8))
    assert sum(one is not None for one in found) == 2
    assert model.privacy_report_.statement.startswith("Private release: PureDP(epsilon=1) ")


@pytest.mark.parametrize("kind", KINDS)
def test_a_reservation_returns_if_planning_fails(kind, monkeypatch):
    ledger = PrivacyLedger(epsilon=1)
    model = model_of(kind, ledger=ledger).fit(X, Y)

    def fail(*args, **keywords):
        raise MemoryError

    with monkeypatch.context() as broken:
        broken.setattr(plan_of, "choose_strategies", fail)
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
    choose = plan_of.choose_strategies

    def changing(*args, **keywords):
        model.set_params(voting="weight", noise="research", noise_state=0, epsilon=9)
        return choose(*args, **keywords)

    monkeypatch.setattr(plan_of, "choose_strategies", changing)
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
