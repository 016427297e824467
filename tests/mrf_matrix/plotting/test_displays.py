"""Displays draw what the study found, with labelled axes."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.dummy import DummyClassifier

import strategies
from mrf_matrix import (
    Attribute,
    Domain,
    PrivacyLedger,
    PureDP,
    compare,
    load_dataset,
    path_matrix,
    plotting,
)
from mrf_matrix.estimators import PosteriorForestClassifier
from mrf_matrix.forests import forest_from_paths
from mrf_matrix.planning import plan, tune
from mrf_matrix.plotting import (
    AccuracyDisplay,
    BudgetDisplay,
    CellSensitivityDisplay,
    ErrorCurveDisplay,
    LeafErrorDisplay,
    MatrixDisplay,
    NoiseDisplay,
    ParetoDisplay,
    ReliabilityDisplay,
    RowErrorDisplay,
    StrategyBoundDisplay,
    StrategyErrorDisplay,
    StrengthDisplay,
)
from mrf_matrix.study import expected_calibration_error, importance
from strategies.operators import Dense, Identity

plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(scope="module")
def study():
    return compare(
        load_dataset("monks_1"),
        kind=["matrix", "naive_bayes"],
        n_trees=4,
        max_depth=2,
        epsilons=[0.5, 2.0],
        n_splits=1,
        n_draws=1,
        strategy="identity",
    )


@pytest.fixture(autouse=True)
def close_figures():
    plt.switch_backend("agg")
    yield
    plt.close("all")


def test_accuracy_display_draws_every_method_best_first(study):
    display = AccuracyDisplay.from_comparison(study)
    _, labels = display.ax_.get_legend_handles_labels()
    said = [text.get_text().split(" (")[0] for text in display.ax_.get_legend().get_texts()]
    ranked = [method.label for method in study.ranking()]
    assert said == ranked + [method.label for method in study.methods if not method.spends]
    assert len(labels) == len(study.methods)
    means = [np.mean([one.mean for one in study.summaries() if one.method == method.key])
             for method in study.ranking()]  # fmt: skip
    assert means == sorted(means, reverse=True)
    assert "ε (pure DP" in display.ax_.get_xlabel()
    assert "accuracy" in display.ax_.get_ylabel()
    approximate = replace(study, settings=study.settings | {"delta": 1e-6})
    ax = AccuracyDisplay.from_comparison(approximate).ax_
    assert "ε (δ = 1e-06" in ax.get_xlabel()


def test_strategy_display_draws_losses_and_the_bound(study):
    display = StrategyErrorDisplay.from_comparison(study)
    drawn = display.ax_.collections[0].get_offsets()[:, 0].tolist()
    assert drawn == [row.loss for row in study.strategies]
    bold = [t.get_text() for t in display.ax_.get_yticklabels() if t.get_fontweight() == "bold"]
    assert bold == ["selected: identity"] == [r.name for r in study.strategies if r.is_selected]
    assert sum("identity" in row.name for row in study.strategies) == 1


def test_a_ranking_of_losses_begins_with_the_smallest(study):
    means = [study.summary(one.key, 2.0, "brier").mean for one in study.ranking("brier")]
    known = [one for one in means if one is not None]
    assert means[: len(known)] == known == sorted(known)
    assert len(known) > 1


def test_displays_use_given_axes(study):
    _, ax = plt.subplots()
    assert AccuracyDisplay.from_comparison(study, ax=ax).ax_ is ax


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_strategies_without_a_study(norm):
    workload = np.tri(6)
    drawn = {
        "cells": strategies.evaluate(workload, np.eye(6), norm),
        "itself": strategies.evaluate(workload, workload, norm),
    }
    ax = StrategyErrorDisplay.from_strategies(drawn, title="prefixes").ax_
    points = ax.collections[0].get_offsets()
    assert list(points[:, 0]) == [one.loss for one in drawn.values()]
    assert [tick.get_text() for tick in ax.get_yticklabels()] == list(drawn)
    assert ("rho" in ax.get_xlabel()) == (norm == "l2")


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_errors_of_rows_are_drawn_worst_first(norm):
    workload = np.tri(6)
    drawn = {
        "total": strategies.evaluate(workload, np.eye(6), norm),
        "max": strategies.evaluate(workload, np.eye(6) + np.ones((6, 6)), norm, "max"),
    }
    ax = RowErrorDisplay.from_strategies(drawn, workload, title="prefixes").ax_
    lines = {line.get_label(): line.get_ydata() for line in ax.lines}
    for name, one in drawn.items():
        np.testing.assert_allclose(lines[name][:-1], np.sort(one.row_errors(workload))[::-1])
    marks = [line.get_ydata()[0] for line in ax.lines if len(line.get_ydata()) == 1]
    assert marks == [one.row_errors(workload).mean() for one in drawn.values()]
    assert lines["lower bound on the largest"][0] == drawn["max"].lower_bound
    assert ("rho" in ax.get_ylabel()) == (norm == "l2")
    assert "records²" in ax.get_ylabel()


def test_strategies_of_both_norms_have_no_common_scale():
    both = {norm: strategies.evaluate(np.eye(2), np.eye(2), norm) for norm in ("l1", "l2")}
    for given in (both, {}):
        with pytest.raises(ValueError, match="all of one norm"):
            StrategyErrorDisplay.from_strategies(given)
        with pytest.raises(ValueError, match="all of one norm"):
            RowErrorDisplay.from_strategies(given, np.eye(2))


def test_a_matrix_among_strategies_is_named():
    for given, words in (({"mine": np.eye(2)}, "'mine'"), ([np.eye(2)], "a mapping")):
        for display in (RowErrorDisplay, NoiseDisplay):
            with pytest.raises(TypeError, match=words):
                display.from_strategies(given, np.eye(2))


def test_a_ledger_is_one_bar_of_at_most_six_charges():
    ledger = PrivacyLedger(epsilon=2)
    for number in range(8):
        ledger.charge(PureDP(0.125), f"fit {number}", neighboring="add_remove")
    ax = BudgetDisplay.from_ledger(ledger).ax_
    widths = [patch.get_width() for patch in ax.patches]
    assert sum(widths) == 2
    assert len(widths) == 7
    assert "3 more: 0.375" in ax.get_legend_handles_labels()[1]
    with pytest.raises(ValueError, match="infinite"):
        BudgetDisplay.from_ledger(PrivacyLedger(epsilon=float("inf")))


def test_a_fitted_model_is_bars_of_its_importance():
    data = load_dataset("monks_1")
    model = PosteriorForestClassifier(data.domain, epsilon=5).fit(data.X, data.y)
    ax = StrengthDisplay.from_estimator(model).ax_
    widths = [patch.get_width() for patch in ax.patches]
    assert widths == pytest.approx(list(importance(model).values()))
    assert len(ax.get_yticklabels()) == len(widths)


# Reliability -------------------------------------------------------------------------------------


Y = np.array(["a", "b", "a", "a"])
SHARES = np.array([[0.9, 0.1], [0.6, 0.4], [0.3, 0.7], [0.8, 0.2]])


def labels(display):
    return display.ax_.get_legend_handles_labels()[1]


def test_the_legend_names_classifiers_and_their_calibration_errors():
    given = {"one": SHARES, "other": SHARES[:, ::-1]}
    display = ReliabilityDisplay.from_predictions(Y, given, classes=["a", "b"])
    errors = [
        expected_calibration_error(Y, shares, 10, classes=["a", "b"]) for shares in given.values()
    ]
    assert labels(display) == [
        "calibrated",
        f"one (ECE {errors[0]:.3f})",
        f"other (ECE {errors[1]:.3f})",
    ]
    assert "probability" in display.ax_.get_xlabel()
    assert "right" in display.ax_.get_ylabel()


def test_points_lie_where_the_bins_are():
    display = ReliabilityDisplay.from_predictions(Y, SHARES, classes=["a", "b"], n_bins=10)
    drawn = np.asarray(display.ax_.collections[0].get_offsets())
    np.testing.assert_allclose(drawn, [[0.6, 0], [0.7, 0], [0.8, 1], [0.9, 1]])


def test_estimators_are_drawn_into_given_axes_with_colours_of_their_own():
    model = DummyClassifier(strategy="prior").fit(SHARES, Y)
    _, ax = plt.subplots()
    first = ReliabilityDisplay.from_estimator(model, SHARES, Y, ax=ax)
    second = ReliabilityDisplay.from_estimator(model, SHARES, Y, name="again", ax=ax)
    assert first.ax_ is second.ax_ is ax
    assert labels(second) == ["calibrated", "DummyClassifier (ECE 0.000)", "again (ECE 0.000)"]
    colours = {tuple(one.get_facecolor()[0]) for one in ax.collections}
    assert len(colours) == 2


def test_no_curves_are_refused():
    with pytest.raises(ValueError, match="curves is empty"):
        ReliabilityDisplay({})


# Plans and searches ------------------------------------------------------------------------------


DOMAIN = Domain.from_sizes([3, 4, 2], n_classes=2)
SMALL = {"n_trees": 3, "max_depth": 1, "random_state": 0, "time_limit": 0.2}


@pytest.fixture(scope="module")
def made():
    return plan(DOMAIN, epsilon=1, n_records=200, strategy="identity", **SMALL)


@pytest.fixture(scope="module")
def found():
    space = {"max_depth": [1, 2], "n_trees": [4], "strategy": ["identity"]}
    return tune(DOMAIN, epsilon=1, n_records=200, space=space)


def labelled(ax):
    return bool(ax.get_xlabel() and ax.get_ylabel() and ax.get_title())


def test_leaf_errors_are_a_map_of_the_partition(made):
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


def test_a_tree_is_drawn_in_the_memory_of_its_leaves():
    """Not in that of a mask for each leaf and code of the forest: here 64 MB of them."""
    made = plan(Domain.from_sizes([4, 8000], n_classes=2), "naive_bayes", epsilon=1)
    LeafErrorDisplay.from_plan(made)
    tracemalloc.start()
    try:
        for tree in (0, 1):
            assert LeafErrorDisplay.from_plan(made, tree=tree).ax_.get_title()
        assert tracemalloc.get_traced_memory()[1] < 30e6
    finally:
        tracemalloc.stop()


def test_many_leaves_are_a_curve_and_few_are_bars():
    domain = Domain.from_sizes([5, 5, 5], n_classes=2)
    for depth, bars in ((3, 0), (2, None)):
        deep = plan(domain, epsilon=1, strategy="identity", **{**SMALL, "max_depth": depth})
        ax = LeafErrorDisplay.from_plan(deep).ax_
        errors = deep.row_rms[deep.forest.leaf_tree == 0]
        if bars == 0:
            assert not ax.patches
            assert ax.lines[0].get_ydata()[:-1] == pytest.approx(np.sort(errors)[::-1])
        assert labelled(ax)


def test_sensitivity_curves_end_at_the_sensitivity(made):
    several = plan(DOMAIN, epsilon=1, n_ensembles=2, max_features=2, strategy="workload_itself",
                   **SMALL)  # fmt: skip
    for one in (made, several):
        display = CellSensitivityDisplay.from_plan(one)
        tops = [line.get_ydata()[0] for line in display.ax_.lines[: len(one.parts)]]
        assert max(tops) == pytest.approx(one.sensitivity)
        assert labelled(display.ax_)


def test_error_curves_are_the_plans_own(made):
    display = ErrorCurveDisplay.from_plan({"a": made, "b": made.at(epsilon=2)}, amounts=[0.5, 1])
    assert display.ax_.lines[0].get_ydata()[1] == pytest.approx(made.rms_per_leaf)
    assert labelled(display.ax_)
    gaussian = plan(DOMAIN, rho=1, strategy="identity", **SMALL)
    assert "ρ" in ErrorCurveDisplay.from_plan(gaussian).ax_.get_xlabel()
    with pytest.raises(ValueError, match="kinds or budgets"):
        ErrorCurveDisplay.from_plan({"a": made, "b": gaussian})


def test_strategies_never_cross_their_bound(made):
    auto = plan(DOMAIN, epsilon=1, **SMALL)
    display = StrategyBoundDisplay.from_plan(auto)
    assert min(display.losses.values()) >= auto.strategy.lower_bound
    baseline = plan(DOMAIN, epsilon=1, allocation="per_tree", **SMALL)
    with pytest.raises(ValueError, match="allocation"):
        StrategyBoundDisplay.from_plan(baseline)


def test_matrices_invert_each_other(made):
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
    display = ParetoDisplay.from_tuning(found)
    assert found.best.value in display.ax_.lines[0].get_ydata()
    assert labelled(display.ax_)
    with pytest.raises(ValueError, match="against"):
        ParetoDisplay.from_tuning(found, against="beauty")


def test_a_best_design_without_the_figure_is_a_line():
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


def test_plan_displays_use_given_axes(made, found):
    for draw in (
        lambda ax: plotting.LeafErrorDisplay.from_plan(made, ax=ax),
        lambda ax: plotting.ErrorCurveDisplay.from_plan(made, ax=ax),
        lambda ax: plotting.CellSensitivityDisplay.from_plan(made, ax=ax),
        lambda ax: plotting.StrategyBoundDisplay.from_plan(made, ax=ax),
        lambda ax: plotting.ParetoDisplay.from_tuning(found, ax=ax),
    ):
        _, ax = plt.subplots()
        assert draw(ax).ax_ is ax


# Matrices -----------------------------------------------------------------------------------------

TENNIS = Domain(
    [
        Attribute("outlook", categories=["sunny", "overcast", "rainy"]),
        Attribute("windy", categories=["false", "true"]),
    ],
    target=Attribute("play", categories=["no", "yes"]),
)
PATHS = np.array([[0, -1], [1, -1], [2, -1], [-1, 0], [-1, 1]])
FOREST = forest_from_paths(PATHS, np.array([0, 0, 0, 1, 1]), TENNIS)
T = path_matrix(FOREST)
SELECTED = strategies.select(T, norm="l2", random_state=0)
PLANNED = plan(FOREST, "matrix", epsilon=1, strategy="identity", random_state=0)
MEASURED = {
    "leaves": strategies.evaluate(T, T, "l2"),
    "cells": strategies.evaluate(T, np.eye(6), "l2"),
    "selected": SELECTED,
}


def ticks(axis):
    return [one.get_text() for one in axis.get_ticklabels()]


@pytest.mark.parametrize(
    ("drawn", "titles"),
    [
        (lambda: FOREST, ["T"]),
        (lambda: PLANNED, ["T", "A", "A⁺"]),
        (lambda: SELECTED, ["A", "A⁺"]),
        (lambda: T, ["RowKronecker"]),
        (lambda: np.tri(3), ["matrix"]),
        (lambda: sparse.eye_array(3), ["matrix"]),
        (lambda: MEASURED, list(MEASURED)),
        (lambda: {"T": T, "D": np.eye(6)[:, :2]}, ["T", "D"]),
    ],
    ids=["forest", "plan", "strategy", "operator", "array", "sparse", "strategies", "arrays"],
)  # fmt: skip
def test_whatever_has_matrices_is_drawn(drawn, titles):
    display = MatrixDisplay.of(drawn())
    assert [ax.get_title().split(",")[0] for ax in display.axes_] == titles
    for ax, matrix in zip(display.axes_, display.matrices.values(), strict=True):
        (image,) = ax.images
        np.testing.assert_array_equal(image.get_array(), matrix)
        low, high = image.get_clim()
        assert high == np.abs(matrix).max()
        assert low == (-high if (matrix < 0).any() else 0.0)
        assert [text.get_text() for text in ax.texts] == [f"{one + 0.0:.2g}" for one in matrix.flat]


def test_rows_and_cells_are_told_in_words():
    (ax,) = MatrixDisplay.of(FOREST).axes_
    assert ticks(ax.yaxis)[0] == "outlook = sunny"
    assert ticks(ax.xaxis)[:2] == ["sunny, false", "sunny, true"]
    _, _, inverse = MatrixDisplay.of(PLANNED).axes_
    assert ticks(inverse.yaxis)[0] == "sunny, false"  # rows of A⁺ are cells
    asked, *_, answers = MatrixDisplay.of(SELECTED, T).axes_
    assert ticks(asked.yaxis) == ticks(answers.yaxis) == T.row_words()  # W and W A⁺
    leaves, cells, _ = MatrixDisplay.of(MEASURED).axes_
    assert ticks(leaves.yaxis) == T.row_words()
    assert "outlook" not in "".join(ticks(cells.yaxis))  # other measurements
    leaves, selected = MatrixDisplay.of({"T": T, "A": SELECTED.matrix}).axes_
    assert ticks(leaves.yaxis) == T.row_words()
    assert "outlook" not in "".join(ticks(selected.yaxis))  # as many rows, and other ones


def test_a_lone_entry_among_thousands_is_seen():
    matrix = np.zeros((1728, 1200))
    matrix[1001, 77], matrix[3, 1199] = 1.0, -2.0
    (image,) = MatrixDisplay.of({"A": matrix}).axes_[0].images
    drawn = np.asarray(image.get_array())
    assert max(drawn.shape) <= 400
    assert sorted(drawn[drawn != 0]) == [-2.0, 1.0]
    assert image.get_extent() == [-0.5, 1199.5, 1727.5, -0.5]  # ticks are rows and cells


def test_axes_say_what_rows_and_columns_are():
    def sides(drawn, *workload):
        return [
            (ax.get_ylabel(), ax.get_xlabel()) for ax in MatrixDisplay.of(drawn, *workload).axes_
        ]

    assert sides(FOREST) == sides(T) == sides({"paths of two trees": T}) == [("leaf", "cell")]
    assert sides(PLANNED) == [("leaf", "cell"), ("measurement", "cell"), ("cell", "measurement")]
    assert sides(SELECTED, T)[::3] == [("query", "cell"), ("query", "measurement")]
    named = {"Q": np.eye(6)[:2], "W = Q Tᵀ T": np.ones((2, 6)), "C = T D": np.ones((5, 2))}
    assert sides(named) == [("test record", "cell"), ("query", "cell"), ("leaf", "class")]
    assert sides({"mine": np.tri(3)}) == [("row", "column")]


@pytest.mark.parametrize("rows", ["leaf", "cell"])
def test_where_noise_lands_by_leaf_and_by_cell(rows):
    workload = T if rows == "leaf" else Identity(6)
    display = NoiseDisplay.from_strategies(MEASURED, workload)
    ax = display.ax_
    assert ax.get_xlabel().startswith(rows)
    bar = display.figure_.axes[-1].get_ylabel()
    assert bar.startswith(f"variance of a {rows} (records², times")
    (image,) = ax.images
    table = np.array([one.row_errors(workload) for one in MEASURED.values()])
    np.testing.assert_allclose(np.ma.filled(image.get_array(), np.inf), table)
    said = [text.get_text() for text in ax.texts]
    assert said == [f"{one:.3g}" if np.isfinite(one) else "–" for one in table.flat]
    assert ("not determined" in ax.get_xlabel()) == (not np.isfinite(table).all())
    assert (ticks(ax.xaxis) == T.row_words()) == (rows == "leaf")


def test_what_has_no_matrices_is_refused_by_name():
    with pytest.raises(TypeError, match="what is of type str"):
        MatrixDisplay.of("T")
    with pytest.raises(ValueError, match="at most 8000000"):
        MatrixDisplay.of({"cells": Identity(3000)})
    with pytest.raises(TypeError, match="workload with a Dense"):
        MatrixDisplay.of(Dense(np.eye(2)), np.eye(2))
    with pytest.raises(ValueError, match="empty"):
        MatrixDisplay({})
