"""The guarantees themselves, by enumerating outputs on a tiny domain. Negative controls fail."""

from copy import copy
from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import log

import numpy as np
import pytest

from mrf_matrix import Domain, MatrixForestClassifier, expected_error, load_model, save_model
from mrf_matrix.estimators import PosteriorForestClassifier
from mrf_matrix.mechanisms import (
    NEIGHBORING,
    ZCDP,
    DiscreteGaussian,
    DiscreteLaplace,
    PureDP,
    as_budget,
    calibrate,
    count_cells,
    measure,
)
from mrf_matrix.planning import plan
from mrf_matrix.reports import Measurement
from strategies.operators import Dense

STRATEGIES = {
    "identity": np.eye(2),
    "chain": np.array([[1, 0], [1, 1]]),
    "signs": np.array([[1, -1], [0, 2]]),
    "real": np.array([[0.5, 0.25], [0.75, -0.25]]),
}
CLASSES = 2


def tables(n):
    """All data sets of at most two records, as n x k tables."""
    for cells in product(range(3), repeat=n * CLASSES):
        table = np.array(cells).reshape(n, CLASSES)
        if table.sum() <= 2:
            yield table


def neighbours(table, neighboring):
    """All neighbours of a table."""
    n = len(table)
    cells = list(product(range(n), range(CLASSES)))
    for cell in cells:
        if neighboring == "add_remove":
            more = table.copy()
            more[cell] += 1
            yield more
        elif table[cell]:
            for other in cells:
                changed = table.copy()
                changed[cell] -= 1
                changed[other] += 1
                yield changed


def pairs(matrix, neighboring):
    """Exact answers on all pairs of neighbours, in both orders, without repeats."""
    found = set()
    for table in tables(matrix.shape[1]):
        for other in neighbours(table, neighboring):
            first, second = (tuple((matrix @ t).ravel()) for t in (table, other))
            found |= {(first, second), (second, first)}
    return [tuple(map(np.array, pair)) for pair in sorted(found)]


def outputs(dimensions, reach):
    """All outputs in a box of Z^dimensions."""
    axes = [np.arange(-reach, reach + 1)] * dimensions
    return np.stack([axis.ravel() for axis in np.meshgrid(*axes)], axis=1)


def worst_log_ratio(mechanism, neighboring):
    """Largest log-probability ratio over outputs and neighbours, from the exact law."""
    matrix = mechanism.rounded.matrix.to_dense().astype(int)
    box = outputs(matrix.shape[0] * CLASSES, 5)
    worst = 0.0
    for first, second in pairs(matrix, neighboring):
        log_first = mechanism.law.log_pmf(box - first).sum(axis=1)
        log_second = mechanism.law.log_pmf(box - second).sum(axis=1)
        worst = max(worst, float((log_first - log_second).max()))
    return worst


@pytest.mark.parametrize("neighboring", NEIGHBORING)
@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("epsilon", [0.5, 1.7])
def test_pure_privacy_holds_and_is_used_up(name, neighboring, epsilon):
    mechanism = calibrate(STRATEGIES[name], PureDP(epsilon), neighboring=neighboring)
    worst = worst_log_ratio(mechanism, neighboring)
    assert worst <= epsilon * (1 + 1e-12)
    assert worst >= epsilon * (1 - 1e-9)


def with_law(mechanism, law):
    """Return a mechanism of another law, which no constructor of ours would make."""
    with pytest.raises(ValueError, match=r"needs discrete"):
        replace(mechanism, law=law)
    made = copy(mechanism)
    vars(made)["law"] = law
    return made


@pytest.mark.parametrize("neighboring", NEIGHBORING)
def test_half_the_scale_breaks_pure_privacy(neighboring):
    mechanism = calibrate(STRATEGIES["chain"], PureDP(1), neighboring=neighboring)
    halved = with_law(mechanism, DiscreteLaplace(mechanism.law.scale / 2))
    assert worst_log_ratio(halved, neighboring) > 1.9


