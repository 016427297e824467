"""Every structure against its dense twin: a table of structures times a table of laws."""

import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, dataclass
from functools import reduce
from inspect import isabstract

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from strategies import operators as ops
from strategies.operators import (
    AllRanges,
    Operator,
    PIdentity,
    PrefixSums,
    RowSpaceError,
    memory_cap,
)

RANDOM = np.random.default_rng(7)
SIZES = (3, 2, 4)
NORMS = ("l1", "l2")
TALL = RANDOM.normal(size=(9, 5))
WIDE = RANDOM.normal(size=(4, 7))
DEFICIENT = RANDOM.normal(size=(8, 3)) @ RANDOM.normal(size=(3, 6))
INTEGER = RANDOM.integers(-3, 4, size=(5, 6))
HOLES = RANDOM.normal(size=(6, 5)) * (RANDOM.random((6, 5)) < 0.4)
LABELS = np.array([0, 1, 0, 2, 2, 1, 0])
MASKS = [RANDOM.random((11, size)) < 0.6 for size in SIZES]
# two trees, each of which partitions the domain: by the first attribute, and by the other two
TREES = [
    np.concatenate([np.eye(3), np.ones((8, 3))]),
    np.concatenate([np.ones((3, 2)), np.repeat(np.eye(2), 4, axis=0)]),
    np.concatenate([np.ones((3, 4)), np.tile(np.eye(4), (2, 1))]),
]
TREE_OF_ROW = np.array([5] * 3 + [9] * 8)


def face(masks: list[np.ndarray]) -> np.ndarray:
    """Row-wise Kronecker products, one row at a time."""
    rows = zip(*masks, strict=True)
    return np.stack([reduce(np.kron, [part.astype(float) for part in row]) for row in rows])


def grouping(labels: np.ndarray) -> np.ndarray:
    return (labels == np.arange(labels.max() + 1)[:, None]).astype(float)


def marginals(sizes: tuple[int, ...], table: dict[tuple[int, ...], float]) -> np.ndarray:
    tables = [
        weight
        * reduce(
            np.kron, [np.eye(n) if i in kept else np.ones((1, n)) for i, n in enumerate(sizes)]
        )
        for kept, weight in table.items()
    ]
    return np.concatenate(tables)


DIFFERENCES = {
    2: [[1, -1]],
    3: [[1, -1, 0], [1, 0, -1], [0, 1, -1]],
    4: [[3, -1, -1, -1], [-1, 3, -1, -1], [-1, -1, 3, -1], [-1, -1, -1, 3]],
}


def tables(factors: list[np.ndarray], weights: dict[tuple[int, ...], float]) -> np.ndarray:
    """One matrix along each attribute of a set, ones elsewhere, set by set."""
    blocks = [
        weight
        * reduce(
            np.kron,
            [f if i in kept else np.ones((1, f.shape[1])) for i, f in enumerate(factors)],
            np.ones((1, 1)),
        )
        for kept, weight in weights.items()
    ]
    return np.concatenate(blocks)


SQUARE = [np.array([[1, 2], [-1, 1]]), np.array([[1, 1, 1], [1, -1, 0], [2, 0, -3]])]
OBLIQUE = [np.array([[2, 1, 0], [0, 3, -1]]), np.array([[1, -2]]), np.triu(np.ones((3, 4), int))]
STEEP = [
    np.array([[2, 0, 0], [0, 3, 0], [0, 0, 2], [1, -1, 1]]),
    np.eye(2, dtype=int),
    np.tri(4, dtype=int),
]
TWICE = np.array([[1, 0], [0, 1], [1, 1]])  # every cell in two rows
HALVES = np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
REAL_STEEP = [RANDOM.normal(size=(4, 3)), RANDOM.normal(size=(5, 4))]
TABLES = [RANDOM.normal(size=(7, 6)), RANDOM.normal(size=(12, 12)), RANDOM.normal(size=(2, 2))]
REAL_FRAMES = [RANDOM.normal(size=(2, 3)), RANDOM.normal(size=(3, 4))]


