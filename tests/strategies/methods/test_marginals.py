"""Marginals: the algebra against dense matrices, gradients, optima, candidates; HDMM's beside."""

from itertools import combinations

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, sparse

import strategies
from strategies import Problem, Search, evaluate, examples, select
from strategies.methods.marginals.algebra import (
    LatticeCover,
    SparseCover,
    candidate_sets,
    dealt,
    equal_loss,
    expanded_energies,
    gram_energies,
    group_designs,
    make_cover,
    marginals_loss,
    subset_sum,
    superset_sum,
)
from strategies.methods.marginals.marginals import known_starts
from strategies.methods.marginals.optimiser import log_loss, optimise
from strategies.operators import (
    Dense,
    Identity,
    Marginals,
    Product,
    RowKronecker,
    Sparse,
    memory_cap,
)
from strategies.operators.masks.energies import structure_energies

FAMILY = strategies.marginals()


def workload_energies(workload):
    return expanded_energies(workload, structure_energies(workload))


def random_paths(sizes, trees, depth, seed):
    """Grow multi-way trees at random and return their leaves."""
    rng = np.random.default_rng(seed)
    paths, groups = [], []
    for tree in range(trees):
        stack = [np.full(len(sizes), -1)]
        while stack:
            path = stack.pop()
            if (path >= 0).sum() == min(depth, len(sizes)):
                paths.append(path)
                groups.append(tree)
                continue
            chosen = rng.choice(np.flatnonzero(path < 0))
            for code in range(sizes[chosen]):
                child = path.copy()
                child[chosen] = code
                stack.append(child)
    table = np.array(paths)
    masks = [(table[:, [i]] == np.arange(s)) | (table[:, [i]] < 0) for i, s in enumerate(sizes)]
    return RowKronecker.from_masks(masks, np.array(groups))


def dense_loss(workload, matrix, norm):
    """Evaluate the definition with dense matrices."""
    order = 1 if norm == "l1" else 2
    norms = np.linalg.norm(matrix, ord=order, axis=0)
    return norms.max() ** 2 * np.sum((workload @ np.linalg.pinv(matrix)) ** 2)


SMALL = (3, 2, 3)
EVERY = (np.arange(8)[:, None] >> np.arange(3) & 1).astype(bool)


@pytest.mark.parametrize("d", [1, 2, 5])
def test_lattice_sums_match_brute_force(d):
    values = np.random.default_rng(d).normal(size=1 << d)
    numbers = np.arange(1 << d)
    contains = (numbers[:, None] & ~numbers[None, :]) == 0  # [U, S]: U inside S
    np.testing.assert_allclose(superset_sum(values, d), contains @ values)
    np.testing.assert_allclose(subset_sum(values, d), values @ contains)


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("mixed", [False, True])
def test_loss_is_the_definition(norm, mixed):
    rng = np.random.default_rng(0)
    workload = random_paths(SMALL, 3, 2, 0)
    if mixed:
        mix = rng.integers(0, 3, size=(4, workload.shape[0]))
        workload = Product(Sparse(sparse.csr_array(mix.astype(float))), workload)
    energies = workload_energies(workload)
    weights = rng.uniform(size=8)
    cover = make_cover(energies, EVERY)
    sets = [tuple(np.flatnonzero(row)) for row in EVERY]
    matrix = Marginals(SMALL, sets, weights)
    expected = dense_loss(workload.to_dense(), matrix.to_dense(), norm)
    assert marginals_loss(weights, cover, energies, norm) == pytest.approx(expected)
    assert evaluate(workload, matrix, norm).loss == pytest.approx(expected)


def test_energies_by_rows_and_by_gram_agree():
    workload = random_paths(SMALL, 4, 2, 1)
    rows = workload_energies(workload)
    gram = gram_energies(workload.gram_dense(), SMALL)
    by_set = {row.tobytes(): value for row, value in zip(gram.sets, gram.values, strict=True)}
    assert len(by_set) == len(rows.values)
    for row, value in zip(rows.sets, rows.values, strict=True):
        assert by_set[row.tobytes()] == pytest.approx(value)


