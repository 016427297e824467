"""No result is above the Identity or the workload itself, whatever a limit leaves out."""

import pkgutil
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import Problem, evaluate, examples, select
from strategies.operators import (
    Dense,
    Identity,
    Kronecker,
    Marginals,
    MemoryCapError,
    Operator,
    RowKronecker,
    Scaled,
    Sparse,
    Stack,
    as_operator,
    estimate,
    row_errors,
)
from tests.strategies.workloads import NORMS, lower_bound, paths


def own_loss(workload: Operator, norm: str) -> float:
    return workload.sensitivity(norm) ** 2 * workload.shape[0]


def identity_loss(workload: Operator) -> float:
    return float(np.sum(workload.to_dense() ** 2))


@pytest.mark.parametrize("objective", ["total", "max"])
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_rows_changes_nothing(seed: int, norm: str, objective: str) -> None:
    random = np.random.default_rng(seed)
    rows, given = random.normal(size=(9, 7)), {"objective": objective, "time_limit": 0.05}
    one, other = (
        select(form, norm, random_state=0, **given) for form in (rows, rows[random.permutation(9)])
    )
    assert one.loss == pytest.approx(other.loss, rel=1e-9)
    assert one.method == other.method


@st.composite
def workloads(draw: st.DrawFn) -> Operator:
    """Explicit rows, tables, products of both and unions of products, over at most 36 cells."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sizes = draw(st.lists(st.integers(2, 4), min_size=2, max_size=2))
    factors = [Dense(random.integers(-1, 3, (draw(st.integers(1, 5)), n))) for n in sizes]
    factors = [f if f.to_dense().any() else Dense(np.ones((1, f.shape[1]))) for f in factors]
    product = Kronecker(factors)
    tables = Marginals(sizes, [(0,), (1,)], random.integers(1, 4, 2).tolist())
    kind = draw(st.sampled_from(["rows", "tables", "product", "union", "both"]))
    return {
        "rows": Dense(product.to_dense()),
        "tables": tables,
        "product": product,
        "union": Stack([product, Kronecker([Identity(n) for n in sizes])]),
        "both": Stack([product, tables]),
    }[kind]


@given(workload=workloads(), norm=st.sampled_from(NORMS))
def test_the_rule(workload: Operator, norm: str) -> None:
    strategy = select(workload, norm, random_state=0, time_limit=0.05)
    assert strategy.loss <= identity_loss(workload) * (1 + 1e-9)
    assert strategy.loss <= own_loss(workload, norm) * (1 + 1e-9)
    assert strategy.lower_bound <= strategy.loss
    twin = evaluate(workload.to_dense(), strategy.matrix.to_dense(), norm)
    assert twin.loss == pytest.approx(strategy.loss, rel=1e-6)


def test_few_rows_over_many_cells_are_not_measured_cell_by_cell() -> None:
    """A short search was once ended at the Identity, which here is far above the rows."""
    random, sizes = np.random.default_rng(0), (12,) * 4
    masks = [np.ones((64, size), dtype=bool) for size in sizes]
    for tree in range(8):
        for level, i in enumerate(random.choice(4, 3, replace=False)):
            left = np.arange(12) < random.integers(1, 12)
            upper = np.arange(8) >> level & 1
            masks[i][8 * tree : 8 * tree + 8] = left == upper[:, None]
    workload = RowKronecker.from_masks(masks, np.repeat(np.arange(8), 8))
    found = select(workload, random_state=0, time_limit=0.2)
    assert found.loss <= own_loss(workload, "l1") * (1 + 1e-9)
    few = paths((6,) * 6, 40, 3)
    rows = select(few, method="workload_itself", time_limit=0.2)
    assert select(few, random_state=0, time_limit=0.2).loss <= rows.loss * (1 + 1e-9)


@given(workload=workloads(), seed=st.integers(0, 100))
def test_alike_after_order_and_repetition(workload: Operator, seed: int) -> None:
    """The Gaussian optimum knows no order of rows or cells, nor cells that stand twice."""
    random = np.random.default_rng(seed)
    dense = workload.to_dense()
    moved = dense[random.permutation(len(dense))][:, random.permutation(dense.shape[1])]
    repeated = moved[:, random.integers(0, moved.shape[1], 2 * moved.shape[1])]
    repeated = np.concatenate([moved, repeated], axis=1)
    losses = [select(one, "l2", random_state=0).loss for one in (workload, moved, repeated)]
    assert losses == pytest.approx([losses[0]] * 3, rel=2e-3)


HUGE: dict[str, Operator] = {
    "marginals": Marginals((5,) * 20, [(i, i + 1) for i in range(19)], [1.0] * 19),
    "products": Kronecker([Dense(np.tri(6)), *[Identity(9)] * 6]),
    "totals": Kronecker([Dense(np.ones((1, 6))), *[Dense(np.eye(9)[:2])] * 8]),
    "unions": Stack(
        [
            Kronecker([Dense(np.tri(6)), *[Dense(np.ones((1, 9)))] * 8]),
            Kronecker([Dense(np.ones((1, 6))), Identity(9), *[Dense(np.ones((1, 9)))] * 7]),
        ]
    ),
    "paths": RowKronecker.from_masks([np.eye(5)[[i % 5] * 6] for i in range(12)]),
}


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", HUGE)
def test_the_rule_beyond_enumeration(name: str, norm: str) -> None:
    workload = HUGE[name]
    assert Problem.of(workload, norm).merging is None
    strategy = select(workload, norm, random_state=0, time_limit=0.2)
    assert strategy.loss <= own_loss(workload, norm) * (1 + 1e-9)
    assert 0 < strategy.lower_bound <= strategy.loss
    assert "no lower bound" not in str(strategy)


def test_rows_that_are_cheaper_than_cells_are_measured_as_they_are() -> None:
    """1100 rows over 2200 cells, too many for the searches: own rows beat the Identity."""
    workload = Sparse(np.kron(np.eye(1030), [[1.0, 2.0]]))
    strategy = select(workload, random_state=0, time_limit=0.05)
    assert strategy.loss <= own_loss(workload, "l1") * (1 + 1e-9)


def test_a_bound_of_nothing_is_said_aloud() -> None:
    known = select(examples.prefix_sums(4), method="identity")
    assert "at most" in str(known)
    unknown = replace(known, certificate=lambda: 0.0)
    assert "no lower bound is known" in str(unknown)


@pytest.mark.parametrize("name", HUGE)
def test_bounds_of_parts_are_bounds_of_the_whole(name: str) -> None:
    """On small twins of the same kinds, against the climbed bound over all cells."""
    small = {
        "marginals": Marginals((2, 3), [(0,), (0, 1)], [1.0, 2.0]),
        "products": Kronecker([Dense(np.tri(4)), Identity(3)]),
        "totals": Kronecker([Dense(np.ones((1, 4))), Dense(np.eye(3)[:2])]),
        "unions": Stack([Kronecker([Dense(np.tri(4)), Dense(np.ones((1, 3)))]), Identity(12)]),
        "paths": RowKronecker.from_masks([np.eye(3)[[0, 1, 1]], np.ones((3, 4))]),
    }[name]
    optimum = select(small.to_dense(), "l2", random_state=0)
    assert lower_bound(small) <= optimum.loss * (1 + 1e-9)
    assert lower_bound(small) >= optimum.loss * (1 - 1e-3)


AWKWARD: dict[str, tuple[object, dict[str, object]]] = {
    "cells of different weight": ([[0, 1e3], [1e-3, 1e3]], {}),
    "rows of different weight": ([[0, 0.1, 0], [1e3, 0, 0]], {"objective": "max"}),
    "a faint row": (
        [[0, 1e-3, 1e-3, 0], [0, 1e3, 0, 1e3], [0, 1e-3, 0, 1e-3], [0, 1, 0, 1]],
        {},
    ),
    "a block of zeros": (
        Stack(
            [
                Kronecker([Dense([[1.0, 0.0], [1.0, 0.0]]), Identity(2)]),
                Kronecker([Dense([[1.0, 1.0]]), Dense([[0.0, 0.0]])]),
            ]
        ),
        {},
    ),
}


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", AWKWARD)
def test_the_rule_and_the_bound_over_many_orders_of_magnitude(name: str, norm: str) -> None:
    given_workload, asked = AWKWARD[name]
    found = select(given_workload, norm, random_state=0, time_limit=0.02, **asked)
    cells = found.matrix.shape[1]
    for plain in (np.eye(cells), given_workload):
        other = evaluate(given_workload, plain, norm, **asked)
        assert found.loss <= other.loss * (1 + 1e-9)
    assert found.lower_bound <= found.loss * (1 + 1e-12)
    if norm == "l2":
        assert found.certified_ratio < 1.001
    whole = found.matrix.to_dense()
    rows = getattr(given_workload, "to_dense", lambda: np.array(given_workload))()
    for row in rows[rows.any(axis=1)]:  # every row by itself, however faint
        inside = row @ np.linalg.pinv(whole, rcond=1e-14) @ whole
        np.testing.assert_allclose(inside, row, atol=1e-5 * np.abs(row).max())


# Time limits --------------------------------------------------------------------------------------


DENSE = np.random.default_rng(0).normal(size=(200, 150))
MASKS = [np.tile(np.eye(3, dtype=bool), (4, 1)), *[np.ones((12, 3), dtype=bool)] * 39]
FOREST = RowKronecker.from_masks(MASKS)
"""Twelve rows of three kinds over 3^40 cells."""


@pytest.mark.parametrize("objective", ["total", "max"])
@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_what_is_too_dear_is_not_tried_and_said(norm: str, objective: str) -> None:
    found = select(DENSE, norm, objective=objective, time_limit=1e-5, random_state=0)
    dear = [one for one in found.candidates if "more than is left" in one.note]
    assert "gaussian_optimal" in {one.family for one in dear}
    assert all(np.isinf(one.loss) and one.seconds == 0 for one in dear)
    assert found.loss <= evaluate(DENSE, np.eye(150), norm, objective).loss * (1 + 1e-9)


@pytest.mark.parametrize(("limit", "most"), [(1e-5, 0), (0.3, 100)])
def test_the_weights_of_rows_are_climbed_within_the_limit(
    monkeypatch: pytest.MonkeyPatch, limit: float, most: int
) -> None:
    asked: list[float] = []
    name = "strategies.bounds.dual_ascent.steps_within"
    plain = pkgutil.resolve_name(name.replace(".steps", ":steps"))
    monkeypatch.setattr(name, lambda *a: asked.append(plain(*a)) or asked[-1])
    select(examples.prefix_sums(150), "l2", objective="max", time_limit=limit, random_state=0)
    assert max(asked, default=0) <= most


@pytest.mark.parametrize(("objective", "limit"), [("total", 1e-4), ("total", 0.02), ("max", 0.02)])
@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_no_limit_puts_a_product_above_its_factors(norm: str, objective: str, limit: float) -> None:
    factors = [examples.prefix_sums(9), examples.all_ranges(8)]
    given = {"objective": objective, "time_limit": limit, "random_state": 0}
    whole = select(Kronecker(factors), norm, **given).loss
    assert whole <= np.prod([select(one, norm, **given).loss for one in factors]) * (1 + 1e-9)


def test_own_rows_too_dear_to_evaluate_count_by_plain_noise() -> None:
    workload = Scaled(2.0, FOREST)
    found = select(workload, "l2", time_limit=1e-12, random_state=0)
    assert found.loss <= workload.sensitivity("l2") ** 2 * 12


def test_rows_too_many_to_be_solved_with_answer_for_themselves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("strategies.operators.base.recovery.BEARABLE", 0.0)
    again = RowKronecker.from_masks(MASKS)
    answers = np.arange(12.0)
    for matrix in (FOREST, again):
        assert np.array_equal(row_errors(FOREST, matrix), np.ones(12))
        assert np.array_equal(estimate(FOREST, matrix, answers), answers)
    assert np.array_equal(estimate(FOREST, Scaled(2, FOREST), answers), answers / 2)
    other = FOREST.take_rows(np.arange(12)[::-1])
    assert not FOREST.has_rule_for(other)
    assert row_errors(other, FOREST) == pytest.approx(np.full(12, 0.25))  # by least squares


def test_more_rows_than_can_be_factorised_are_refused_with_their_price(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seconds = pkgutil.resolve_name("strategies.operators.base.recovery:factorisation_seconds")
    monkeypatch.setattr("strategies.operators.base.recovery.LONGEST", 1.01 * seconds(10))
    with pytest.raises(MemoryCapError, match=r"12 rows .* about .* s\. Expected at most 10 rows"):
        row_errors(FOREST.take_rows(slice(0, 3)), RowKronecker.from_masks(MASKS))


def test_a_sum_over_all_cells_is_one_number() -> None:
    """It has no attribute that varies; found by random workloads."""
    total = as_operator(Marginals((4, 3, 3), [()], [1.0]))
    best = select(total, "l1", objective="max", weights=[0.5], groups=[0], random_state=0)
    assert best.loss == pytest.approx(0.5)
