"""The main study on a small data set: its figures, its record, its refusals."""

import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.dummy import DummyClassifier

from mrf_matrix import (
    Attribute,
    Domain,
    FederatedForestClassifier,
    RandomTrees,
    compare,
    load_dataset,
    tune,
)
from mrf_matrix.domain.attribute import coarser_codes
from mrf_matrix.study import compare_systems
from mrf_matrix.study.methods import METHODS, NAMED_METHODS, Method, Setting
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


# Methods of one's own ----------------------------------------------------------------------------


MONKS = load_dataset("monks_1")
FRAME = {**MONKS.columns, "class": MONKS.y}
QUICK = {"n_trees": 2, "max_depth": 1, "epsilons": [1.0], "n_splits": 1, "n_draws": 1}
GUESS = Method("guess", "a guess", True, lambda setting: DummyClassifier(strategy="most_frequent"))


def test_methods_of_ones_own_stand_beside_ours():
    study = compare("monks_1", kind=["majority", GUESS], strategy="identity", **QUICK)
    assert [method.key for method in study.methods] == ["majority", "guess"]
    assert study.summary("guess", 1.0).mean == study.summary("majority", None).mean
    said = [method["privacy"] for method in study.to_dict()["methods"]]
    assert said == ["noise-free, not private", "research noise, not a release"]


@pytest.mark.parametrize("method", [*METHODS, *NAMED_METHODS], ids=lambda method: method.key)
def test_only_ours_are_called_private(method):
    own = replace(method, label="mine")
    assert method.privacy("exact") in ("exact noise, its own claim", "noise-free, not private")
    assert own.privacy("exact") in ("claim by its author, unverified", "noise-free, not private")


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


@pytest.mark.parametrize(
    ("methods", "words"),
    [
        (["matrix", "matrices"], "kind='matrices': expected"),
        ([], "at least one"),
        ([GUESS] * 2, "twice"),
    ],
    ids=["unknown", "none", "repeated"],
)
def test_methods_that_are_none_are_refused(methods, words):
    with pytest.raises(ValueError, match=words):
        compare(MONKS, kind=methods, **QUICK)


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


def test_unknown_systems_are_refused_before_any_fit():
    with pytest.raises(ValueError, match="systems holds 'boosting'"):
        compare_systems(X, Y, systems=["boosting"])