def test_a_dense_workload_over_a_product_domain_goes_through_its_gram():
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(4, 18))
    energies = workload_energies(Sparse(sparse.csr_array(dense), SMALL))
    assert energies.values.sum() * 18 == pytest.approx(np.sum(dense**2))
    assert workload_energies(Dense(dense)) is None


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_gradient_by_finite_differences(norm):
    energies = workload_energies(random_paths(SMALL, 4, 2, 2))
    cover = make_cover(energies, EVERY)
    point = np.random.default_rng(1).uniform(0.1, 1, size=8)
    gradient = log_loss(point, cover, energies.values, norm)[1]
    numeric = optimize.approx_fprime(
        point, lambda x: log_loss(x, cover, energies.values, norm)[0], 1e-7
    )
    np.testing.assert_allclose(gradient, numeric, atol=1e-5)
    assert not np.allclose(1.01 * gradient, numeric, atol=1e-5)  # the check can fail


def test_both_forms_of_a_cover_agree():
    energies = workload_energies(random_paths((2,) * 6, 5, 3, 0))
    every = (np.arange(64)[:, None] >> np.arange(6) & 1).astype(bool)
    explicit = make_cover(energies, every)
    assert isinstance(explicit, SparseCover)
    numbers = 1 << np.arange(6)
    lattice = LatticeCover(6, every @ numbers, energies.sets @ numbers, 0.5 ** every.sum(axis=1))
    rng = np.random.default_rng(0)
    squares, gradient = rng.uniform(size=64), rng.normal(size=len(energies.values))
    np.testing.assert_allclose(explicit.eigenvalues(squares), lattice.eigenvalues(squares))
    np.testing.assert_allclose(explicit.pull(gradient), lattice.pull(gradient))
    index = np.array([3, 60, 63])
    part = explicit.columns_of(index)
    other = lattice.columns_of(index)
    np.testing.assert_allclose(part.eigenvalues(squares[:3]), other.eigenvalues(squares[:3]))


def test_gaussian_weights_are_optimal():
    """Compared with a generic constrained solver, and with the gap that is reported."""
    energies = workload_energies(random_paths(SMALL, 4, 2, 3))
    found = optimise(energies, EVERY, "l2", np.random.default_rng(0), 1.0)
    cover = make_cover(energies, EVERY)
    result = optimize.minimize(
        lambda t: np.sum(energies.values / cover.eigenvalues(t)),
        np.full(8, 1 / 8),
        bounds=[(1e-9, None)] * 8,
        constraints={"type": "eq", "fun": lambda t: t.sum() - 1},
        method="SLSQP",
        options={"ftol": 1e-12, "maxiter": 500},
    )
    assert found.gap < 1e-4
    assert found.loss <= result.fun * (1 + 1e-5)
    assert found.loss >= result.fun * (1 - 1e-3)


def test_laplace_weights_match_a_search_over_many_starts():
    energies = workload_energies(random_paths(SMALL, 4, 2, 3))
    cover = make_cover(energies, EVERY)
    rng = np.random.default_rng(0)
    losses = [
        optimize.minimize(
            log_loss,
            rng.uniform(size=8),
            args=(cover, energies.values, "l1"),
            jac=True,
            bounds=[(0, None)] * 8,
        ).fun
        for _ in range(200)
    ]
    found = optimise(energies, EVERY, "l1", np.random.default_rng(0), 0.5)
    assert np.log(found.loss) <= min(losses) + 1e-4


def test_candidates_must_contain_every_component():
    energies = workload_energies(random_paths(SMALL, 4, 2, 3))
    with pytest.raises(ValueError, match="do not contain every component"):
        optimise(energies, EVERY[:4], "l1", np.random.default_rng(0), 0.1)


