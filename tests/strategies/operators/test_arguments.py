"""What is no matrix of numbers is refused by name at the doors; what is taken is owned."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import strategies
from strategies import operators as ops
from strategies.operators import (
    Dense,
    Operator,
    PIdentity,
    RowKronecker,
    Sparse,
    as_operator,
    current_cap,
    readable_bytes,
)

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
    "a strategy": (
        lambda: ops.as_operator(strategies.evaluate(np.eye(2)), "workload"),
        TypeError,
        "workload is of type Strategy",
    ),
    "nothing": (lambda: ops.as_operator(None), TypeError, "matrix is of type NoneType"),
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
        r"A \(strategy matrix\) has 2 columns: expected 3",
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


TRIANGLE = np.tri(6)
EYE = np.eye(6)
Break = Callable[[Any], None]


def broken(form: str, change: Break) -> Any:
    """Return a sparse triangle whose arrays were written to."""
    matrix = sparse.csr_array(TRIANGLE).asformat(form)
    change(matrix)
    return matrix


def written(name: str, place: Any, value: Any) -> Break:
    def change(matrix: Any) -> None:
        getattr(matrix, name)[place] = value

    return change


def replaced(name: str, cut: Callable[[Any], Any]) -> Break:
    return lambda matrix: setattr(matrix, name, cut(getattr(matrix, name)))


BROKEN: dict[str, tuple[str, Break]] = {
    "column beyond": ("csr", written("indices", 0, 99)),
    "column below": ("csr", written("indices", 3, -1)),
    "row beyond": ("csc", written("indices", 0, 99)),
    "block beyond": ("bsr", written("indices", 0, 99)),
    "entry beyond": ("coo", lambda m: m.coords[1].__setitem__(0, 6)),
    "entry before": ("coo", lambda m: m.coords[0].__setitem__(0, -1)),
    "falling pointers": ("csr", written("indptr", 2, 100)),
    "last pointer": ("csr", written("indptr", -1, 1000)),
    "first pointer": ("csr", written("indptr", 0, 1)),
    "few pointers": ("csr", replaced("indptr", lambda p: p[:3])),
    "few entries": ("csr", replaced("data", lambda d: d[:3])),
    "few indices": ("csc", replaced("indices", lambda i: i[:3])),
    "unequal lists": ("lil", lambda m: m.rows.__setitem__(0, [0, 1])),
    "list beyond": ("lil", lambda m: m.rows.__setitem__(0, [99])),
    "key beyond": ("dok", lambda m: m._dict.__setitem__((99, 0), 1.0)),
    "few offsets": ("dia", replaced("offsets", lambda o: o[:2])),
    "equal offsets": ("dia", written("offsets", slice(None), 1)),
    "masked entries": ("csr", replaced("data", lambda d: np.ma.masked_array(d, mask=True))),
    "entry is NaN": ("csr", written("data", 0, np.nan)),
    "objects": ("csr", replaced("data", lambda d: d.astype(object))),
    "complex": ("csr", replaced("data", lambda d: d * 1j)),
}

DOORS: dict[str, Callable[[Any], object]] = {
    "evaluate": lambda bad: strategies.evaluate(bad, EYE),
    "evaluate, matrix": lambda bad: strategies.evaluate(EYE, bad),
    "select": lambda bad: strategies.select(bad, method="identity"),
    "smallest_budget": lambda bad: strategies.smallest_budget(bad, 1.0),
    "allocate": lambda bad: strategies.allocate(EYE, bad),
    "allocate, recovery": lambda bad: strategies.allocate(EYE, EYE, recovery=bad),
    "merge_columns": strategies.merge_columns,
    "as_operator": as_operator,
}


@pytest.mark.parametrize("kind", BROKEN)
def test_what_a_sparse_matrix_points_to_is_checked(kind: str) -> None:
    form, change = BROKEN[kind]
    assert strategies.evaluate(sparse.csr_array(TRIANGLE).asformat(form), EYE).loss == 21.0
    with pytest.raises((ValueError, TypeError), match="workload"):
        strategies.evaluate(broken(form, change), EYE)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    "given",
    [
        broken(*BROKEN["column beyond"]),
        np.ma.masked_array(TRIANGLE, mask=EYE),
        [np.ma.masked_array(row, mask=True) for row in TRIANGLE],
        TRIANGLE * 1j,
        np.full((6, 6), 2**63, dtype=np.uint64),
    ],
    ids=["index", "masked", "list of masked", "complex", "beyond int64"],
)
def test_every_door_refuses_by_name(door: str, given: Any) -> None:
    with pytest.raises((ValueError, TypeError), match=r"workload|matrix|rows|recovery"):
        DOORS[door](given)


def test_constructors_and_operands_are_doors_too() -> None:
    bad = broken(*BROKEN["column beyond"])
    masked = np.ma.masked_array(np.ones(6), mask=True)
    eye = as_operator(EYE)
    for call in (
        lambda: Sparse(bad),
        lambda: PIdentity(np.ones(6), bad),
        lambda: PIdentity(masked, sparse.csr_array(TRIANGLE)),
        lambda: eye @ masked,
        lambda: eye.rmatmat(np.ones(6) * 1j),
        lambda: eye.least_squares(masked),
        lambda: RowKronecker.from_masks([np.ma.masked_array(EYE, mask=True)]),
        lambda: RowKronecker.from_masks([EYE], groups=masked.astype(int)),
        lambda: strategies.select(EYE, weights=masked),
        lambda: strategies.select(EYE, objective="max", groups=masked.astype(int)),
        lambda: strategies.smallest_budget(EYE, masked),
    ):
        with pytest.raises((ValueError, TypeError), match=r"masked|outside of its shape|dtype"):
            call()


def test_an_operator_keeps_what_it_was_given() -> None:
    given = sparse.csr_array(TRIANGLE)
    operator = as_operator(given)
    given.indices[0] = 99  # after the check: of no effect
    assert strategies.evaluate(operator, EYE).loss == 21.0
    with pytest.raises(ValueError, match="read-only"):
        operator.to_sparse().indices[0] = 99


def test_repeated_entries_are_summed_and_matrices_of_numpy_are_matrices() -> None:
    twice = sparse.csr_array(([1.0, 2.0], ([0, 0], [0, 0])), shape=(1, 6))
    assert strategies.evaluate(twice, EYE).loss == 9.0
    assert strategies.evaluate(TRIANGLE.view(np.matrix), EYE).loss == 21.0


@pytest.mark.parametrize("scale", [1e200, 1e-200])
def test_a_workload_whose_loss_is_no_float_is_refused(scale: float) -> None:
    with pytest.raises(ValueError, match="workload has entries or sums whose squares"):
        strategies.evaluate(scale * EYE, EYE)


MASKS = [np.array([[1, 0], [0, 1], [1, 1]], dtype=bool)] * 2

BUILT: dict[str, tuple[Callable[[], Any], Callable[[Any], Operator]]] = {
    "dense": (lambda: np.tri(4), Dense),
    "integers": (lambda: np.tri(4, dtype=np.int64), Dense),
    "columns first": (lambda: np.asfortranarray(np.tri(4)), Dense),
    "a view": (lambda: np.tri(8)[::2, ::2], as_operator),
    "sparse": (lambda: sparse.csr_array(np.tri(4)), Sparse),
    "packed": (
        lambda: RowKronecker.from_masks(MASKS).bits.copy(),
        lambda bits: RowKronecker(bits, (2, 2)),
    ),
    "diagonal": (
        lambda: np.arange(1.0, 5.0),
        lambda diagonal: PIdentity(diagonal, sparse.csr_array(np.ones((1, 4)))),
    ),
}


def arrays_of(given: Any) -> list[Any]:
    """Return the arrays that somebody holds after a matrix was built from them."""
    return [given.data, given.indices, given.indptr] if sparse.issparse(given) else [given]


def held_by(operator: Any) -> list[Any]:
    """Return the arrays that an operator shows."""
    shown = [getattr(operator, name, None) for name in ("array", "bits", "diagonal", "weights")]
    form = operator.matrix if isinstance(operator, Sparse) else None
    return [one for one in shown if one is not None] + ([] if form is None else arrays_of(form))


@pytest.mark.parametrize("kind", BUILT)
def test_a_matrix_that_changes_later_changes_no_operator(kind: str) -> None:
    make, build = BUILT[kind]
    given = make()
    operator = build(given)
    before = operator.to_dense().copy()
    changed = build(make()).to_dense()  # control: what a fresh one would be
    for array in arrays_of(given):
        array[...] = 0
    assert np.array_equal(operator.to_dense(), before)
    assert np.array_equal(before, changed)
    if not sparse.issparse(given):
        assert not given.any()


@pytest.mark.parametrize("kind", BUILT)
def test_nobody_can_write_into_an_operator(kind: str) -> None:
    make, build = BUILT[kind]
    operator = build(make())
    for array in held_by(operator):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
        with pytest.raises(ValueError, match="WRITEABLE"):
            array.flags.writeable = True
    writable = np.zeros(1)  # control
    writable.flags.writeable = False
    writable.flags.writeable = True
