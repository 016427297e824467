"""The main study on a small data set, and accuracy beside what the published code reaches."""

import json
from functools import cache, partial

import numpy as np
import pytest
from sklearn.datasets import load_iris

from mrf_matrix import (
    BatchPredictionClassifier,
    Domain,
    FederatedForestClassifier,
    MatrixForestClassifier,
    RandomTrees,
    SubsampleAggregateClassifier,
    compare,
    load_dataset,
    tune,
)
from mrf_matrix.forests import forest_from_paths, take_trees
from mrf_matrix.study import compare_systems
from strategies import evaluate


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
        ({"kind": ["matrix", "matrices"]}, "kind='matrices': expected"),
        ({"kind": []}, "at least one"),
        ({"kind": ["matrix"] * 2}, "twice"),
    ],
)
def test_bad_settings_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        compare(load_dataset("monks_1"), **changes)
    with pytest.raises(ValueError, match="systems holds 'boosting'"):
        compare_systems(X, Y, systems=["boosting"])


# Methods of one's own ----------------------------------------------------------------------------


MONKS = load_dataset("monks_1")
FRAME = {**MONKS.columns, "class": MONKS.y}
QUICK = {"n_trees": 2, "max_depth": 1, "epsilons": [1.0], "n_splits": 1, "n_draws": 1}


KINDS = ("additive", "labels", "pool", "two_stage")


def test_kinds_of_the_private_forest_may_be_named():
    settings = {"n_trees": 4, "max_depth": 2, "n_splits": 1, "n_draws": 2, "delta": 1e-6}
    study = compare(
        "monks_1", kind=[*KINDS, "majority"], epsilons=[0.5, 2], strategy="identity", **settings
    )
    assert tuple(one.label for one in study.methods if one.spends) == KINDS
    for key in KINDS:
        for epsilon in (0.5, 2):
            assert 0.3 < study.summary(key, epsilon).mean <= 1
            assert study.summary(key, epsilon, "log_loss").mean > 0  # they know probabilities
    again = compare("monks_1", kind=["labels"], epsilons=[2], strategy="identity", **settings)
    assert again.summary("labels", 2).mean == study.summary("labels", 2).mean


def test_a_matrix_is_the_strategy():
    """A matrix and its Strategy give the same accuracies."""
    cells = np.eye(432)
    given = [cells, evaluate(cells, cells), "identity"]
    found = [compare(MONKS, kind=["matrix"], strategy=one, **QUICK) for one in given]
    assert found[0].scores == found[1].scores
    assert [study.settings["strategy"] for study in found] == ["given", "given", "identity"]


def test_a_frame_is_the_data_set():
    options = {"kind": ["majority"], "strategy": "identity", **QUICK}
    study = compare(FRAME, domain=MONKS.domain, trees=RandomTrees(2, 1), **options)
    assert study.scores == compare(MONKS, **options).scores
    with pytest.raises(ValueError, match="needs a public domain"):
        compare(FRAME, **options)
    with pytest.raises(TypeError, match="expected a frame"):
        compare(np.zeros((3, 2)), domain=MONKS.domain, **options)
    with pytest.raises(ValueError, match="lacks the columns"):
        compare(FRAME, domain=Domain.from_sizes([2], n_classes=2), **options)


# Interrupted -------------------------------------------------------------------------------------


STUDY = {"epsilons": [1.0], "n_trees": 2, "max_depth": 1, "n_splits": 2, "n_draws": 2,
         "strategy": "identity", "kind": ["matrix", "naive_bayes", "majority"]}  # fmt: skip
SEARCH = {"epsilon": 1, "n_records": 400, "time_limit": 0.2, "random_state": 0,
          "space": {"max_depth": [1, 2], "n_trees": [4, 8], "strategy": ["identity"]}}  # fmt: skip
DOMAIN = Domain.from_sizes([3, 2, 2], n_classes=2)


def interrupt_after(steps, seen=None):
    left = iter(range(steps))

    def progress(what, done, total):
        if seen is not None:
            seen.append(what)
        if next(left, None) is None:
            raise KeyboardInterrupt

    return progress


