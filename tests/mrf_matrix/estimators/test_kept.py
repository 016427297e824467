"""What was paid for is kept, whatever fails; what would not fit in memory is refused before."""

import json
import re
import signal
import tracemalloc

import numpy as np
import pytest
from command_line import run

from mrf_matrix import (
    Domain,
    MatrixForestClassifier,
    PrivacyLedger,
    PrivateForestClassifier,
    PrivateNaiveBayesClassifier,
    PureDP,
    SubsampleAggregateClassifier,
    load_model,
    plan,
)
from mrf_matrix.base.provenance import Spending
from mrf_matrix.base.work import hold_after_payment, hold_signals
from mrf_matrix.compilation import path_matrix
from mrf_matrix.estimators import (
    BatchPredictionClassifier,
    MultinomialMatrixForestClassifier,
    PosteriorForestClassifier,
    ResidualForestClassifier,
)
from mrf_matrix.federated import federate, party, run_federation
from mrf_matrix.federated.systems import grow_privately
from mrf_matrix.forests import PrivateMultinomialTrees
from mrf_matrix.mechanisms import LedgerError, count_cells
from mrf_matrix.mechanisms.ledger.file import FileStore
from mrf_matrix.mechanisms.ledger.payers import charge_together
from mrf_matrix.planning import PlanPart, peak_bytes
from mrf_matrix.streams import count_stream
from strategies.operators import Identity, MemoryCapError, memory_cap

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


@pytest.mark.parametrize("stage", ["_keys", "_shares", "_masked_vector", "_unmask"])
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