def test_add_remove_noise_breaks_replace_one_privacy():
    mechanism = calibrate(STRATEGIES["identity"], PureDP(1), neighboring="add_remove")
    assert worst_log_ratio(mechanism, "replace_one") > 1.9


def divergences(law, reach=400):
    """Return D_α of the law shifted by s from the law itself, by plain summation."""
    values = np.arange(-reach, reach + 1)

    def renyi(shift, alpha):
        log_first, log_second = law.log_pmf(values - shift), law.log_pmf(values)
        terms = alpha * log_first + (1 - alpha) * log_second
        top = terms.max()
        return (top + log(np.exp(terms - top).sum())) / (alpha - 1)

    return renyi


def worst_concentrated(mechanism, neighboring, alphas=(1.001, 1.5, 2.0, 5.0, 20.0)):
    """Largest D_α / α over neighbours: independent coordinates add up."""
    matrix = mechanism.rounded.matrix.to_dense().astype(int)
    renyi = divergences(mechanism.law)
    worst = 0.0
    changes = {tuple(np.abs(a - b)) for a, b in pairs(matrix, neighboring)}
    for change in changes:
        for alpha in alphas:
            worst = max(worst, sum(renyi(int(step), alpha) for step in change) / alpha)
    return worst


CONCENTRATED = {name: STRATEGIES[name] for name in ("identity", "chain", "signs")}


@pytest.mark.parametrize("neighboring", NEIGHBORING)
@pytest.mark.parametrize("name", CONCENTRATED)
@pytest.mark.parametrize("rho", [0.05, 0.3])
def test_concentrated_privacy_holds_and_is_used_up(name, neighboring, rho):
    mechanism = calibrate(CONCENTRATED[name], ZCDP(rho), neighboring=neighboring)
    worst = worst_concentrated(mechanism, neighboring)
    assert worst <= rho * (1 + 1e-9)
    # "signs" is charged the factor 2 for its negative entry, although no pair of its columns is
    # as far apart as that
    if name != "signs" or neighboring == "add_remove":
        assert worst >= rho * (1 - 1e-2)


@pytest.mark.parametrize("neighboring", NEIGHBORING)
def test_half_the_scale_breaks_concentrated_privacy(neighboring):
    mechanism = calibrate(STRATEGIES["chain"], ZCDP(0.1), neighboring=neighboring)
    halved = with_law(mechanism, DiscreteGaussian(mechanism.law.scale / 2))
    assert worst_concentrated(halved, neighboring) > 0.35


def test_root_two_is_not_enough_for_opposite_columns():
    """Negative control of the rule for strategies with negative entries."""
    mechanism = calibrate(np.array([[1, -1], [0, 0]]), ZCDP(0.1), neighboring="replace_one")
    assert worst_concentrated(mechanism, "replace_one") == pytest.approx(0.1, rel=1e-2)
    tighter = DiscreteGaussian.calibrated(1, 2, Fraction(1, 10))
    assert worst_concentrated(with_law(mechanism, tighter), "replace_one") > 0.19


def test_releases_have_the_mechanisms_law():
    """What `measure` gives out is Ã D plus that law: checked on the outputs themselves."""
    codes, labels = np.array([[0], [1], [1]]), np.array([0, 0, 1])
    strategy = Dense([[1, 0], [1, 1]])
    copies = 3000
    counts = count_cells(np.tile(codes, (copies, 1)), np.arange(copies).repeat(3), (2,), copies)
    release = measure(strategy, counts, PureDP(1))
    truth = np.array([[1], [3]])
    assert labels.shape == (3,)
    noise = (release.answers - truth).astype(float)
    spread = np.sqrt(5 * release.variance**2 / noise.size)
    assert abs((noise**2).mean() - release.variance) < 9 * spread
    assert abs(noise.mean()) < 6 * np.sqrt(release.variance / noise.size)


# Sensitivities -----------------------------------------------------------------------------------


