"""Values as JSON: nothing that is not, and no two different values under one name."""

import json
from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse

from mrf_matrix.planning.plain_values import key_of, plain
from strategies import select
from strategies.operators import Dense, Identity

LARGE = np.zeros((64, 64))
CHANGED = LARGE.copy()
CHANGED[30, 30] = 1.0


def first(plan):
    return plan.total


def second(plan):
    return plan.total + 1


DIFFERENT = {
    "arrays": (LARGE, CHANGED),
    "types": (np.zeros(3), np.zeros(3, dtype=np.int64)),
    "shapes": (np.zeros((2, 3)), np.zeros((3, 2))),
    "operators": (Dense(LARGE), Dense(CHANGED)),
    "sparse": (sparse.csr_array(LARGE + np.eye(64)), sparse.csr_array(CHANGED + np.eye(64))),
    "strategies": (select(np.eye(3), norm="l1"), select(np.eye(3), norm="l2")),
    "functions": (first, second),
    "infinity": (float("inf"), None),
    "lists": ([LARGE, 1], [CHANGED, 1]),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_different_values_have_different_keys(name):
    one, other = DIFFERENT[name]
    assert key_of({"a": one}) != key_of({"a": other})
    assert key_of({"a": one}) == key_of({"a": one})


def test_equal_values_have_equal_keys():
    assert key_of(LARGE) == key_of(LARGE.copy())
    assert key_of(np.int64(3)) == key_of(3)
    assert key_of(sparse.csr_array(CHANGED)) == key_of(sparse.csc_array(CHANGED))
    assert key_of(Identity(4)) == key_of(Identity(4))


def test_everything_is_json():
    value = {
        "nan": np.nan, "inf": [float("inf")], "budget": Fraction(1, 2), "array": LARGE,
        "number": np.float64(0.5), "whole": np.int32(2), "operator": Dense(LARGE), "f": first,
        "range": range(3),
    }  # fmt: skip
    found = json.loads(json.dumps(plain(value), allow_nan=False))
    assert found["nan"] is None
    assert found["inf"] == [None]
    assert (found["budget"], found["number"], found["whole"]) == ("1/2", 0.5, 2)
    assert found["range"] == [0, 1, 2]
    assert "first" in found["f"]
    assert "0x" not in str(found)
