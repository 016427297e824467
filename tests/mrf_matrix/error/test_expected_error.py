"""Expected errors against simulated releases, closed forms and refusals."""

import inspect
from fractions import Fraction
from itertools import product
from math import inf, nan, sqrt

import numpy as np
import pytest

from mrf_matrix import expected_error
from mrf_matrix.error import direct_error, smallest_release_budget
from mrf_matrix.mechanisms import (
    NEIGHBORING,
    BudgetError,
    PureDP,
    as_budget,
    count_cells,
    measure,
    reconstruct,
)
from strategies import evaluate, select, smallest_budget
from strategies.operators import (
    Dense,
    Gram,
    Grouping,
    Identity,
    Marginals,
    Product,
    RowKronecker,
    RowSpaceError,
    Stack,
)

SIZES = (4, 4, 3, 3)
RNG = np.random.default_rng(2)
RELEASES = 2000
MORE = 20_000
"""Releases where few rows, all sharing their noise, would leave 2000 a deviation of 3 %."""
FEW_ROWS = {"marginals", "merged", "merged, deficient"}


def paths(trees=6):
    """Return full depth-2 trees on random pairs of attributes."""
    blocks = []
    for _ in range(trees):
        chosen = sorted(RNG.choice(4, size=2, replace=False))
        shape = [SIZES[i] for i in chosen]
        cells = np.stack(np.unravel_index(np.arange(np.prod(shape)), shape), axis=1)
        masks = [np.ones((len(cells), size), dtype=bool) for size in SIZES]
        for i, code in zip(chosen, cells.T, strict=True):
            masks[i] = np.eye(SIZES[i], dtype=bool)[code]
        blocks.append(masks)
    groups = np.repeat(np.arange(trees), [len(block[0]) for block in blocks])
    joined = [np.concatenate(parts) for parts in zip(*blocks, strict=True)]
    return RowKronecker.from_masks(joined, groups=groups)