def decaying(outputs: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """Entries ``Σ_m g_im t_(i-1),m ... t_jm``, one by one."""
    n = len(outputs)
    return np.array(
        [
            [outputs[i] @ np.prod(factors[j:i], axis=0) if j <= i else 0.0 for j in range(n)]
            for i in range(n)
        ]
    )


def band(coefficients: list[float] | np.ndarray, n: int) -> np.ndarray:
    return np.asarray(sum(c * np.eye(n, k=-k) for k, c in enumerate(coefficients)))


OUTPUTS, FACTORS = RANDOM.uniform(0.2, 1, (7, 3)), RANDOM.uniform(-0.3, 0.9, (6, 3))
LONG = RANDOM.uniform(0.2, 1, (150, 2)), RANDOM.uniform(0.1, 0.9, (149, 2))


@dataclass(frozen=True)
class Case:
    operator: Operator
    twin: np.ndarray


def table_stack(blocks: dict[tuple[int, ...], np.ndarray]) -> Case:
    """Rows over the cells of some attributes, spread over all others cell by cell."""
    cells = np.indices(SIZES).reshape(len(SIZES), -1)
    twin = []
    for kept, block in blocks.items():
        own = [SIZES[i] for i in kept]
        flat = np.ravel_multi_index(tuple(cells[list(kept)]), own) if kept else cells[0] * 0
        twin.append(block[:, flat])
    return Case(ops.TableStack(SIZES, list(blocks), list(blocks.values())), np.concatenate(twin))


PATHS = ops.RowKronecker.from_masks(MASKS)
FOREST = ops.RowKronecker.from_masks(TREES, groups=TREE_OF_ROW)
GRAM = DEFICIENT.T @ DEFICIENT
VALUES, VECTORS = np.linalg.eigh(GRAM)
ROOT = (VECTORS[:, -3:] * np.sqrt(VALUES[-3:])) @ VECTORS[:, -3:].T
KRON = [RANDOM.normal(size=(4, 3)), np.array([[1.0, 0.0], [1.0, 1.0]]), DEFICIENT[:4, :4]]
WEIGHTS = RANDOM.normal(size=11)
RANGES = np.array([[i <= j <= k for j in range(4)] for i in range(4) for k in range(i, 4)], float)

ENDS = [np.array([0, 1, 2, 3]), np.array([5, 3, 2, 5])]
SOME_RANGES = np.array(
    [[0.5] * 5, [0, -2.0, -2.0, 0, 0], [0] * 5, [0, 0, 0, 0.3, 0.3]],
)
CASES: dict[str, Callable[[], Case]] = {
    "dense tall": lambda: Case(ops.Dense(TALL), TALL),
    "dense wide": lambda: Case(ops.Dense(WIDE), WIDE),
    "dense deficient": lambda: Case(ops.Dense(DEFICIENT), DEFICIENT),
    "dense integer": lambda: Case(ops.Dense(INTEGER), INTEGER),
    "dense with sizes": lambda: Case(ops.Dense(face(MASKS), SIZES), face(MASKS)),
    "dense row": lambda: Case(ops.Dense(TALL[:1]), TALL[:1]),
    "dense column": lambda: Case(ops.Dense(TALL[:, :1]), TALL[:, :1]),
    "sparse": lambda: Case(ops.Sparse(sparse.csr_array(HOLES)), HOLES),
    "sparse integer": lambda: Case(ops.Sparse(sparse.csr_array(INTEGER)), INTEGER),
    "sparse coo": lambda: Case(ops.Sparse(sparse.coo_array(HOLES)), HOLES),
    "identity": lambda: Case(ops.Identity(24, SIZES), np.eye(24)),
    "grouping": lambda: Case(ops.Grouping(LABELS), grouping(LABELS)),
    "gram": lambda: Case(ops.Gram(GRAM), ROOT),
    "kronecker": lambda: Case(ops.Kronecker([ops.Dense(f) for f in KRON]), reduce(np.kron, KRON)),
    "kronecker binary": lambda: Case(
        ops.Kronecker([ops.RowKronecker.from_masks([TWICE]), ops.Grouping([0, 0]), FOREST]),
        reduce(np.kron, [TWICE, np.ones((1, 2)), face(TREES)]),
    ),
    "paths": lambda: Case(PATHS, face(MASKS)),
    "forest": lambda: Case(FOREST, face(TREES)),
    "one attribute": lambda: Case(ops.RowKronecker.from_masks(MASKS[:1]), face(MASKS[:1])),
    "marginals": lambda: Case(
        ops.Marginals(SIZES, [(0,), (1, 2)], [0.5, 2.0]),
        marginals(SIZES, {(0,): 0.5, (1, 2): 2.0}),
    ),
    "marginals that overlap": lambda: Case(
        ops.Marginals(SIZES, [(0, 1), (1, 2), (0, 2), ()], [0.5, 2.0, 1.5, 0.3]),
        marginals(SIZES, {(0, 1): 0.5, (1, 2): 2.0, (0, 2): 1.5, (): 0.3}),
    ),
    "marginals of all": lambda: Case(
        ops.Marginals(SIZES, [(0,), (0, 1, 2)], [0.5, 2.0]),
        marginals(SIZES, {(0,): 0.5, (0, 1, 2): 2.0}),
    ),
    "residuals of marginals": lambda: Case(
        ops.ObliqueResiduals.of_codes(SIZES, [(), (0,), (1, 2)], [0.5, 2.0, 1.0]),
        tables([np.array(DIFFERENCES[n]) for n in SIZES], {(): 0.5, (0,): 2.0, (1, 2): 1.0}),
    ),
    "oblique residuals": lambda: Case(
        ops.ObliqueResiduals(OBLIQUE, [(), (0,), (2,), (1, 2)], [2, 1, 3, 1]),
        tables(OBLIQUE, {(): 2, (0,): 1, (2,): 3, (1, 2): 1}),
    ),
    "oblique residuals everywhere": lambda: Case(
        ops.ObliqueResiduals(REAL_FRAMES, [(), (0,), (1,), (0, 1)], [0.5, 2.0, 1.0, 0.3]),
        tables(REAL_FRAMES, {(): 0.5, (0,): 2.0, (1,): 1.0, (0, 1): 0.3}),
    ),
    "oblique residuals that hold the ones": lambda: Case(
        ops.ObliqueResiduals([np.eye(3, dtype=int), [[1, -1]]], [(), (0,), (0, 1)], [1, 2, 1]),
        tables([np.eye(3), np.array([[1, -1]])], {(): 1, (0,): 2, (0, 1): 1}),
    ),
    "oblique residuals of faint rank": lambda: Case(
        ops.ObliqueResiduals([[[1, 0, 2], [2, 0, 4]], [[3, 1]]], [(1,), (0, 1), (0,)], [1, 2, 1]),
        tables(
            [np.array([[1, 0, 2], [2, 0, 4]]), np.array([[3, 1]])], {(1,): 1, (0, 1): 2, (0,): 1}
        ),
    ),
    "weighted kronecker": lambda: Case(
        ops.WeightedKronecker(np.arange(1, 7), ops.Kronecker(list(map(ops.Dense, SQUARE)))),
        np.arange(1, 7)[:, None] * np.kron(*SQUARE),
    ),
    "weighted kronecker of reals": lambda: Case(
        ops.WeightedKronecker(
            np.arange(6) - 2.5, ops.Kronecker([ops.Dense(0.3 * one) for one in SQUARE])
        ),
        (np.arange(6) - 2.5)[:, None] * np.kron(*(0.3 * one for one in SQUARE)),
    ),
    "product marginals": lambda: Case(
        ops.ProductMarginals(STEEP, [(0,), (1, 2), ()], [2, 1, 3]),
        tables(STEEP, {(0,): 2, (1, 2): 1, (): 3}),
    ),
    "product marginals everywhere": lambda: Case(
        ops.ProductMarginals(REAL_STEEP, [(0,), (0, 1)], [0.5, 2.0]),
        tables(REAL_STEEP, {(0,): 0.5, (0, 1): 2.0}),
    ),
    "product marginals of classes": lambda: Case(
        ops.ProductMarginals([STEEP[0][:, [0, 1, 2, 1]], np.eye(2)], [(0, 1), (0,)], [1.0, 0.5]),
        tables([STEEP[0][:, [0, 1, 2, 1]], np.eye(2)], {(0, 1): 1.0, (0,): 0.5}),
    ),
    "joint marginals": lambda: Case(
        ops.JointMarginals(
            [
                ops.ProductMarginals(REAL_STEEP, [(0,), (0, 1)], [0.5, 2.0]),
                ops.ProductMarginals([HALVES, REAL_STEEP[1]], [(1,), (0, 1)], [1.0, 0.5]),
            ]
        ),
        np.vstack(
            [
                tables(REAL_STEEP, {(0,): 0.5, (0, 1): 2.0}),
                tables([HALVES, REAL_STEEP[1]], {(1,): 1.0, (0, 1): 0.5}),
            ]
        ),
    ),
    "product marginals of faint rank": lambda: Case(
        ops.ProductMarginals([[[1, 0, 2], [2, 0, 4]], [[3, 1]]], [(1,), (0, 1)], [1, 2]),
        tables([np.array([[1, 0, 2], [2, 0, 4]]), np.array([[3, 1]])], {(1,): 1, (0, 1): 2}),
    ),
    "marginals of no weight": lambda: Case(
        ops.Marginals(SIZES, [(0,), ()], [0, 0]), np.zeros((4, 24))
    ),
    "product marginals of no weight": lambda: Case(
        ops.ProductMarginals(STEEP, [(0,), (1, 2)], [0.0, 0.0]), np.zeros((12, 24))
    ),
    "oblique residuals of no weight": lambda: Case(
        ops.ObliqueResiduals(OBLIQUE, [(0,), (1, 2)], [0, 0]), np.zeros((5, 24))
    ),
    "joint marginals of a group without weight": lambda: Case(
        ops.JointMarginals(
            [
                ops.ProductMarginals(REAL_STEEP, [(0, 1)], [0.0]),
                ops.ProductMarginals([HALVES, REAL_STEEP[1]], [(0, 1)], [2.0]),
            ]
        ),
        np.vstack([np.zeros((20, 12)), 2.0 * np.kron(HALVES, REAL_STEEP[1])]),
    ),
    "tables": lambda: table_stack(
        {(0, 1): TABLES[0], (0, 2): TABLES[1], (): np.array([[2.0], [1.0]])}
    ),
    "tables of few rows": lambda: table_stack({(0, 2): TABLES[1][:5], (1,): TABLES[2]}),
    "tables of integers": lambda: table_stack({(1, 2): INTEGER[:3, :4] @ np.tri(4, 8, dtype=int)}),
    "tables that are sparse": lambda: Case(
        ops.TableStack(SIZES, [(0, 1), (0, 1)], [ops.Identity(6), ops.Grouping([0, 1] * 3)]),
        np.concatenate(
            [np.kron(np.eye(6), np.ones(4)), np.kron([[1, 0] * 3, [0, 1] * 3], np.ones(4))]
        ),
    ),
    "stack": lambda: Case(
        ops.Stack([ops.Dense(TALL), ops.Sparse(sparse.csr_array(HOLES))]), np.vstack([TALL, HOLES])
    ),
    "stack uniform": lambda: Case(
        ops.Stack([ops.Identity(24, SIZES), ops.Scaled(2, FOREST)]),
        np.vstack([np.eye(24), 2 * face(TREES)]),
    ),
    "scaled": lambda: Case(ops.Scaled(-0.7, ops.Dense(TALL)), -0.7 * TALL),
    "scaled paths": lambda: Case(ops.Scaled(3, PATHS), 3 * face(MASKS)),
    "scaled forest": lambda: Case(ops.Scaled(0.3, FOREST), 0.3 * face(TREES)),
    "row scaled": lambda: Case(
        ops.RowScaled(WEIGHTS[:9], ops.Dense(TALL)), WEIGHTS[:9, None] * TALL
    ),
    "row scaled paths": lambda: Case(ops.RowScaled(WEIGHTS, PATHS), WEIGHTS[:, None] * face(MASKS)),
    "product": lambda: Case(ops.Dense(TALL) @ ops.Dense(DEFICIENT[:5]), TALL @ DEFICIENT[:5]),
    "product over groups": lambda: Case(
        ops.Dense(TALL[:, :3]) @ ops.Grouping(LABELS), TALL[:, :3] @ grouping(LABELS)
    ),
    "product of sparse": lambda: Case(
        ops.Sparse(sparse.csr_array(face(MASKS)[:5] @ face(TREES).T)) @ FOREST,
        face(MASKS)[:5] @ face(TREES).T @ face(TREES),
    ),
    "product mixed other": lambda: Case(
        ops.Sparse(sparse.csr_array(HOLES)) @ ops.Dense(DEFICIENT[:5]), HOLES @ DEFICIENT[:5]
    ),
    "prefix sums": lambda: Case(PrefixSums(6), np.tri(6)),
    "all ranges": lambda: Case(AllRanges(4), RANGES),
    "ranges": lambda: Case(ops.Ranges(5, *ENDS, np.array([0.5, -2.0, 1.0, 0.3])), SOME_RANGES),
    "ranges integer": lambda: Case(
        ops.Ranges(5, *ENDS, np.array([1, 2, 3, 4])),
        np.where(SOME_RANGES != 0, np.arange(1, 5)[:, None], 0),
    ),
    "short ranges": lambda: Case(
        ops.Ranges(12, np.arange(12), np.arange(1, 13), np.ones(12)), np.eye(12)
    ),
    "semiseparable": lambda: Case(ops.Semiseparable(OUTPUTS, FACTORS), decaying(OUTPUTS, FACTORS)),
    "semiseparable of one cell": lambda: Case(
        ops.Semiseparable([[2.0, -0.5]], np.zeros((0, 2))), np.array([[1.5]])
    ),
    "semiseparable of many cells": lambda: Case(ops.Semiseparable(*LONG), decaying(*LONG)),
    "toeplitz": lambda: Case(ops.Toeplitz(6, [0.7, -0.2, 0.4]), band([0.7, -0.2, 0.4], 6)),
    "toeplitz integer": lambda: Case(ops.Toeplitz(9, [3, 1]), band([3, 1], 9)),
    "toeplitz of many bands": lambda: Case(
        ops.Toeplitz(90, 0.9 ** np.arange(80)), band(0.9 ** np.arange(80), 90)
    ),
    "p-identity": lambda: Case(
        PIdentity(np.arange(1.0, 6.0) / 3, sparse.csr_array(HOLES[:4, :5])),
        np.vstack([np.diag(np.arange(1.0, 6.0) / 3), HOLES[:4, :5]]),
    ),
    "p-identity integer": lambda: Case(
        PIdentity(np.arange(1, 1 + INTEGER.shape[1]), sparse.csr_array(INTEGER)),
        np.vstack([np.diag(np.arange(1, 1 + INTEGER.shape[1])), INTEGER]),
    ),
    "transposed": lambda: Case(ops.Dense(TALL).T, TALL.T),
    "transposed paths": lambda: Case(PATHS.T, face(MASKS).T),
}
MIXED = RANDOM.normal(size=(3, 11))
CASES["product mixed"] = lambda: Case(ops.Dense(MIXED) @ PATHS, MIXED @ face(MASKS))


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]()


