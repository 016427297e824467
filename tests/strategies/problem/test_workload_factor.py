"""A factor has the workload's Gram and rank, by whichever route it was found."""

import numpy as np
import pytest
from scipy import linalg

from strategies.operators.base.arrays import Array
from strategies.problem import objective as distinct_rows
from strategies.problem.objective import factor_of_rows

RNG = np.random.default_rng(5)
BITS = RNG.integers(0, 2, (12, 30)).astype(float)
FAINT = np.diag([1.0, 1e-3, 1e-8, 1e-12])
WELL = {
    "prefix sums": np.tri(20),
    "wide": BITS,
    "tall": BITS.T,
    "of low rank": BITS.T @ BITS,
    "repeated rows": np.repeat(BITS, 2, axis=0),
    "one row": np.ones((1, 4)),
    "huge": 1e9 * BITS,
}
ILL = {"faint": FAINT, "Hilbert": linalg.hilbert(8), "faint and wide": FAINT @ BITS[:4]}


@pytest.mark.parametrize("name", WELL | ILL)
def test_laws(name: str) -> None:
    rows = (WELL | ILL)[name]
    factor = factor_of_rows(rows)
    largest = np.linalg.norm(rows, 2)
    assert len(factor) == np.linalg.matrix_rank(rows)
    np.testing.assert_allclose(factor.T @ factor, rows.T @ rows, atol=1e-12 * largest**2)
    inner = factor @ factor.T
    assert np.abs(inner - np.diag(np.diag(inner))).max() <= 1e-12 * largest**2
    assert (np.diff(np.diag(inner)) <= 1e-12 * largest**2).all()
    inside = np.linalg.lstsq(factor.T, rows.T, rcond=1e-15)[0]
    assert np.linalg.norm(rows - inside.T @ factor) <= 1e-12 * largest


@pytest.mark.parametrize("name", WELL | ILL)
def test_singular_values_are_taken_only_where_the_gram_would_lose_rows(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Array] = []
    known = distinct_rows.singular_values

    def counted(matrix: Array) -> tuple[Array, Array]:
        asked.append(matrix)
        return known(matrix)

    monkeypatch.setattr(distinct_rows, "singular_values", counted)
    factor_of_rows((WELL | ILL)[name])
    assert len(asked) == (name in ILL)


def test_infinity_is_refused() -> None:
    with pytest.raises(ValueError, match="NaN or infinity"):
        factor_of_rows(np.array([[1.0, np.inf]]))
