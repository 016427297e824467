"""Displays draw what the study found, with labelled axes."""

import numpy as np
import pytest

import strategies
from mrf_matrix import compare, load_dataset
from mrf_matrix.plotting import RowErrorDisplay, StrategyErrorDisplay

plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(scope="module")
def study():
    return compare(
        load_dataset("monks_1"),
        n_trees=4,
        max_depth=2,
        epsilons=[0.5, 2.0],
        n_splits=1,
        n_draws=2,
        strategy="identity",
    )


@pytest.fixture(autouse=True)
def close_figures():
    plt.switch_backend("agg")
    yield
    plt.close("all")


def test_accuracy_display_draws_every_method_best_first(study):
    from mrf_matrix.plotting import AccuracyDisplay

    display = AccuracyDisplay.from_comparison(study)
    _, labels = display.ax_.get_legend_handles_labels()
    said = [text.get_text().split(" (")[0] for text in display.ax_.get_legend().get_texts()]
    ranked = [method.label for method in study.ranking()]
    assert said == ranked + [method.label for method in study.methods if not method.spends]
    assert len(labels) == len(study.methods)
    means = [np.mean([one.mean for one in study.summaries() if one.method == method.key])
             for method in study.ranking()]  # fmt: skip
    assert means == sorted(means, reverse=True)
    assert "ε" in display.ax_.get_xlabel()
    assert "accuracy" in display.ax_.get_ylabel()


def test_strategy_display_draws_losses_and_the_bound(study):
    from mrf_matrix.plotting import StrategyErrorDisplay

    display = StrategyErrorDisplay.from_comparison(study)
    drawn = display.ax_.collections[0].get_offsets()[:, 0].tolist()
    assert drawn == [row.loss for row in study.strategies]
    bold = [t.get_text() for t in display.ax_.get_yticklabels() if t.get_fontweight() == "bold"]
    assert bold == ["selected: identity"] == [r.name for r in study.strategies if r.is_selected]
    assert sum("identity" in row.name for row in study.strategies) == 1


def test_a_ranking_of_losses_begins_with_the_smallest(study):
    means = [study.summary(one.key, 1.0, "brier").mean for one in study.ranking("brier")]
    known = [one for one in means if one is not None]
    assert means[: len(known)] == known == sorted(known)


def test_displays_use_given_axes(study):
    from mrf_matrix.plotting import AccuracyDisplay

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
        np.testing.assert_allclose(lines[name], np.sort(one.row_errors(workload))[::-1])
    marks = [line.get_ydata()[0] for line in ax.lines if len(line.get_ydata()) == 1]
    assert marks == [one.row_errors(workload).mean() for one in drawn.values()]
    assert lines["no largest error is below"][0] == drawn["max"].lower_bound
    assert ("rho" in ax.get_ylabel()) == (norm == "l2")


def test_strategies_of_both_norms_have_no_common_scale():
    both = {norm: strategies.evaluate(np.eye(2), np.eye(2), norm) for norm in ("l1", "l2")}
    for given in (both, {}):
        with pytest.raises(ValueError, match="all of one norm"):
            StrategyErrorDisplay.from_strategies(given)
        with pytest.raises(ValueError, match="all of one norm"):
            RowErrorDisplay.from_strategies(given, np.eye(2))


def test_a_ledger_is_one_bar_of_at_most_six_charges():
    from mrf_matrix import PrivacyLedger, PureDP
    from mrf_matrix.plotting import BudgetDisplay

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
    from mrf_matrix.estimators import PosteriorForestClassifier
    from mrf_matrix.plotting import StrengthDisplay
    from mrf_matrix.study import importance

    data = load_dataset("monks_1")
    model = PosteriorForestClassifier(data.domain, epsilon=5).fit(data.X, data.y)
    ax = StrengthDisplay.from_estimator(model).ax_
    widths = [patch.get_width() for patch in ax.patches]
    assert widths == pytest.approx(list(importance(model).values()))
    assert len(ax.get_yticklabels()) == len(widths)
