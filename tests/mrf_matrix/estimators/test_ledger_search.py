"""Cross-validation and grid search leave the ledger right to the last fraction."""

from fractions import Fraction

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import GridSearchCV, cross_val_score

from mrf_matrix import MatrixForestClassifier, load_dataset
from mrf_matrix.mechanisms import BudgetError, PrivacyLedger

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


def test_every_fit_is_charged_and_an_overdraft_fits_nothing():
    ledger = PrivacyLedger(epsilon=1)
    fitted = forest(ledger, epsilon=0.75).fit(DATA.X, DATA.y)
    assert ledger.spent == Fraction(3, 4)
    assert ledger.charges[0].what == "MatrixForestClassifier.fit"
    second = clone(fitted)
    with pytest.raises(BudgetError, match=r"epsilon=0\.25 remains"):
        second.fit(DATA.X, DATA.y)
    assert not hasattr(second, "privacy_report_")
    assert ledger.spent == Fraction(3, 4)
    assert clone(fitted).ledger is ledger


def test_a_refusal_comes_before_the_records_are_read():
    class Private:
        """Records that tell when they are touched."""

        def __getattr__(self, name):
            raise AssertionError(f"{name} of the records was asked for")

    with pytest.raises(BudgetError):
        forest(PrivacyLedger(epsilon=1), epsilon=2).fit(Private(), Private())


def test_records_that_do_not_fit_cost_nothing():
    ledger = PrivacyLedger(epsilon=1)
    with pytest.raises(ValueError, match="not in the categories"):
        forest(ledger).fit(np.full(DATA.codes.shape, "nonsense", dtype=object), DATA.y)
    assert ledger.spent == 0


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
