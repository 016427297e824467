"""Pictures of matrices: whatever has some is drawn, rows and cells in words, nothing is hidden."""

import numpy as np
import pytest
from scipy import sparse

import strategies
from mrf_matrix import Attribute, Domain, RandomTrees, load_dataset, path_matrix, plan
from mrf_matrix.forests import forest_from_paths
from strategies.operators import Dense, Identity

plt = pytest.importorskip("matplotlib.pyplot")

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
MEASURED = {
    "leaves": strategies.evaluate(T, T, "l2"),
    "cells": strategies.evaluate(T, np.eye(6), "l2"),
    "selected": SELECTED,
}


@pytest.fixture(autouse=True)
def close_figures():
    plt.switch_backend("agg")
    yield
    plt.close("all")


def ticks(axis):
    return [one.get_text() for one in axis.get_ticklabels()]


@pytest.mark.parametrize(
    ("drawn", "titles"),
    [
        (lambda: FOREST, ["T"]),
        (lambda: plan(FOREST, "matrix", epsilon=1, random_state=0), ["T", "A", "A⁺"]),
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
    from mrf_matrix.plotting import MatrixDisplay

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
    from mrf_matrix.plotting import MatrixDisplay

    (ax,) = MatrixDisplay.of(FOREST).axes_
    assert ticks(ax.yaxis)[0] == "outlook = sunny"
    assert ticks(ax.xaxis)[:2] == ["sunny, false", "sunny, true"]
    _, _, inverse = MatrixDisplay.of(plan(FOREST, "matrix", epsilon=1, random_state=0)).axes_
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
    from mrf_matrix.plotting import MatrixDisplay

    matrix = np.zeros((1728, 1200))
    matrix[1001, 77], matrix[3, 1199] = 1.0, -2.0
    (image,) = MatrixDisplay.of({"A": matrix}).axes_[0].images
    drawn = np.asarray(image.get_array())
    assert max(drawn.shape) <= 400
    assert sorted(drawn[drawn != 0]) == [-2.0, 1.0]
    assert image.get_extent() == [-0.5, 1199.5, 1727.5, -0.5]  # ticks are rows and cells


def test_car_is_drawn_whole():
    from mrf_matrix.plotting import MatrixDisplay

    car = load_dataset("car").domain
    forest = RandomTrees(4, 2).grow(car, random_state=0)
    made = plan(forest, "matrix", epsilon=1, strategy="identity", random_state=0)
    display = MatrixDisplay.of(made)
    A, inverse = display.matrices["A"], display.matrices["A⁺"]
    np.testing.assert_allclose(A @ inverse @ A, A, atol=1e-9)
    with pytest.raises(ValueError, match="at most 8000000"):
        MatrixDisplay.of({"cells": Identity(3000)})


@pytest.mark.parametrize("rows", ["leaf", "cell"])
def test_where_noise_lands_by_leaf_and_by_cell(rows):
    from mrf_matrix.plotting import NoiseDisplay

    workload = T if rows == "leaf" else Identity(6)
    said = {"rows": rows} if rows == "leaf" else {}  # the identity's rows are cells
    ax = NoiseDisplay.from_strategies(MEASURED, workload, **said).ax_
    assert ax.get_xlabel().startswith(rows)
    (image,) = ax.images
    table = np.array([one.row_errors(workload) for one in MEASURED.values()])
    np.testing.assert_allclose(np.ma.filled(image.get_array(), np.inf), table)
    said = [text.get_text() for text in ax.texts]
    assert said == [f"{one:.3g}" if np.isfinite(one) else "–" for one in table.flat]
    assert ("not determined" in ax.get_xlabel()) == (not np.isfinite(table).all())
    assert (ticks(ax.xaxis) == T.row_words()) == (rows == "leaf")


def test_what_has_no_matrices_is_refused_by_name():
    from mrf_matrix.plotting import MatrixDisplay

    with pytest.raises(TypeError, match="what is of type str"):
        MatrixDisplay.of("T")
    with pytest.raises(TypeError, match="workload with a Dense"):
        MatrixDisplay.of(Dense(np.eye(2)), np.eye(2))
    with pytest.raises(ValueError, match="empty"):
        MatrixDisplay({})
