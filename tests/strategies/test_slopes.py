"""What searches descend on: each value against dense algebra, each slope against differences.

No public call sees a slope: a wrong one only ends a search too early.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from strategies import Problem
from strategies.methods.common_refinement import BoxLoss, Joiner, partitions_of
from strategies.methods.descents import (
    TOTAL,
    ErrorNorm,
    free_columns_value,
    p_identity_matrix,
    p_identity_value,
)
from strategies.methods.few_rows import RowSpace, smoothed_value
from strategies.methods.marginals.algebra import expanded_energies, make_cover
from strategies.methods.marginals.gaussian_unions import FramesValue, Tables
from strategies.methods.marginals.joint_losses import JointLosses
from strategies.methods.marginals.optimiser import SetErrors, log_loss, row_errors_by_sets
from strategies.methods.marginals.product_losses import ProductLosses
from strategies.methods.marginals.product_marginals import basic_sets
from strategies.methods.weighted_rows import Candidates, smoothed_loss, weights_value
from strategies.methods.windows import Descent, RangeLoss, WindowLoss, Windows
from strategies.operators import (
    Dense,
    Identity,
    JointMarginals,
    Kronecker,
    Marginals,
    Operator,
    PrefixSums,
    ProductMarginals,
    Ranges,
    RowKronecker,
    RowScaled,
    Stack,
)
from strategies.operators.masks.anova import structure_energies
from strategies.operators.masks.components import mask_rows
from strategies.operators.ordered_sums import OrderedGram
from strategies.problem.table_union import table_union
from tests.strategies.workloads import NORMS, PREFIX, Array, definition, trees, ways

Value = Callable[[Array], tuple[float, Array]]
Case = tuple[Value, Array, Callable[[Array], Array] | None, Array, str]
"""Value and slope, a point, the matrix it stands for, the workload's rows, and the norm.

No matrix where a smooth norm stands in for the largest column or row.
"""
RANDOM = np.random.default_rng(7)
ROWS = RANDOM.integers(0, 4, size=(6, 9)).astype(float)
GROUPED = ErrorNorm(np.array([0, 1, 1, 2, 3, 0]), 4.0)
EVERY = (np.arange(8)[:, None] >> np.arange(3) & 1).astype(bool)
SIZES = (3, 2, 3)
SETS = [tuple(np.flatnonzero(one).tolist()) for one in EVERY]


def normed(roots: Array) -> Array:
    matrix = roots * np.abs(roots)
    return np.asarray(matrix / np.abs(matrix).sum(axis=0))


def of_columns() -> dict[str, Case]:
    space = RowSpace.of(ROWS, ROWS)
    stacked = np.concatenate([np.eye(9), RANDOM.random((4, 9))])
    counts = RANDOM.integers(1, 9, size=6).astype(float)
    cases: dict[str, Case] = {
        "row space": (
            partial(smoothed_value, space=space, sharpness=7.0, rounding=0.1),
            RANDOM.normal(size=(8, 6)), None, ROWS, "l1",
        ),
        "own rows, l1": (
            lambda logs: smoothed_loss(logs, ROWS, counts, 1, 8.0),
            RANDOM.normal(size=6), None, ROWS, "l1",
        ),
        "own rows, l2": (
            lambda logs: smoothed_loss(logs, ROWS**2, counts, 2, 8.0),
            RANDOM.normal(size=6), None, ROWS, "l2",
        ),
    }  # fmt: skip
    for norm in NORMS:
        sums = np.add.reduceat(stacked ** int(norm[1]), (0, 5), axis=0)
        levels = Candidates(stacked, ROWS, np.repeat([0, 1], [5, 8]), sums, norm)
        cases[f"weights of levels, {norm}"] = (
            partial(weights_value, candidates=levels, sharpness=40.0),
            RANDOM.normal(size=2), None, ROWS, norm,
        )  # fmt: skip
    for name, errors in (("total", TOTAL), ("groups", GROUPED)):
        matrices = (lambda s: p_identity_matrix(s * np.abs(s)), normed)
        own = matrices if errors is TOTAL else (None, None)
        cases |= {
            f"p-identity, {name}": (
                partial(p_identity_value, factor=ROWS, errors=errors),
                RANDOM.normal(size=(4, 9)), own[0], ROWS, "l1",
            ),
            f"free columns, {name}": (
                partial(free_columns_value, factor=ROWS, errors=errors),
                RANDOM.normal(size=(12, 9)), own[1], ROWS, "l1",
            ),
            f"weights of rows, {name}": (
                partial(
                    weights_value,
                    candidates=Candidates.per_row(stacked, ROWS, errors),
                    sharpness=9.0,
                ),
                RANDOM.normal(size=13), None, ROWS, "l1",
            ),
        }  # fmt: skip
    return cases


def of_tables(norm: str) -> dict[str, Case]:
    workload = trees(SIZES, 4, 2, 2)
    energies = expanded_energies(workload, structure_energies(workload))
    cover, rows = make_cover(energies, EVERY), workload.to_dense()
    every = SetErrors.total(energies, norm)
    worst = row_errors_by_sets(Problem.of(workload, norm, "max"))
    whole = make_cover(worst.energies, EVERY)
    parts = partitions_of(workload.all_masks(), workload.groups, mask_rows(workload).squares)
    joiner = Joiner.of(parts)
    joiner.join(0, 2)
    parts = joiner.parts
    boxes = BoxLoss.of(mask_rows(workload), parts)
    masks = [np.concatenate(same) for same in zip(*(p.masks for p in parts), strict=True)]

    def refined(weights: Array) -> Array:
        scales = weights if norm == "l1" else np.sqrt(weights)
        return RowScaled(scales[boxes.group], RowKronecker.from_masks(masks)).to_dense()

    def weighted_tables(weights: Array) -> Array:
        scales = weights if norm == "l1" else np.sqrt(weights)
        return Marginals(SIZES, SETS, scales).to_dense()

    return {
        f"marginals, {norm}": (
            lambda w: log_loss(w, cover, every, TOTAL),
            RANDOM.uniform(0.1, 1, 8), weighted_tables, rows, norm,
        ),
        f"marginals of the worst row, {norm}": (
            lambda w: log_loss(w, whole, worst, worst.errors.at(6.0)),
            RANDOM.uniform(0.5, 1.0, 8), None, rows, norm,
        ),
        f"refined trees, {norm}": (
            lambda w: boxes.log_loss(w, norm),
            RANDOM.uniform(0.5, 1.5, len(parts)), refined, rows, norm,
        ),
    }  # fmt: skip


def measured(form: ProductLosses, x: Array) -> ProductMarginals:
    """The rows that some roots stand for, by the form's own classes and sides."""
    point = form.at(x)
    factors = [point.sides[o].matrix()[:, form.classes[o].labels] for o in form.owner]
    sets = [tuple(np.flatnonzero(one).tolist()) for one in form.sets]
    return ProductMarginals(factors, sets, (point.roots**2).tolist())


