"""Any weights prove a bound: of cells, of rows and cells, of ordered cells, of paths, of unions.

A public bound is that of the weights which a climb found; a wrong bound of others would hide there.
"""

from functools import reduce

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strategies.bounds.pinched_union as roots
from strategies.bounds.dual_ascent import (
    ascend,
    assess_joint,
    assess_weights,
    certified_bound,
    certified_joint_bound,
    gaussian_strategy,
    heavy_bound,
    updated_weights,
)
from strategies.bounds.ordered_dual import (
    assess_ordered,
    fitted_gram,
    interpolated_weights,
    ordered_bound,
    root_diagonal,
)
from strategies.bounds.path_bounds import certified_bound as paths_certified_bound
from strategies.bounds.path_bounds import (
    distinct_paths,
    heaviest_rows,
    pinched_bound,
    weighted_gram,
)
from strategies.bounds.pinched_union import union_bound
from strategies.bounds.total_design import TotalClimb
from strategies.operators import AllRanges, Dense, Identity, PrefixSums, Product, Ranges
from strategies.operators.masks.components import mask_rows
from strategies.operators.ordered_sums import OrderedGram
from strategies.problem.determining_rows import distinct_rows, factor_of_rows
from strategies.problem.problem import Aim
from strategies.problem.table_union import table_union
from tests.strategies.workloads import Array, paths, trees, ways

SEEDS = st.integers(0, 2**32 - 1)


def nuclear(rows: Array, cells: Array) -> float:
    """``||W diag(√y)||_*²``, by singular values."""
    return float(np.linalg.norm(rows * np.sqrt(cells), ord="nuc") ** 2)


def spread(weights: tuple[Array, ...]) -> Array:
    """Spell a product of weights out over the cells."""
    whole = np.ones(1)
    for one in weights:
        whole = np.kron(whole, one)
    return whole


@given(SEEDS, st.integers(1, 7), st.integers(2, 6))
def test_weights_of_cells(seed: int, q: int, n: int) -> None:
    random = np.random.default_rng(seed)
    rows = random.integers(-2, 4, (q, n)).astype(float)
    rows[0, 0] = 1.0
    cells = random.dirichlet(np.full(n, 0.3)) + 1e-12
    cells /= cells.sum()
    exact = nuclear(rows, cells)
    bound = certified_bound(factor_of_rows(rows), cells)
    assert exact * (1 - 1e-5) - 1e-6 <= bound <= exact * (1 + 1e-12) + 1e-15
    best = ascend(factor_of_rows(rows), 1e-6, 2000).root ** 2
    assert (rows**2).sum(axis=0).max() / n * (1 - 1e-6) <= heavy_bound(Dense(rows))
    assert max(bound, heavy_bound(Dense(rows))) <= best * (1 + 1e-5)


@given(SEEDS, st.booleans())
def test_weights_of_rows_and_cells(seed: int, grouped: bool) -> None:
    random = np.random.default_rng(seed)
    rows = random.integers(-2, 4, (6, 4)).astype(float) + np.eye(6, 4)
    groups = random.integers(0, 3, 6) if grouped else np.arange(6)
    groups = np.unique(groups, return_inverse=True)[1]
    known = distinct_rows(Dense(rows), Aim.of(Dense(rows), "max", groups).groups)
    weights = random.dirichlet(np.ones(known.n_groups))
    cells = random.dirichlet(np.ones(4))
    dual = assess_joint(known, weights, cells)
    exact = nuclear(np.sqrt(weights)[known.groups][:, None] * known.rows, cells)
    assert exact * (1 - 1e-4) <= certified_joint_bound(known, dual) <= exact * (1 + 1e-9)
    assert dual.gap > -1e-9


def some_gram(n: int, seed: int = 0) -> OrderedGram:
    random = np.random.default_rng(seed)
    high = random.uniform(0.5, 2.0, n)
    return OrderedGram(np.cumsum(random.uniform(0.1, 1.0, n)) * high, high)


@given(SEEDS, st.integers(2, 40))
def test_weights_of_ordered_cells(seed: int, n: int) -> None:
    gram, random = some_gram(n, seed), np.random.default_rng(seed)
    cells = random.dirichlet(np.ones(n))
    factor = np.linalg.cholesky(gram.to_dense()).T
    exact = nuclear(factor, cells)
    assert exact * 0.99 <= ordered_bound(gram, cells) <= exact * (1 + 1e-9)
    dual, dense = assess_ordered(gram, cells), assess_weights(factor, cells)
    assert dual.root == pytest.approx(dense.root, rel=1e-6)


