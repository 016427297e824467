"""Rows of any kind over overlapping tables: optimum, certificate, forms, large domains."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from strategies import Problem, evaluate, joint_tables, select
from strategies.operators import (
    Dense,
    Identity,
    Kronecker,
    Operator,
    PrefixSums,
    RowScaled,
    Scaled,
    Stack,
    TableStack,
)
from tests.strategies.workloads import total, ways

PAIRS = list(combinations(range(5), 2))


def pair_rows(n: int) -> dict[str, np.ndarray]:
    """Rows over a pair of attributes of n codes: sums, differences, drawn at random."""
    x, y = np.divmod(np.arange(n * n), n)
    rng = np.random.default_rng
    return {
        "x + y <= t": np.array([x + y <= t for t in range(2 * n - 1)], dtype=float),
        "|x - y| <= t": np.array([np.abs(x - y) <= t for t in range(n)], dtype=float),
        "n at random": rng(0).integers(0, 2, (n, n * n)).astype(float),
        "n^2 at random": rng(0).integers(0, 2, (n * n, n * n)).astype(float),
    }


@st.composite
def stacks(draw: st.DrawFn) -> TableStack:
    """Two or three overlapping tables of a small domain, with few or many rows each."""
    sizes = draw(st.lists(st.integers(2, 4), min_size=3, max_size=4))
    every = [s for k in (1, 2) for s in combinations(range(len(sizes)), k)]
    sets = draw(st.lists(st.sampled_from(every), min_size=2, max_size=4, unique=True))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    blocks = []
    for chosen in sets:
        cells = int(np.prod([sizes[i] for i in chosen]))
        rows = rng.normal(size=(int(rng.integers(1, 2 * cells)), cells)) + rng.integers(0, 2)
        blocks.append(float(rng.choice([0.1, 1.0, 5.0])) * rows)
    return TableStack(sizes, sets, blocks)


UNLIKE = TableStack([2, 4], [(0,), (1,)], [[[0.1, 0.0]], [[11.8, 11.1, 9.3, -4.6]]])
"""A faint row and a long one: from even metrics, a climb ends at 1.36 times the optimum."""


@settings(max_examples=6, deadline=None)
@given(stacks())
@example(UNLIKE)
def test_between_the_bound_and_a_little_above_the_optimum(workload: TableStack) -> None:
    """The sum form is above the optimum over all strategies, and the bound is not."""
    best = select(workload, "l2", method="gaussian_optimal", random_state=0)
    assert best.lower_bound <= best.loss * (1 + 1e-9)
    tables = set(workload.attribute_sets)
    if sum(not any(set(one) < set(two) for two in tables) for one in tables) < 2:
        with pytest.raises(ValueError, match="joint_tables"):
            select(workload, "l2", method="joint_tables")
        return
    found = select(workload, "l2", method="joint_tables", random_state=0)
    assert best.loss * (1 - 1e-3) <= found.loss <= 1.3 * best.loss
    again = evaluate(workload.to_dense(), found.matrix.to_dense(), "l2")
    assert found.loss == pytest.approx(again.loss, rel=1e-6)


def test_tables_that_are_better_measured_apart() -> None:
    """Neither above what both cost at their own optimum with the best shares, nor uncertified."""
    alone = [select(block, "l2", "gaussian_optimal").loss for block in UNLIKE.blocks]
    found = select(UNLIKE, "l2", method="joint_tables", random_state=0)
    assert found.loss <= np.sqrt(alone).sum() ** 2 * (1 + 1e-3)
    assert found.certified_ratio < 1.002


def test_a_table_of_zeros_beside_others_costs_nothing() -> None:
    blocks = [np.eye(6), np.zeros((2, 6)), np.tri(6)[::2]]
    stack = TableStack([2, 3, 2, 3], [(0, 1), (1, 2), (2, 3)], blocks)
    found = select(stack, "l2", method="joint_tables", random_state=0)
    best = select(stack, "l2", method="gaussian_optimal", random_state=0)
    assert best.loss * (1 - 1e-3) <= found.loss <= 1.3 * best.loss
    assert best.lower_bound <= found.loss


@pytest.mark.slow
@pytest.mark.parametrize(("name", "known"), [("|x - y| <= t", 1382.36), ("n^2 at random", 168_727)])
def test_all_pairs_of_five_attributes(name: str, known: float) -> None:
    """Within .5 % of what was known, over 10^5 cells, and near the bound."""
    workload = TableStack([10] * 5, PAIRS, [pair_rows(10)[name]] * len(PAIRS))
    found = select(workload, "l2", "joint_tables", random_state=0)
    assert found.loss <= 1.005 * known
    assert found.certified_ratio <= 1.05


def test_largest_error() -> None:
    """The total's strategy stands for it, below the workload's own rows, with a certificate."""
    rows = pair_rows(5)["|x - y| <= t"]
    workload = TableStack([5] * 6, list(combinations(range(6), 2)), [rows] * 15)
    found = select(workload, "l2", objective="max", random_state=0)
    own = evaluate(workload, workload, "l2", objective="max")
    assert found.method == "joint_tables"
    assert found.lower_bound <= found.loss <= 1.5 * found.lower_bound
    assert found.loss < own.loss


def test_one_workload_in_several_forms() -> None:
    """Blocks in another order, in parts, scaled, weighted, as products: one loss and one bound."""
    rows, sizes = pair_rows(4)["x + y <= t"], [4, 3, 4, 2]
    other, sets = np.tri(12), [(0, 2), (1, 2)]
    first = TableStack(sizes, sets, [rows, other])
    weights = np.r_[np.full(7, 4.0), np.full(12, 4.0)]
    forms = {
        "order": TableStack(sizes, sets[::-1], [other, rows]),
        "parts": Stack(
            [TableStack(sizes, sets, [rows[:3], other]), TableStack(sizes, sets[:1], [rows[3:]])]
        ),
        "scaled": Scaled(0.5, RowScaled(np.sqrt(weights), first)),
        "products": Stack(
            [
                Kronecker([total(4), Dense(other, (3, 4)), total(2)]),
                TableStack(sizes, sets[:1], [rows]),
            ]
        ),
    }
    expected = select(first, "l2", method="joint_tables", random_state=0)
    for form in forms.values():
        found = select(form, "l2", method="joint_tables", random_state=0)
        assert found.loss == pytest.approx(expected.loss, rel=1e-3)
        assert found.lower_bound == pytest.approx(expected.lower_bound, rel=1e-3)


def test_products_are_tables_too() -> None:
    """Unions of products over many cells: no worse than .5 % above oblique residuals."""
    factors: list[Operator] = [PrefixSums(8), PrefixSums(8), PrefixSums(8), Identity(9)]
    workload = ways(factors, (2,))
    oblique = select(workload, "l2", method="oblique_residuals", random_state=0)
    joint = select(workload, "l2", method="joint_tables", random_state=0)
    assert oblique.lower_bound <= joint.loss <= 1.005 * oblique.loss


@pytest.mark.slow
def test_more_cells_than_can_be_counted() -> None:
    """Thirty attributes: a certificate, errors by row that add up, an estimate without noise."""
    sizes = [4] * 30
    pairs = [(i, j) for i, j in combinations(range(30), 2) if j - i in (1, 2, 7)]
    rng = np.random.default_rng(0)
    workload = TableStack(sizes, pairs, [rng.integers(0, 2, (3, 16)) for _ in pairs])
    found = select(workload, "l2", random_state=0)
    assert found.method == "joint_tables"
    assert found.certified_ratio <= 1.3
    matrix = found.matrix
    errors = matrix.row_errors(workload)
    assert errors is not None
    assert errors.sum() * matrix.sensitivity("l2") ** 2 == pytest.approx(found.loss, rel=1e-9)
    cells = rng.integers(0, 4, (50, 30))
    truth = np.asarray(workload.columns(cells).sum(axis=1)).ravel()
    answers = np.asarray(matrix.columns(cells).sum(axis=1)).ravel()
    assert np.allclose(matrix.estimate(workload, answers), truth, atol=1e-6)


@settings(max_examples=20, deadline=None)
@given(stacks())
def test_the_worst_cell_is_exact(stack: TableStack) -> None:
    """Against all cells; rounded, in integers."""
    rounded = stack.rounded(50)
    dense = rounded.to_dense().astype(int)
    assert rounded.integer_sensitivity("l1") == np.abs(dense).sum(axis=0).max()
    assert rounded.integer_sensitivity("l2") == (dense**2).sum(axis=0).max()
    assert rounded.sensitivity_is_exact("l2")


def test_the_worst_cell_of_a_chain_and_of_too_many_tables() -> None:
    """A chain of fifty attributes is exact; all pairs of thirty are bounded by their own worst."""
    rng = np.random.default_rng(0)
    links = [rng.integers(0, 9, (1, 9)) for _ in range(49)]
    chain = TableStack([3] * 50, [(i, i + 1) for i in range(49)], links)
    best = np.zeros(3)
    for link in links:
        best = (best[:, None] + link.reshape(3, 3)).max(axis=0)
    assert chain.integer_sensitivity("l1") == best.max()
    assert chain.sensitivity_is_exact("l1")
    pairs = list(combinations(range(30), 2))
    blocks = [rng.integers(0, 9, (1, 9)) for _ in pairs]
    many = TableStack([3] * 30, pairs, blocks)
    assert not many.sensitivity_is_exact("l1")
    cells = rng.integers(0, 3, (100, 30))
    most = many.columns(cells).sum(axis=0).max()
    assert most <= many.integer_sensitivity("l1") == sum(int(one.max()) for one in blocks)


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_tables_too_many_to_be_added_up_are_bounded(
    monkeypatch: pytest.MonkeyPatch, norm: str
) -> None:
    """No sensitivity is below the largest column, and no loss below what it would be with it."""
    rng = np.random.default_rng(3)
    blocks = [rng.integers(-2, 3, (9, cells)) for cells in (6, 8)]
    blocks[0][0, 0] = blocks[1][0, 7] = 90  # of different codes of the attribute of both
    stack = TableStack([3, 2, 4], [(0, 1), (1, 2)], blocks)
    power = 1 if norm == "l1" else 2
    exact = (np.abs(stack.to_dense()) ** power).sum(axis=0).max()
    apart = sum((np.abs(block) ** power).sum(axis=0).max() for block in blocks)
    loss = evaluate(stack, stack, norm).loss
    assert stack.integer_sensitivity(norm) == exact
    monkeypatch.setattr("strategies.operators.tables.overlapping_tables.MOST_JOINED", 1)
    again = TableStack(stack.sizes, stack.attribute_sets, stack.blocks)
    assert not again.sensitivity_is_exact(norm)
    assert exact < again.integer_sensitivity(norm) == apart
    assert again.sensitivity(norm) == pytest.approx(apart if norm == "l1" else np.sqrt(apart))
    assert evaluate(stack, again, norm).loss > loss


def test_a_brief_search_has_a_bound() -> None:
    workload = TableStack([3] * 5, PAIRS, [pair_rows(3)["x + y <= t"]] * len(PAIRS))
    brief = select(workload, "l2", method="joint_tables", time_limit=1e-6, random_state=0)
    assert 0.0 < brief.lower_bound <= select(workload, "l2", random_state=0).loss
    largest = Problem.of(workload, "l2", "max")
    assert largest.as_total() is largest.as_total()


def test_rows_outside_and_tables_without_full_rank() -> None:
    """Blocks of few rows are solved with as one matrix, and what they do not tell is refused."""
    matrix = TableStack([2, 3, 2], [(0, 1), (1, 2)], [np.eye(6)[:4], np.eye(6)])
    inside = TableStack([2, 3, 2], [(0, 1)], [np.eye(6)[:2]])
    found = evaluate(inside, matrix, "l2")
    assert found.loss == pytest.approx(evaluate(inside.to_dense(), matrix.to_dense(), "l2").loss)
    with pytest.raises(ValueError, match="row"):
        evaluate(TableStack([2, 3, 2], [(0, 2)], [np.eye(4)]), matrix, "l2")


@pytest.mark.parametrize(
    ("sets", "blocks", "message"),
    [
        ([(0, 1)], [np.eye(5)], r"blocks\[0\] has 5 columns: expected 6"),
        ([(1, 0)], [np.eye(6)], "ascending order"),
        ([(0, 3)], [np.eye(6)], "from 0 to 2"),
        ([(0, 1)], [], "one for each of the 1"),
        ([], [], "at least one"),
        ([(0, 1)], [[["a"] * 6]], r"blocks\[0\]"),
    ],
)
def test_bad_arguments_are_named(sets: object, blocks: object, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        TableStack([2, 3, 4], sets, blocks)  # type: ignore[arg-type]


def test_tables_beyond_their_size_are_refused() -> None:
    workload = TableStack([50, 50, 50], [(0, 1), (1, 2)], [np.ones((1, 2500))] * 2)
    with pytest.raises(ValueError, match="joint_tables"):
        select(workload, "l2", method="joint_tables")


def test_the_default_limit_is_enough_for_many_tables() -> None:
    """All pairs of thirty attributes: by 4 s nothing but their own rows were tried, at 20 times."""
    pairs = list(combinations(range(30), 2))
    workload = TableStack([10] * 30, pairs, [pair_rows(10)["x + y <= t"]] * 435)
    problem = Problem.of(workload, "l2")
    assert joint_tables().good(problem) >= joint_tables().least(problem) > 0.0
