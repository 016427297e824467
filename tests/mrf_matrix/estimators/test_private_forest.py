"""The private forest: it takes what it plans, claims what it spends, and says why."""

import json

import numpy as np
import pytest
from sklearn.model_selection import FixedThresholdClassifier

from mrf_matrix import Domain, PrivacyLedger, PrivateForestClassifier
from mrf_matrix.estimators import (
    LabelTreeClassifier,
    PooledForestClassifier,
    PosteriorForestClassifier,
    ResidualForestClassifier,
)
from mrf_matrix.mechanisms import PureDP
from mrf_matrix.planning import auto_plan

GIVEN = "mrf_matrix.estimators.record_source"


def domain_of(d, k=2):
    return Domain.from_sizes([3] * d, n_classes=k)


def records(n, d, k=2, seed=0, right=0.95):
    """Attributes of which the first two tell nearly everything."""
    generator = np.random.default_rng(seed)
    codes = generator.integers(0, 3, (n, d))
    labels = (3 * codes[:, 0] + codes[:, 1]) * k // 9
    noisy = generator.random(n) > right
    return codes, np.where(noisy, generator.integers(0, k, n), labels)


def research(domain, n, **changes):
    parameters = {"n_records": n, "noise": "research", "noise_state": 0, "random_state": 0}
    return PrivateForestClassifier(domain, **parameters | changes)


KINDS = {  # n, d, k, epsilon: each kind once
    "posterior forest": (400, 3, 3, 1.0),
    "residual forest": (6000, 10, 2, 2.0),
    "screened attributes": (8000, 20, 2, 1.0),  # the classes are even enough for it
    "screened attributes of several": (140_000, 20, 6, 0.004),  # too many for labels
    "tree of labels of several": (1020, 20, 6, 0.5),
    "tree beside tables of several": (1020, 20, 6, 1.8),
    "tree of labels": (400, 20, 2, 0.1),  # four cells
    "tree beside tables": (1000, 20, 2, 0.8),
    "tree beside residuals": (5000, 20, 2, 0.8),
    "tree of labels, sixteen cells": (400, 8, 4, 0.5),  # sixteen
}


@pytest.fixture(scope="module", params=KINDS, ids=str)
def fitted(request):
    n, d, k, epsilon = KINDS[request.param]
    codes, labels = records(n, d, k)
    given = {"epsilon": epsilon, "n_records": n, "random_state": 0}
    model = PrivateForestClassifier(domain_of(d, k), ledger=PrivacyLedger(epsilon=epsilon), **given)
    return request.param, model.fit(codes, labels), codes, labels


def test_each_kind_is_taken_where_its_row_holds(fitted):
    kind, model, _, _ = fitted
    assert kind.partition(",")[0].removesuffix(" of several") in model.plan_.name
    assert (model.plan_.screening is not None) == kind.startswith("screened")
    cells = {
        "tree of labels, sixteen cells": 16,
        "tree of labels": 4,
        "tree of labels of several": 32,
    }
    if kind in cells:
        assert model.forest_plan_.n_cells == cells[kind]


def test_screening_finds_the_attributes_that_tell():
    codes, labels = records(8000, 20)
    model = research(domain_of(20), 8000, epsilon=1).fit(codes, labels)
    assert {0, 1} <= set(model.screened_)
    release, report = model.releases_[0], model.privacy_report_
    assert "PureDP(epsilon=1)" in release.statement  # follows the choices, and claims them too
    assert report.budget == "PureDP(epsilon=1)" != repr(release.budget)
    nothing = np.random.default_rng(1).integers(0, 2, 8000)
    assert model.fit(codes, nothing).screened_ is None  # all attributes are kept


def test_the_plan_is_public_and_kept(fitted):
    _, model, _, _ = fitted
    again = PrivateForestClassifier(**model.get_params()).plan()
    assert again == (model.plan_.announced or model.plan_)
    assert model.plan_.reason in model.privacy_report_.notes
    assert again.rule.worth in str(again)


