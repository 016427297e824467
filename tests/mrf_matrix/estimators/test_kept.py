"""What was paid for is kept, whatever fails after it: in the object, in the error, in a file."""

import signal

import numpy as np
import pytest

from mrf_matrix import (
    BatchPredictionClassifier,
    Domain,
    MatrixForestClassifier,
    PrivacyLedger,
    PrivateNaiveBayesClassifier,
    PureDP,
)
from mrf_matrix.base.draw_record import hold_after_payment, hold_signals
from mrf_matrix.base.provenance import Spending
from mrf_matrix.estimators import PosteriorForestClassifier
from mrf_matrix.federated import federate, run_federation
from mrf_matrix.federated.sums import party
from mrf_matrix.federated.systems import grow_privately
from mrf_matrix.forests import PrivateMultinomialTrees
from mrf_matrix.mechanisms import LedgerError, count_cells
from mrf_matrix.mechanisms.ledger.file import FileStore
from mrf_matrix.mechanisms.ledger.payers import charge_together
from mrf_matrix.planning import PlanPart
from strategies.operators import Identity

DOMAIN = Domain.from_sizes([2, 3], n_classes=2)
RNG = np.random.default_rng(0)
X = np.stack([RNG.integers(2, size=60), RNG.integers(3, size=60)], axis=1)
Y = RNG.integers(2, size=60)
STUMPS = {"n_trees": 2, "max_depth": 1, "strategy": "identity"}


@pytest.mark.parametrize(
    "kind", [MatrixForestClassifier, PosteriorForestClassifier, PrivateNaiveBayesClassifier]
)
def test_the_releases_are_in_the_object_and_in_the_error(kind, monkeypatch):
    def fails(*args):
        raise MemoryError

    more = STUMPS if kind is MatrixForestClassifier else {}
    monkeypatch.setattr(PlanPart, "answers", fails)
    monkeypatch.setattr("mrf_matrix.kinds.tables.tables_of", fails)
    monkeypatch.setattr("mrf_matrix.planning.plans.block_part.BlockPart.answers", fails)
    model = kind(DOMAIN, epsilon=1, **more)
    with pytest.raises(MemoryError) as caught:
        model.fit(X, Y)
    (release,) = caught.value.releases
    assert release.is_private
    mine = model.releases_[0] if kind is MatrixForestClassifier else model.release_
    assert np.array_equal(mine.answers, release.answers)
    assert any("PureDP(epsilon=1) is spent" in note for note in caught.value.__notes__)


def test_a_batch_that_failed_after_its_noise_is_answered_at_no_charge(monkeypatch):
    ledger = PrivacyLedger(epsilon=1)
    model = BatchPredictionClassifier(DOMAIN, epsilon=1, ledger=ledger, **STUMPS).fit(X, Y)
    answers = PlanPart.answers
    with monkeypatch.context() as patched:
        patched.setattr(PlanPart, "answers", lambda *args: 1 / 0)
        with pytest.raises(ZeroDivisionError) as caught:
            model.predict(X[:4])
    assert (ledger.spent, len(caught.value.releases)) == (1, 1)
    assert PlanPart.answers is answers
    assert model.predict(X[:4]).shape == (4,)
    assert ledger.spent == 1
    assert np.array_equal(model.batches_[0].releases[0].answers, caught.value.releases[0].answers)


# Several ledgers ---------------------------------------------------------------------------------


def ledgers(*budgets):
    return [PrivacyLedger(epsilon=one) for one in budgets]


def spent(listed):
    return [one.spent for one in listed]


def test_parties_are_charged_together_or_not_at_all():
    few, parts = ledgers(1, 0.5), [(X[:2], Y[:2])] * 2
    trees = PrivateMultinomialTrees(1, n_trees=4, max_depth=2)
    with pytest.raises(ValueError, match="Nothing was read or spent"):
        grow_privately(DOMAIN, parts, trees, ledgers=few)
    assert spent(few) == [0, 0]
    enough = ledgers(1, 1)
    grow_privately(DOMAIN, parts, trees, ledgers=enough)
    assert spent(enough) == [1, 1]


