"""A ledger that pays where none is named, words of charges, and the warning where none pays."""

import threading
import warnings

import numpy as np
import pytest

from mrf_matrix import (
    BatchPredictionClassifier,
    Domain,
    MultinomialForestClassifier,
    PrivacyLedger,
    PrivateForestClassifier,
    PrivateNaiveBayesClassifier,
    PureDP,
    privacy_ledger,
)
from mrf_matrix.estimators import spending
from mrf_matrix.mechanisms import BudgetError, BudgetWarning
from mrf_matrix.mechanisms.ledger.payers import DEFAULTS
from mrf_matrix.mechanisms.ledger.rules import describing
from mrf_matrix.study import evaluate

DOMAIN = Domain.from_sizes([2, 2], n_classes=2)
X, Y = np.array([[0, 1], [1, 0]]), np.array([0, 1])


def fit(**parameters):
    return PrivateNaiveBayesClassifier(DOMAIN, **parameters).fit(X, Y)


def test_the_default_ledger_pays_and_refuses():
    with privacy_ledger(epsilon=1.5) as ledger:
        fit()
        with pytest.raises(BudgetError, match="remains"):
            fit()
        fit(epsilon=0.5)
    assert ledger.remaining == 0
    assert not DEFAULTS


def test_a_ledger_of_ones_own_comes_first_and_the_innermost_second():
    own = PrivacyLedger(epsilon=1)
    with privacy_ledger(epsilon=1) as outer, privacy_ledger(epsilon=1) as inner:
        fit(ledger=own)
        fit()
    assert [len(one.charges) for one in (own, outer, inner)] == [1, 0, 1]


def test_the_innermost_pays_where_one_ledger_is_entered_twice():
    twice, between = PrivacyLedger(epsilon=1), PrivacyLedger(epsilon=1)
    with privacy_ledger(twice), privacy_ledger(between):
        with privacy_ledger(twice):
            pass
        fit()
    assert (twice.spent, between.spent) == (0, 1)


def test_every_thread_spends_from_the_ledger_that_it_is_inside_of():
    """Two services in one process: neither pays for the other's records."""
    mine, other = PrivacyLedger(epsilon=1), PrivacyLedger(epsilon=1)
    is_open, is_done = threading.Event(), threading.Event()

    def opens_another():
        with privacy_ledger(other):
            is_open.set()
            is_done.wait()

    def fits_without():
        with pytest.raises(BudgetError, match="several threads"):
            fit()

    with privacy_ledger(mine):
        first = threading.Thread(target=opens_another)
        second = threading.Thread(target=fits_without)
        first.start()
        is_open.wait()
        try:
            fit()
            second.start()
            second.join()
        finally:
            is_done.set()
            first.join()
    assert (mine.spent, other.spent) == (1, 0)


def test_a_ledger_has_its_terms_already():
    for given in ({"epsilon": 1}, {"neighboring": "replace_one"}):
        ledger = PrivacyLedger(epsilon=1)
        with pytest.raises(ValueError, match=next(iter(given))), privacy_ledger(ledger, **given):
            fit()
        assert not ledger.charges
    with pytest.raises(TypeError, match=r"PrivacyLedger\.open"), privacy_ledger("ledger.json"):
        fit()


@pytest.mark.filterwarnings("ignore::mrf_matrix.PrivacyLeakWarning")
def test_no_ledger_pays_for_a_domain_read_off_the_records():
    """It would list a private release where there is none."""
    ledger = PrivacyLedger(epsilon=1)
    kinds = (
        PrivateNaiveBayesClassifier, PrivateForestClassifier, BatchPredictionClassifier,
        MultinomialForestClassifier,
    )  # fmt: skip
    for kind in kinds:
        model = kind("from_data", epsilon=1)
        with privacy_ledger(ledger), pytest.raises(ValueError, match="no charge would be true"):
            model.fit(X.astype(float), Y)
        with pytest.raises(ValueError, match="no charge would be true"):
            model.set_params(ledger=ledger).fit(X.astype(float), Y)
    assert not ledger.charges


def test_evaluations_are_paid_from_it():
    model = fit(noise="research")
    with privacy_ledger(epsilon=1) as ledger:
        evaluate(model, X, Y, epsilon=0.25)
    assert ledger.spent == 0.25


def test_threads_spend_from_it():
    with privacy_ledger(epsilon=2) as ledger:
        thread = threading.Thread(target=fit)
        thread.start()
        thread.join()
    assert ledger.spent == 1


def test_a_screened_forest_is_charged_once():
    """The forest behind the screening is paid for by the whole."""
    wide = Domain.from_sizes([3] * 40, n_classes=6)
    rng = np.random.default_rng(0)
    with privacy_ledger(epsilon=1) as ledger:
        model = PrivateForestClassifier(wide, epsilon=0.004, n_records=140_000)
        model.fit(rng.integers(3, size=(400, 40)), rng.integers(4, size=400))
    assert model.plan_.screening is not None, "the case is a screened one"
    assert len(ledger.charges) == 1


def test_the_second_fit_without_a_ledger_warns_once_with_the_sum(monkeypatch):
    monkeypatch.setattr(spending, "UNLEDGERED", spending.Unledgered())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(noise="research"), fit(epsilon=float("inf")), fit(ledger=PrivacyLedger(epsilon=1))
        with privacy_ledger(epsilon=1):
            fit()
        fit(epsilon=0.5)
    with pytest.warns(BudgetWarning, match=r"epsilon=1\.5") as found:
        fit()
    assert found[0].filename == __file__, "the line that fits, none of the library's"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit()


def test_words_are_told_once_and_kept(tmp_path):
    ledger = PrivacyLedger.open(tmp_path / "ledger.json", epsilon=2)
    with describing(purpose="a study", data="records.csv") as charges:
        ledger.charge(PureDP(1), "fit", neighboring="add_remove")
    ledger.describe(charges[0].number, model="ab" * 32)
    again = PrivacyLedger.open(tmp_path / "ledger.json")
    assert again.charges[0].words == {
        "purpose": "a study", "data": "records.csv", "model": "ab" * 32,
    }  # fmt: skip
    assert "a study; data records.csv; model abababababab" in " ".join(str(again).split())
    for number, words, message in (
        (1, {"purpose": "another"}, "keeps it"),
        (2, {"purpose": "another"}, "number=2"),
        (1, {"colour": "red"}, "colour"),
        (1, {"data": "two\nlines"}, "data=.* one line"),
        (1, {"model": " "}, "model has 1 char"),
    ):
        with pytest.raises(ValueError, match=message):
            ledger.describe(number, **words)
    assert again.spent == 1