def test_generated_candidates_contain_every_path():
    workload = random_paths((2,) * 40, 20, 3, 0)
    energies = workload_energies(workload)
    candidates = candidate_sets(energies, limit=500)
    outside = energies.sets.astype(int) @ (~candidates).T.astype(int)
    assert (outside == 0).any(axis=1).all()
    assert len(np.unique(candidates, axis=0)) == len(candidates)
    assert (candidates.sum(axis=1) > 3).any()  # unions, not only the paths' own sets


def search_of(seed, work=0.3, starts=()):
    return Search(tuple(starts), np.random.default_rng(seed), work)


def test_family_is_deterministic_and_never_loses_to_the_identity():
    problem = Problem.of(random_paths((2, 3, 2, 2), 6, 3, 0))
    first = FAMILY.search(problem, search_of(7))
    again = FAMILY.search(problem, search_of(7))
    assert first == again or (first.attribute_sets, first.weights) == (
        again.attribute_sets,
        again.weights,
    )
    identity = evaluate(problem.workload, Identity(24)).loss
    assert evaluate(problem.workload, first).loss <= identity * (1 + 1e-9)


def test_a_longer_search_is_never_worse():
    problem = Problem.of(random_paths((3, 4, 2, 3, 2), 12, 3, 5))
    found = [FAMILY.search(problem, search_of(3, work)) for work in (0.02, 0.1, 0.5)]
    losses = [evaluate(problem.workload, one).loss for one in found]
    assert losses == sorted(losses, reverse=True)


def test_family_starts_from_marginals_found_before():
    problem = Problem.of(random_paths(SMALL, 4, 2, 3))
    found = FAMILY.search(problem, search_of(0))
    energies = workload_energies(problem.workload)
    (start,) = known_starts((found, Identity(18)), energies, EVERY)
    assert start.sum() == pytest.approx(sum(found.weights))
    assert FAMILY.search(problem, search_of(1, 0.01, [found])).uniform_column_norm("l1") > 0


def test_family_serves_only_workloads_with_attributes():
    assert not FAMILY.serves(Problem.of(np.eye(4)))
    assert FAMILY.serves(Problem.of(random_paths(SMALL, 2, 2, 0)))
    wide = RowKronecker.from_masks([np.eye(2, dtype=bool)[[0]]] * 40)
    assert not FAMILY.serves(Problem.of(wide))


def test_heart_forest_of_ten_million_cells():
    sizes = (5, 2, 4, 5, 5, 2, 3, 5, 2, 5, 3, 4, 3)
    workload = random_paths(sizes, 128, 2, 0)
    energies = workload_energies(workload)
    found = optimise(energies, candidate_sets(energies), "l1", np.random.default_rng(0), 1.0)
    assert found.loss < 3.0e6  # Laplace 2.8e7, Identity 1.4e9
    assert (found.weights > 0).sum() < 60


@given(st.data())
def test_reported_loss_is_the_dense_loss(data):
    sizes = tuple(data.draw(st.lists(st.integers(1, 3), min_size=2, max_size=3)))
    seed = data.draw(st.integers(0, 10**6))
    norm = data.draw(st.sampled_from(["l1", "l2"]))
    workload = random_paths(sizes, 2, data.draw(st.integers(0, 2)), seed)
    matrix = FAMILY.search(Problem.of(workload, norm), search_of(seed, 0.02))
    expected = dense_loss(workload.to_dense(), matrix.to_dense(), norm)
    assert evaluate(workload, matrix, norm).loss == pytest.approx(expected)