MERGED, LATE = np.kron(np.eye(3), np.ones((1, 2))), np.array([[0.0, 0, 0, 1, 1, 1]])


def product(*factors: Array) -> Kronecker:
    return Kronecker([Dense(factor) for factor in factors])


CLASSES = Stack([product(np.tri(4), MERGED), product(np.ones((1, 4)), MERGED[:1])])
BY_GROUPS = Stack(
    [
        product(np.tri(4), MERGED, np.tri(6)),
        product(np.tri(4), np.ones((1, 6)), np.tri(6)),
        product(np.ones((1, 4)), np.eye(6), LATE),
        product(np.ones((1, 4)), MERGED, LATE),
    ]
)
"""Race in classes by age, and every race by being of age: two groups see coarse classes both."""


def of_products() -> dict[str, Case]:
    cases: dict[str, Case] = {}
    unions: dict[str, Operator] = {
        "tables": ways([PrefixSums(5), PrefixSums(5), Identity(3)], (1, 2)), "classes": CLASSES,
    }  # fmt: skip
    for name, workload in unions.items():
        union = table_union(workload)
        form = ProductLosses(union, np.arange(len(union.tables)))
        form.measure(basic_sets(form))
        cases[f"product marginals of {name}"] = (
            form, RANDOM.random(form.size) + 0.1,
            lambda x, form=form: measured(form, x).to_dense(), workload.to_dense(), "l1",
        )  # fmt: skip
    union = table_union(BY_GROUPS)
    forms = ProductLosses(union, np.array([0, 1])), ProductLosses(union, np.array([2, 3]))
    for form in forms:
        form.measure(basic_sets(form))

    def joint(x: Array) -> Array:
        halves = np.split(x, [forms[0].size])
        pairs = zip(forms, halves, strict=True)
        return JointMarginals([measured(f, h) for f, h in pairs]).to_dense()

    point = RANDOM.random(sum(form.size for form in forms)) + 0.2
    cases["joint product marginals"] = JointLosses(*forms), point, joint, BY_GROUPS.to_dense(), "l1"
    both = Stack([Kronecker([PREFIX(4), Identity(5)]), Kronecker([Identity(4), PREFIX(5)])])
    tables = Tables.of(table_union(both))
    frames = [np.eye(n) + 0.3 * RANDOM.normal(size=(n, n)) for n in tables.sizes]
    point = np.concatenate([*map(np.ravel, frames), RANDOM.normal(size=20)])
    for power in (3.0, 100.0):
        value = FramesValue(tables, power)
        cases[f"weighted frames, {power}"] = value, point, None, both.to_dense(), "l2"
    return cases


