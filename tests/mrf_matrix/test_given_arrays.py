"""Masked arrays have no value where they are masked: refused, or missing where records may be."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from mrf_matrix import (
    Attribute,
    Domain,
    Forest,
    MatrixForestClassifier,
    MultinomialForestClassifier,
    PureDP,
    RandomTrees,
    expected_error,
    measure,
    path_matrix_from_codes,
    plan,
    query_matrix,
    reconstruct,
)
from mrf_matrix.compilation import leaf_counts
from mrf_matrix.mechanisms import count_cells

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
