"""The published systems of several parties on the same splits."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

from mrf_matrix import FederatedForestClassifier
from mrf_matrix.study import compare_systems

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
