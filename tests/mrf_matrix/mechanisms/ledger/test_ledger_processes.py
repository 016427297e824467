"""A ledger in other processes: copies refuse to spend, and a file is shared by all."""

import json
import os
import pickle
import shutil
import subprocess
import sys
import threading
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from joblib import Parallel, delayed, parallel_config

from mrf_matrix import Domain, privacy_ledger
from mrf_matrix.estimators import PrivateNaiveBayesClassifier
from mrf_matrix.mechanisms import (
    ZCDP,
    BudgetError,
    LedgerError,
    NoiseProcessError,
    PrivacyLedger,
    PureDP,
)
from mrf_matrix.study import evaluate


def spender():
    """Return a local function, sent by value: workers cannot import a test module by name."""

    def spend(ledger, amount="1/10", noise="exact"):
        try:
            ledger.charge(
                PureDP(Fraction(amount)), "in a worker", neighboring="add_remove", noise=noise
            )
        except (BudgetError, NoiseProcessError) as error:
            return f"{type(error).__name__}: {error}", ledger
        return "charged", ledger

    return spend


spend = spender()


def test_a_copy_in_a_worker_shows_the_figures_and_refuses_with_the_reason():
    ledger = PrivacyLedger(epsilon=1)
    ledger.charge(PureDP(0.25), "before", neighboring="add_remove")
    answers = Parallel(n_jobs=2)(delayed(spend)(ledger) for _ in range(3))
    for text, returned in answers:
        assert "lives in another process" in text
        assert "n_jobs=1" in text
        assert returned is ledger  # what comes home is the ledger again
    assert (ledger.spent, len(ledger.charges)) == (Fraction(1, 4), 1)


def test_threads_of_joblib_charge_the_ledger():
    ledger = PrivacyLedger(epsilon=1)
    with parallel_config(backend="threading"):
        texts = Parallel(n_jobs=2)(delayed(spend)(ledger, "1/4") for _ in range(6))
    assert sorted(text.split(":")[0] for text, _ in texts) == ["BudgetError"] * 2 + ["charged"] * 4
    assert ledger.remaining == 0


