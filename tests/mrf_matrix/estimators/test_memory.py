"""What would not fit in memory is refused before budget is spent, by public numbers alone."""

import json
import re
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
    SubsampleAggregateClassifier,
    load_model,
    plan,
)
from mrf_matrix.compilation import path_matrix
from mrf_matrix.estimators import (
    BatchPredictionClassifier,
    MultinomialMatrixForestClassifier,
    ResidualForestClassifier,
)
from mrf_matrix.planning import peak_bytes
from mrf_matrix.streams import count_stream
from strategies.operators import MemoryCapError, memory_cap

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
    with memory_cap(50_000), pytest.raises(MemoryCapError, match="paths"):
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