PATHS = paths()
CELLS = int(np.prod(SIZES))
GROUPS = Grouping(np.arange(CELLS) // 6, SIZES)
BLOCKS = Dense(np.kron(np.tri(8), np.ones((1, 18))))
CASES = {
    "identity": (Identity(CELLS, SIZES), PATHS),
    "workload itself": (PATHS, PATHS),
    "reals": (Dense(RNG.normal(size=(160, CELLS))), PATHS),
    "marginals": (
        Marginals(SIZES, [(0, 1), (2, 3), ()], [0.5, 0.3, 0.2]),
        Marginals(SIZES, [(0,)], [1]),
    ),
    "stack": (Stack([Identity(CELLS, SIZES), PATHS]), PATHS),
    "merged": (Product(Dense(RNG.normal(size=(30, 24))), GROUPS), BLOCKS),
    "merged, deficient": (Product(Dense(np.tri(8).repeat(3, axis=1)), GROUPS), BLOCKS),
}


def simulated(strategy, workload, budget, neighboring, noise, releases=RELEASES):
    """Return the mean squared error, per row and class, over fresh releases.

    The class columns of one release carry independent noise of the same law, so one release
    of 2000 classes is 2000 releases of one class.
    """
    codes = np.stack([RNG.integers(0, size, 500) for size in SIZES], axis=1)
    counts = count_cells(codes, np.arange(500) % releases, SIZES, releases)
    seed = None if noise == "exact" else 17
    release = measure(
        strategy, counts, budget, neighboring=neighboring, noise=noise, random_state=seed
    )
    truth = workload.to_dense() @ counts.answers(Identity(CELLS, SIZES))
    return ((reconstruct(release, workload) - truth) ** 2).mean(axis=1)


AMOUNTS = [{"epsilon": 0.3}, {"epsilon": 2.0}, {"rho": 0.05}, {"rho": 1.0}]
SIMULATED = [
    ("identity", AMOUNTS[1], NEIGHBORING[0]),
    ("identity", AMOUNTS[2], NEIGHBORING[1]),
    ("workload itself", AMOUNTS[1], NEIGHBORING[1]),
    ("workload itself", AMOUNTS[2], NEIGHBORING[0]),
    *product(sorted(CASES.keys() - {"identity", "workload itself"}), AMOUNTS[2:3], ["add_remove"]),
    ("reals", {"rho": 0.05}, "replace_one"),
]


@pytest.mark.parametrize(("name", "amount", "neighboring"), SIMULATED)
def test_simulated_releases_agree(name, amount, neighboring):
    strategy, workload = CASES[name]
    error = expected_error(strategy, workload, neighboring=neighboring, **amount)
    releases = MORE if name in FEW_ROWS else RELEASES
    found = simulated(strategy, workload, as_budget(**amount), neighboring, "research", releases)
    assert found.sum() == pytest.approx(error.total, rel=0.03)
    assert found == pytest.approx(error.row_variances, rel=0.25)


EXACT = [
    (CASES["identity"][0], Identity(CELLS, SIZES), {"epsilon": 1.0}, "add_remove", 500),
    (PATHS, PATHS, {"rho": 0.5}, "replace_one", 750),
]


@pytest.mark.parametrize(("strategy", "workload", "amount", "neighboring", "releases"), EXACT)
def test_exact_releases_agree(strategy, workload, amount, neighboring, releases):
    """Release-grade noise, unseeded: 6 % are at least six deviations of the total."""
    error = expected_error(strategy, workload, neighboring=neighboring, **amount)
    budget = as_budget(**amount)
    found = simulated(strategy, workload, budget, neighboring, "exact", releases)
    assert found.sum() == pytest.approx(error.total, rel=0.06)


def test_a_wrong_error_is_noticed():
    """Negative control: the error of another budget, 5 % off, is not within 3 %."""
    strategy, workload = CASES["identity"]
    error = expected_error(strategy, workload, epsilon=1.05)
    found = simulated(strategy, workload, PureDP(1), "add_remove", "research")
    assert found.sum() != pytest.approx(error.total, rel=0.03)


@pytest.mark.parametrize("name", CASES)
def test_large_noise_tends_to_the_continuous_formula(name):
    """``2 Δ² ||W A⁺||² / ε²`` and ``Δ² ||W A⁺||² / 2ρ``: the loss times the noise constant."""
    strategy, workload = CASES[name]
    for norm, amount, constant in (("l1", {"epsilon": 1e-3}, 2e6), ("l2", {"rho": 1e-6}, 5e5)):
        loss = evaluate(workload, strategy, norm=norm).loss
        error = expected_error(strategy, workload, **amount)
        assert error.total == pytest.approx(loss * constant, rel=1e-3)


def test_identity_on_a_single_cell():
    error = expected_error(np.eye(1), np.eye(1), epsilon=1.0, n_classes=3)
    variance = 2 * np.exp(-1) / (1 - np.exp(-1)) ** 2
    assert error.total == pytest.approx(3 * variance)
    assert error.rms_per_row == pytest.approx(sqrt(variance))
    assert error.noise_variance == pytest.approx(variance)
    assert error.noise_scale == error.sensitivity == 1


def test_rows():
    error = expected_error(np.eye(5), np.tri(5), epsilon=1.0, n_classes=2)
    assert error.row_variances == pytest.approx(error.noise_variance * np.arange(1, 6))
    assert error.row_rms == pytest.approx(np.sqrt(error.row_variances))
    assert error.worst_row == 4
    assert error.worst_rms == error.row_rms.max()
    assert error.total == pytest.approx(2 * error.row_variances.sum())
    assert error.rms_per_row == pytest.approx(sqrt(error.row_variances.mean()))


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_a_strategy_has_its_own_total(norm):
    strategy = select(PATHS, norm=norm, method="identity")
    amount = {"epsilon": 0.5} if norm == "l1" else {"rho": 0.5}
    alone, asked = expected_error(strategy, **amount), expected_error(strategy, PATHS, **amount)
    assert alone.total == pytest.approx(asked.total, rel=1e-6)
    with pytest.raises(ValueError, match="need the workload"):
        _ = alone.rms_per_row
    gram = expected_error(strategy, Gram(PATHS.gram_dense()), **amount)
    assert gram.total == pytest.approx(asked.total, rel=1e-6)
    with pytest.raises(ValueError, match="need the workload"):
        _ = gram.worst_row


@pytest.mark.parametrize("neighboring", NEIGHBORING)
def test_other_budgets_need_no_new_algebra(neighboring):
    for amounts in ([{"epsilon": 1.0}, {"epsilon": 0.1}], [{"rho": 1.0}, {"rho": 0.1}]):
        start = expected_error(np.eye(5), np.tri(5), neighboring=neighboring, **amounts[0])
        other = expected_error(np.eye(5), np.tri(5), neighboring=neighboring, **amounts[1])
        assert start.at(**amounts[1]).total == other.total
        assert start.at(**amounts[1]).budget == other.budget
        assert start.at(**amounts[1]).row_squares is start.row_squares
    with pytest.raises(ValueError, match="of the kind"):
        start.at(epsilon=1.0)


def test_infinite_budget_has_no_error():
    error = expected_error(np.eye(5), np.tri(5), epsilon=inf)
    assert error.total == error.rms_per_row == 0
    assert "no noise" in repr(error)


def test_direct_answers():
    """Noise on every tree's leaves: the sensitivity is the number of trees."""
    error = direct_error(PATHS, epsilon=1.0, n_classes=3)
    assert error.sensitivity == 6
    assert error.total == pytest.approx(3 * PATHS.shape[0] * error.noise_variance)
    assert error.rms_per_row == pytest.approx(sqrt(2) * 6, rel=0.01)
    counts = count_cells(np.zeros((1, 4), dtype=int), np.zeros(1, dtype=int), SIZES, RELEASES)
    release = measure(PATHS, counts, PureDP(1), noise="research", random_state=3)
    noise = release.answers - counts.answers(PATHS)
    assert (noise**2).mean(axis=1).sum() == pytest.approx(
        direct_error(PATHS, epsilon=1.0).total, rel=0.03
    )
    quarters = direct_error(np.eye(3) / 4, epsilon=1.0)  # the units of the answers follow
    assert quarters.total == pytest.approx(direct_error(np.eye(3), epsilon=1.0).total / 16)


def test_planning_takes_no_data():
    for function in (expected_error, direct_error):
        names = set(inspect.signature(function).parameters)
        assert names.isdisjoint({"counts", "codes", "labels", "X", "y", "records", "data"})


def test_printing():
    text = repr(expected_error(np.eye(4), np.tri(4), epsilon=0.5, neighboring="replace_one"))
    assert "PureDP(epsilon=0.5) under replace_one neighbours" in text
    uneven = np.array([[1, 0.37], [0.21, 1]])  # rounded to integers of large scale
    assert repr(expected_error(uneven, uneven, epsilon=1)).endswith("noise of scale 1.37)")
    assert repr(expected_error(uneven, uneven, epsilon=inf)).endswith("no noise)")


BAD = {
    "no budget": ({"epsilon": None}, BudgetError, "no budget"),
    "two budgets": ({"rho": 1.0}, BudgetError, "exactly one"),
    "zero": ({"epsilon": 0}, BudgetError, "epsilon"),
    "negative": ({"epsilon": -1.0}, BudgetError, "epsilon"),
    "nan": ({"epsilon": nan}, BudgetError, "NaN"),
    "text": ({"epsilon": "1"}, TypeError, "epsilon"),
    "relation": ({"neighboring": "both"}, ValueError, "neighboring"),
    "classes": ({"n_classes": 0}, ValueError, "n_classes"),
    "half a class": ({"n_classes": 1.5}, ValueError, "n_classes"),
    "no workload": ({"workload": None}, ValueError, "workload is None"),
    "other cells": ({"workload": np.eye(3)}, ValueError, "3 columns"),
    "outside": ({"strategy": np.ones((1, 4))}, RowSpaceError, "rows 0"),
    "norm": ({"strategy": evaluate(np.eye(4), np.eye(4), "l2")}, ValueError, "norm"),
    "no strategy": ({"strategy": None}, (TypeError, ValueError), "strategy"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(case):
    change, error, message = BAD[case]
    arguments = {"strategy": np.eye(4), "workload": np.tri(4), "epsilon": 1.0}
    with pytest.raises(error, match=message):
        expected_error(**{**arguments, **change})


# The smallest budget -----------------------------------------------------------------------------


@pytest.mark.parametrize(("norm", "name"), [("l1", "epsilon"), ("l2", "rho")])
@pytest.mark.parametrize("size", [0.05, 0.4, 3.0, 50.0])
def test_the_targets_hold_there_and_not_a_little_below(norm: str, name: str, size: float) -> None:
    targets = size * np.linspace(1.0, 2.0, 6)
    budget = smallest_release_budget(np.eye(6), np.tri(6), targets, norm=norm)
    assert (expected_error(np.eye(6), np.tri(6), **{name: budget.amount}).row_rms <= targets).all()
    less = budget.amount * (1 - Fraction(1, 50_000))
    assert (expected_error(np.eye(6), np.tri(6), **{name: less}).row_rms > targets).any()


def test_it_agrees_with_continuous_noise_where_targets_are_wide() -> None:
    found = smallest_budget(np.tri(6), 40.0, random_state=0, time_limit=0.2)
    exact = smallest_release_budget(found.strategy, np.tri(6), 40.0)
    assert float(exact.amount) == pytest.approx(found.amount, rel=1e-3)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"targets": [1.0]}, "targets has shape"),
        ({"targets": 0.0}, "positive"),
        ({"targets": np.inf}, "finite"),
        ({"targets": 1.0, "norm": "l3"}, "norm='l3'"),
    ],
)
def test_nonsense_is_refused_by_name(given: dict, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        smallest_release_budget(np.eye(3), np.eye(3), **given)


def test_a_worst_row_is_no_total() -> None:
    strategy = smallest_budget(np.tri(3), 1.0, time_limit=0.1).strategy
    with pytest.raises(ValueError, match="objective='max'"):
        expected_error(strategy, epsilon=1.0)
