"""Solvers of constrained tables, answers of nodes, and stacks that are kept."""

import numpy as np
import pytest
from scipy.optimize import minimize, nnls

from mrf_matrix.compilation import path_matrix
from mrf_matrix.domain import Domain
from mrf_matrix.forests import PureTrees, RandomTrees
from mrf_matrix.mechanisms import PureDP, calibrate, count_cells, measure, row_variances
from mrf_matrix.reconstruction import (
    estimate,
    nonnegative_least_squares,
    project_to_simplex,
    shrink_leaves,
    with_known_totals,
)
from mrf_matrix.reconstruction import feasible_tables as active_cells
from mrf_matrix.reconstruction import feasible_tables as projected_descent
from mrf_matrix.reconstruction.estimate import KEPT_STACKS, pool_releases
from mrf_matrix.reconstruction.feasible_tables import (
    FeasibleTables,
    constrained_least_squares,
    minimise_by_exchange,
)
from mrf_matrix.reconstruction.shrinkage import (
    _own_noise,
    answers_from_leaves,
    answers_from_releases,
    leaf_sums,
    node_matrix,
    parts_of_parents,
)
from strategies.operators import Dense, Identity, RowKronecker, Scaled, Stack, memory_cap

SIZES = (4, 5)
RNG = np.random.default_rng(2)
CODES = np.stack([RNG.integers(0, 2, 40), RNG.integers(0, 3, 40)], axis=1)  # sparse: 6 of 20 cells
LABELS = (CODES[:, 0] + RNG.integers(0, 2, 40)) % 2
COUNTS = count_cells(CODES, LABELS, SIZES, 2)
TABLE = np.zeros((20, 2))
np.add.at(TABLE, (CODES @ [5, 1], LABELS), 1)


HALF = PureDP(0.5)


def draw(strategy, seed=0, budget=HALF, counts=COUNTS):
    return measure(strategy, counts, budget, noise="research", random_state=seed)


def test_descent_agrees_with_a_general_solver():
    matrix, answers = RNG.normal(size=(9, 4)), RNG.normal(size=(9, 1)) * 3
    found = constrained_least_squares(Dense(matrix), answers, FeasibleTables(np.array([2.0])), 1e-3)
    other = minimize(
        lambda x: np.square(matrix @ x - answers[:, 0]).sum(),
        np.full(4, 0.5),
        bounds=[(0, None)] * 4,
        constraints={"type": "eq", "fun": lambda x: x.sum() - 2},
        options={"ftol": 1e-14},
    )
    assert found[:, 0] == pytest.approx(other.x, abs=1e-5)


def badly_conditioned(seed):
    """Return an integer strategy that hardly measures what most cells differ by."""
    generator = np.random.default_rng(seed)
    return np.vstack([10_000 * generator.integers(0, 2, (12, 20)), np.eye(20, dtype=int)])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("known", [{}, {"class_totals": TABLE.sum(axis=0)}, {"total": 40}])
def test_badly_conditioned_strategies_are_exact_too(seed, known, monkeypatch):
    """Where the descent is slow cells are exchanged; the oracle pins totals by a heavy row."""
    matrix = badly_conditioned(seed)
    monkeypatch.setattr(projected_descent, "STEPS", projected_descent.FEW_STEPS)
    release = draw(matrix, seed)
    found = nonnegative_least_squares(release, np.eye(20), **known).values
    if "total" in known:
        rows, answers = np.kron(matrix, np.eye(2)), release.answers.reshape(-1, 1)
    else:
        rows, answers = matrix, release.answers
    heavy = 1e9 * np.ones((1, rows.shape[1]))
    sums = 1e9 * np.atleast_2d(next(iter(known.values()), 0.0))
    if known:
        rows, answers = np.vstack([rows, heavy]), np.vstack([answers, sums])
    cells = np.stack([nnls(rows, column)[0] for column in answers.T], axis=1).reshape(20, 2)
    allowed = 2e-3 * np.sqrt(row_variances(release, np.eye(20)))[:, None] + 1e-6
    assert (np.abs(found - cells) < allowed).all()
    assert np.linalg.cond(matrix / np.linalg.norm(matrix, axis=0)) > 1e4


