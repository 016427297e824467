"""What an operator was built from may change later: the operator does not."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from strategies.operators import Dense, Operator, PIdentity, RowKronecker, Sparse, as_operator

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
