from math import inf

import numpy as np
import pytest
from scipy import sparse

from mrf_matrix.mechanisms import ZCDP, PureDP, count_cells, measure, reconstruct
from mrf_matrix.mechanisms.measurement.least_squares import estimated_cells, recovered_squares
from strategies.operators import (
    Dense,
    Gram,
    Grouping,
    Identity,
    Kronecker,
    Marginals,
    Product,
    RowKronecker,
    RowScaled,
    RowSpaceError,
    Scaled,
    Sparse,
    Stack,
    memory_cap,
)

SIZES = (2, 3)
RNG = np.random.default_rng(4)
GROUPS = Grouping([0, 1, 0, 2, 3, 2], SIZES)
PATHS = RowKronecker.from_masks([RNG.random((7, 2)) < 0.7, RNG.random((7, 3)) < 0.7])

STRATEGIES = {
    "identity": Identity(6, SIZES),
    "grouping": GROUPS,
    "dense": Dense(RNG.normal(size=(8, 6))),
    "badly conditioned": Dense(RNG.normal(size=(8, 6)) * np.logspace(0, -4, 6)),
    "deficient": Dense(RNG.integers(-2, 3, (8, 3)) @ RNG.integers(-2, 3, (3, 6))),
    "deficient reals": Dense(RNG.normal(size=(8, 3)) @ RNG.integers(-2, 3, (3, 6))),
    "wide": Dense(RNG.normal(size=(3, 6))),
    "sparse": Sparse(sparse.csr_array(np.tri(6))),
    "paths": PATHS,
    "weighted paths": RowScaled(RNG.random(7) + 0.1, PATHS),
    "marginals": Marginals(SIZES, [(0,), (1,)], [0.3, 0.7]),
    "kronecker": Kronecker([Dense(RNG.random((3, 2))), Dense(RNG.random((4, 3)))]),
    "lifted": Product(Dense(RNG.normal(size=(5, 4))), GROUPS),
    "lifted deficient": Product(Dense(RNG.normal(size=(5, 2)) @ RNG.normal(size=(2, 4))), GROUPS),
    "scaled lifted": Scaled(0.25, Product(Dense(RNG.normal(size=(5, 4))), GROUPS)),
    "stack": Stack([Scaled(0.4, Identity(6, SIZES)), Scaled(0.6, PATHS)]),
}


def counts(n=300, k=2):
    codes = np.stack([RNG.integers(0, size, n) for size in SIZES], axis=1)
    return count_cells(codes, RNG.integers(0, k, n), SIZES, k)


@pytest.mark.parametrize("budget", [PureDP(0.5), ZCDP(0.1)])
@pytest.mark.parametrize("name", STRATEGIES)
def test_estimates_are_least_squares(name, budget):
    strategy = STRATEGIES[name]
    release = measure(strategy, counts(), budget, noise="research", random_state=1)
    rows = np.random.default_rng(len(name)).integers(-2, 3, (9, strategy.shape[0]))
    workload = rows @ strategy.to_dense()
    solved = release.mechanism.rounded.recovery.to_dense()
    expected = workload @ (np.linalg.pinv(solved, rcond=1e-9) @ release.answers)
    scale = np.abs(expected).max()
    assert reconstruct(release, workload) == pytest.approx(expected, rel=1e-4, abs=1e-4 * scale)
    for form in (sparse.csr_array(workload), Dense(workload), workload.tolist()):
        assert np.allclose(reconstruct(release, form), reconstruct(release, workload))


NO_INTEGERS = {"deficient reals", "wide", "lifted deficient", "weighted paths", "marginals"}
"""Row spaces of which no workload of integers is known."""


@pytest.mark.parametrize("name", [one for one in STRATEGIES if one not in NO_INTEGERS])
def test_without_noise_integer_workloads_are_exact(name):
    strategy = STRATEGIES[name]
    data = counts()
    release = measure(strategy, data, PureDP(inf))
    matrix = strategy.to_dense()
    if np.linalg.matrix_rank(matrix, tol=1e-9) == 6:
        workload = RNG.integers(0, 3, (9, 6))
    elif "lifted" in name and "deficient" not in name:
        workload = RNG.integers(0, 3, (9, 4)) @ GROUPS.to_dense().astype(int)
    else:
        assert np.array_equal(matrix, np.rint(matrix))
        workload = RNG.integers(0, 3, (9, len(matrix))) @ matrix.astype(int)
    table = data.answers(Identity(6, SIZES))
    assert np.array_equal(reconstruct(release, workload), workload @ table)