def test_exchanges_find_the_best_of_all_supports():
    for seed in range(20):
        generator = np.random.default_rng(seed)
        matrix, answers = generator.normal(size=(6, 4)), generator.normal(size=(6, 2)) * 3
        gram, right = matrix.T @ matrix, matrix.T @ answers
        for tables in (
            FeasibleTables(),
            FeasibleTables(np.array([2.0, 0.0])),
            FeasibleTables(np.array([3.0]), shared=True),
        ):
            start = tables.project(generator.normal(size=(4, 2)), np.ones(4))
            found = minimise_by_exchange(gram, right, tables, start, 0.0)
            assert found.min() >= 0
            assert found == pytest.approx(tables.meet_totals(found))
            slope = gram @ found - right
            assert tables.gap(found, slope) == pytest.approx(0, abs=1e-9)
            worse = tables.gap(start, gram @ start - right)  # negative control
            assert worse > 1e-3
            if tables.sums is not None or (found.sum(axis=0) <= 2 * start.sum(axis=0)).all():
                assert np.square(matrix @ (start - found)).sum() / 2 <= worse + 1e-9


def test_exchanges_end_after_the_work_they_may_take(monkeypatch):
    monkeypatch.setattr(active_cells, "MOST_WORK", 0)
    start = np.ones((4, 1))
    found = minimise_by_exchange(np.eye(4), -np.ones((4, 1)), FeasibleTables(), start, 0.0)
    assert np.array_equal(found, start)


# Stacks of releases -------------------------------------------------------------------------------

STACKED_SIZES = (2, 3)
STACKED_RNG = np.random.default_rng(8)
STACKED_CODES = np.stack([STACKED_RNG.integers(0, size, 60) for size in STACKED_SIZES], axis=1)
STACKED_LABELS = STACKED_RNG.integers(0, 2, 60)
STACKED_COUNTS = count_cells(STACKED_CODES, STACKED_LABELS, STACKED_SIZES, 2)
STACKED_TABLE = np.zeros((6, 2))
np.add.at(STACKED_TABLE, (STACKED_CODES @ [3, 1], STACKED_LABELS), 1)

IDENTITY = Identity(6, STACKED_SIZES)


def stacked_draw(parts, seed=None, counts=STACKED_COUNTS):
    generator = np.random.default_rng(seed)
    return [
        measure(part, counts, noise="research", random_state=generator.integers(2**60))
        for part in parts
    ]


def test_a_stack_is_kept_for_the_next_draw_and_not_for_ever():
    lasting = calibrate(IDENTITY, PureDP(1))
    others = [calibrate(Dense(np.eye(6)[:2] * (i + 1)), PureDP(1)) for i in range(KEPT_STACKS + 2)]
    stacks = [pool_releases(stacked_draw([lasting, other], 0)).matrix for other in others]
    assert pool_releases(stacked_draw([lasting, others[-1]], 1)).matrix is stacks[-1]
    assert estimate._stack.cache_info().currsize == KEPT_STACKS
    assert pool_releases(stacked_draw([lasting, others[0]], 1)).matrix is not stacks[0]


def test_totals_where_iterations_fail_and_memory_is_short(monkeypatch):
    """The dense route and the inner products of rows give the weights of the iterations."""
    generator = np.random.default_rng(0)
    masks = [np.ones((40, 4), dtype=bool) for _ in range(6)]
    for row in range(40):
        masks[generator.integers(6)][row] = np.arange(4) <= generator.integers(4)
    paths = RowKronecker.from_masks(masks)
    strategy = Stack([paths, RowKronecker.from_masks([np.ones((1, 4))] * 6)])
    codes = generator.integers(0, 4, (200, 6))
    counts = count_cells(codes, np.zeros(200, int), (4,) * 6, 1)
    release = measure(strategy, counts, PureDP(1), noise="research", random_state=0)
    expected = with_known_totals(release, paths, class_totals=[200])
    monkeypatch.setattr(estimate, "_solve_by_lsqr", lambda pool, m, n: np.zeros(m))
    dense = with_known_totals(release, paths, class_totals=[200])
    with memory_cap(500_000):
        implicit = with_known_totals(release, paths, class_totals=[200])
    for found in (dense, implicit):
        assert found.values == pytest.approx(expected.values, rel=1e-8)
        assert found.variances == pytest.approx(expected.variances, rel=1e-6, abs=1e-8)


