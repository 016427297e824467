"""Two-stage forests: what is known before stage 1 is paid, and what is left when stage 2 fails."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from mrf_matrix.compilation import path_matrix
from mrf_matrix.domain import Domain
from mrf_matrix.estimators import (
    MatrixForestClassifier,
    MultinomialMatrixForestClassifier,
    from_release,
)
from mrf_matrix.forests import PrivateMultinomialTrees
from mrf_matrix.kinds.two_stage import tables_of_every_structure
from mrf_matrix.mechanisms import PrivacyLedger
from mrf_matrix.mechanisms.measurement.least_squares import check_determined
from mrf_matrix.planning.plans import kind, part
from mrf_matrix.release import curator
from strategies import select
from strategies.operators import Identity, Kronecker, Marginals, RowSpaceError, memory_cap

SIZES = (3, 4, 2)
DOMAIN = Domain.from_sizes(SIZES, 2)
RNG = np.random.default_rng(0)
CODES = np.stack([RNG.integers(0, size, 60) for size in SIZES], axis=1)
LABELS = RNG.integers(0, 2, 60)

UNFIT = {
    "the total": (np.ones((1, 24)), RowSpaceError, "does not determine the leaves of every"),
    "two attributes of three": (
        Marginals(SIZES, [(0, 1), (1, 2), (0, 2)], [1, 1, 1]), RowSpaceError, "tables of 3",
    ),
    "a listed matrix": ([np.ones((1, 24))], RowSpaceError, "Nothing was spent"),
    "columns": (np.eye(23), ValueError, "expected 24"),
    "norm": (select(np.eye(24), "l2", "identity"), ValueError, "norm='l1'"),
    "two": (["identity", "identity"], ValueError, "strategy holds 2"),
    "name": ("best", ValueError, "strategy='best'"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNFIT)
def test_a_strategy_that_may_not_serve_is_refused_before_stage_one(monkeypatch, name):
    strategy, kind, said = UNFIT[name]
    ledger = PrivacyLedger(epsilon=1)
    monkeypatch.setattr(PrivateMultinomialTrees, "grow", None)  # never comes to it
    forest = MultinomialMatrixForestClassifier(
        DOMAIN, epsilon=1, strategy=strategy, ledger=ledger, n_trees=2
    )
    with pytest.raises(kind, match=said):
        forest.fit(CODES, LABELS)
    assert ledger.spent == 0


@pytest.mark.parametrize("depth", [0, 1, 2, 3, 5])
def test_what_is_let_through_determines_every_structure(depth):
    given = {
        "sets": tables_of_every_structure(SIZES, depth),
        "cells": Identity(24, SIZES),
        "dense": np.random.default_rng(1).normal(size=(24, 24)),
        "kronecker": Kronecker([Identity(size) for size in SIZES]),
    }
    for strategy in given.values():
        forest = MultinomialMatrixForestClassifier(
            DOMAIN, epsilon=9, strategy=strategy, n_trees=3, max_depth=depth
        ).fit(CODES, LABELS)
        assert forest.leaf_values_.shape == (forest.forest_.n_leaves, 2)


def test_what_is_refused_fails_for_some_structure():
    matrix = Marginals(SIZES, [(0, 1), (1, 2)], [1, 1])
    with pytest.raises(RowSpaceError):
        check_determined(tables_of_every_structure(SIZES, 2), matrix)
    trees = PrivateMultinomialTrees(0.01, n_trees=300, max_depth=2)
    forest = trees.grow(DOMAIN, CODES, LABELS, noise="research", noise_state=0).forest
    with pytest.raises(RowSpaceError):
        check_determined(path_matrix(forest), matrix)
    check_determined(tables_of_every_structure(SIZES, 1), matrix)


def test_too_many_tables_are_left_to_stage_two():
    assert tables_of_every_structure((2,) * 40, 20) is None
    assert tables_of_every_structure((10**5,) * 2, 2) is None


def failing(monkeypatch, module, name):
    def refused(*_, **__):
        raise ValueError(f"{name} failed")

    monkeypatch.setattr(module, name, refused)


@pytest.mark.parametrize("parts", ["coins", "all"])
def test_a_failing_stage_two_keeps_the_structure(monkeypatch, parts):
    ledger = PrivacyLedger(epsilon=1)
    forest = MultinomialMatrixForestClassifier(
        DOMAIN, epsilon=1, parts=parts, n_trees=2, strategy="identity", ledger=ledger
    )
    failing(monkeypatch, kind, "calibrate")
    with pytest.raises(ValueError, match="calibrate failed") as error:
        forest.fit(CODES, LABELS)
    note = "".join(error.value.__notes__)
    assert "forest=forest_" in note
    assert ("go_on(X, y)" in note) == (parts == "all")
    assert "60" not in note
    with pytest.raises(NotFittedError):
        forest.predict(CODES)
    monkeypatch.undo()
    grown = forest.forest_
    again = MatrixForestClassifier(DOMAIN, epsilon=1, forest=grown, strategy="identity")
    assert again.fit(CODES, LABELS).forest_ == grown
    if parts == "all":
        assert forest.go_on(CODES, LABELS).forest_ == grown
        assert len(forest.predict(CODES)) == 60
    else:
        with pytest.raises(ValueError, match="records were dealt to steps or trees by coins"):
            forest.go_on(CODES, LABELS)
    assert [one.amount for one in ledger.charges] == [1]


def test_a_failing_answer_keeps_the_release(monkeypatch):
    forest = MultinomialMatrixForestClassifier(DOMAIN, epsilon=1, n_trees=2, strategy="identity")
    failing(monkeypatch, part, "reconstruct")
    with pytest.raises(ValueError, match="reconstruct failed"):
        forest.fit(CODES, LABELS)
    monkeypatch.undo()
    model = from_release(forest.release_, DOMAIN, forest=forest.forest_, voting="product")
    assert model.predict(CODES).shape == (60,)


def test_a_fit_that_fails_leaves_nothing_of_the_fit_before(monkeypatch):
    forest = MultinomialMatrixForestClassifier(DOMAIN, epsilon=1, n_trees=2, strategy="identity")
    first = forest.fit(CODES, LABELS).forest_
    failing(monkeypatch, curator, "measure")
    with pytest.raises(ValueError, match="measure failed"):
        forest.fit(CODES, LABELS)
    assert forest.forest_ is not first
    assert not hasattr(forest, "leaf_values_")
    assert not hasattr(forest, "release_")
    assert not hasattr(forest, "leaf_plan_")


def test_trees_too_large_are_refused_before_stage_one():
    ledger = PrivacyLedger(epsilon=1)
    forest = MultinomialMatrixForestClassifier(DOMAIN, epsilon=1, ledger=ledger, n_trees=50)
    with memory_cap(10_000), pytest.raises(ValueError, match="class counts of all leaves"):
        forest.fit(CODES, LABELS)
    assert ledger.spent == 0
