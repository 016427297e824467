"""Displays of plans and searches draw the plan's own figures, with labelled axes."""

import numpy as np
import pytest

from mrf_matrix import Domain
from mrf_matrix.planning import plan, tune

plt = pytest.importorskip("matplotlib.pyplot")

DOMAIN = Domain.from_sizes([3, 4, 2], n_classes=2)
SMALL = {"n_trees": 3, "max_depth": 1, "random_state": 0, "time_limit": 0.2}


@pytest.fixture(scope="module")
def made():
    return plan(DOMAIN, epsilon=1, n_records=200, strategy="identity", **SMALL)


@pytest.fixture(scope="module")
def found():
    space = {"max_depth": [1, 2], "n_trees": [4], "strategy": ["identity"]}
    return tune(DOMAIN, epsilon=1, n_records=200, space=space)


@pytest.fixture(autouse=True)
def close_figures():
    plt.switch_backend("agg")
    yield
    plt.close("all")


def labelled(ax):
    return bool(ax.get_xlabel() and ax.get_ylabel() and ax.get_title())


def test_leaf_errors_are_a_map_of_the_partition(made):
    from mrf_matrix.plotting import LeafErrorDisplay

    for tree in range(3):
        display = LeafErrorDisplay.from_plan(made, tree=tree)
        drawn = display.ax_.images[0].get_array()
        mine = made.row_rms[made.forest.leaf_tree == tree]
        assert np.unique(np.asarray(drawn)) == pytest.approx(np.unique(mine))
    deep = plan(DOMAIN, epsilon=1, strategy="identity", **{**SMALL, "max_depth": 3})
    assert labelled(LeafErrorDisplay.from_plan(deep).ax_)
    with pytest.raises(ValueError, match="tree"):
        LeafErrorDisplay.from_plan(made, tree=9)
    votes = plan(DOMAIN, "batch", epsilon=1, strategy="identity", **SMALL)
    with pytest.raises(ValueError, match="matrix"):
        LeafErrorDisplay.from_plan(votes)


def test_many_leaves_are_a_curve_and_few_are_bars():
    from mrf_matrix.plotting import LeafErrorDisplay

    domain = Domain.from_sizes([5, 5, 5], n_classes=2)
    for depth, bars in ((3, 0), (2, None)):
        deep = plan(domain, epsilon=1, strategy="identity", **{**SMALL, "max_depth": depth})
        ax = LeafErrorDisplay.from_plan(deep).ax_
        errors = deep.row_rms[deep.forest.leaf_tree == 0]
        if bars == 0:
            assert not ax.patches
            assert ax.lines[0].get_ydata() == pytest.approx(np.sort(errors)[::-1])
        assert labelled(ax)


def test_sensitivity_curves_end_at_the_sensitivity(made):
    from mrf_matrix.plotting import CellSensitivityDisplay

    several = plan(DOMAIN, epsilon=1, n_ensembles=2, max_features=2, strategy="workload_itself",
                   **SMALL)  # fmt: skip
    for one in (made, several):
        display = CellSensitivityDisplay.from_plan(one)
        tops = [line.get_ydata()[0] for line in display.ax_.lines[: len(one.parts)]]
        assert max(tops) == pytest.approx(one.sensitivity)
        assert labelled(display.ax_)


def test_error_curves_are_the_plans_own(made):
    from mrf_matrix.plotting import ErrorCurveDisplay

    display = ErrorCurveDisplay.from_plan({"a": made, "b": made.at(epsilon=2)}, amounts=[0.5, 1])
    assert display.ax_.lines[0].get_ydata()[1] == pytest.approx(made.rms_per_leaf)
    assert labelled(display.ax_)
    gaussian = plan(DOMAIN, rho=1, strategy="identity", **SMALL)
    assert "ρ" in ErrorCurveDisplay.from_plan(gaussian).ax_.get_xlabel()
    with pytest.raises(ValueError, match="kinds or budgets"):
        ErrorCurveDisplay.from_plan({"a": made, "b": gaussian})


def test_strategies_never_cross_their_bound(made):
    from mrf_matrix.plotting import StrategyBoundDisplay

    auto = plan(DOMAIN, epsilon=1, **SMALL)
    display = StrategyBoundDisplay.from_plan(auto)
    assert min(display.losses.values()) >= auto.strategy.lower_bound
    baseline = plan(DOMAIN, epsilon=1, allocation="per_tree", **SMALL)
    with pytest.raises(ValueError, match="allocation"):
        StrategyBoundDisplay.from_plan(baseline)


def test_matrices_invert_each_other(made):
    from mrf_matrix.plotting import MatrixDisplay

    display = MatrixDisplay.of(made)
    T, A, inverse = (display.matrices[name] for name in ("T", "A", "A⁺"))
    assert T @ inverse @ A == pytest.approx(T)
    assert len(display.axes_) == 3
    with pytest.raises(ValueError, match="ensemble"):
        MatrixDisplay.of(made, ensemble=4)
    assert [len(one.texts) for one in display.axes_] == [0, 0, 0]  # numbers on small ones only
    large = plan(Domain.from_sizes([30, 30, 30], n_classes=2), epsilon=1, strategy="identity",
                 **SMALL)  # fmt: skip
    with pytest.raises(ValueError, match="entries"):
        MatrixDisplay.of(large)


def test_the_front_holds_the_best(found):
    from mrf_matrix.plotting import ParetoDisplay

    display = ParetoDisplay.from_tuning(found)
    assert found.best.value in display.ax_.lines[0].get_ydata()
    assert labelled(display.ax_)
    with pytest.raises(ValueError, match="against"):
        ParetoDisplay.from_tuning(found, against="beauty")


def test_a_best_design_without_the_figure_is_a_line():
    from mrf_matrix import Domain
    from mrf_matrix.planning import tune
    from mrf_matrix.plotting import ParetoDisplay

    trees = {"max_depth": [1], "n_trees": [4], "strategy": ["identity"]}
    given = {"epsilon": 1, "n_records": 200, "objective_options": {"n_targets": 2}}
    blocks = {"kind": ["tables"]}
    domain = Domain.from_sizes([2, 3], n_classes=2)
    found = tune(domain, space=[blocks, trees], **given)
    ax = ParetoDisplay.from_tuning(found, against="rms_per_vote").ax_
    assert found.kind == "tables"
    assert list(ax.lines[-1].get_ydata()) == [found.best.value] * 2
    with pytest.raises(ValueError, match="no design of the search"):
        ParetoDisplay.from_tuning(tune(domain, space=blocks, **given), against="rms_per_vote")


def test_displays_use_given_axes(made, found):
    from mrf_matrix import plotting

    for draw in (
        lambda ax: plotting.LeafErrorDisplay.from_plan(made, ax=ax),
        lambda ax: plotting.ErrorCurveDisplay.from_plan(made, ax=ax),
        lambda ax: plotting.CellSensitivityDisplay.from_plan(made, ax=ax),
        lambda ax: plotting.StrategyBoundDisplay.from_plan(made, ax=ax),
        lambda ax: plotting.ParetoDisplay.from_tuning(found, ax=ax),
    ):
        _, ax = plt.subplots()
        assert draw(ax).ax_ is ax
