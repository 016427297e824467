"""The main study on a small data set: its figures, its record, its refusals."""

import json
from dataclasses import replace

import numpy as np
import pytest

from mrf_matrix import Attribute, Domain, RandomTrees, compare, load_dataset
from mrf_matrix.domain.attribute import coarser_codes
from mrf_matrix.study.methods import METHODS, Setting


@pytest.fixture(scope="module")
def study():
    seen = []
    made = compare(
        load_dataset("monks_1"),
        n_trees=8,
        max_depth=2,
        epsilons=[0.5, 2.0],
        n_splits=2,
        n_draws=2,
        strategy="identity",
        progress=lambda what, done, total: seen.append((done, total)),
    )
    assert [done for done, _ in seen] == list(range(len(seen)))
    assert {total for _, total in seen} == {len(seen)}
    return made


def test_every_method_is_scored_at_every_budget(study):
    assert len(study.scores) == 2 * (9 * 2 * 2 + 3)
    for summary in study.summaries():
        assert 0 <= summary.mean <= 1
        assert summary.n_fits == (4 if summary.epsilon else 2)


def test_summary_is_mean_and_standard_error(study):
    values = [s.accuracy for s in study.scores if s.method == "matrix" and s.epsilon == 2.0]
    summary = study.summary("matrix", 2.0)
    assert summary.mean == pytest.approx(np.mean(values))
    assert summary.standard_error == pytest.approx(np.std(values, ddof=1) / 2)


def test_the_record_is_json_and_labels_what_is_private(study):
    record = json.loads(json.dumps(study.to_dict(), allow_nan=False))
    privacy = {method["key"]: method["privacy"] for method in record["methods"]}
    assert privacy["matrix"] == "research noise, not a release"
    assert privacy["no_noise"] == "noise-free, not private"
    assert record["settings"]["random_state"] == 0


def test_the_study_is_reproducible(study):
    again = compare(
        load_dataset("monks_1"),
        n_trees=8,
        max_depth=2,
        epsilons=[0.5, 2.0],
        n_splits=2,
        n_draws=2,
        strategy="identity",
    )
    assert again.scores == study.scores


def test_a_table_for_a_paper_keeps_its_standard_errors(study):
    one = study.summary("matrix", study.epsilons[0])
    text = study.to_latex()
    assert f"{one.mean:.3f} $\\pm$ {one.standard_error:.3f}" in text
    assert text.count(r"$\pm$") == len(study.methods) * len(study.epsilons)
    assert text.count("&") == (len(study.methods) + 1) * len(study.epsilons)


def test_strategy_errors_follow_the_loss(study):
    for row in study.strategies:
        assert row.loss >= row.lower_bound * (1 - 1e-9)
        assert row.rms_per_leaf[0.5] > row.rms_per_leaf[2.0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epsilons": []}, "epsilons is empty"),
        ({"epsilons": [1.0, -1.0]}, "epsilon"),
        ({"n_splits": 0}, "n_splits=0"),
        ({"n_draws": True}, "n_draws=True"),
        ({"voting": "soft"}, "voting="),
        ({"test_size": 1.5}, "test_size"),
    ],
)
def test_bad_settings_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        compare(load_dataset("monks_1"), **changes)


def setting_of(given):
    """Return what a fit is given whose records were encoded by a domain."""
    domain = Domain.from_sizes(given.sizes, n_classes=2)
    return Setting(
        domain=domain,
        forest=RandomTrees(n_trees=1, max_depth=1).grow(domain, random_state=0),
        strategies={},
        epsilon=1.0,
        voting="hard",
        neighboring="add_remove",
        noise="research",
        noise_state=0,
        seed=0,
        given=given,
        n_records=9,
    )


def test_the_posterior_forest_is_told_orders_and_the_number_of_records():
    named = Attribute("b", categories=["x", "y", "z"])
    setting = setting_of(Domain([Attribute("a", size=3), named]))
    build = next(method.build for method in METHODS if method.key == "tables")
    codes = np.array([[i, j] for i in range(3) for j in range(3)])
    labels = (codes[:, 1] == 2).astype(int)
    model = build(setting).fit(codes, labels)
    assert model.n_records == 9
    assert model.domain_.ordered == (True, False)
    exact = build(replace(setting, epsilon=float("inf"), noise_state=None)).fit(codes, labels)
    np.testing.assert_array_equal(exact.predict(codes), labels)


def test_codes_are_measured_as_the_given_domain_would_be():
    """Bins, what is missing or not listed, and names: the same codes, and the same bins of them."""
    given = Domain(
        [
            Attribute("a", size=100, missing="category"),
            Attribute("b", edges=list(range(40)), outside="open", missing="category"),
            Attribute("c", size=90, unknown="other", missing="category"),
            Attribute("d", categories=["x", "y", "z"]),
        ]
    )
    build = next(method.build for method in METHODS if method.key == "auto")
    domain = build(setting_of(given)).domain
    codes = np.stack([np.arange(500) % size for size in given.sizes], axis=1)
    np.testing.assert_array_equal(domain.encode(codes)[:, :3], codes[:, :3])
    coarse, usual = domain.coarser(), given.coarser()
    assert coarse.sizes == usual.sizes == (16, 15, 92, 3)
    assert coarse.ordered == usual.ordered == (True, True, True, False)
    wanted = coarser_codes(given.attributes, usual.attributes, codes)
    np.testing.assert_array_equal(coarse.encode(codes)[:, :3], wanted[:, :3])
