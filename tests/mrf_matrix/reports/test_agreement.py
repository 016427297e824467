"""The page says where a model's shares of a class are not those of the counts."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mrf_matrix import Domain, load_model, save_model
from mrf_matrix.estimators import (
    PooledForestClassifier,
    PosteriorForestClassifier,
    ReleasedClassifier,
    ResidualForestClassifier,
)
from mrf_matrix.reports import model_report
from mrf_matrix.reports.model_sections import AGREEMENT_TITLE, BESIDE, agreement_section

SIZES, NO_NOISE = (6, 4, 3), float("inf")
RATES = np.array([0.01, 0.02, 0.03, 0.05, 0.1, 0.3])


def records(n, n_classes=2, seed=0):
    """Attributes that repeat each other; the first tells of the class."""
    draw = np.random.default_rng(seed)
    first = draw.integers(0, 6, n)
    second = (first + draw.integers(0, 3, n)) % 4
    y = (draw.random(n) < RATES[first]).astype(int)
    y[draw.random(n) < 0.2] = n_classes - 1
    return np.column_stack([first, second, draw.integers(0, 3, n)]), y


def fitted(X, y, epsilon, n_classes=2, kind=ResidualForestClassifier, seed=0):
    domain = Domain.from_sizes(SIZES, n_classes=n_classes)
    given = {"n_records": len(y), "noise": "research", "noise_state": seed, "random_state": seed}
    return kind(domain, epsilon=epsilon, **given).fit(X, y)


def mean_by_code(values, codes):
    return np.bincount(codes, values) / np.bincount(codes)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_shares_are_those_of_the_records_where_there_is_no_noise(n_classes):
    X, y = records(40_000, n_classes)
    model = fitted(X, y, NO_NOISE, n_classes)
    shares, columns = model.predict_proba(X), model.posterior_.columns
    for label, column in zip(range(n_classes)[-len(columns) :], columns, strict=True):
        for codes, one in zip(X.T, column.code_shares, strict=True):
            assert_allclose(one.counted, mean_by_code(y == label, codes), atol=0.002)
            assert_allclose(one.implied, mean_by_code(shares[:, label], codes), atol=0.005)


def test_noise_alone_is_no_disagreement():
    X, y = records(40_000)
    found = [agreement_section(m, m.domain_) for m in (fitted(X, y, 1, seed=s) for s in range(5))]
    assert sum("more than noise" in row for one in found for row in one.rows) <= 1
    assert any("None of 13 shares differs by more than noise" in str(one) for one in found)


def test_a_share_that_differs_is_named():
    """The control: the model's share of one code is taken to be a tenth too small."""
    X, y = records(40_000)
    model = fitted(X, y, 1)
    wrong, *others = model.posterior_.code_shares
    lacking = wrong.lacking + 0.1 * (np.arange(6) == 5)
    shares = (replace(wrong, lacking=lacking), *others)
    odd = replace(model.posterior_, code_shares=shares)
    model.model_ = replace(model.model_, posterior=odd)
    found = agreement_section(model, model.domain_)
    assert "1 of 13 shares differ by more than noise" in str(found)
    assert found.rows[0][:3] == ("x0", "5", "1")
    assert "more than noise" in found.rows[0]


def test_a_model_from_a_file_has_the_same_page(tmp_path):
    X, y = records(5_000)
    model = fitted(X, y, NO_NOISE)
    save_model(model, tmp_path / "one.mrf", allow_nonprivate=True)
    page, again = model_report(model), model_report(load_model(tmp_path / "one.mrf"))
    of = {one.title: one for one in page.sections}[AGREEMENT_TITLE]
    assert {one.title: one for one in again.sections}[AGREEMENT_TITLE] == of
    assert len(of.rows) == 12


def test_tables_beside_a_tree_are_compared_by_themselves():
    X, y = records(5_000)
    domain = Domain.from_sizes(SIZES, n_classes=2)
    noise = {"noise": "research", "noise_state": 0, "random_state": 0, "n_records": 5000}
    pool = PooledForestClassifier(domain, epsilon=2, beside="additive", **noise).fit(X, y)
    found = agreement_section(pool, pool.domain_)
    assert BESIDE in found.words
    alone = replace(pool.model_, posterior=pool.posterior_.tables.posterior)
    assert found.rows == agreement_section(ReleasedClassifier(alone), pool.domain_).rows


def test_kinds_without_such_tables_say_nothing():
    X, y = records(500)
    tables = fitted(X, y, 1, kind=PosteriorForestClassifier)
    one_pass = fitted(X, y, 0.01)
    for model in (tables, one_pass):
        assert AGREEMENT_TITLE not in {one.title for one in model_report(model).sections}
