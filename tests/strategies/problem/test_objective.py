"""Objectives, weights and groups, and a factor with the workload's Gram and rank."""

import numpy as np
import pytest
from scipy import linalg, sparse

import strategies
from strategies import Problem, examples
from strategies.operators import Array, Gram, Marginals, RowScaled, as_operator
from strategies.operators.masks.components import mask_rows
from strategies.problem import determining_rows
from strategies.problem.determining_rows import distinct_rows, factor_of_rows
from strategies.problem.problem import Aim, weight_rows

NONSENSE = [
    ({"objective": "mean"}, "objective='mean'"),
    ({"objective": "max", "weights": [1.0, -1.0, 1.0]}, "negative"),
    ({"objective": "total", "weights": [1.0, float("nan"), 1.0]}, "weights contains NaN"),
    ({"objective": "total", "weights": [1.0, float("inf"), 1.0]}, "weights contains NaN"),
    ({"objective": "total", "weights": [0.0, 0.0, 0.0]}, "weights are all zero"),
    ({"objective": "total", "weights": [1.0, 1.0]}, "2 entries: expected one for each of the 3"),
    ({"objective": "total", "weights": 2.0}, "weights has 0 dimensions"),
    ({"objective": "max", "groups": [0, 1]}, "groups has shape"),
    ({"objective": "total", "groups": [0, 1, 1]}, "groups given with objective='total'"),
]


@pytest.mark.parametrize(("given", "said"), NONSENSE)
@pytest.mark.parametrize("ask", ["select", "evaluate"])
def test_nonsense_is_refused_by_name(given: dict, said: str, ask: str) -> None:
    matrix = {} if ask == "select" else {"matrix": np.eye(3)}
    with pytest.raises(ValueError, match=said):
        getattr(strategies, ask)(np.tri(3), **matrix, **given)


def test_labels_that_are_no_integers_are_refused() -> None:
    with pytest.raises(TypeError, match="groups has dtype"):
        strategies.evaluate(np.tri(3), np.eye(3), objective="max", groups=["a", "b", "b"])


@pytest.mark.parametrize("given", [{"objective": "max"}, {"weights": np.ones(4)}])
def test_a_gram_has_no_rows(given: dict) -> None:
    with pytest.raises(ValueError, match="workload is a Gram"):
        strategies.evaluate(Gram(examples.all_ranges(4).gram_dense()), np.eye(4), **given)


@pytest.mark.parametrize(
    ("given", "sums"),
    [
        (("total", None), [[0, 1, 2, 3]]),
        (("max", None), [[0], [1], [2], [3]]),
        (("max", [7, -1, 7, 7]), [[1], [0, 2, 3]]),
    ],
)
def test_an_objective_knows_its_sums(given: tuple, sums: list[list[int]]) -> None:
    aim = Aim.of(as_operator(np.tri(4)), *given)
    assert aim.n_groups(4) == len(sums)
    assert aim.most_rows(4) == max(map(len, sums))
    errors = np.array([4.0, 1.0, 2.0, 3.0])
    assert aim.value(errors) == max(errors[rows].sum() for rows in sums)


def test_weights_of_tables_stay_weights_of_tables() -> None:
    workload = examples.marginals((2, 3, 4), 2)
    cells = workload.rows
    found = weight_rows(workload, np.repeat([4.0, 9.0, 0.25], cells))
    assert isinstance(found, Marginals)
    assert found.weights == (2.0, 3.0, 0.5)


def test_other_weights_keep_the_rows_of_masks() -> None:
    workload = examples.marginals((2, 3), 1)
    weights = np.arange(1.0, 6.0)
    found = weight_rows(workload, weights)
    assert isinstance(found, RowScaled)
    assert mask_rows(found) is not None
    expected = np.sqrt(weights)[:, None] * workload.to_dense()
    np.testing.assert_allclose(found.to_dense(), expected)


def test_weights_of_one_change_nothing() -> None:
    workload = as_operator(np.tri(3))
    assert weight_rows(workload, np.ones(3)) is workload


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_distinct_rows_have_the_errors_of_all(form) -> None:
    rng = np.random.default_rng(0)
    table = rng.integers(0, 2, (5, 4)).astype(float)
    rows = table[rng.integers(0, 5, 30)]
    rows[[3, 8]] = 0.0
    groups = rng.integers(-2, 3, 30)
    for given in (None, groups):
        aim = Aim.of(as_operator(rows), "max", given)
        found = distinct_rows(as_operator(form(rows)), aim.groups)
        assert found.value((found.rows**2).sum(axis=1)) == pytest.approx(
            aim.value((rows**2).sum(axis=1))
        )
        np.testing.assert_allclose(found.coordinates @ found.factor, found.rows, atol=1e-12)
        assert (found.origin >= 0).tolist() == rows.any(axis=1).tolist()
        assert len(found.rows) < len(rows)


def test_a_problem_summed_is_one_of_total_error() -> None:
    problem = Problem.of(np.tri(4), "l1", "max", groups=[0, 0, 1, 1])
    assert not problem.is_total
    total = problem.as_total([1.0, 2.0, 3.0, 4.0])
    assert total.is_total
    assert total.merged_total == pytest.approx(1 * 1 + 2 * 2 + 3 * 3 + 4 * 4)


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
    known = determining_rows.singular_values

    def counted(matrix: Array) -> tuple[Array, Array]:
        asked.append(matrix)
        return known(matrix)

    monkeypatch.setattr(determining_rows, "singular_values", counted)
    factor_of_rows((WELL | ILL)[name])
    assert len(asked) == (name in ILL)


def test_infinity_is_refused() -> None:
    with pytest.raises(ValueError, match="NaN or infinity"):
        factor_of_rows(np.array([[1.0, np.inf]]))
