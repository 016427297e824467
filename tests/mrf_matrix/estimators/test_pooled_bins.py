"""Tables beside a tree of two classes hold neighbouring codes together; the tree does not."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mrf_matrix import (
    Attribute,
    Domain,
    PooledForestClassifier,
    PrivateForestClassifier,
    count_stream,
)
from mrf_matrix.estimators.pooled.report import fewer_codes
from mrf_matrix.planning.private.pooled_plan import FEWER_BINS, tables_domain
from mrf_matrix.posterior.effects import constant, contributions, terms
from mrf_matrix.study import effect

N = 900
DOMAIN = Domain(
    [
        Attribute("score", size=10),
        Attribute("colour", categories=[f"c{i}" for i in range(8)]),
        Attribute("age", size=12, missing="category"),
        Attribute("member", categories=["no", "yes"]),
    ],
    target=Attribute("class", categories=["a", "b"]),
)
SEEN = (5, 8, 7, 2)
RNG = np.random.default_rng(3)
CODES = RNG.integers(0, DOMAIN.sizes, size=(N, 4))
RECORDS = DOMAIN.decode(CODES)
ODDS = 0.6 * (CODES[:, 0] - 4.5) + np.where(CODES[:, 3], 1.0, -1.0)
Y = np.where(RNG.random(N) < 1 / (1 + np.exp(-ODDS)), "b", "a")


def pooled(**changes):
    given = {"epsilon": 1, "n_records": N, "random_state": 0, "noise": "research"}
    return PooledForestClassifier(DOMAIN, **given | changes)


@pytest.fixture(scope="module")
def fitted():
    return pooled().fit(RECORDS, Y)


def test_only_tables_of_blocks_of_two_classes_have_fewer_bins():
    assert tables_domain(DOMAIN, residuals=False).sizes == SEEN
    assert tables_domain(DOMAIN, residuals=True) is DOMAIN
    several = Domain(DOMAIN.attributes, target=Attribute("class", size=3))
    assert tables_domain(several, residuals=False) is several
    assert DOMAIN.sizes[0] > FEWER_BINS
    assert fewer_codes(DOMAIN, tables_domain(DOMAIN, residuals=False)) == ("score", "age")


def test_the_plan_and_the_report_say_so(fitted):
    assert pooled().plan().tables.domain.sizes == SEEN
    assert fitted.plan_.tables.domain.sizes == fitted.tables_.domain_.sizes == SEEN
    assert fitted.domain_ == fitted.tree_.domain_ == DOMAIN
    assert any("codes of 'score', 'age' as one" in note for note in fitted.privacy_report_.notes)
    residual = pooled(beside="residuals").fit(RECORDS, Y)
    assert residual.tables_.domain_ == DOMAIN
    assert not any("as one" in note for note in residual.privacy_report_.notes)


def test_tables_say_the_same_of_codes_that_they_hold_together(fitted):
    seen = fitted.posterior_.tables
    cells = np.stack(np.unravel_index(np.arange(np.prod(DOMAIN.sizes)), DOMAIN.sizes), axis=1)
    coarse = fitted.tables_.domain_.encode(DOMAIN.decode(cells))
    asked = fitted.tables_.posterior_
    assert_array_equal(seen.log_odds(cells), asked.log_odds(coarse))
    assert_array_equal(seen.probabilities(cells), asked.probabilities(coarse))
    assert_array_equal(seen.log_shares, asked.log_shares)
    first, second = np.zeros(len(cells), dtype=int), np.ones(len(cells), dtype=int)
    for one, other in zip(
        seen.margin_widths(cells, first, second, 0.9),
        asked.margin_widths(coarse, first, second, 0.9),
        strict=True,
    ):
        assert_array_equal(one, other)
    assert len(np.unique(fitted.tree_.predict_proba(DOMAIN.decode(cells))[:, 0])) > 2


def test_terms_have_all_codes_and_add_up(fitted):
    posterior = fitted.posterior_
    found = terms(posterior, 1, 0)
    logs = posterior.log_odds(CODES)
    added = contributions(found, CODES).sum(axis=1) + constant(posterior, 1, 0)
    assert_allclose(added, logs[:, 1] - logs[:, 0])
    for term in found[1:]:
        assert term.log_odds.shape == tuple(DOMAIN.sizes[i] for i in term.attributes)
        assert_allclose(term.shares.sum(), 1)
    shown = effect(fitted, "age")
    assert len(shown.log_odds) == DOMAIN.sizes[2]


def test_believing_both_parts_more_is_believing_each_more(fitted):
    posterior = fitted.posterior_
    tables = posterior.tables.believed(2.0)
    logs, shares = posterior.tables.log_odds(CODES), posterior.tables.log_shares
    gained = tables.log_odds(CODES) - np.log(tables.posterior.totals.values)
    kept = logs - np.log(posterior.tables.posterior.totals.values)
    assert_allclose(gained, 2 * kept)
    assert_array_equal(tables.log_shares, shares)


@pytest.mark.parametrize("kind", [PooledForestClassifier, PrivateForestClassifier])
@pytest.mark.parametrize("beside", ["tables", "residuals"])
def test_counts_and_streams_give_the_same_release_as_records(kind, beside):
    given = {"epsilon": 1, "n_records": N, "random_state": 0, "noise": "research"}
    if kind is PooledForestClassifier:
        given["beside"] = beside
    elif beside == "residuals":
        given["epsilon"] = 6
    batches = [
        ({name: column[i : i + 300] for name, column in RECORDS.items()}, Y[i : i + 300])
        for i in range(0, N, 300)
    ]
    one = kind(DOMAIN, **given).fit(RECORDS, Y)
    counted = kind(DOMAIN, **given).fit_counts(count_stream(batches, DOMAIN))
    streamed = kind(DOMAIN, **given).fit_stream(batches)
    expected = one.predict_proba(RECORDS)
    assert_array_equal(counted.predict_proba(RECORDS), expected)
    assert_array_equal(streamed.predict_proba(RECORDS), expected)


def test_a_domain_read_off_the_records_has_fewer_bins_too():
    with pytest.warns(UserWarning, match="domain"):
        model = PooledForestClassifier("from_data", n_records=N, random_state=0).fit(CODES, Y)
    assert model.tables_.domain_ == tables_domain(model.domain_, residuals=False)
    assert model.domain_.sizes != model.tables_.domain_.sizes
    assert model.predict_proba(CODES).shape == (N, 2)
