"""Trees, blocks and wavelets of the literature: their rows, closed forms and best weights."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strategies
from strategies import evaluate, examples, select

NORMS = ("l1", "l2")
HAAR = [
    [1, 1, 1, 1, 1, 1, 1, 1],
    [1, 1, 1, 1, -1, -1, -1, -1],
    [1, 1, -1, -1, 0, 0, 0, 0],
    [0, 0, 0, 0, 1, 1, -1, -1],
    *np.kron(np.eye(4), [1, -1]).tolist(),
]


def sorted_rows(matrix: np.ndarray) -> list[list[float]]:
    return sorted(matrix.round(9).tolist())


@pytest.mark.parametrize("norm", NORMS)
def test_equal_trees_are_the_published_ones(norm: str) -> None:
    """All nodes of the tree, each once: written out as matrices."""
    family = strategies.tree(branching=2, weighted=False)
    found = select(examples.prefix_sums(8), norm, method=family)
    nodes = [np.kron(np.eye(8 // k), np.ones((1, k))) for k in (1, 2, 4, 8)]
    scaled = found.matrix.to_dense() / found.matrix.to_dense().max()
    assert sorted_rows(scaled) == sorted_rows(np.vstack(nodes))
    published = {"l1": 2840.0, "l2": None}[norm]
    if published is not None:
        wide = select(examples.prefix_sums(64), norm, method=family)
        assert wide.loss == pytest.approx(published, abs=1)


@pytest.mark.parametrize("norm", NORMS)
def test_equal_wavelets_are_the_published_ones(norm: str) -> None:
    found = select(examples.all_ranges(8), norm, method=strategies.wavelet(weighted=False))
    assert sorted_rows(found.matrix.to_dense()) == sorted_rows(np.array(HAAR, dtype=float))
    assert found.sensitivity == (4.0 if norm == "l1" else 2.0)  # 1 + log2 8, or its root


WORKLOADS = st.tuples(
    st.integers(1, 6), st.integers(2, 13), st.integers(0, 2**32 - 1), st.sampled_from(NORMS)
)


@given(case=WORKLOADS, branching=st.integers(2, 5))
def test_weights_never_lose_to_equal_ones(case: tuple[int, int, int, str], branching: int) -> None:
    """On any workload, over any number of cells; and no loss is below the bound."""
    q, n, seed, norm = case
    workload = np.random.default_rng(seed).normal(size=(q, n))
    for make in (
        lambda weighted: strategies.tree(branching=branching, weighted=weighted),
        lambda weighted: strategies.wavelet(weighted=weighted),
    ):
        best = select(workload, norm, method=make(True))
        plain = select(workload, norm, method=make(False))
        if n & (n - 1) == 0 and branching in (2, n):  # no cells are added: the form is exact
            assert best.loss <= plain.loss * (1 + 1e-9)
        assert best.lower_bound <= best.loss * (1 + 1e-9)
        again = evaluate(workload, best.matrix.to_dense(), norm)
        assert again.loss == pytest.approx(best.loss, rel=1e-6)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(
    "family",
    [strategies.levels(sizes=(1, 2, 8, 16)), strategies.wavelet()],
    ids=lambda family: family.name,
)
def test_the_weights_are_the_best_of_their_kind(family: strategies.Family, norm: str) -> None:
    """Small steps from the weights found, in any direction, gain nothing."""
    workload = examples.prefix_sums(32).to_dense() * np.linspace(0.5, 1.5, 32)
    found = select(workload, norm, method=family)
    matrix = found.matrix.to_dense()
    kinds = 2 * np.count_nonzero(matrix, axis=1) + (matrix.min(axis=1) < 0)
    level = np.unique(kinds, return_inverse=True)[1]
    assert level.max() >= 1
    random = np.random.default_rng(1)
    for _ in range(20):
        steps = np.exp(0.05 * random.normal(size=level.max() + 1))
        near = evaluate(workload, steps[level][:, None] * matrix, norm)
        assert near.loss >= found.loss * (1 - 1e-9)


def test_wavelets_and_binary_trees_are_alike_for_gaussian_noise() -> None:
    """With the best weights both span ``AᵀA`` of the same projections."""
    for workload in (examples.prefix_sums(32), examples.all_ranges(16)):
        tree = select(workload, "l2", method=strategies.tree(branching=2)).loss
        assert select(workload, "l2", method="wavelet").loss == pytest.approx(tree, rel=1e-4)
    laplace = select(examples.prefix_sums(32), method="wavelet").loss
    assert laplace > 1.5 * select(examples.prefix_sums(32), method="tree").loss


def test_given_levels() -> None:
    sizes, weights = (1, 3, 12), (2.0, 1.0, 0.5)
    found = select(examples.prefix_sums(12), method=strategies.levels(sizes=sizes, weights=weights))
    rows = [
        w * np.kron(np.eye(12 // k), np.ones((1, k))) for k, w in zip(sizes, weights, strict=True)
    ]
    assert sorted_rows(found.matrix.to_dense() * 3.5) == sorted_rows(np.vstack(rows))
    best = select(examples.prefix_sums(12), method=strategies.levels(sizes=sizes))
    assert best.loss <= found.loss
    same = select(examples.prefix_sums(27), method=strategies.levels(sizes=(1, 3, 9, 27)))
    tree = select(examples.prefix_sums(27), method=strategies.tree(branching=3))
    assert same.loss == pytest.approx(tree.loss)


def test_one_cell_and_the_worst_row() -> None:
    for name in ("tree", "levels", "wavelet"):
        assert select(np.array([[2.0]]), method=name).loss == pytest.approx(4.0)
        found = select(examples.prefix_sums(8), method=name, objective="max")
        assert found.loss == pytest.approx(
            evaluate(examples.prefix_sums(8), found.matrix, objective="max").loss
        )