BUDGETS = ({"epsilon": 0.5, "rho": None}, {"epsilon": None, "rho": 0.5})
MATRIX = np.array([[1.0, 0.3, 0.0], [0.5, 0.7, 1.1], [0.0, 0.25, 1 / 3]])
DOMAIN = Domain.from_sizes([3, 2, 2], n_classes=2)
RECORDS = np.array([[0, 0, 0], [1, 1, 1], [2, 0, 1], [2, 1, 0]] * 5)
LABELS = np.arange(20) % 2


def moved(matrix, budget, neighboring):
    """Return the largest distance between the answers of neighbours, by trying all pairs.

    A record is a cell and one of two classes: a table of cells by classes.
    """
    order = 1 if budget["rho"] is None else 2
    cells = matrix.shape[1]
    units = [np.zeros((cells, 2)) for _ in range(2 * cells)]
    for number, unit in enumerate(units):
        unit[number // 2, number % 2] = 1
    if neighboring == "add_remove":
        changes = units
    else:
        changes = [one - other for one in units for other in units]
    return max(np.linalg.norm((matrix @ change).ravel(), order) for change in changes)


@pytest.mark.parametrize("neighboring", NEIGHBORING)
@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("matrix", [MATRIX, np.eye(3), 7 * np.eye(3)], ids=["real", "one", "7"])
def test_releases_and_errors_state_it(matrix, budget, neighboring):
    expected = moved(matrix, budget, neighboring)
    mechanism = calibrate(matrix, as_budget(**budget), neighboring=neighboring)
    assert mechanism.sensitivity == pytest.approx(expected, rel=1e-6)
    counts = count_cells(np.zeros((1, 1), int), np.zeros(1, int), sizes=(3,), n_classes=2)
    release = measure(mechanism, counts)
    assert release.sensitivity == pytest.approx(expected, rel=1e-6)
    error = expected_error(matrix, np.ones((1, 3)), neighboring=neighboring, **budget)
    assert error.sensitivity == pytest.approx(expected, rel=1e-6)
    shown = f"{release.sensitivity:.6g} "
    assert shown in str(release)
    assert shown in release._repr_html_()
    assert str(Measurement.of(release, "cells")).startswith(
        f"cells: {2 * len(matrix)} noisy integers of sensitivity {expected:.6g},"
    )


@pytest.mark.parametrize("neighboring", NEIGHBORING)
@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("strategy", ["identity", "workload_itself"])
def test_plan_release_and_report_agree(strategy, budget, neighboring):
    same = {"n_trees": 3, "max_depth": 2, "random_state": 0, "neighboring": neighboring,
            "strategy": strategy, "time_limit": 0.1, **budget}  # fmt: skip
    made = plan(DOMAIN, **same)
    model = MatrixForestClassifier(DOMAIN, **same).fit(RECORDS, LABELS)
    matrix = made.strategy.matrix.to_dense()
    assert made.sensitivity == pytest.approx(moved(matrix, budget, neighboring), rel=1e-6)
    assert made.to_dict()["sensitivity"] == made.sensitivity
    report = model.privacy_report_
    assert report.sensitivity == made.sensitivity == report.to_dict()["sensitivity"]
    (release,) = model.releases_ if hasattr(model, "releases_") else (model.release_,)
    assert release.sensitivity == made.sensitivity


@pytest.mark.parametrize("neighboring", NEIGHBORING)
@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_tables_of_a_posterior_forest_are_in_records(tmp_path, budget, neighboring):
    made = plan(DOMAIN, "tables", random_state=0, neighboring=neighboring, **budget)
    model = PosteriorForestClassifier(
        DOMAIN, random_state=0, neighboring=neighboring, **budget
    ).fit(RECORDS, LABELS)
    assert model.privacy_report_.sensitivity == pytest.approx(made.sensitivity)
    save_model(model, tmp_path / "model.mrf")
    loaded = load_model(tmp_path / "model.mrf")
    assert loaded.privacy_report_.sensitivity == model.privacy_report_.sensitivity
