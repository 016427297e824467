"""A pickled ledger in a file: it opens its own file, never another, and shows elsewhere."""

import os
import pickle
import shutil
from fractions import Fraction

import pytest

from mrf_matrix.estimators import PrivateNaiveBayesClassifier
from mrf_matrix.mechanisms import BudgetError, LedgerError, PrivacyLedger, PureDP


def pay(ledger, amount, what="x"):
    return ledger.charge(PureDP(Fraction(amount)), what, neighboring=ledger.neighboring)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.json"


@pytest.fixture
def ledger(path):
    opened = PrivacyLedger.open(path, epsilon=1)
    pay(opened, "1/4", "before")
    return opened


def check_shows_and_spends_nothing(shown):
    assert [charge.what for charge in shown.charges] == ["before"]
    assert shown.remaining == Fraction(3, 4)
    assert not shown.is_open
    with pytest.raises(BudgetError, match=r"no longer is that ledger.*set_params"):
        pay(shown, "1/4")


def test_at_home_a_pickle_is_the_ledger_with_what_was_charged_since(ledger, path):
    content = pickle.dumps(ledger)
    pay(ledger, "1/4", "since")
    loaded = pickle.loads(content)
    assert loaded.spent == Fraction(1, 2)
    pay(loaded, "1/2")
    assert ledger.remaining == 0


def test_elsewhere_a_pickle_shows_its_own_account(ledger, path):
    content = pickle.dumps(ledger)
    path.unlink()
    shown = pickle.loads(content)
    check_shows_and_spends_nothing(shown)
    check_shows_and_spends_nothing(pickle.loads(pickle.dumps(shown)))
    assert not path.exists()
    assert pickle.loads(pickle.dumps(ledger)).spent == Fraction(1, 4)  # what was last known


OTHERS = {
    "other terms": lambda path: PrivacyLedger.open(path, rho=50, neighboring="replace_one"),
    "same terms": lambda path: PrivacyLedger.open(path, epsilon=1),
    "same terms and charge": lambda path: pay(PrivacyLedger.open(path, epsilon=1), "1/4", "before"),
    "no ledger": lambda path: path.write_text("{}"),
    "a folder": lambda path: path.mkdir(),
}


@pytest.mark.parametrize("other", OTHERS)
def test_another_ledger_at_that_place_is_never_taken(ledger, path, other):
    content = pickle.dumps(ledger)
    path.unlink()
    OTHERS[other](path)
    check_shows_and_spends_nothing(pickle.loads(content))


def test_a_file_that_lost_the_charges_of_the_pickle_is_not_taken(ledger, path, tmp_path):
    shutil.copy(path, tmp_path / "backup")
    early = pickle.dumps(ledger)
    pay(ledger, "1/4", "later")
    late = pickle.dumps(ledger)
    os.replace(tmp_path / "backup", path)
    assert pickle.loads(early).is_open
    assert not pickle.loads(late).is_open


def test_an_open_ledger_refuses_another_of_the_same_terms(ledger, path):
    path.unlink()
    PrivacyLedger.open(path, epsilon=1)
    with pytest.raises(LedgerError, match=r"another ledger: .* when opened"):
        pay(ledger, "1/4")
    with pytest.raises(LedgerError, match="another ledger"):
        _ = ledger.spent
    assert PrivacyLedger.open(path).spent == 0


def test_below_the_current_folder_a_pickle_does_not_say_where_that_is(
    ledger, path, tmp_path, monkeypatch
):
    assert str(tmp_path.parent).encode() in pickle.dumps(ledger)  # the control
    monkeypatch.chdir(tmp_path)
    content = pickle.dumps(ledger)
    assert tmp_path.name.encode() not in content
    assert pickle.loads(content).is_open


def test_a_model_whose_ledger_is_elsewhere_loads_and_predicts(ledger, path):
    import mrf_matrix

    monks = mrf_matrix.load_dataset("monks_1")
    model = PrivateNaiveBayesClassifier(monks.domain, epsilon=0.25, ledger=ledger)
    content = pickle.dumps(model.fit(monks.X, monks.y))
    path.unlink()
    PrivacyLedger.open(path, rho=50, neighboring="replace_one")
    loaded = pickle.loads(content)
    assert (loaded.predict(monks.X[:20]) == model.predict(monks.X[:20])).all()
    assert loaded.ledger.budget == PureDP(1)
    assert loaded.ledger.spent == Fraction(1, 2)
    with pytest.raises(BudgetError, match="takes no charges"):
        loaded.fit(monks.X, monks.y)
    assert PrivacyLedger.open(path).spent == 0


# -- what looking needs, and what errors name ------------------------------------------------------


def test_hard_links_are_refused(ledger, path, tmp_path):
    os.link(path, tmp_path / "second.json")
    for one in (path, tmp_path / "second.json"):
        with pytest.raises(LedgerError, match="hard links"):
            PrivacyLedger.open(one)
    with pytest.raises(LedgerError, match="hard links"):
        pay(ledger, "1/4")
    (tmp_path / "second.json").unlink()
    assert pay(ledger, "1/4").number == 2


def test_a_symbolic_link_leads_to_the_ledger(ledger, path, tmp_path):
    (tmp_path / "link.json").symlink_to(path)
    pay(PrivacyLedger.open(tmp_path / "link.json"), "1/4")
    assert ledger.spent == Fraction(1, 2)


def test_looking_takes_no_lock_and_writes_nothing(ledger, path, tmp_path, monkeypatch):
    lock = tmp_path / "ledger.json.lock"
    lock.unlink()

    def nothing_may_be_written(*_):
        raise PermissionError(13, "Permission denied")

    opened = open

    def read_only(file, mode="r", *arguments, **options):
        return (opened if set(mode) <= set("rb") else nothing_may_be_written)(
            file, mode, *arguments, **options
        )

    monkeypatch.setattr("io.open", read_only)
    seen = PrivacyLedger.open(path, epsilon=1)
    assert seen.spent == Fraction(1, 4)
    assert seen.is_open
    assert not lock.exists()
    with pytest.raises(LedgerError, match=r"ledger\.json takes no charges here") as refused:
        pay(seen, "1/4")
    assert ".lock" not in str(refused.value)


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(LedgerError, match=r"new\.json: there is no folder .*nowhere") as refused:
        PrivacyLedger.open(tmp_path / "nowhere" / "new.json", epsilon=1)
    assert ".lock" not in str(refused.value)