@pytest.mark.parametrize(("sizes", "order"), [((2,) * 6, 2), ((3, 2, 5, 2), 1), ((2, 3, 2), 3)])
def test_losses_are_those_of_the_matrices(sizes: tuple[int, ...], order: int) -> None:
    workload = examples.marginals(sizes, order)
    energies = structure_energies(workload)
    assert energies is not None
    designs = group_designs(energies)
    assert designs
    for sets in designs:
        chosen = [tuple(map(int, np.flatnonzero(row))) for row in sets]
        matrix = Marginals(sizes, chosen, [1.0] * len(chosen))
        assert equal_loss(energies, sets) == pytest.approx(evaluate(workload, matrix).loss)


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_every_attribute_is_dealt_once(count: int) -> None:
    groups = dealt((7, 2, 2, 5, 3), count)
    assert (groups.sum(axis=0) == 1).all()
    assert groups.any(axis=1).all()


@pytest.mark.parametrize(
    ("size", "d", "order", "below"), [(2, 12, 3, 0.86), (4, 12, 3, 0.045), (2, 20, 2, 0.01)]
)
def test_a_second_is_enough(size: int, d: int, order: int, below: float) -> None:
    """Most of what long searches find, as a share of the Identity's loss."""
    workload = examples.marginals((size,) * d, order)
    found = select(workload, "l1", random_state=0, time_limit=1.0)
    assert found.loss < below * workload.shape[0] * (size**d / size**order)


def test_tables_stay_within_the_memory_cap() -> None:
    energies = structure_energies(examples.marginals((2,) * 16, 2))
    assert energies is not None
    with memory_cap(2**16):
        assert max(2 ** sets.sum(axis=1).max() for sets in group_designs(energies)) <= 2**9


def hdmm_marginals(sizes: tuple[int, ...], sets: list[tuple[int, ...]], starts: int) -> float:
    """Return the best of local searches over weights of all 2^d marginals, each a dense descent.

    ``min (Σ θ)² Σ_U w_U / Σ_{S ⊇ U} θ_S²/n_S`` with ``w_U = Σ_{S ⊇ U} Π_U (n_i - 1) / n_S`` over
    the workload's tables S.
    """
    d = len(sizes)
    every = [set(c) for k in range(d + 1) for c in combinations(range(d), k)]
    cells = np.array([float(np.prod([sizes[i] for i in s])) for s in every])
    inside = np.array([[u <= s for s in every] for u in every])
    asked = np.array([tuple(sorted(s)) in sets for s in every])
    ranks = np.array([float(np.prod([sizes[i] - 1 for i in u])) for u in every])
    energies = ranks * (inside @ (asked / cells))
    used = energies > 0
    share, energies = (inside / cells)[used], energies[used]

    def log_loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        values = share @ weights**2
        error, cost = np.sum(energies / values), weights.sum()
        slope = -2 * weights * ((energies / values**2) @ share)
        return 2 * np.log(cost) + np.log(error), 2 / cost + slope / error

    rng = np.random.default_rng(0)
    found = [
        scipy.optimize.minimize(
            log_loss, start, jac=True, method="L-BFGS-B", bounds=[(1e-9, None)] * len(every)
        )
        for start in (np.ones(len(every)), *rng.random((starts - 1, len(every))))
    ]
    return float(np.exp(min(one.fun for one in found)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "order"), [((2,) * 6, 2), ((2,) * 7, 3), ((5, 8, 3, 7, 6), 2), ((2, 9, 2, 9), 3)]
)
def test_never_above_the_marginals_of_hdmm(sizes: tuple[int, ...], order: int) -> None:
    workload = examples.marginals(sizes, order)
    assert isinstance(workload, Marginals)
    known = hdmm_marginals(sizes, list(workload.attribute_sets), 5)
    found = select(workload, "l1", random_state=0, time_limit=1.0)
    assert found.loss <= known * (1 + 1e-6)


def test_the_oracle_knows_the_loss_of_the_tables_alone() -> None:
    """One attribute: θ on the table and on the total, on a grid."""
    shares = np.linspace(0.001, 0.999, 999)
    losses = [
        evaluate(np.eye(3), np.vstack([s * np.eye(3), np.full((1, 3), 1 - s)])).loss for s in shares
    ]
    assert hdmm_marginals((3,), [(0,)], 3) == pytest.approx(min(losses), rel=1e-2)