def test_without_a_choice_it_is_the_forest_itself():
    n, d, k, epsilon = KINDS["posterior forest"]
    codes, labels = records(n, d, k)
    model = research(domain_of(d, k), n, epsilon=epsilon).fit(codes, labels)
    same = PosteriorForestClassifier(
        model.domain, epsilon=epsilon, n_records=n, noise="research", noise_state=0, random_state=0
    )
    shares = same.fit(codes, labels).predict_proba(codes)
    np.testing.assert_array_equal(model.predict_proba(codes), shares)


def test_residuals_are_planned_for_what_the_choice_left():
    n, d, k, epsilon = KINDS["residual forest"]
    codes, labels = records(n, d, k)
    found = research(domain_of(d, k), n, epsilon=epsilon).fit(codes, labels)
    plan, steps = found.plan_, found.forest_plan_
    assert plan.measured == "additive"
    assert (steps.budget, steps.n_records) == (plan.rest, n)
    assert steps.even_records == plan.even_records <= n


def test_probabilities_can_be_used_the_scikit_learn_way():
    codes, labels = records(4000, 6, right=0.7)
    model = research(domain_of(6), 4000).fit(codes, labels)
    shares = model.predict_proba(codes)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(codes)), shares)
    odds = model.decision_function(codes)
    np.testing.assert_array_equal(model.predict(codes), (odds > 0).astype(int))
    careful = FixedThresholdClassifier(
        research(domain_of(6), 4000), threshold=0.2, response_method="predict_proba"
    ).fit(codes, labels)
    np.testing.assert_array_equal(careful.predict(codes), (shares[:, 1] >= 0.2).astype(int))


def test_under_delta_several_classes_may_have_residuals():
    codes, labels = records(20_000, 12, 4)
    model = PrivateForestClassifier(
        domain_of(12, 4), epsilon=2, delta=1e-6, n_records=20_000, random_state=0
    ).fit(codes, labels)
    assert model.plan_.name == "residual forest with Gaussian noise"
    assert model.privacy_report_.statement.startswith("Private release")
    assert model.score(codes, labels) > 0.9
    odds = model.decision_function(codes[:50])
    np.testing.assert_allclose(1 / (1 + np.exp(-odds)), model.predict_proba(codes[:50]), rtol=1e-9)


def test_streams_are_held_only_where_their_public_number_fits(monkeypatch):
    """Whatever is private: the true number of records decides nothing of memory."""
    codes, labels = records(3000, 12, 2)
    domain = domain_of(12, 2)
    halves = [(codes[:1000], labels[:1000]), (codes[1000:], labels[1000:])]
    monkeypatch.setattr(f"{GIVEN}.HELD", 4 * 13 * 5000)
    kept = research(domain, 5000, epsilon=1).fit_stream(halves)
    assert kept.plan_.left_out is None
    assert kept.plan_.announced == research(domain, 5000, epsilon=1).plan()
    for unheld in (research(domain, 5001, epsilon=1), research(domain, None, epsilon=1)):
        with monkeypatch.context() as patched:
            patched.setattr(f"{GIVEN}._read", None)
            streamed = unheld.fit_stream(halves)
        assert streamed.plan_.left_out.startswith("residuals")
        assert "counted as they pass, without residuals" in streamed.privacy_report_.notes[0]
        assert streamed.plan_.measured != "additive"


def test_screening_reads_counts_of_all_cells_as_it_reads_records(monkeypatch):
    """Without a public number a domain of few cells is counted, and screened from the counts."""
    codes, labels = records(3000, 12, 2)
    model = research(domain_of(12, 2), None, epsilon=1)
    shares = model.fit(codes, labels).predict_proba(codes)
    assert model.plan_.screening is not None
    monkeypatch.setattr(f"{GIVEN}._read", None)
    streamed = research(domain_of(12, 2), None, epsilon=1).fit_stream([(codes, labels)])
    assert streamed.screened_ == model.screened_
    np.testing.assert_array_equal(streamed.predict_proba(codes), shares)


def test_domains_of_too_many_cells_are_not_screened_from_a_stream():
    codes, labels = records(500, 40, 2)
    domain = domain_of(40, 2)
    assert auto_plan(domain, [PureDP(1)], n_records=None).screening is not None
    model = research(domain, None, epsilon=1).fit_stream([(codes, labels)])
    assert model.plan_.left_out == "residuals and screening"
    assert model.plan_.name == "posterior forest"