@pytest.mark.parametrize("name", STRATEGIES)
def test_row_errors_are_those_of_the_pseudo_inverse(name):
    strategy = STRATEGIES[name]
    workload = RNG.integers(-2, 3, (9, strategy.shape[0])) @ strategy.to_dense()
    inverse = np.linalg.pinv(strategy.to_dense(), rcond=1e-9)
    expected = ((workload @ inverse) ** 2).sum(axis=1)
    assert recovered_squares(Dense(workload), strategy) == pytest.approx(expected, rel=1e-6)


DETERMINED_NOT = [
    name
    for name, strategy in STRATEGIES.items()
    if np.linalg.matrix_rank(strategy.to_dense(), tol=1e-9) < 6
]


@pytest.mark.parametrize("name", DETERMINED_NOT)
def test_rows_outside_the_row_space_are_named(name):
    strategy = STRATEGIES[name]
    release = measure(strategy, counts(), PureDP(1), noise="research", random_state=0)
    workload = RNG.integers(1, 3, (5, strategy.shape[0])) @ strategy.to_dense()
    outside = np.linalg.svd(strategy.to_dense())[2][-1]
    workload[3] += 0.01 * np.abs(workload[3]).max() * outside
    with pytest.raises(RowSpaceError, match=r"1 of the workload's 5 rows \(rows 3\)"):
        reconstruct(release, workload)


def test_domains_out_of_reach_are_answered_by_rule():
    sizes = (10,) * 25
    codes = RNG.integers(0, 10, (100, 25))
    data = count_cells(codes, np.zeros(100, dtype=int), sizes, 1)
    pair = Marginals(sizes, [(0, 1)], [1])
    release = measure(pair, data, PureDP(inf))
    masks = [np.eye(10, dtype=bool)] + [np.ones((10, 10), dtype=bool)] * 24
    one = RowKronecker.from_masks(masks)
    assert np.array_equal(reconstruct(release, one)[:, 0], np.bincount(codes[:, 0], minlength=10))
    other = RowKronecker.from_masks(masks[1:] + masks[:1])
    with pytest.raises(RowSpaceError):
        reconstruct(release, other)


def test_paths_over_domains_out_of_reach():
    """A = W = T, by row Grams alone."""
    sizes = (10,) * 25
    codes = RNG.integers(0, 10, (100, 25))
    data = count_cells(codes, np.zeros(100, dtype=int), sizes, 1)
    masks = [np.eye(10, dtype=bool)] + [np.ones((10, 10), dtype=bool)] * 24
    paths = RowKronecker.from_masks(masks, groups=np.zeros(10, dtype=int))
    release = measure(paths, data, PureDP(inf))
    assert release.sensitivity == 1
    counted = np.bincount(codes[:, 0], minlength=10)
    assert np.array_equal(reconstruct(release, paths)[:, 0], counted)


def test_memory_is_checked_first():
    release = measure(Identity(6, SIZES), counts(), PureDP(1), noise="research")
    with memory_cap(1000), pytest.raises(ValueError, match="memory cap"):
        reconstruct(release, np.ones((200, 6)))


@pytest.mark.parametrize(
    ("workload", "error"),
    [
        (np.ones((2, 5)), ValueError),
        (np.ones(6), ValueError),
        (np.full((1, 6), np.nan), ValueError),
        ("paths", (TypeError, ValueError)),
        (None, (TypeError, ValueError)),
        (np.ones((0, 6)), ValueError),
        (np.ones((2, 6)) * 1j, TypeError),
    ],
)
def test_bad_workloads(workload, error):
    release = measure(Identity(6, SIZES), counts(), PureDP(1), noise="research")
    with pytest.raises(error):
        reconstruct(release, workload)


def test_a_gram_is_no_workload_to_answer():
    release = measure(Identity(6, SIZES), counts(), PureDP(1), noise="research")
    with pytest.raises((TypeError, ValueError)):
        reconstruct(release, Gram(np.eye(6)))


def test_only_releases_are_reconstructed():
    with pytest.raises(TypeError, match="expected a Release"):
        reconstruct(np.ones((6, 2)), np.eye(6))


def test_factors_are_kept_between_releases():
    strategy = Dense(RNG.normal(size=(30, 6)))
    first = estimated_cells(strategy, np.ones((30, 1)))
    from mrf_matrix.mechanisms.measurement.least_squares import _FACTORS

    kept = _FACTORS[strategy]
    assert np.array_equal(estimated_cells(strategy, np.ones((30, 1))), first)
    assert _FACTORS[strategy] is kept
    size = len(_FACTORS)
    del strategy
    assert len(_FACTORS) == size - 1