@pytest.fixture(scope="module")
def twins() -> dict[str, Case]:
    return {name: make() for name, make in CASES.items()}


def close(got: object, expected: object, name: str = "") -> None:
    scale = np.abs(expected).max(initial=1.0)
    assert_allclose(np.asarray(got), expected, rtol=1e-9, atol=1e-9 * scale, err_msg=name)


def all_structures() -> set[type[Operator]]:
    found, queue = set(), [Operator]
    while queue:
        for structure in queue.pop().__subclasses__():
            found.add(structure)
            queue.append(structure)
    return {
        structure
        for structure in found
        if structure.__module__.startswith("strategies.") and not isabstract(structure)
    }


def test_every_structure_is_in_the_table() -> None:
    missing = all_structures() - {type(make().operator) for make in CASES.values()}
    assert not missing


def test_shape_and_explicit_forms(case: Case) -> None:
    operator, sizes = case.operator, case.operator.sizes
    assert operator.shape == case.twin.shape
    assert all(type(side) is int for side in operator.shape)
    assert sizes is None or np.prod(sizes) == case.twin.shape[1]
    close(operator.to_dense(), case.twin)
    close(operator.to_sparse().toarray(), case.twin)
    assert isinstance(operator.to_sparse(), sparse.csr_array)
    form = operator.compact()
    assert sparse.issparse(form) == operator.prefers_sparse
    assert type(operator.entries) is int
    stored = form.nnz if sparse.issparse(form) else form.size
    assert stored <= operator.entries <= case.twin.size
    assert not operator.is_binary or set(np.unique(case.twin)) <= {0.0, 1.0}