@pytest.mark.parametrize("most", [0, 8192])
def test_ordered_cells_hard_to_tell_apart_prove_no_more(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two cells, ``(tr M^½)² = tr M + 2 √det M``: both without a difference that rounds."""
    monkeypatch.setattr("strategies.bounds.ordered_dual.MOST_SPECTRUM", most)
    random = np.random.default_rng(0)
    for step in 2.0 ** random.integers(-29, 1, 200):
        high, weights = random.uniform(0.5, 1.0, 2), random.dirichlet((9.0, 9.0))
        gram = OrderedGram(high * (1.0, 1.0 + step), high)
        exact = gram.diagonal @ weights + 2.0 * high.prod() * np.sqrt(weights.prod() * step)
        assert exact * 0.9999 <= ordered_bound(gram, weights) <= exact


@given(SEEDS, st.booleans())
def test_products_of_weights_of_paths(seed: int, mixed: bool) -> None:
    random, rows = np.random.default_rng(seed), paths((3, 2, 4), 6, seed % 1000)
    workload = Product(Dense(random.normal(size=(4, 6))), rows) if mixed else rows
    known = distinct_paths(mask_rows(workload))
    weights = tuple(random.dirichlet(np.ones(n)) for n in (3, 2, 4))
    exact = nuclear(workload.to_dense(), spread(weights))
    bound = paths_certified_bound(known, weights)
    assert exact * (1 - 1e-6) <= bound <= exact * (1 + 1e-12)
    if not mixed:
        assert paths_certified_bound(heaviest_rows(known, 3), weights) <= bound * (1 + 1e-12)
        single = rows.take_rows(np.unique(rows.to_dense(), axis=0, return_index=True)[1])
        dense = single.to_dense()
        found = np.linalg.eigvalsh(weighted_gram(distinct_paths(mask_rows(single)), weights))
        expected = np.linalg.eigvalsh((dense * spread(weights)) @ dense.T)
        np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_pinching_stays_below_the_nuclear_norm(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """At even weights of the cells; limits of what is looked at only lower it."""
    workload = trees((3, 4, 3, 2), 6, 1 + seed % 3, seed, dropped=0.2)
    rows = workload.to_dense()
    exact = nuclear(rows, np.full(rows.shape[1], 1 / rows.shape[1]))
    known = distinct_paths(mask_rows(workload))
    found = pinched_bound(known)
    assert 0.5 * exact < found <= exact * (1 + 1e-12)
    for limit, most in (("MOST_ROWS", 5), ("MOST_COLUMNS", 12), ("MOST_SHARED", 6)):
        with monkeypatch.context() as patch:
            patch.setattr(f"strategies.bounds.path_bounds.{limit}", most)
            assert 0 <= pinched_bound(known) <= found
    mixed = Product(Dense(np.ones((2, len(rows)))), workload)
    with pytest.raises(ValueError, match="one path in each row"):
        pinched_bound(distinct_paths(mask_rows(mixed)))


@pytest.mark.parametrize("low", [0, 1, 2, 4])
@pytest.mark.parametrize("steps", [1, 3, 100])
def test_any_number_of_low_columns_of_a_union(low: int, steps: int) -> None:
    workload = ways([PrefixSums(6), AllRanges(5), Identity(3)], (1, 2))
    design = TotalClimb(table_union(workload)).run(1e-6, steps)
    exact = nuclear(workload.to_dense(), spread(tuple(design.weights)))
    assert 0.5 * exact < union_bound(design, low) <= exact


def test_climbs_climb_and_end_at_strategies_of_norm_one() -> None:
    factor = factor_of_rows(np.tri(12) * np.linspace(1, 4, 12))
    dual = assess_weights(factor, np.full(12, 1 / 12))
    for _ in range(40):
        moved = assess_weights(factor, updated_weights(dual, 1.0))
        assert moved.root >= dual.root * (1 - 1e-12)
        dual = moved
    best = ascend(factor, 1e-7, 2000)
    assert best.gap <= 1e-7
    assert dual.root <= best.root * (1 + best.gap)
    columns = np.linalg.norm(gaussian_strategy(factor, best), axis=0)
    assert columns.max() == pytest.approx(1.0)


def test_units_do_not_change_what_weights_prove() -> None:
    factor, weights = np.vstack([np.tri(4), np.ones((1, 4))]), np.array([0.1, 0.2, 0.3, 0.4])
    plain, small = assess_weights(factor, weights), assess_weights(1e-9 * factor, weights)
    assert small.root == pytest.approx(1e-9 * plain.root)
    np.testing.assert_allclose(small.ratios, 1e-9 * plain.ratios, rtol=1e-3)
    for cells in (2, 300):  # rounded down, by next to nothing
        even = certified_bound(np.eye(cells), np.full(cells, 1 / cells))
        assert cells * (1 - 2e-9) <= even < cells


def test_parts_of_the_climb_of_ordered_cells() -> None:
    random = np.random.default_rng(1)
    side = random.normal(size=11)
    diagonal = 0.01 + np.abs(np.append(side, 0.0)) + np.abs(np.append(0.0, side))
    values, vectors = np.linalg.eigh(np.diag(diagonal) + np.diag(side, 1) + np.diag(side, -1))
    expected = (vectors**2 / np.sqrt(values)).sum(axis=1)
    np.testing.assert_allclose(root_diagonal(diagonal, side), expected, rtol=1e-9)
    line = interpolated_weights(np.arange(1.0, 6.0), 9)
    np.testing.assert_allclose(line, np.linspace(1, 5, 9) / 27)
    starts, stops = np.triu_indices(40)
    ranges = Ranges(40, starts, stops + 1, np.ones(len(starts)))
    np.testing.assert_allclose(fitted_gram(ranges).to_dense(), ranges.gram_dense(), rtol=0.05)


# Traces of roots ----------------------------------------------------------------------------------


def whole(grams, lows):
    pairs = zip(grams, lows, strict=True)
    return np.sum([reduce(np.kron, [*group, low]) for group, low in pairs], axis=0)


def exact_root(form):
    return np.sqrt(np.maximum(np.linalg.eigvalsh(form), 0.0)).sum()


def in_blocks(monkeypatch, columns, of):
    monkeypatch.setattr(roots, "LARGEST_JOINED", 0)
    monkeypatch.setattr(roots, "BLOCKS_WORK", of * columns**2)


def positive(generator, n, rank, tilt=1.0):
    factor = generator.normal(size=(n, rank)) * np.exp(2.0 * generator.normal(size=rank))
    return tilt * (factor @ factor.T) + (1.0 - tilt) * np.diag(np.abs(generator.normal(size=n)))


@given(
    st.integers(0, 10**6), st.integers(1, 3), st.lists(st.integers(1, 5), min_size=1, max_size=3),
    st.integers(1, 4), st.sampled_from([0.0, 0.1, 1.0]), st.sampled_from([1, 4, 30]),
)  # fmt: skip
def test_no_bound_in_blocks_is_above_the_trace(seed, groups, sizes, low, tilt, columns):
    generator = np.random.default_rng(seed)
    grams = [[positive(generator, n, 1 + seed % n, tilt) for n in sizes] for _ in range(groups)]
    lows = np.array([positive(generator, low, 1 + seed % low) for _ in range(groups)])
    with pytest.MonkeyPatch.context() as patched:
        in_blocks(patched, columns, np.prod(sizes) * low)
        bound = roots.joined_root(grams, lows)
    assert 0.0 <= bound <= exact_root(whole(grams, lows)) * (1.0 + 1e-9)


def test_blocks_lose_nothing_where_one_side_is_diagonal(monkeypatch):
    generator = np.random.default_rng(0)
    grams = [[np.diag(generator.random(6) + 0.1), positive(generator, 5, 5, 0.5)] for _ in range(3)]
    lows = np.ones((3, 1, 1))
    in_blocks(monkeypatch, 5, 30)
    exact = exact_root(whole(grams, lows))
    assert roots.joined_root(grams, lows) == pytest.approx(exact, rel=1e-4)


def test_squares_of_columns_are_no_bound():
    """The control: roots of the diagonal alone exceed the trace."""
    grams = [[np.ones((2, 2)), np.eye(2)], [np.eye(2), np.ones((2, 2))]]
    form = whole(grams, np.ones((2, 1, 1)))
    assert np.sqrt(form.diagonal()).sum() > exact_root(form)
