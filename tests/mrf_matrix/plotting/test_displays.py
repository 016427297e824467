"""Displays draw what the study found, with labelled axes."""

import pytest

from mrf_matrix import compare, load_dataset

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


def test_accuracy_display_draws_every_method(study):
    from mrf_matrix.plotting import AccuracyDisplay

    display = AccuracyDisplay.from_comparison(study)
    _, labels = display.ax_.get_legend_handles_labels()
    assert len(labels) == len(study.methods)
    assert "ε" in display.ax_.get_xlabel()
    assert "accuracy" in display.ax_.get_ylabel()


def test_strategy_display_draws_losses_and_the_bound(study):
    from mrf_matrix.plotting import StrategyErrorDisplay

    display = StrategyErrorDisplay.from_comparison(study)
    drawn = display.ax_.collections[0].get_offsets()[:, 0].tolist()
    assert drawn == [row.loss for row in study.strategies]


def test_displays_use_given_axes(study):
    from mrf_matrix.plotting import AccuracyDisplay

    _, ax = plt.subplots()
    assert AccuracyDisplay.from_comparison(study, ax=ax).ax_ is ax