def test_products_and_transposes(case: Case) -> None:
    m, n = case.twin.shape
    x, y = RANDOM.normal(size=(n, 3)), RANDOM.normal(size=(m, 3))
    close(case.operator @ x, case.twin @ x)
    close(case.operator @ x[:, 0], case.twin @ x[:, 0])
    close(case.operator @ sparse.csr_array(x), case.twin @ x)
    close(case.operator.rmatmat(y), case.twin.T @ y)
    close(y.T @ case.operator, y.T @ case.twin)
    close(y[:, 0] @ case.operator, y[:, 0] @ case.twin)
    close(case.operator.T.to_dense(), case.twin.T)
    close(case.operator.T @ y, case.twin.T @ y)
    close(case.operator.T.T.to_dense(), case.twin)
    composed = ops.Dense(y.T) @ case.operator
    close(composed.to_dense(), y.T @ case.twin)
    close(composed.gram_dense(), (y.T @ case.twin).T @ (y.T @ case.twin))
    close((case.operator.T @ case.operator).to_dense(), case.twin.T @ case.twin)


def test_grams(case: Case) -> None:
    close(case.operator.gram_dense(), case.twin.T @ case.twin)
    close(case.operator.row_gram(), case.twin @ case.twin.T)
    block = RANDOM.normal(size=(case.twin.shape[0], 2))
    close(case.operator.row_gram_matmat(block), case.twin @ case.twin.T @ block)
    close(case.operator.row_squares(), np.sum(case.twin**2, axis=1))