# Shrinkage by its parts ---------------------------------------------------------------------------

SHRUNK_SIZES = (3, 4, 2)
DOMAIN = Domain.from_sizes(SHRUNK_SIZES)
FORESTS = {
    "multiway": RandomTrees(n_trees=5, max_depth=2).grow(DOMAIN, random_state=0),
    "binary": RandomTrees(n_trees=4, max_depth=3, splits="binary").grow(DOMAIN, random_state=1),
    "pure": PureTrees(n_trees=3, n_leaves=6).grow(DOMAIN, random_state=2),
    "stump": RandomTrees(n_trees=1, max_depth=1, attributes=[1]).grow(DOMAIN),
}
SHRUNK_RNG = np.random.default_rng(0)
SHRUNK_CODES = np.stack([SHRUNK_RNG.integers(0, size, 200) for size in SHRUNK_SIZES], axis=1)
SHRUNK_LABELS = np.where(
    SHRUNK_RNG.random(200) < 0.8, SHRUNK_CODES[:, 0], SHRUNK_RNG.integers(0, 3, 200)
)
SHRUNK_COUNTS = count_cells(SHRUNK_CODES, SHRUNK_LABELS, SHRUNK_SIZES, 3)
CELLS = Identity(24, SHRUNK_SIZES)
EVERYTHING = RowKronecker.from_masks([np.ones((1, size), dtype=bool) for size in SHRUNK_SIZES])
WITH_TOTALS = Stack([Scaled(4, CELLS), EVERYTHING])


def shrunk_draw(strategy, epsilon=0.5, seed=0, counts=SHRUNK_COUNTS):
    return measure(strategy, counts, PureDP(epsilon), noise="research", random_state=seed)


def leaves_below(forest, node):
    """Return the leaves below a node by walking."""
    if forest.attribute[node] < 0:
        return [int(forest.leaf_index[node])]
    first = forest.first_child[node]
    children = range(first, first + forest.n_children[node])
    return [leaf for child in children for leaf in leaves_below(forest, child)]


@pytest.mark.parametrize("name", FORESTS)
def test_nodes_are_their_leaves_together(name):
    forest = FORESTS[name]
    paths = path_matrix(forest).to_dense()
    expected = np.stack([paths[leaves_below(forest, v)].sum(axis=0) for v in range(forest.n_nodes)])
    assert np.array_equal(node_matrix(forest).to_dense(), expected)
    assert np.array_equal(leaf_sums(forest) @ paths, expected)
    cells = expected.sum(axis=1)
    above = np.where(forest.parent < 0, cells, cells[np.maximum(forest.parent, 0)])
    assert parts_of_parents(forest) == pytest.approx(cells / above)


@pytest.mark.parametrize("name", FORESTS)
def test_node_answers_carry_exact_variances(name):
    forest, release = FORESTS[name], shrunk_draw(WITH_TOTALS)
    found = answers_from_releases(forest, release)
    inverse = np.linalg.pinv(WITH_TOTALS.to_dense())
    recovered = node_matrix(forest).to_dense() @ inverse
    assert found.counts == pytest.approx(recovered @ release.answers)
    assert found.variances == pytest.approx(release.variance * (recovered**2).sum(axis=1))
    direct = answers_from_leaves(forest, found.counts[forest.leaves], 2.0)
    assert direct.counts == pytest.approx(found.counts)
    assert direct.variances == pytest.approx(2.0 * np.diff(leaf_sums(forest).indptr))


