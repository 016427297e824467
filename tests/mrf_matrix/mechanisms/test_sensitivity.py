"""What is called a sensitivity is how far one record moves what is measured, in records."""

import numpy as np
import pytest

from mrf_matrix import Domain, MatrixForestClassifier, expected_error, load_model, save_model
from mrf_matrix.estimators import PosteriorForestClassifier
from mrf_matrix.mechanisms import NEIGHBORING, as_budget, calibrate, count_cells, measure
from mrf_matrix.planning import plan
from mrf_matrix.reports import Measurement

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