def test_norms(case: Case) -> None:
    for norm in NORMS:
        expected = np.linalg.norm(case.twin, ord=1 if norm == "l1" else 2, axis=0)
        close(case.operator.column_norms(norm), expected)
        assert case.operator.sensitivity(norm) == pytest.approx(expected.max(), rel=1e-12)
        assert case.operator.sensitivity_is_exact(norm)
        uniform = case.operator.uniform_column_norm(norm)
        assert uniform is None or expected == pytest.approx(uniform, rel=1e-12)


def test_columns(case: Case) -> None:
    cells = RANDOM.integers(0, case.twin.shape[1], size=10)
    close(case.operator.columns(cells).toarray(), case.twin[:, cells])
    assert case.operator.columns(cells[:0]).shape == (case.twin.shape[0], 0)
    if case.operator.sizes is None:
        with pytest.raises(ValueError, match="no product domain"):
            case.operator.columns(np.zeros((2, 3), dtype=int))
    else:
        codes = np.stack(np.unravel_index(cells, case.operator.sizes), axis=1)
        close(case.operator.columns(codes).toarray(), case.twin[:, cells])


@pytest.mark.parametrize("codes", [[[0, 2, 0]], [[0, 0]], [[-1, 0, 0]]])
@pytest.mark.parametrize(
    "name",
    ["paths", "forest", "kronecker", "marginals", "product marginals", "tables of integers"],
)
def test_codes_outside_the_domain_are_refused(name: str, codes: list[list[int]]) -> None:
    """Also those of attributes that no table has; negative ones count from no end."""
    with pytest.raises(ValueError, match="codes outside the domain"):
        CASES[name]().operator.columns(np.array(codes))


