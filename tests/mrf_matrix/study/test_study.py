"""The main study on a small data set: its figures, its record, its refusals."""

import json
from dataclasses import replace

import numpy as np
import pytest

from mrf_matrix import Domain, RandomTrees, compare, load_dataset
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


def test_the_posterior_forest_is_told_orders_and_the_number_of_records():
    domain = Domain.from_sizes([3, 3], n_classes=2)
    setting = Setting(
        domain=domain,
        forest=RandomTrees(n_trees=1, max_depth=1).grow(domain, random_state=0),
        strategies={},
        epsilon=1.0,
        voting="hard",
        neighboring="add_remove",
        noise="research",
        noise_state=0,
        seed=0,
        ordered=(True, False),
        n_records=9,
    )
    build = next(method.build for method in METHODS if method.key == "posterior")
    codes = np.array([[i, j] for i in range(3) for j in range(3)])
    labels = (codes[:, 1] == 2).astype(int)
    model = build(setting).fit(codes, labels)
    assert model.n_records == 9
    assert model.domain_.ordered == (True, False)
    exact = build(replace(setting, epsilon=float("inf"), noise_state=None)).fit(codes, labels)
    np.testing.assert_array_equal(exact.predict(codes), labels)
