"""Every measuring classifier fits from counts and streams as from records; others refuse."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone

from mrf_matrix import (
    BatchPredictionClassifier,
    Domain,
    MatrixForestClassifier,
    MultinomialForestClassifier,
    PrivacyLedger,
    PureForestClassifier,
    RandomTrees,
    SubsampleAggregateClassifier,
    count_stream,
    load_dataset,
)
from mrf_matrix.estimators import (
    MultinomialMatrixForestClassifier,
    PosteriorForestClassifier,
    PrivateNaiveBayesClassifier,
)
from mrf_matrix.estimators.shared import given_counts
from mrf_matrix.forests import BlockTrees
from mrf_matrix.mechanisms import BudgetError, count_cells
from mrf_matrix.mechanisms.counts import tally
from mrf_matrix.streams import count_leaves

DATA = load_dataset("monks_1")
DOMAIN = DATA.domain
TARGET = DOMAIN.required_target().name
FRAME = DATA.frame("polars").with_columns(**{TARGET: DATA.y})
COUNTS = count_stream([FRAME[:100], FRAME[100:]], DOMAIN)
STUDY = {"noise": "research", "noise_state": 3}
SMALL = {"n_trees": 4, "max_depth": 2, "strategy": "identity", "random_state": 0}
MEASURING = {
    "matrix": MatrixForestClassifier(DOMAIN, **SMALL, **STUDY),
    "ensembles": MatrixForestClassifier(DOMAIN, n_ensembles=2, max_features=3, **SMALL, **STUDY),
    "per tree": MatrixForestClassifier(DOMAIN, allocation="per_tree", **SMALL, **STUDY),
    "tables": PosteriorForestClassifier(DOMAIN, random_state=0, **STUDY),
    "bayes": PrivateNaiveBayesClassifier(DOMAIN, **STUDY),
    "batch": BatchPredictionClassifier(DOMAIN, n_ensembles=2, max_features=4, **SMALL, **STUDY),
}


@pytest.mark.parametrize("name", MEASURING)
def test_counts_and_streams_fit_as_records_do(name):
    model = MEASURING[name]
    expected = clone(model).fit(DATA.X, DATA.y).predict_proba(DATA.X[:50])
    halves = model.partial_counts(DATA.X[:7], DATA.y[:7]) + model.partial_counts(
        DATA.X[7:], DATA.y[7:]
    )
    batches = [FRAME[200:], FRAME[:0], FRAME[:200]]
    for fitted in (
        clone(model).fit_counts(COUNTS),
        clone(model).fit_counts(halves),
        clone(model).fit_stream(batches),
    ):
        np.testing.assert_array_equal(fitted.predict_proba(DATA.X[:50]), expected)
        np.testing.assert_array_equal(fitted.predict_proba(DATA.array()[:50]), expected)
        assert fitted.n_features_in_ == DOMAIN.n_attributes


@pytest.mark.parametrize("name", ["ensembles", "per tree", "tables", "bayes", "matrix"])
def test_streams_over_large_domains_count_what_is_measured(name, monkeypatch):
    model = MEASURING[name]
    expected = clone(model).fit(DATA.X, DATA.y).predict_proba(DATA.X)
    monkeypatch.setattr(given_counts, "DENSE_ENTRIES", 0)
    monkeypatch.setattr(tally, "DENSE_ENTRIES", 0)
    if name in ("per tree", "tables", "bayes"):  # leaves are all that they measure
        monkeypatch.setattr(given_counts, "count_tables", None)
    fitted = clone(model).fit_stream([FRAME[:100], FRAME[100:]])
    np.testing.assert_array_equal(fitted.predict_proba(DATA.X), expected)


def test_leaf_counts_serve_a_domain_without_cells():
    domain = Domain.from_sizes([10] * 30, n_classes=2)  # 10**30 cells
    codes = np.random.default_rng(0).integers(0, 10, (300, 30))
    labels = (codes[:, 0] > 5).astype(int)
    blocks = [[i] for i in range(30)]
    forest = BlockTrees(blocks).grow(domain)
    leaves = count_leaves([(codes[:90], labels[:90]), (codes[90:], labels[90:])], forest)
    model = PosteriorForestClassifier(domain, blocks=blocks, epsilon=float("inf"))
    expected = clone(model).fit(codes, labels)
    found = clone(model).fit_counts(leaves)
    np.testing.assert_array_equal(found.release_.answers, expected.release_.answers)
    with pytest.raises(ValueError, match="measures something else"):
        PosteriorForestClassifier(domain, blocks=blocks[:2]).fit_counts(leaves)


REFUSING = {
    "subsample": SubsampleAggregateClassifier(DOMAIN, n_trees=2),
    "disjoint": MatrixForestClassifier(DOMAIN, allocation="disjoint", **SMALL),
    "multinomial": MultinomialForestClassifier(DOMAIN),
    "two stages": MultinomialMatrixForestClassifier(DOMAIN),
    "pure": PureForestClassifier(DOMAIN),
}


@pytest.mark.parametrize("name", REFUSING)
def test_kinds_that_need_records_refuse_by_name(name):
    model = REFUSING[name]
    with pytest.raises(TypeError, match=f"{type(model).__name__}.* needs the records themselves"):
        clone(model).fit_counts(COUNTS)
    with pytest.raises(TypeError, match="needs the records themselves"):
        clone(model).fit_stream([FRAME])


RENAMED = replace(DOMAIN, target=replace(DOMAIN.required_target(), name="label"))
LEAVES = count_leaves(FRAME, RandomTrees(n_trees=1, max_depth=1).grow(DOMAIN, random_state=9))


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        (FRAME, "counts is of type DataFrame"),
        (count_cells(DATA.codes, DATA.labels, DOMAIN.sizes, 2), "do not say over which domain"),
        (replace(COUNTS, domain=RENAMED), "another domain"),
        (count_stream([], DOMAIN), "hold no record"),
        (LEAVES, "leaves"),
    ],
)
@pytest.mark.parametrize("name", ["matrix", "tables", "bayes", "batch"])
def test_counts_that_do_not_fit_cost_nothing(name, counts, words):
    ledger = PrivacyLedger(epsilon=5)
    model = clone(MEASURING[name]).set_params(noise="exact", noise_state=None, ledger=ledger)
    with pytest.raises((TypeError, ValueError), match=words):
        model.fit_counts(counts)
    assert not ledger.charges


def test_a_budget_that_cannot_pay_refuses_before_a_batch_is_read():
    ledger = PrivacyLedger(epsilon=0.5)
    model = PosteriorForestClassifier(DOMAIN, ledger=ledger)
    batches = iter([FRAME])
    with pytest.raises(BudgetError):
        model.fit_stream(batches)
    assert next(batches) is FRAME
    with pytest.raises(ValueError, match="hold no record"):
        PosteriorForestClassifier(DOMAIN).fit_stream([FRAME[:0]])
    with pytest.raises(ValueError, match="public before any record is read"):
        PosteriorForestClassifier("from_data").fit_stream([FRAME])
