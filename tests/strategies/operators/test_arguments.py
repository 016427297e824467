"""Nonsense given to a structure is refused by name, before anything is computed."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy import sparse

from strategies import operators as ops
from strategies.operators.base.arrays import current_cap, readable_bytes

NAN = np.array([[1.0, np.nan]])
REFUSED: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "NaN": (lambda: ops.Dense(NAN), ValueError, "NaN or infinity"),
    "infinity": (lambda: ops.Dense(np.array([[np.inf]])), ValueError, "NaN or infinity"),
    "sparse NaN": (lambda: ops.Sparse(sparse.csr_array(NAN)), ValueError, "NaN or infinity"),
    "complex": (lambda: ops.Dense(np.array([[1j]])), TypeError, "complex128"),
    "text": (lambda: ops.Dense(np.array([["a"]])), TypeError, "real numbers"),
    "objects": (lambda: ops.Dense(np.array([[None]])), TypeError, "real numbers"),
    "vector": (lambda: ops.Dense(np.ones(3)), ValueError, "1 dimensions"),
    "cube": (lambda: ops.as_operator(np.ones((2, 2, 2)), "workload"), ValueError, "workload: "),
    "no rows": (lambda: ops.as_operator(np.ones((0, 2))), ValueError, "at least one row"),
    "no columns": (lambda: ops.as_operator(np.ones((2, 0))), ValueError, "one column"),
    "ragged": (lambda: ops.as_operator([[1, 2], [3]]), ValueError, "matrix: "),
    "sizes": (lambda: ops.Dense(np.eye(4), (2, 3)), ValueError, "product is 4"),
    "no cells": (lambda: ops.Identity(0), ValueError, "at least one cell"),
    "float labels": (lambda: ops.Grouping([0.0, 1.0]), ValueError, "group number"),
    "negative label": (lambda: ops.Grouping([0, -1]), ValueError, "group number"),
    "missing group": (lambda: ops.Grouping([0, 2]), ValueError, "group 1 has no cell"),
    "no blocks": (lambda: ops.Stack([]), ValueError, "at least one operator"),
    "other columns": (
        lambda: ops.Stack([ops.Identity(2), ops.Identity(3)]),
        ValueError,
        "one common number",
    ),
    "no factors": (lambda: ops.Kronecker([]), ValueError, "at least one operator"),
    "inner sides": (
        lambda: ops.Product(ops.Identity(2), ops.Identity(3)),
        ValueError,
        "left has 2 columns and right has 3",
    ),
    "NaN weight": (lambda: ops.Scaled(float("nan"), ops.Identity(2)), ValueError, "NaN"),
    "weights": (lambda: ops.RowScaled([1.0], ops.Identity(2)), ValueError, "each of the 2 rows"),
    "skew gram": (lambda: ops.Gram([[1.0, 2.0], [0.0, 1.0]]), ValueError, "not symmetric"),
    "indefinite gram": (lambda: ops.Gram([[0.0, 1.0], [1.0, 0.0]]), ValueError, "eigenvalue -1"),
    "oblong gram": (lambda: ops.Gram(np.ones((1, 2))), ValueError, "square"),
    "other cells": (
        lambda: ops.error_trace(ops.Identity(3), ops.Identity(2)),
        ValueError,
        "matrix has 2 columns: expected 3",
    ),
    "zero scale": (
        lambda: ops.error_trace(ops.Identity(2), ops.Scaled(0.0, ops.Identity(2))),
        ValueError,
        "measures nothing",
    ),
    "unrounded": (
        lambda: ops.Scaled(0.5, ops.Identity(2)).integer_sensitivity("l1"),
        ValueError,
        "call rounded first",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    make, kind, message = REFUSED[name]
    with pytest.raises(kind, match=message):
        make()


def test_what_a_user_has_becomes_an_operator() -> None:
    dense = np.array([[1, 0], [2, 3]])
    for given in (dense, dense.tolist(), sparse.coo_array(dense), sparse.csc_matrix(dense)):
        assert np.array_equal(ops.as_operator(given).to_dense(), dense)
    identity = ops.Identity(3)
    assert ops.as_operator(identity) is identity
    assert np.array_equal(ops.as_operator(dense > 0).to_dense(), dense > 0)


def test_an_array_is_copied_once_and_guarded() -> None:
    array = np.eye(3)
    operator = ops.Dense(array)
    with pytest.raises(ValueError, match="read-only"):
        operator.array[0, 0] = 2.0
    array[0, 0] = 5.0  # the caller's own array stays writable
    assert operator.array[0, 0] == 1.0
    assert np.shares_memory(ops.Dense(operator.array).array, operator.array)


def test_memory_cap_is_local_and_checked() -> None:
    before = current_cap()
    with ops.memory_cap(1000):
        assert ops.fits((125,))
        assert not ops.fits((126,))
        with pytest.raises(ops.MemoryCapError, match=r"table of shape about 2\*\*132 needs"):
            ops.check_allocation("table", (10**40,))
    assert current_cap() == before
    for wrong in (0, -1, 1.5, True, "1"):
        with pytest.raises(ValueError, match="n_bytes="), ops.memory_cap(wrong):
            pass


@pytest.mark.parametrize(
    ("size", "text"),
    [(12, "12 B"), (2048, "2.0 KiB"), (3 * 2**30, "3.0 GiB"), (2**90, "about 2**90 B")],
)
def test_bytes_are_readable(size: int, text: str) -> None:
    assert readable_bytes(size) == text


def test_products_of_any_width_of_integer() -> None:
    """Rounding keeps integers beyond the 53 bits of a float exact in sensitivities."""
    weight = 2**40 + 1
    operator = ops.Scaled(weight, ops.Identity(3))
    assert operator.integer_sensitivity("l2") == weight**2
    assert ops.Kronecker([operator, operator]).integer_sensitivity("l1") == weight**2


def test_overflow_is_refused() -> None:
    with pytest.raises(OverflowError, match="smaller scale"):
        ops.Dense(np.eye(3)).rounded(2**63)
    with pytest.raises(OverflowError, match="smaller scale"):
        ops.Dense(np.eye(3)).rounded(2**40).integer_sensitivity("l2")


def test_squares_of_large_integers_do_not_overflow() -> None:
    weight = 2**40
    for operator in (
        ops.Dense([[weight]]),
        ops.Sparse(sparse.csr_array([[weight]])),
        ops.Scaled(weight, ops.Identity(1)),
        ops.RowScaled([weight], ops.Identity(1)),
        ops.RowScaled([weight // 2], ops.Dense([[2]])),
    ):
        assert operator.row_squares().tolist() == [2.0**80]
        assert operator.column_norms("l2").tolist() == [2.0**40]
        assert operator.sensitivity("l2") == 2.0**40