def test_all_accounts_are_put_back_where_one_cannot_be_written(tmp_path, monkeypatch):
    listed = [PrivacyLedger.open(tmp_path / f"{i}.json", epsilon=1) for i in range(3)]
    one = Spending(PureDP(1), "add_remove", "exact", "a round")
    last, put = max(listed, key=lambda ledger: ledger.identity), FileStore._put

    def failing(store, account):
        if store is last._store and account.charges:
            raise LedgerError("it cannot be written")
        put(store, account)

    with monkeypatch.context() as patched:
        patched.setattr(FileStore, "_put", failing)
        with pytest.raises(LedgerError, match="cannot be written"):
            charge_together(listed, one)
    again = [PrivacyLedger.open(tmp_path / f"{i}.json") for i in range(3)]
    assert spent(again) == [0, 0, 0]
    charge_together(again, one)
    assert spent(again) == [1, 1, 1]


def test_a_ledger_that_is_named_twice_pays_twice():
    (one,) = ledgers(2)
    charge_together([one, one], Spending(PureDP(1), "add_remove", "exact", "a round"))
    assert (one.spent, len(one.charges)) == (2, 2)


PART = count_cells(np.array([[0], [2], [2]]), np.zeros(3, int), sizes=(3,), n_classes=1)


def three():
    return federate(Identity(3), PureDP(1), parties=3, dropouts=1, n_classes=1)


def test_a_party_whose_ledger_refuses_has_dropped_out():
    held, (server,) = ledgers(1, 1, 0.5), ledgers(1)
    found = run_federation(three(), [PART] * 3, ledgers=held, server_ledger=server)
    assert found.release.is_private
    assert (spent(held), server.spent) == ([1, 1, 0], 1)
    held, (server,) = ledgers(1, 0.1, 0.5), ledgers(1)
    with pytest.raises(ValueError, match=r"ledgers of 2 parties refuse.*Nothing was spent"):
        run_federation(three(), [PART] * 3, ledgers=held, server_ledger=server)
    held = ledgers(1, 1, 1)
    with pytest.raises(ValueError, match="epsilon"):
        run_federation(three(), [PART] * 3, ledgers=held, server_ledger=ledgers(0.5)[0])
    assert (spent(held), server.spent) == ([0, 0, 0], 0)


@pytest.mark.parametrize("stage", ["_keys", "_shares", "_masked", "_unmask"])
@pytest.mark.parametrize("junk", [b"", b"junk", bytes(400)], ids=len)
def test_a_party_that_sends_signed_junk_has_vanished(stage, junk, monkeypatch):
    honest = getattr(party, stage)

    def lying(state, payload):
        after, content = honest(state, payload)
        return after, junk if state.number == 2 else content

    monkeypatch.setattr(party, stage, lying)
    found = run_federation(three(), [PART] * 3)
    assert found.release.is_private
    assert "at least 2 parties of 3" in found.release.statement


def test_shares_of_nothing_are_found_among_enough_good_ones(monkeypatch):
    honest = party._unmask

    def altered(state, payload):
        after, content = honest(state, payload)
        return after, content[:-1] + bytes([content[-1] ^ 1]) if state.number == 0 else content

    monkeypatch.setattr(party, "_unmask", altered)
    assert run_federation(three(), [PART] * 3).release.is_private


# Signals -----------------------------------------------------------------------------------------


def test_signals_wait_until_what_was_paid_is_kept():
    done = []

    def kept():
        with hold_signals():
            signal.raise_signal(signal.SIGINT)
            done.append("kept")

    def written():
        with hold_after_payment():
            kept()
            done.append("written")

    def planned():
        with hold_after_payment():
            signal.raise_signal(signal.SIGINT)  # nothing was paid: it ends at once
            done.append("never")

    for call in (kept, written, planned):
        with pytest.raises(KeyboardInterrupt):
            call()
    assert done == ["kept", "kept", "written"]