def recursion(forest, nodes, noise_share=1.0, sampling=False):
    """Compute the same by loops over nodes, straight from the formulas of the module."""
    count, k = forest.n_nodes, nodes.counts.shape[1]
    totals, shares = np.zeros(count), np.zeros((count, k))
    heavy, light = np.ones(count), np.zeros(count)

    def noise_beyond(v, factor):
        up = forest.parent[v]
        first = forest.first_child[up]
        siblings = nodes.variances[first : first + forest.n_children[up]].sum()
        shared = nodes.variances[v] * nodes.variances[up] / siblings if siblings else 0.0
        return nodes.variances[v] - 2 * factor * shared + factor**2 * nodes.variances[up]

    for level in forest.levels:
        if level[0] in forest.roots:
            totals[level] = np.maximum(nodes.counts[level].sum(axis=1), 0)
            continue
        rest, noise, spread = {}, {}, {}
        for v in level:
            up, q = forest.parent[v], nodes.parts[v]
            rest[v] = nodes.counts[v].sum() - q * totals[up]
            noise[v] = k * noise_beyond(v, q * heavy[up])
            spread[v] = totals[up] ** 2 * q * (1 - q)
        scale = sum(spread.values())
        signal = max(0, sum(rest[v] ** 2 - noise[v] for v in level) / scale) if scale else 0
        for v in level:
            strong, weak = signal * spread[v], noise_share * noise[v]
            heavy[v] = strong / (strong + weak) if weak > 0 else 1
            totals[v] = max(0, nodes.parts[v] * totals[forest.parent[v]] + heavy[v] * rest[v])
        for up in np.unique(forest.parent[level]):
            below = np.arange(
                forest.first_child[up], forest.first_child[up] + forest.n_children[up]
            )
            known = totals[below].sum()
            given = totals[up]
            totals[below] = totals[below] * given / known if known else nodes.parts[below] * given
    for level in forest.levels:
        rest, noise, base = {}, {}, {}
        for v in level:
            up = forest.parent[v]
            base[v] = np.full(k, 1 / k) if up < 0 else shares[up]
            rest[v] = nodes.counts[v] - nodes.counts[v].sum() * base[v]
            part = totals[v] / totals[up] if up >= 0 and totals[up] else 0
            own = nodes.variances[v] if up < 0 else noise_beyond(v, part * light[up])
            # variance of (ε - p Σε)_c is 1 - 2p + kp²: its mean over classes
            noise[v] = own * np.mean([1 - 2 * p + k * p * p for p in base[v]])
            if sampling:
                noise[v] += totals[v] * np.mean(base[v] * (1 - base[v]))
        excess = sum(np.mean(rest[v] ** 2) - noise[v] for v in level)
        scale = sum(totals[v] ** 2 for v in level)
        signal = min(max(0, excess / scale), 1) if scale else 0
        for v in level:
            strong, weak = signal * totals[v] ** 2, noise_share * noise[v]
            light[v] = strong / (strong + weak) if weak > 0 else 1
            moved = light[v] * rest[v] / totals[v] if totals[v] else 0
            shares[v] = project_to_simplex(base[v] + moved)
    return totals[:, None] * shares, shares, light


@pytest.mark.parametrize("sampling", [False, True])
@pytest.mark.parametrize("share", [1.0, 0.3])
@pytest.mark.parametrize("name", FORESTS)
def test_against_the_recursion(name, share, sampling):
    forest = FORESTS[name]
    for seed, epsilon in enumerate((0.2, 3)):
        release = shrunk_draw(WITH_TOTALS, epsilon, seed)
        values, shares, weights = recursion(
            forest, answers_from_releases(forest, release), share, sampling
        )
        found = shrink_leaves(forest, release, noise_share=share, sampling_variance=sampling)
        assert found.values == pytest.approx(values[forest.leaves], abs=1e-7)
        assert found.shares == pytest.approx(shares[forest.leaves], abs=1e-9)
        assert found.weights == pytest.approx(weights, abs=1e-9)
        assert found.expected_error is None
        assert "depends on the data" in found.note


def test_the_noise_of_a_child_beyond_its_parent_is_exact():
    """Independent leaves of unequal variances under one root: by simulation and by algebra."""
    forest = FORESTS["stump"]
    variances = np.array([1.0, 4.0, 9.0, 2.0])
    nodes = answers_from_leaves(forest, np.zeros((4, 1)), variances)
    level = forest.levels[1]
    part, weight = np.array([0.1, 0.4, 0.3, 0.2]), np.full(4, 0.7)
    found = _own_noise(forest, nodes.variances, level, part, weight)
    noise = np.random.default_rng(0).normal(size=(20000, 4)) * np.sqrt(variances)
    rest = noise - part * weight * noise.sum(axis=1, keepdims=True)
    assert found == pytest.approx(rest.var(axis=0), rel=0.05)
    assert found != pytest.approx(variances, rel=0.05)  # negative control: noise not shared
