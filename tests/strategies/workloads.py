"""Workloads and oracles that tests of strategies share."""

from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from strategies import evaluate, examples
from strategies.operators import (
    Dense,
    Grouping,
    Identity,
    Kronecker,
    Operator,
    RowKronecker,
    Scaled,
    Stack,
)

Array = NDArray[np.float64]
NORMS = ("l1", "l2")


def definition(workload: Array, matrix: Array, norm: str, objective: str = "total") -> float:
    """``||A||² ||W A⁺||_F²``, or the largest row's share, word for word."""
    size = np.linalg.norm(matrix, ord=1 if norm == "l1" else 2, axis=0).max()
    errors = ((workload @ np.linalg.pinv(matrix, rcond=1e-10)) ** 2).sum(axis=1)
    return float(size**2 * (errors.sum() if objective == "total" else errors.max()))


def gaussian_optimum(rows: Array, objective: str = "total", steps: int = 300) -> float:
    """The least loss for Gaussian noise that weights of all cells, and of rows, lead to.

    It is reached by a strategy, so no bound may be above it, of either norm.
    """
    rows = rows[:, np.unique(rows, axis=1, return_index=True)[1]]
    rows = rows[rows.any(axis=1)][:, rows.any(axis=0)]
    cells, weights = np.full(rows.shape[1], 1 / rows.shape[1]), np.ones(len(rows))
    best = np.inf
    for _ in range(steps):
        u = np.sqrt(cells)
        d, v = np.linalg.eigh(u[:, None] * ((rows.T * weights) @ rows) * u)
        d = np.sqrt(np.maximum(d, 0.0))
        norms = ((v * v) @ d) / (cells * d.sum())
        kept = d > 1e-9 * d[-1]
        errors = (((rows * u) @ v[:, kept]) ** 2 / d[kept]).sum(axis=1) * d.sum()
        cells = np.maximum(cells * norms, 1e-12)
        cells /= cells.sum()
        if objective == "total":
            best = min(best, norms.max() * d.sum() ** 2)
            continue
        best = min(best, norms.max() * errors.max())
        weights = np.maximum(weights * (errors / (weights @ errors)) ** 0.7, 1e-12)
        weights /= weights.sum()
    return float(best)


def lower_bound(workload: object, norm: str = "l2", **objective: object) -> float:
    """The bound that a problem has, whatever strategy is looked at."""
    return float(evaluate(workload, norm=norm, **objective).lower_bound)


def paths(sizes: Sequence[int], rows: int, seed: int, free: float = 0.5) -> RowKronecker:
    """Random paths: every attribute at one code, or free."""
    random = np.random.default_rng(seed)
    masks = []
    for size in sizes:
        codes = random.integers(0, size, size=rows)
        masks.append((codes[:, None] == np.arange(size)) | (random.random(rows) < free)[:, None])
    return RowKronecker.from_masks(masks)


def trees(
    sizes: Sequence[int], count: int, depth: int, seed: int, dropped: float = 0.0
) -> RowKronecker:
    """The leaves of trees that split a random attribute into its codes, some of them dropped."""
    random = np.random.default_rng(seed)
    leaves, groups = [], []
    for tree in range(count):
        stack = [np.full(len(sizes), -1)]
        while stack:
            path = stack.pop()
            if (path >= 0).sum() == min(depth, len(sizes)):
                if random.random() >= dropped:
                    leaves.append(path)
                    groups.append(tree)
                continue
            chosen = random.choice(np.flatnonzero(path < 0))
            for code in range(sizes[chosen]):
                child = path.copy()
                child[chosen] = code
                stack.append(child)
    table = np.array(leaves)
    masks = [(table[:, [i]] == np.arange(s)) | (table[:, [i]] < 0) for i, s in enumerate(sizes)]
    return RowKronecker.from_masks(masks, np.array(groups))


def prediction(sizes: Sequence[int], rows: int, records: int, seed: int) -> Dense:
    """``Q Tᵀ T`` of random paths and random test records."""
    table = paths(sizes, rows, seed).to_dense()
    cells = np.random.default_rng(seed + 1).integers(0, table.shape[1], size=records)
    return Dense(table[:, cells].T @ table)


def total(n: int) -> Operator:
    return Grouping(np.zeros(n, dtype=np.int64))


def ways(factors: Sequence[Operator], sizes: Sequence[int]) -> Stack:
    """All tables over some numbers of attributes."""
    sums = [total(factor.shape[1]) for factor in factors]
    return Stack(
        [
            Kronecker([f if i in chosen else sums[i] for i, f in enumerate(factors)])
            for k in sizes
            for chosen in combinations(range(len(factors)), k)
        ]
    )


PREFIX, RANGES = examples.prefix_sums, examples.all_ranges
WORKLOADS: dict[str, Callable[[], Operator]] = {
    "prefix sums": lambda: PREFIX(12),
    "ranges": lambda: RANGES(12),
    "tree": lambda: examples.binary_tree(8),
    "marginals": lambda: examples.marginals((3, 2, 4), 2),
    "paths": lambda: paths((3, 2, 4, 2), 40, 0),
    "trees": lambda: trees((3, 2, 4), 3, 2, 0),
    "prediction": lambda: prediction((3, 3, 4), 60, 5, 1),
    "product": lambda: Scaled(0.25, Kronecker([PREFIX(4), Identity(3)])),
    "union": lambda: ways([PREFIX(4), RANGES(3)], (1, 2)),
    "both ways": lambda: Stack(
        [Kronecker([PREFIX(4), Identity(5)]), Kronecker([Identity(4), PREFIX(5)])]
    ),
    "deficient": lambda: Dense(np.outer([1.0, 2.0, 3.0], [1.0, 1.0, -1.0, 0.0, 2.0])),
    "signed": lambda: Dense(np.random.default_rng(2).normal(size=(7, 6))),
    "low rank": lambda: Dense(np.random.default_rng(5).random((9, 2)) @ np.eye(2, 30, 1) + 1.0),
    "one row": lambda: Dense([[1.0, 2.0, 0.0]]),
    "one column": lambda: Dense([[1.0], [2.0]]),
    "one entry": lambda: Dense([[-3.0]]),
}
"""A workload of every structure and of every defect, over few enough cells for dense algebra."""