def test_a_study_goes_on_where_it_stopped(tmp_path):
    data, file = load_dataset("monks_1"), tmp_path / "fits.json"
    whole = compare(data, **STUDY)
    part = compare(data, resume=file, progress=interrupt_after(4), **STUDY)
    assert part.unfinished > 0
    assert 0 < len(part.scores) < len(whole.scores)
    assert part.to_dict()["unfinished"] == part.unfinished
    stored = file.read_text()
    again = compare(data, resume=file, **STUDY)
    assert again.scores == whole.scores
    assert again.unfinished == 0
    assert stored != file.read_text()
    with pytest.raises(ValueError, match="another study"):
        compare(data, resume=file, **{**STUDY, "n_draws": 3})
    file.write_text("[]")
    with pytest.raises(ValueError, match="no file of fits"):
        compare(data, resume=file, **STUDY)


def test_fits_that_are_done_are_not_done_again(tmp_path, monkeypatch):
    data, file = load_dataset("monks_1"), tmp_path / "fits.json"
    compare(data, resume=file, **STUDY)
    monkeypatch.setattr("mrf_matrix.study.splits._figures", lambda *_: pytest.fail("a fit"))
    assert compare(data, resume=file, **STUDY).unfinished == 0


def test_an_interrupt_before_anything_is_found_stays_one():
    with pytest.raises(KeyboardInterrupt):
        compare(load_dataset("monks_1"), progress=interrupt_after(0), **STUDY)


def test_a_search_ends_in_the_best_so_far_and_goes_on(tmp_path):
    file = tmp_path / "trials.json"
    whole = tune(DOMAIN, **SEARCH)
    part = tune(DOMAIN, resume=file, progress=interrupt_after(2), **SEARCH)
    assert part.stopped
    assert part.best.value < float("inf")
    assert "interrupted" in part.stopped[0].note
    again = tune(DOMAIN, resume=file, **SEARCH)
    assert not again.stopped
    assert [t.value for t in again.trials] == [t.value for t in whole.trials]


# Systems of several parties ----------------------------------------------------------------------


X, Y = load_iris(return_X_y=True)
MODEL = FederatedForestClassifier(n_clients=3, chunks=2, n_trees=6)


def test_systems_are_scored_on_the_same_splits():
    told = []
    names = ["centralised", "NCFF, m trees a party"]
    found = compare_systems(
        X, Y, MODEL, systems=names, n_splits=2, progress=lambda *step: told.append(step)
    )
    assert [one.system for one in found] == names
    assert told == [(names[i % 2], i, 4) for i in range(4)]
    alone = compare_systems(X, Y, MODEL, systems=names[1:], n_splits=2)
    assert alone[0] == found[1]
    assert found[1].mean == pytest.approx(np.mean(found[1].accuracies))
    assert found[1].deviation == pytest.approx(np.std(found[1].accuracies, ddof=1))
    (one,) = compare_systems(X, Y, MODEL, systems=names[:1], n_splits=1)
    assert one.deviation == 0
    assert one.accuracies == found[0].accuracies[:1]
    assert MODEL.mode == "collaborative"  # the caller's model is left as it is


def test_given_parties_are_split_with_their_records():
    owner = np.arange(len(Y)) % 2  # two parties that know all classes
    (known,) = compare_systems(
        X, Y, MODEL, clients=owner, systems=["NCFF, m trees in all"], n_splits=1
    )
    assert known.mean > 0.9


# The papers' own forests and splits ---------------------------------------------------------------


EPSILONS = (0.1, 0.5, 1.0, 2.0)
DRAWS = 5
REFERENCES = {"car": 1, "balance": 1, "iris": 1, "heart": 2, "mushroom": 5}