@pytest.fixture
def interrupts():
    """Ctrl-C raises, also where pytest runs in the background of a shell, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interrupts")
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


# What would not fit in memory ---------------------------------------------------------------------


SIZES = (6, 5, 4)
FEW = {"n_trees": 4, "max_depth": 2}
CLASSES = 400
CAP = 20_000


@pytest.mark.parametrize("make", [BatchPredictionClassifier, SubsampleAggregateClassifier])
def test_batches_that_do_not_fit_are_refused_before_the_charge(make):
    domain, ledger = Domain.from_sizes(SIZES, CLASSES), PrivacyLedger(epsilon=1)
    codes = np.stack(np.unravel_index(np.arange(50), SIZES), axis=1)
    model = make(domain, epsilon=1, ledger=ledger, random_state=0, strategy="identity", **FEW)
    model.fit(codes, np.arange(50))
    with memory_cap(CAP), pytest.raises(MemoryCapError, match="answers"):
        model.predict(codes)
    assert ledger.spent == 0
    assert len(model.predict(codes)) == 50
    assert ledger.spent == 1


@pytest.mark.parametrize(
    "make",
    [
        MatrixForestClassifier,
        BatchPredictionClassifier,
        MultinomialMatrixForestClassifier,
        ResidualForestClassifier,
    ],
)
def test_arrays_of_private_sizes_are_refused_without_their_sizes(make):
    """How many cells are occupied, and how many records there are, no message tells."""
    domain, ledger = Domain.from_sizes([3] * 9, n_classes=2), PrivacyLedger(epsilon=2)
    codes = np.random.default_rng(0).integers(3, size=(4003, 9))
    trees, said = {"n_trees": 3, "max_depth": 1, "strategy": "workload_itself"}, []
    for n in (4003, 3301):
        settings = {} if make is ResidualForestClassifier else trees
        model = make(domain, epsilon=1, ledger=ledger, random_state=0, **settings)
        with memory_cap(25_000), pytest.raises(MemoryCapError, match="private") as error:
            model.fit(codes[:n], codes[:n, 0] % 2)
        said.append(str(error.value))
    assert said[0] == said[1]
    # two stages are paid for together, before the first; its structure is kept
    assert len(ledger.charges) == (2 if make is MultinomialMatrixForestClassifier else 0)


def test_counts_of_a_stream_are_refused_without_their_size():
    domain = Domain.from_sizes([3] * 50, n_classes=2)
    codes = np.random.default_rng(0).integers(3, size=(4003, 50))
    with memory_cap(25_000), pytest.raises(MemoryCapError, match="private") as error:
        count_stream([(codes, codes[:, 0] % 2)], domain)
    assert "4003" not in str(error.value)


def test_rows_too_many_to_factorise_are_refused_before_the_charge(monkeypatch):
    """Over domains that cannot be enumerated inner products of rows are factorised, at a cube."""
    monkeypatch.setattr("strategies.operators.base.recovery.LONGEST", 1e-6)
    domain, ledger = Domain.from_sizes([3] * 50, n_classes=2), PrivacyLedger(epsilon=1)
    codes = np.zeros((9, 50), dtype=int)
    model = MatrixForestClassifier(
        domain, n_trees=4, max_depth=2, time_limit=0.1, ledger=ledger, random_state=0
    )
    with pytest.raises(ValueError, match=r"36 rows .* Expected at most \d+ rows \(fewer or shall"):
        model.fit(codes, np.zeros(9, dtype=int))
    assert not ledger.charges


def test_every_kind_that_may_follow_a_choice_is_refused_before_the_charge():
    """Residuals are announced; where one class is rare, tables follow, which take more."""
    domain, ledger = Domain.from_sizes([4] * 60, 2), PrivacyLedger(epsilon=1)
    model = PrivateForestClassifier(domain, epsilon=1, n_records=200_000, ledger=ledger)
    assert model.plan().name == "residual forest"
    with memory_cap(50_000), pytest.raises(MemoryCapError, match="occupied cells"):
        model.fit(np.zeros((4, 60), dtype=int), np.zeros(4, dtype=int))
    assert ledger.spent == 0


def test_what_a_choice_may_lead_to_is_refused_before_the_charge():
    """What the forests would refuse by themselves, one that chooses first refuses as early."""
    domain, ledger = Domain.from_sizes([4] * 12, 2), PrivacyLedger(epsilon=1)
    model = PrivateForestClassifier(domain, epsilon=0.032, n_records=140_000, ledger=ledger)
    made = model.plan()
    assert made.screening.enough is not None
    named, said = ("joint table", "codes and scores|occupied cells"), []
    tables = peak_bytes(plan(domain, "tables", epsilon=1, n_records=140_000))
    for cap in (8 * 2 * made.screening.most_cells - 1, tables // 2):
        with memory_cap(cap), pytest.raises(MemoryCapError) as error:
            model.fit(np.zeros((4, 12), dtype=int), np.zeros(4, dtype=int))
        said.append(str(error.value))
    assert all(re.search(words, text) for words, text in zip(named, said, strict=True))
    assert ledger.spent == 0


# Wide domains ------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [(3000,), (2,) * 1500], ids=["codes", "attributes"])
def test_naive_bayes_takes_its_table_and_not_its_square(sizes):
    domain = Domain.from_sizes(sizes, n_classes=2)
    codes = np.zeros((5, len(sizes)), dtype=int)
    model = PrivateNaiveBayesClassifier(domain, noise="research", noise_state=0)
    model.fit(codes[:1], [0])  # whatever is loaded once
    tracemalloc.start()
    model.fit(codes, np.arange(5) % 2).predict(codes)
    held = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    rows = 1 + sum(size for size in sizes if size > 1)
    assert held < rows * sum(sizes), "a mask for every leaf takes more"


def test_its_tables_are_the_paths_of_its_trees_and_its_file_is_read_again(tmp_path):
    domain = Domain.from_sizes([3, 1, 2, 4], n_classes=3)
    made = plan(domain, "naive_bayes", epsilon=1, n_records=120)
    (part,) = made.parts
    codes = np.stack([np.arange(12) % size for size in domain.sizes], axis=1)
    model = PrivateNaiveBayesClassifier(domain).fit(codes, np.arange(12) % 3)
    paths = path_matrix(model.forest_).to_dense()
    assert np.array_equal(part.workload.to_dense(), paths)
    assert made.expected_records == pytest.approx(120 * paths.sum(axis=1) / domain.size)
    model.save(tmp_path / "model.mrf")
    assert np.array_equal(load_model(tmp_path / "model.mrf").predict(codes), model.predict(codes))


def test_a_forest_too_large_to_be_learned_from_is_refused_before_it_is_compiled():
    domain, ledger = Domain.from_sizes([50, 4, 3], n_classes=2), PrivacyLedger(epsilon=1)
    trees = {"n_trees": 16, "strategy": "identity", "random_state": 0}
    model = MatrixForestClassifier(domain, ledger=ledger, **trees)
    leaves, codes = 16 * 600, 57
    record = np.zeros((1, 3), dtype=int)
    with memory_cap(leaves * codes), pytest.raises(MemoryCapError, match="9,600"):
        model.fit(record, [0])
    enough = peak_bytes(plan(domain, epsilon=1, **trees))
    with memory_cap(enough - 1), pytest.raises(MemoryCapError, match="masks of the paths"):
        model.fit(record, [0])
    assert not ledger.charges
    with memory_cap(enough):
        assert model.fit(record, [0]).leaf_variances_.shape == (leaves,)


def works(make):
    """Return what is said where something cannot be planned; nothing where it can."""
    try:
        make()
    except MemoryCapError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("kind", ["tables", "naive_bayes", "matrix", "subsample"])
@pytest.mark.parametrize("seed", range(3))
def test_whether_there_is_a_plan_does_not_depend_on_the_budget(kind, seed):
    generator = np.random.default_rng(seed)
    sizes = generator.integers(2, [5, 40, 400][seed % 3], size=int(generator.integers(2, 9)))
    domain = Domain.from_sizes([int(size) for size in sizes], n_classes=int(2 + seed % 2 * 8))
    trees = {"n_trees": 2, "max_depth": 2, "splits": "binary", "time_limit": 0.03}
    given = trees if kind in ("matrix", "subsample") else {}
    with memory_cap(10**6):
        said = {
            works(lambda e=e: plan(domain, kind, epsilon=e, random_state=0, **given))
            for e in (0.01, 1, 20, 1000)
        }
    assert len(said) == 1


def test_some_plans_are_refused_at_every_budget():
    """The control of the law above: with this cap it is no law of plans that always work."""
    domain = Domain.from_sizes([2, 300], n_classes=10)
    with memory_cap(10**6):
        for epsilon in (0.01, 20):
            assert "covariances" in works(lambda e=epsilon: plan(domain, "tables", epsilon=e))


def test_the_command_line_is_told_of_options_and_files(tmp_path):
    file = tmp_path / "domain.json"
    Domain.from_sizes([2000, 2], n_classes=2).save(file)
    done = run("plan", str(file), "--kind", "matrix", "--output", str(tmp_path))
    assert done.exit_code == 1
    for text in ("512,000 leaves", "memory cap", "--n-trees", "groups"):
        assert text in " ".join(done.output.split())
    assert "strategies.operators" not in done.output
    assert json.loads(file.read_text())["attributes"]
