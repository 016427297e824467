"""Matrices of strangers: whatever is no plain matrix of numbers is refused by name at the doors."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import strategies
from strategies.operators import PIdentity, RowKronecker, Sparse, as_operator

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
