"""What a fit takes is known of every kind of plan, and asked before anything is paid."""

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
    plan,
)
from mrf_matrix.estimators import (
    LabelTreeClassifier,
    MultinomialMatrixForestClassifier,
    PooledForestClassifier,
    PosteriorForestClassifier,
    ResidualForestClassifier,
)
from mrf_matrix.planning import peak_bytes
from mrf_matrix.planning.plans import cost
from strategies.operators import MemoryCapError, memory_cap

TREES = {"n_trees": 16, "max_depth": 4, "strategy": "identity", "time_limit": 1e-6}
MODES = {
    MatrixForestClassifier: ("matrix", TREES),
    PosteriorForestClassifier: ("tables", {}),
    PrivateNaiveBayesClassifier: ("naive_bayes", {}),
}
SHAPES = {  # sizes, classes, records: some megabytes each
    MatrixForestClassifier: ((6, 6, 6, 6, 3), 20, 2000),
    PosteriorForestClassifier: ((150, 4), 2, 2000),
    PrivateNaiveBayesClassifier: ((9000, 40), 10, 2000),
    LabelTreeClassifier: ((5,) * 8, 10, 2000),
    PooledForestClassifier: ((5,) * 8, 10, 2000),
    PrivateForestClassifier: ((7,) * 12, 2, 30_000),
    ResidualForestClassifier: ((90,) * 4, 2, 20_000),
}


def classifier(kind, domain, n_records, **more):
    trees = TREES if kind is MatrixForestClassifier else {}
    seed = {} if kind is PrivateNaiveBayesClassifier else {"random_state": 0}
    return kind(domain, epsilon=1, n_records=n_records, **trees, **seed, **more)


def planned(kind, sizes, n_classes, n_records):
    """Return the plan of the forest that a classifier fits."""
    domain = Domain.from_sizes(sizes, n_classes)
    if kind in MODES:
        word, trees = MODES[kind]
        return plan(domain, word, epsilon=1, n_records=n_records, random_state=0, **trees)
    model = classifier(kind, domain, n_records)
    made = model.plan()
    return made.forest if kind is PrivateForestClassifier else made


def records(sizes, n_classes, n):
    generator = np.random.default_rng(0)
    codes = np.stack([generator.integers(size, size=n) for size in sizes], axis=1)
    return codes, generator.integers(n_classes, size=n)


@pytest.mark.slow
@pytest.mark.parametrize("kind", SHAPES)
def test_a_fit_holds_what_was_foretold(kind):
    sizes, k, n = SHAPES[kind]
    foretold = peak_bytes(planned(kind, sizes, k, n))
    assert foretold > 2 * 2**20, "too small to be told from what is held whatever the plan"
    data, few = records(sizes, k, n), records((2, 2), 2, 9)
    noise = {"noise": "research", "noise_state": 0}
    classifier(kind, Domain.from_sizes((2, 2), 2), 9, **noise).fit(*few).predict(few[0])
    model = classifier(kind, Domain.from_sizes(sizes, k), n, **noise)
    tracemalloc.start()
    model.fit(*data).predict(data[0][:50])
    held = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert foretold / 3 < held < 2 * foretold


@pytest.mark.parametrize("kind", SHAPES)
def test_more_codes_classes_and_records_take_no_less(kind):
    sizes, k, n = SHAPES[kind]
    least = peak_bytes(planned(kind, sizes, k, n))
    wider = tuple(2 * size for size in sizes)
    assert peak_bytes(planned(kind, wider, k, n)) > least
    assert peak_bytes(planned(kind, sizes, k, 3 * n)) > least
    if kind not in (LabelTreeClassifier, PooledForestClassifier, PrivateForestClassifier):
        assert peak_bytes(planned(kind, sizes, 2 * k, n)) > least  # others plan other trees for it


@pytest.mark.parametrize("kind", SHAPES)
def test_what_would_not_fit_or_end_is_refused_before_the_charge(kind, monkeypatch):
    sizes, k, n = SHAPES[kind]
    domain, ledger = Domain.from_sizes(sizes, k), PrivacyLedger(epsilon=1)
    model = classifier(kind, domain, n, ledger=ledger)
    needed = peak_bytes(planned(kind, sizes, k, n))
    with memory_cap(needed - 1), pytest.raises(MemoryCapError, match=r"(?s)memory cap.*fewer"):
        model.fit(*records(sizes, k, 20))
    monkeypatch.setattr(cost, "LONGEST", 1e-9)
    told = r"once it is paid for.*fewer trees or less depth"
    with memory_cap(needed * 5 // 4), pytest.raises(MemoryCapError, match=told):
        model.fit(*records(sizes, k, 20))
    assert not ledger.charges


def test_more_time_is_allowed_by_who_asks_for_it(monkeypatch):
    monkeypatch.setattr(cost, "LONGEST", 1e-9)
    domain = Domain.from_sizes((3, 3), 2)
    model = MatrixForestClassifier(domain, **TREES)
    with pytest.raises(MemoryCapError, match="allow it with time_limit=") as refused:
        model.fit(*records((3, 3), 2, 20))
    told = re.search(r"time_limit=(\d+)\.$", str(refused.value))
    model.set_params(time_limit=float(told[1])).fit(*records((3, 3), 2, 20))


def test_what_is_half_paid_is_not_refused_for_its_time(monkeypatch):
    """The trees of two stages are chosen by then: nothing but memory may stop their leaves."""
    monkeypatch.setattr(cost, "LONGEST", 1e-9)
    model = MultinomialMatrixForestClassifier(Domain.from_sizes((3, 3), 2), **TREES)
    assert model.fit(*records((3, 3), 2, 20)).leaf_values_.shape[1] == 2


def test_both_parts_of_a_pool_are_held_at_once():
    sizes, k, n = SHAPES[PooledForestClassifier]
    of = planned(PooledForestClassifier, sizes, k, n)
    ledger = PrivacyLedger(epsilon=1)
    model = classifier(PooledForestClassifier, of.domain, n, ledger=ledger)
    whole, parts = peak_bytes(of), [peak_bytes(one) for one in (of.tree, of.tables)]
    assert whole == sum(parts)
    assert whole > max(parts)
    with memory_cap(whole - 1), pytest.raises(MemoryCapError, match="memory cap"):
        model.fit(*records(sizes, k, 20))
    assert not ledger.charges


def test_what_is_no_plan_is_refused():
    for asked in (peak_bytes, cost.release_seconds):
        with pytest.raises(TypeError, match="expected a plan"):
            asked("tables")


@pytest.mark.parametrize("kind", ["tables", "additive", "auto"])
def test_the_command_line_tells_the_memory(kind, tmp_path):
    file = tmp_path / "domain.json"
    Domain.from_sizes([4] * 5, n_classes=2).save(file)
    asked = ["plan", str(file), "--kind", kind, "--n-records", "3000", "--output", str(tmp_path)]
    asked += ["--random-state", "0", "--no-pictures"]
    said = run(*asked).output
    assert "at the peak of a fit" in " ".join(said.split())
    figures = json.loads(run(*asked, "--json").stdout)
    assert figures["peak_bytes"] > 1000