PUBLISHED = {
    # the published code at each ε: mean of 3 forests and splits, 5 noise draws each
    ("car", "matrix"): (0.296, 0.573, 0.765, 0.820),
    ("car", "batch"): (0.329, 0.557, 0.778, 0.849),
    ("balance", "matrix"): (0.381, 0.597, 0.726, 0.792),
    ("balance", "batch"): (0.418, 0.617, 0.749, 0.822),
    ("balance", "subsample"): (0.395, 0.532, 0.646, 0.747),
    ("iris", "matrix"): (0.473, 0.716, 0.847, 0.927),
    ("iris", "batch"): (0.522, 0.718, 0.880, 0.911),
    ("iris", "subsample"): (0.429, 0.704, 0.796, 0.871),
    ("heart", "matrix"): (0.553, 0.697, 0.716, 0.742),
    ("heart", "batch"): (0.528, 0.696, 0.727, 0.741),
    ("mushroom", "matrix"): (0.911, 0.941, 0.948, 0.951),
    ("mushroom", "batch"): (0.896, 0.893, 0.892, 0.892),
}

MODES = {
    "matrix": partial(MatrixForestClassifier, strategy="identity"),
    "batch": partial(BatchPredictionClassifier, time_limit=0.5),
    "subsample": partial(SubsampleAggregateClassifier, strategy="identity"),
}


@cache
def reference(folder, name):
    """Return the domain, forests, attributes, and records and queries of one reference."""
    count = REFERENCES[name]
    with np.load(folder / "workloads" / f"{name}_seed0.npz") as file:
        arrays = {key: file[key] for key in file.files}
    ends = [""] if count == 1 else [f"_e{i}" for i in range(count)]
    sizes = arrays["domain"] if count == 1 else arrays["full_domain"]
    domain = Domain.from_sizes(sizes.tolist(), n_classes=int(arrays["y_train"].max()) + 1)
    features = [
        list(range(len(sizes))) if count == 1 else arrays["features" + e].tolist() for e in ends
    ]
    forests = [
        forest_from_paths(arrays["paths" + e], arrays["tree_id" + e], domain.select(f))
        for e, f in zip(ends, features, strict=True)
    ]
    codes = [arrays[key].astype(np.int32) for key in ("X_train", "y_train", "Q", "y_test")]
    return domain, forests, features, codes


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        pytest.param(*one, marks=pytest.mark.long if one == ("mushroom", "batch") else ())
        for one in PUBLISHED
    ],
)
def test_accuracy_is_at_least_the_published(shared_dir, name, kind):
    domain, forests, features, (X, y, queries, truth) = reference(shared_dir, name)
    make = partial(MODES[kind], domain, forest=forests, feature_subsets=features, noise="research")
    chosen = None if kind == "matrix" else planned(make, queries)
    scores = []
    for epsilon in EPSILONS:
        for draw in range(DRAWS):
            model = make(epsilon=epsilon, noise_state=draw)
            model.set_params(**({} if chosen is None else {"strategy": chosen}))
            scores.append(model.fit(X, y).score(queries, truth))
    means = np.reshape(scores, (len(EPSILONS), DRAWS)).mean(axis=1)
    published = np.array(PUBLISHED[name, kind])
    # another split, of 30 to 1625 test records: one figure may differ, their mean less so
    assert means.mean() > published.mean() - 0.03, means
    assert (means > published - 0.1).all(), means


def planned(make, queries):
    """Select the batch's strategies once for every fit."""
    return [one.strategy for one in make(random_state=0).plan(queries).parts]


def test_subsample_on_car_at_the_papers_settings(shared_dir):
    """The published code: .345 .662 .756 .774 optimised; .253 .253 .265 .271 a query at a time."""
    with np.load(shared_dir / "workloads" / "car_seed0.npz") as arrays:
        domain = Domain.from_sizes(arrays["domain"].tolist(), n_classes=4)
        forest = forest_from_paths(arrays["paths"], arrays["tree_id"], domain)
        X, y, queries, truth = (
            arrays[key].astype(np.int32) for key in ("X_train", "y_train", "Q", "y_test")
        )
    few = take_trees(forest, range(16))
    for settings, least, most in (({}, 0.6, 1.0), ({"allocation": "per_query"}, 0.0, 0.35)):
        scores = [
            SubsampleAggregateClassifier(
                domain,
                forest=few,
                epsilon=2,
                strategy="identity",
                noise="research",
                noise_state=draw,
                random_state=draw,
                **settings,
            )
            .fit(X, y)
            .score(queries, truth)
            for draw in range(DRAWS)
        ]
        assert least < np.mean(scores) < most