@pytest.mark.parametrize(
    ("kind", "single"),
    [
        ("tables", PosteriorForestClassifier),
        ("additive", ResidualForestClassifier),
        ("labels", LabelTreeClassifier),
        ("pool", PooledForestClassifier),
    ],
)
def test_a_kind_that_is_named_is_fitted_as_its_own_class_does(kind, single):
    codes, labels = records(600, 4)
    model = research(domain_of(4), 600, kind=kind, epsilon=1)
    given = {name: one for name, one in model.get_params().items() if name != "kind"}
    twin = single(**given).fit(codes, labels)
    assert repr(model.plan()) == repr(twin.plan_)
    shares = model.fit(codes, labels).predict_proba(codes)
    np.testing.assert_array_equal(shares, twin.predict_proba(codes))
    assert model.privacy_report_.statement == twin.privacy_report_.statement
    if kind in ("labels", "pool"):
        assert model.export_text() == twin.export_text()
    else:
        with pytest.raises(AttributeError, match="no tree of labels"):
            model.export_text()


# What it would spend -----------------------------------------------------------------------------


CASES = {  # sizes, k, n, what is claimed: every kind, with the choices around it
    "table": ([3] * 6, 2, 432, {"epsilon": 0.9}),
    "tables": ([4] * 6, 4, 1728, {"epsilon": 1}),
    "tables, n unknown": ([4] * 6, 4, None, {"epsilon": 1}),
    "trusted tables": ([4] * 7, 4, 400_000, {"epsilon": 0.5, "delta": 1e-6}),
    "residuals": ([4] * 10, 2, 100_000, {"epsilon": 1}),
    "Gaussian residuals": ([5] * 8, 2, 20_000, {"epsilon": 1, "delta": 1e-6}),
    "labels": ([4] * 12, 2, 200, {"epsilon": 0.5}),
    "pool": ([4] * 16, 2, 2000, {"rho": 0.03}),
    "additive pool": ([4] * 20, 2, 8000, {"epsilon": 0.5, "neighboring": "add_remove"}),
    "screening": ([4] * 12, 2, 4000, {"epsilon": 0.01}),
    "gated screening": ([4] * 40, 2, 20_000, {"epsilon": 1, "neighboring": "replace_one"}),
    "no noise": ([3] * 4, 2, 100, {"epsilon": float("inf")}),
}


def unfitted(case, **changes):
    sizes, k, n, claim = CASES[case]
    public = Domain.from_sizes(sizes, n_classes=k)
    return PrivateForestClassifier(public, n_records=n, random_state=0, **claim, **changes)


@pytest.mark.parametrize("case", CASES)
def test_the_steps_add_up_to_the_whole_budget(case):
    plan = unfitted(case).plan()
    steps = plan.announced_steps
    if case != "no noise":
        assert sum(one.budget.exact for one in steps) == plan.budget.exact
        assert sum(one.share(plan.budget) for one in steps) == pytest.approx(1)
    if plan.balance is not None:
        assert steps[0].measured == plan.balance.measured
    record = [one.to_dict(plan.budget) for one in steps]
    assert json.loads(json.dumps(record)) == record
    assert plan.to_dict()["rule"]["worth"] == plan.rule.worth


@pytest.mark.parametrize(
    "case", ["table", "tables", "residuals", "labels", "pool", "additive pool"]
)
def test_a_fit_of_even_classes_takes_the_announced_steps(case):
    model = unfitted(case, noise="research", noise_state=0)
    rng = np.random.default_rng(0)
    n = model.n_records
    codes = np.stack([rng.integers(0, size, n) for size in model.domain.sizes], axis=1)
    labels = rng.permutation(np.arange(n) % model.domain.n_classes)
    steps = model.plan().announced_steps
    made = model.fit(codes, labels).privacy_report_.measurements
    assert [one.measured for one in made] == [one.measured for one in steps]
    assert [one.budget for one in made] == [repr(one.budget) for one in steps]
    assert [one.sensitivity for one in made] == pytest.approx([one.sensitivity for one in steps])
