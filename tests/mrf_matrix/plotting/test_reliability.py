"""The reliability picture: a curve a classifier, its calibration error in the legend."""

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier

from mrf_matrix.study import expected_calibration_error

plt = pytest.importorskip("matplotlib.pyplot")

Y = np.array(["a", "b", "a", "a"])
SHARES = np.array([[0.9, 0.1], [0.6, 0.4], [0.3, 0.7], [0.8, 0.2]])


@pytest.fixture(autouse=True)
def close_figures():
    plt.switch_backend("agg")
    yield
    plt.close("all")


def labels(display):
    return display.ax_.get_legend_handles_labels()[1]


def test_the_legend_names_classifiers_and_their_calibration_errors():
    from mrf_matrix.plotting import ReliabilityDisplay

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
    from mrf_matrix.plotting import ReliabilityDisplay

    display = ReliabilityDisplay.from_predictions(Y, SHARES, classes=["a", "b"], n_bins=10)
    drawn = np.asarray(display.ax_.collections[0].get_offsets())
    np.testing.assert_allclose(drawn, [[0.6, 0], [0.7, 0], [0.8, 1], [0.9, 1]])


def test_estimators_are_drawn_into_given_axes_with_colours_of_their_own():
    from mrf_matrix.plotting import ReliabilityDisplay

    model = DummyClassifier(strategy="prior").fit(SHARES, Y)
    _, ax = plt.subplots()
    first = ReliabilityDisplay.from_estimator(model, SHARES, Y, ax=ax)
    second = ReliabilityDisplay.from_estimator(model, SHARES, Y, name="again", ax=ax)
    assert first.ax_ is second.ax_ is ax
    assert labels(second) == ["calibrated", "DummyClassifier (ECE 0.000)", "again (ECE 0.000)"]
    colours = {tuple(one.get_facecolor()[0]) for one in ax.collections}
    assert len(colours) == 2


def test_no_curves_are_refused():
    from mrf_matrix.plotting import ReliabilityDisplay

    with pytest.raises(ValueError, match="curves is empty"):
        ReliabilityDisplay({})