def in_child(call, ledger):
    """Run in a forked child and return what it says."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, call(ledger)[0].encode())
        os._exit(0)
    os.waitpid(child, 0)
    return os.read(read, 10_000).decode()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_refuses_also_while_a_thread_holds_the_lock():
    ledger = PrivacyLedger(epsilon=1)
    with ledger._store._lock:
        assert "lives in another process" in in_child(spend, ledger)
    assert ledger.spent == 0
    assert spend(ledger)[0] == "charged"


def test_a_ledger_of_another_process_can_be_looked_at():
    ledger = PrivacyLedger(rho=1)
    ledger.charge(ZCDP(0.5), "before", neighboring="add_remove")
    seen = subprocess.run(
        [sys.executable, "-c", LOOK], input=pickle.dumps(ledger), capture_output=True, check=True
    )
    shown, is_open = json.loads(seen.stdout)
    assert shown == ledger.to_dict()
    assert not is_open
    assert ledger.is_open


LOOK = """
import json, pickle, sys
ledger = pickle.load(sys.stdin.buffer)
print(json.dumps([ledger.to_dict(), ledger.is_open]))
"""


# -- files ----------------------------------------------------------------------------------------


def test_a_file_is_continued_where_it_was_left(tmp_path):
    path = tmp_path / "ledger.json"
    first = PrivacyLedger.open(path, rho=0.5, neighboring="replace_one")
    first.charge(ZCDP(0.125), "today", neighboring="replace_one")
    second = PrivacyLedger.open(path)
    second.charge(PureDP(0.5), "tomorrow", neighboring="replace_one")
    assert first.spent == second.spent == Fraction(1, 4)
    assert [charge.what for charge in first.charges] == ["today", "tomorrow"]
    assert json.loads(path.read_text()) == first.to_dict()
    assert PrivacyLedger.from_dict(json.loads(path.read_text())).to_dict() == first.to_dict()


@pytest.mark.parametrize("delta", [0, 1e-6])
def test_a_file_is_charged_exactly_from_several_processes(tmp_path, delta):
    ledger = PrivacyLedger.open(tmp_path / "ledger.json", epsilon=1, delta=delta)
    jobs = (delayed(spend)(ledger, "1/12", "research") for _ in range(16))
    texts = [text for text, _ in Parallel(n_jobs=2)(jobs)]
    assert texts.count("charged") == 12
    assert all("remains" in text for text in texts if text != "charged")
    assert (ledger.remaining.epsilon if delta else ledger.remaining) == 0
    assert [charge.number for charge in ledger.charges] == list(range(1, 13))


def test_exact_noise_is_never_charged_in_a_worker(tmp_path):
    ledger = PrivacyLedger.open(tmp_path / "ledger.json", epsilon=1)
    texts = [text for text, _ in Parallel(n_jobs=2)(delayed(spend)(ledger) for _ in range(2))]
    assert all(text.startswith("NoiseProcessError") for text in texts)
    assert ledger.spent == 0


def test_a_new_file_needs_a_total_and_an_old_one_keeps_its_terms(tmp_path):
    path = tmp_path / "ledger.json"
    with pytest.raises(BudgetError, match="does not exist"):
        PrivacyLedger.open(path)
    PrivacyLedger.open(path, epsilon=1)
    assert PrivacyLedger.open(path, epsilon=1, neighboring="add_remove").remaining == 1
    for other, asked in (
        ({"epsilon": 2}, r"PureDP\(epsilon=2\)"),
        ({"rho": 1}, r"ZCDP\(rho=1\)"),
        ({"neighboring": "replace_one"}, "replace_one neighbours"),
    ):
        with pytest.raises(BudgetError, match=f"asked was {asked}. A ledger keeps its terms"):
            PrivacyLedger.open(path, **other)


def test_a_file_that_is_gone_or_swapped_is_refused_and_not_started_anew(tmp_path):
    path = tmp_path / "ledger.json"
    ledger = PrivacyLedger.open(path, epsilon=1)
    path.unlink()
    assert not ledger.is_open
    with pytest.raises(LedgerError, match="cannot be read"):
        ledger.charge(PureDP(0.5), "x", neighboring="add_remove")
    assert not path.exists()
    PrivacyLedger.open(path, epsilon=50)
    with pytest.raises(LedgerError, match="when opened"):
        ledger.charge(PureDP(0.5), "x", neighboring="add_remove")


def test_a_record_takes_no_charges():
    ledger = PrivacyLedger(epsilon=1)
    record = PrivacyLedger.from_dict(ledger.to_dict())
    assert not record.is_open
    with pytest.raises(BudgetError, match="Continue on a file"):
        record.charge(PureDP(0.5), "x", neighboring="add_remove")


def full_record():
    ledger = PrivacyLedger(rho=1)
    ledger.charge(ZCDP(0.25), "one", neighboring="add_remove")
    ledger.charge(PureDP(0.5), "two", neighboring="add_remove", noise="research")
    return ledger.to_dict()


def places(data, path=()):
    """Yield the path of every value of a record."""
    yield path
    if isinstance(data, dict | list):
        for key, value in data.items() if isinstance(data, dict) else enumerate(data):
            yield from places(value, (*path, key))


def changed(data, path, value):
    if not path:
        return value
    copy = dict(data) if isinstance(data, dict) else list(data)
    copy[path[0]] = changed(copy[path[0]], path[1:], value)
    return copy


ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(["1/0", "nan", "inf", "1e999999999", "-1", "9" * 3000, [], {}, [[]]]),
)


@given(data=st.data())
def test_a_changed_record_is_refused_or_means_the_same(data):
    record = full_record()
    path = data.draw(st.sampled_from(list(places(record))))
    try:
        read = PrivacyLedger.from_dict(changed(record, path, data.draw(ODD)))
    except LedgerError:
        return
    assert path[-1:] == ("what",) or read.to_dict() == record  # a description may be any text


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{", b"\xff\xfe", b"[" * 100_000, b'{"format": "mrf_matrix.ledger"}', b"null"],
)
def test_files_that_are_no_ledger_are_refused_in_one_line(tmp_path, content):
    path = tmp_path / "ledger.json"
    path.write_bytes(content)
    with pytest.raises(LedgerError, match=r"ledger\.json"):
        PrivacyLedger.open(path)


# Pickled ledgers ---------------------------------------------------------------------------------


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


# Ledgers that pay where none is named -------------------------------------------------------------

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
    fit()
    assert ledger.remaining == 0
    assert len(ledger.charges) == 2, "it pays for what is inside alone"


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
    for terms in ({"epsilon": 1}, {"neighboring": "replace_one"}):
        ledger = PrivacyLedger(epsilon=1)
        with pytest.raises(ValueError, match=next(iter(terms))), privacy_ledger(ledger, **terms):
            fit()
        assert not ledger.charges
    with pytest.raises(TypeError, match=r"PrivacyLedger\.open"), privacy_ledger("ledger.json"):
        fit()


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
