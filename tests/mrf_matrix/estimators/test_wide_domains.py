"""What a domain takes is asked of its public sizes: linear in the tables, or refused by name."""

import json
import tracemalloc

import numpy as np
import pandas as pd
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
    LabelTreeClassifier,
    PooledForestClassifier,
    PosteriorForestClassifier,
    ResidualForestClassifier,
)
from mrf_matrix.planning import peak_bytes
from mrf_matrix.planning.plans.cost import MASKS_HELD
from mrf_matrix.voting.evidence import naive_bayes_forest
from strategies.operators import MemoryCapError, memory_cap

CLASSIFIERS = [
    LabelTreeClassifier,
    MatrixForestClassifier,
    PooledForestClassifier,
    PosteriorForestClassifier,
    PrivateForestClassifier,
    PrivateNaiveBayesClassifier,
    ResidualForestClassifier,
    SubsampleAggregateClassifier,
]


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
    paths = path_matrix(naive_bayes_forest(domain)).to_dense()
    (part,) = made.parts
    assert np.array_equal(part.workload.to_dense(), paths)
    assert made.expected_records == pytest.approx(120 * paths.sum(axis=1) / domain.size)
    codes = np.stack([np.arange(12) % size for size in domain.sizes], axis=1)
    model = PrivateNaiveBayesClassifier(domain).fit(codes, np.arange(12) % 3)
    model.save(tmp_path / "model.mrf")
    assert np.array_equal(load_model(tmp_path / "model.mrf").predict(codes), model.predict(codes))


def test_a_forest_too_large_to_be_learned_from_is_refused_before_it_is_compiled():
    domain, ledger = Domain.from_sizes([50, 4, 3], n_classes=2), PrivacyLedger(epsilon=1)
    trees = {"n_trees": 16, "strategy": "identity", "random_state": 0}
    model = MatrixForestClassifier(domain, ledger=ledger, **trees)
    leaves, codes = 16 * 600, 57
    record = np.zeros((1, 3), dtype=int)
    with memory_cap(MASKS_HELD * leaves * codes - 1), pytest.raises(MemoryCapError, match="9,600"):
        model.fit(record, [0])
    enough = peak_bytes(plan(domain, epsilon=1, **trees))
    with memory_cap(enough - 1), pytest.raises(MemoryCapError, match="masks of the paths"):
        model.fit(record, [0])
    assert not ledger.charges
    with memory_cap(enough):
        assert model.fit(record, [0]).leaf_variances_.shape == (leaves,)


def compose(after, first):
    return lambda *given: after(first(*given))


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


@pytest.mark.parametrize("make", CLASSIFIERS)
def test_no_y_is_said_of_the_classifier_that_was_asked(make):
    with pytest.raises(ValueError, match=f"{make.__name__} requires y"):
        make(Domain.from_sizes([2, 2], n_classes=2)).fit(np.zeros((4, 2), dtype=int))


@pytest.mark.parametrize("make", CLASSIFIERS)
def test_columns_too_many_are_refused_without_a_parameter_that_no_classifier_takes(make):
    domain = Domain.from_sizes([2, 2], n_classes=2)
    frame = {"x0": [0, 1], "x1": [1, 0], "id": [4, 5]}
    with pytest.raises(ValueError, match=r"not in the domain.*Drop them") as refused:
        make(domain).fit(pd.DataFrame(frame), [0, 1])
    assert "extra=" not in str(refused.value)
    with pytest.raises(ValueError, match="extra='ignore'"):
        domain.encode(frame)  # which takes it


def test_a_claim_by_delta_is_refused_by_a_pure_ledger_in_the_words_of_its_reader(tmp_path):
    domain, ledger = Domain.from_sizes([2, 2], n_classes=2), PrivacyLedger(epsilon=1)
    model = MatrixForestClassifier(domain, epsilon=1, delta=1e-6, ledger=ledger)
    with pytest.raises(ValueError, match="delta=0") as refused:
        model.fit(np.zeros((4, 2), dtype=int), np.arange(4) % 2)
    assert "ZCDP" not in str(refused.value)


def test_the_command_line_is_told_of_options_and_files(tmp_path):
    file = tmp_path / "domain.json"
    Domain.from_sizes([2000, 2], n_classes=2).save(file)
    done = run("plan", str(file), "--kind", "matrix", "--output", str(tmp_path))
    assert done.exit_code == 1
    for text in ("512,000 leaves", "memory cap", "--n-trees", "groups"):
        assert text in " ".join(done.output.split())
    assert "strategies.operators" not in done.output
    assert json.loads(file.read_text())["attributes"]