def of_windows() -> dict[str, Case]:
    cases: dict[str, Case] = {}
    high = RANDOM.uniform(0.5, 2.0, 24)
    gram = OrderedGram(np.cumsum(RANDOM.uniform(0.1, 1.0, 24)) * high, high)
    starts = RANDOM.integers(0, 24, 40)
    stops = np.minimum(24, starts + RANDOM.integers(1, 25, 40))
    ranges = Ranges(24, starts, stops, RANDOM.uniform(0.5, 2.0, 40))
    for sizes in ((3,), (4, 12), (2, 6, 12)):
        windows = Windows(24, sizes)
        roots = windows.start(RANDOM) * RANDOM.choice([-1.0, 1.0], windows.shape)
        for known, loss in (
            (gram, WindowLoss(windows, gram)),
            (ranges, RangeLoss(windows, ranges)),
        ):
            rows = np.linalg.cholesky(gram.to_dense()).T if known is gram else ranges.to_dense()
            cases[f"{type(loss).__name__} {sizes}"] = (
                loss, roots,
                lambda x, known=known, sizes=sizes: Descent(known, sizes, 1, x).matrix().to_dense(),
                rows, "l1",
            )  # fmt: skip
    return cases


CASES = of_columns() | of_tables("l1") | of_tables("l2") | of_products() | of_windows()


@pytest.mark.parametrize("name", CASES)
def test_values_and_slopes(name: str) -> None:
    value, point, matrix, rows, norm = CASES[name]
    level, slope = value(point)
    if matrix is not None:
        assert np.exp(level) == pytest.approx(definition(rows, matrix(point), norm), rel=1e-6)
    random = np.random.default_rng(0)
    moved = np.abs(slope) > 0  # entries that a window lacks have none
    for _ in range(4):
        way = random.normal(size=point.shape) * moved
        change = (value(point + 1e-6 * way)[0] - value(point - 1e-6 * way)[0]) / 2e-6
        expected = float(np.vdot(slope, way))
        assert change == pytest.approx(expected, rel=2e-4, abs=1e-6 * np.abs(slope).max())
        assert change != pytest.approx(1.01 * expected, rel=1e-3)  # the check can fail


@pytest.mark.parametrize("weight", [1e-6, 1.0, 1e4])
def test_the_loss_of_a_p_identity_does_not_cancel(weight: float) -> None:
    roots = np.sqrt(weight * RANDOM.random((9, 9)))
    matrix = p_identity_matrix(roots * roots)
    stable = np.sum(np.linalg.lstsq(matrix.T, ROWS.T, rcond=None)[0] ** 2)
    assert np.exp(p_identity_value(roots, ROWS)[0]) == pytest.approx(stable, rel=1e-6)


@pytest.mark.parametrize(
    ("value", "point"),
    [
        (p_identity_value, np.full((2, 9), 1e200)),
        (free_columns_value, np.zeros((9, 9))),
        (free_columns_value, np.ones((9, 9))),
    ],
)
def test_singular_points_are_refused_and_not_fatal(value: Value, point: Array) -> None:
    with np.errstate(all="ignore"):
        level, slope = value(point, ROWS)
    assert level >= 10
    assert np.isfinite(slope).all()


@pytest.mark.parametrize("size", [1e7, 1e11])
def test_rows_beyond_rounding_are_refused_without_a_warning(size: float) -> None:
    union = table_union(ways([PrefixSums(5), PrefixSums(4), Identity(3)], (1, 2)))
    form = ProductLosses(union, np.arange(len(union.tables)))
    form.measure(basic_sets(form))
    level, slope = form(size * np.random.default_rng(0).normal(size=form.size))
    assert level >= 10
    assert np.isfinite(slope).all()


def test_a_large_power_is_the_largest_sum() -> None:
    errors = RANDOM.uniform(size=6)
    level, slopes = GROUPED.at(5000.0).log_value(errors)
    assert np.exp(level) == pytest.approx(GROUPED.value(errors), rel=1e-3)
    assert slopes @ errors == pytest.approx(1.0)
    assert TOTAL.at(16.0) is TOTAL
