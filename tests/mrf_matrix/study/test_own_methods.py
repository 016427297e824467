"""A study of methods, trees, matrices and records that are not ours."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier

from mrf_matrix import Domain, RandomTrees, compare, load_dataset
from mrf_matrix.study.methods import METHODS, NAMED_METHODS, Method
from strategies import evaluate

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