@pytest.mark.parametrize("scale", [1, 1000])
def test_rounding_is_exact(case: Case, scale: int) -> None:
    rounded = case.operator.rounded(scale)
    expected = np.rint(case.operator.to_dense() * scale)
    assert_array_equal(rounded.to_dense(), expected)
    columns = rounded.columns(np.arange(case.twin.shape[1]))
    assert columns.dtype == np.int64
    assert_array_equal(columns.toarray(), expected)
    for power, norm in enumerate(NORMS, 1):
        found = rounded.integer_sensitivity(norm)
        assert found == int((np.abs(expected) ** power).sum(axis=0).max())
        assert type(found) is int


def test_least_squares_is_the_pseudo_inverse(case: Case) -> None:
    answers = RANDOM.normal(size=(case.twin.shape[0], 3))
    inverse = np.linalg.pinv(case.twin, rcond=1e-10)
    close(case.operator.least_squares(answers), inverse @ answers)
    close(case.operator.least_squares(answers[:, 0]), inverse @ answers[:, 0])


def test_recovery_of_answerable_workloads(case: Case) -> None:
    rows = RANDOM.normal(size=(4, case.twin.shape[0])) @ case.twin
    recovery = rows @ np.linalg.pinv(case.twin, rcond=1e-10)
    answers = RANDOM.normal(size=(case.twin.shape[0], 2))
    errors = np.sum(recovery**2, axis=1)
    many = np.repeat(rows, 20, axis=0)  # more rows than columns: by the workload's Gram
    close(ops.row_errors(ops.Dense(rows), case.operator), errors)
    assert ops.error_trace(ops.Dense(rows), case.operator) == pytest.approx(errors.sum())
    assert ops.error_trace(ops.Dense(many), case.operator) == pytest.approx(20 * errors.sum())
    close(ops.estimate(ops.Dense(rows), case.operator, answers), recovery @ answers)
    rank = np.linalg.matrix_rank(case.twin)
    assert ops.error_trace(case.operator, case.operator) == pytest.approx(rank)


