"""Values that no call can take: under a mask, beyond all use, or beyond a limit."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import strategies
from mrf_matrix import (
    ZCDP,
    Attribute,
    Domain,
    Forest,
    MatrixForestClassifier,
    MultinomialForestClassifier,
    PureDP,
    RandomTrees,
    expected_error,
    measure,
    path_matrix,
    path_matrix_from_codes,
    plan,
    query_matrix,
    reconstruct,
)
from mrf_matrix.compilation import leaf_counts
from mrf_matrix.mechanisms import calibrate, count_cells
from mrf_matrix.study import compare, reliability

DOMAIN = Domain.from_sizes([2, 3], n_classes=2)
CODES, LABELS = np.array([[0, 1], [1, 2], [0, 0], [1, 1]]), np.array([0, 1, 0, 1])
FOREST = RandomTrees(n_trees=2, max_depth=1).grow(DOMAIN, random_state=0)
COUNTS = count_cells(CODES, LABELS, (2, 3), 2)
EYE = np.eye(6)


def masked(values: Any) -> np.ma.MaskedArray[Any, Any]:
    """Return values of which every second one is masked."""
    return np.ma.masked_array(values, mask=np.arange(np.size(values)).reshape(np.shape(values)) % 2)


def beyond() -> sparse.csr_array:
    """Return a matrix that points outside of its shape."""
    matrix = sparse.csr_array(np.tri(6))
    matrix.indices[0] = 99
    return matrix


def released() -> Any:
    return measure(EYE, COUNTS, PureDP(1), noise="research", random_state=0)


def fitted(**parameters: Any) -> MatrixForestClassifier:
    return MatrixForestClassifier(
        DOMAIN, epsilon=1, n_trees=2, max_depth=1, noise="research", noise_state=0, **parameters
    )


DOORS: dict[str, Callable[[], object]] = {
    "count_cells": lambda: count_cells(masked(CODES), LABELS, (2, 3), 2),
    "count_cells, labels": lambda: count_cells(CODES, masked(LABELS), (2, 3), 2),
    "path_matrix_from_codes": lambda: path_matrix_from_codes(masked(CODES), (2, 3)),
    "path_matrix, trees": lambda: path_matrix_from_codes(CODES, (2, 3), masked(LABELS)),
    "query_matrix": lambda: query_matrix(masked(CODES), DOMAIN),
    "apply": lambda: FOREST.apply(masked(CODES)),
    "decode": lambda: DOMAIN.decode(masked(CODES)),
    "leaf_counts": lambda: leaf_counts(FOREST, CODES, masked(LABELS), 2),
    "Forest": lambda: Forest(
        DOMAIN, masked(FOREST.roots), FOREST.attribute, FOREST.first_child, FOREST.pattern,
        FOREST.branches,
    ),
    "plan, queries": lambda: plan(DOMAIN, "batch", n_trees=2, queries=masked(CODES)),
    "plan, weights": lambda: plan(DOMAIN, "matrix", n_trees=1, weights=masked(np.ones(2))),
    "plan, strategy": lambda: plan(DOMAIN, "matrix", n_trees=2, strategy=masked(EYE)),
    "measure": lambda: measure(masked(EYE), COUNTS, PureDP(1), noise="research"),
    "measure, sparse": lambda: measure(beyond(), COUNTS, PureDP(1), noise="research"),
    "measure, workload": lambda: measure(EYE, COUNTS, PureDP(1), workload=beyond()),
    "reconstruct": lambda: reconstruct(released(), masked(EYE)),
    "expected_error": lambda: expected_error(EYE, beyond(), epsilon=1),
    "score": lambda: fitted().fit(CODES, LABELS).score(CODES, masked(LABELS)),
    "from_data, X": lambda: MultinomialForestClassifier("from_data").fit(masked(CODES), LABELS),
    "from_data, y": lambda: MultinomialForestClassifier("from_data").fit(CODES, masked(LABELS)),
}  # fmt: skip


@pytest.mark.parametrize("door", DOORS)
def test_every_door_refuses_what_is_under_a_mask(door: str) -> None:
    with pytest.raises((ValueError, TypeError), match=r"is a masked array|outside of its shape"):
        DOORS[door]()


def test_records_under_a_mask_are_missing() -> None:
    able = Domain([Attribute("a", size=2, missing="category"), Attribute("b", size=3)])
    column = np.ma.masked_array([0, 1, 1], mask=[False, True, False])
    assert able.encode({"a": column, "b": [0, 1, 2]})[:, 0].tolist() == [0, 2, 1]
    with pytest.raises(ValueError, match="missing values"):
        fitted().fit(masked(CODES), LABELS)
    with pytest.raises(ValueError, match="missing values"):
        fitted().fit(CODES, masked(LABELS))


# Limits and absurd numbers ------------------------------------------------------------------------


SMALL = Domain.from_sizes([2, 3, 2], n_classes=2)
WIDE = Domain.from_sizes([2] * 1100, n_classes=2)  # more cells than a float counts
HUGE = 10**30

REFUSED: dict[str, tuple[str, Callable[[], object]]] = {
    "n_ensembles": ("n_ensembles=1000000000: .* at most", lambda: plan(SMALL, n_ensembles=10**9)),
    "queries": ("queries=1000000000: .* at most", lambda: plan(SMALL, "subsample", queries=10**9)),
    "parties": ("parties=1.* to 2147483647", lambda: plan(SMALL, n_trees=2, parties=HUGE)),
    "n_bins": ("n_bins=1.* at most", lambda: reliability([0, 1], [[1, 0], [0, 1]], HUGE)),
    "n_splits": ("n_splits=1000000000: .* at most", lambda: compare("monks_1", n_splits=10**9)),
    "n_draws": ("n_draws=1000000000: .* at most", lambda: compare("monks_1", n_draws=10**9)),
    "epsilon": (r"epsilon=1e-300.*2\*\*55", lambda: calibrate(np.eye(2), PureDP(1e-300))),
    "rho": (r"rho=1e-300.*2\*\*55", lambda: calibrate(np.eye(2), ZCDP(1e-300))),
    "cells": ("1100 attributes.*max_features", lambda: plan(WIDE, n_trees=2, max_depth=1)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_absurd_numbers_are_refused_by_name(name: str) -> None:
    message, call = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        call()


def test_numbers_at_the_edge_are_taken() -> None:
    assert calibrate(np.eye(2), PureDP(1e-16)).law.scale > 1e15
    made = plan(WIDE, "subsample", n_trees=2, max_depth=1, queries=2)  # votes, not cells
    assert made.n_classes == 2


def test_a_family_that_a_time_limit_does_not_cover_is_not_begun() -> None:
    domain = Domain.from_sizes([4] * 20, n_classes=2)
    paths = path_matrix(RandomTrees(n_trees=4, max_depth=2).grow(domain, random_state=0))
    short, long = (
        {one.family: one for one in strategies.select(paths, time_limit=limit).candidates}
        for limit in (1e-5, 0.2)
    )
    assert "takes about" in short["marginals"].note
    assert np.isfinite(long["marginals"].loss)  # control: what a longer limit covers


def test_a_trial_that_a_time_limit_does_not_cover_is_not_begun() -> None:
    domain = Domain.from_sizes([2] * 11, n_classes=2)
    paths = path_matrix(RandomTrees(n_trees=12, max_depth=9).grow(domain, random_state=0))
    short, long = (
        {one.family: one for one in strategies.select(paths, time_limit=limit).candidates}
        for limit in (0.05, 2.0)
    )
    assert "takes about" in short["marginals"].note
    assert np.isfinite(long["marginals"].loss)
