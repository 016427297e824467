"""The rule: no result above the Identity or above noise on each row of the workload itself."""

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
    Operator,
    RowKronecker,
    Sparse,
    Stack,
)
from tests.strategies.workloads import NORMS, lower_bound


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
    strategy = select(workload, norm, random_state=0, time_limit=0.3)
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