def test_unanswerable_workloads_are_refused(case: Case) -> None:
    n = case.twin.shape[1]
    if np.linalg.matrix_rank(case.twin) == n:  # then every workload is in the row space
        squares = (np.linalg.pinv(case.twin) ** 2).sum()
        assert ops.error_trace(ops.Dense(np.eye(n)), case.operator) == pytest.approx(squares)
        return
    for workload in (np.eye(n), RANDOM.normal(size=(2, n)), RANDOM.normal(size=(3 * n, n))):
        with pytest.raises(RowSpaceError, match="row space"):
            ops.error_trace(ops.Dense(workload), case.operator)
        with pytest.raises(RowSpaceError, match="row space"):
            ops.row_errors(ops.Dense(workload), case.operator)


def test_cross_grams(case: Case, twins: dict[str, Case]) -> None:
    for other, second in twins.items():
        if second.twin.shape[1] == case.twin.shape[1]:
            got = ops.cross_gram(case.operator, second.operator)
            close(got, case.twin @ second.twin.T, other)


def test_wrong_shapes_are_refused(case: Case) -> None:
    m, n = case.twin.shape
    for action, length in [(case.operator.matmat, n), (case.operator.rmatmat, m)]:
        with pytest.raises(ValueError, match=f"expected \\({length},\\)"):
            action(np.ones(length + 1))
    with pytest.raises(ValueError, match="answers has shape"):
        case.operator.least_squares(np.ones(m + 1))


def test_values_cannot_change(case: Case) -> None:
    with pytest.raises(FrozenInstanceError):
        case.operator.sizes = (1,)
    copy = pickle.loads(pickle.dumps(case.operator))
    close(copy.to_dense(), case.twin)


def test_the_cap_refuses_explicit_forms(case: Case) -> None:
    stored = np.shares_memory(case.operator.to_dense(), case.operator.to_dense())
    if case.twin.nbytes <= 64 or stored:
        with memory_cap(64):  # little, or there already: nothing large is allocated
            close(case.operator.to_dense(), case.twin)
        return
    with memory_cap(64), pytest.raises(ops.MemoryCapError, match="memory cap"):
        case.operator.to_dense()
