"""Pictures of matrices: T, Q, W, A, A⁺, W A⁺, and of trees."""

from __future__ import annotations  # help() shows the names of types, not all they stand for

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Self, cast

import numpy as np
from scipy import sparse

from mrf_matrix.base.arrays import Array
from mrf_matrix.compilation import path_matrix
from mrf_matrix.domain import Domain
from mrf_matrix.forests import Forest
from mrf_matrix.forests.export import condition
from mrf_matrix.planning import Plan
from mrf_matrix.plotting.style import (
    COLOURS,
    DIVERGING,
    GREY,
    MOST_NUMBERS,
    MOST_WORDS,
    UNSIGNED,
    Display,
    add_colour_bar,
    check_index,
    literal_text,
    load_pyplot,
    row_words,
    rows_have_words,
)
from strategies import Strategy
from strategies.operators import MatrixLike, Operator, as_operator

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_ENTRIES = 8_000_000
FAINT = 1e-9
"""Of the largest entry: less is rounding, which has no sign."""
MOST_PIXELS = 400
"""Rows and columns that are drawn one by one; of more, the largest entry of every block."""
SIDES = {
    "T": ("leaf", "cell"),
    "Q": ("test record", "cell"),
    "W": ("query", "cell"),
    "A": ("measurement", "cell"),
    "A⁺": ("cell", "measurement"),
    "W A⁺": ("query", "measurement"),
    "T A⁺": ("leaf", "measurement"),
    "D": ("cell", "class"),
    "C": ("leaf", "class"),
    "V": ("test record", "class"),
}
"""What rows and columns are, by the letters of docs/notation.md."""
UNKNOWN_SIDES = ("row", "column")
PANEL = (4.2, 3.8)  # inches
ACROSS = 3


class MatrixDisplay:
    """Heat maps of matrices beside each other, zero white, signs in two hues.

    Parameters
    ----------
    matrices : mapping of str to Operator, ndarray or scipy sparse
        By their titles, such as "T" or "W A⁺".
    axes : mapping of str to (str, str), optional
        What rows and columns are, by title. Titles that begin with a letter of the notation, such
        as "W = Q Tᵀ T", and rows of a forest say it themselves; of others it is "row", "column".
    words : mapping of str to sequence of str, optional
        What each row or column is, by the word for all of them, such as "cell"; rows of a forest
        say it themselves.

    Raises
    ------
    ValueError
        If a matrix has more than eight million entries.

    Examples
    --------
    >>> import numpy as np
    >>> from mrf_matrix.plotting import MatrixDisplay
    >>> shown = MatrixDisplay.of({"prefix sums": np.tri(4), "single cells": np.eye(4)})
    >>> [one.get_title() for one in shown.axes_]
    ['prefix sums, 4 × 4', 'single cells, 4 × 4']

    Attributes
    ----------
    axes_, figure_ : list of matplotlib Axes, and Figure
        Where they were drawn, after `plot`.
    """

    def __init__(
        self,
        matrices: Mapping[str, MatrixLike],
        axes: Mapping[str, tuple[str, str]] | None = None,
        words: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        if not matrices:
            raise ValueError("matrices is empty: expected at least one, by its title.")
        operators = {name: as_operator(one, name) for name, one in matrices.items()}
        for name, one in operators.items():
            if prod(one.shape) > MOST_ENTRIES:
                raise ValueError(
                    f"{name} has {prod(one.shape)} entries: expected at most {MOST_ENTRIES} for a "
                    f"picture. Take some rows or cells: A[:100], A[:, :1000]."
                )
        self.matrices = {name: one.to_dense() for name, one in operators.items()}
        self.sides = {name: _sides(name, one) for name, one in operators.items()}
        self.sides |= dict(axes or {})
        self.rows = {name: row_words(one) for name, one in operators.items()}
        # rows of one kind are those of other matrices too; plain rows of two matrices are not
        words_of_rows = {self.sides[name][0]: rows for name, rows in self.rows.items() if rows}
        words_of_rows.pop(UNKNOWN_SIDES[0], None)
        self.words = words_of_rows | dict(words or {})

    @classmethod
    def of(
        cls,
        what: MatrixLike | Strategy | Plan | Forest | Mapping[str, MatrixLike | Strategy],
        workload: MatrixLike | None = None,
        *,
        ensemble: int = 0,
        ax: Sequence[Axes] | None = None,
    ) -> MatrixDisplay:
        """Draw whatever has matrices.

        Parameters
        ----------
        what : matrix, Strategy, Plan, Forest, or mapping of str to matrices or strategies
            A matrix itself: an operator, array or sparse array. Of a forest T; of a plan T or W, A
            and A⁺ of one ensemble; of a strategy A and A⁺, and with a workload W and ``W A⁺`` too;
            of a strategy in a mapping A alone.
        workload : Operator, ndarray or scipy sparse, optional
            Of a strategy.
        ensemble : int, default=0
            Of a plan.
        ax : sequence of matplotlib Axes, optional
            Where to draw; a new figure by default.

        Raises
        ------
        TypeError, ValueError
            If it has no matrices, or they are too large for a picture.
        """
        return cls(*_matrices_of(what, workload, ensemble)).plot(ax=ax)

    def plot(self, ax: Sequence[Axes] | None = None) -> MatrixDisplay:
        """Draw every matrix with a scale of its own."""
        count = len(self.matrices)
        if ax is None:
            across = 2 if count == 2 * 2 else min(count, ACROSS)
            down = -(-count // across)
            size = (PANEL[0] * across, PANEL[1] * down)
            _, ax = load_pyplot().subplots(down, across, figsize=size, layout="constrained")
        axes: list[Axes] = list(np.ravel(np.asarray(ax, dtype=object)))
        if len(axes) < count:
            raise ValueError(f"ax holds {len(axes)} axes: expected {count}, one a matrix.")
        for place in axes[count:]:
            place.set_visible(False)
        for place, (name, matrix) in zip(axes, self.matrices.items(), strict=False):
            self._draw(place, name, matrix)
        self.axes_, self.figure_ = axes[:count], axes[0].figure
        return self

    def _draw(self, place: Axes, name: str, matrix: Array) -> None:
        (m, n), reach = matrix.shape, float(np.abs(matrix).max()) or 1.0
        signs = bool((matrix < -FAINT * reach).any())
        image = place.imshow(
            _largest_of_blocks(matrix), cmap=DIVERGING if signs else UNSIGNED,
            vmin=-reach if signs else 0.0, vmax=reach, aspect="auto", interpolation="nearest",
            extent=(-0.5, n - 0.5, m - 0.5, -0.5),
        )  # fmt: skip
        place.set_title(f"{literal_text(name)}, {m} × {n}", fontsize=10)
        for axis, side, length, turned in zip(
            (place.yaxis, place.xaxis), self.sides[name], (m, n), (0, 90), strict=True
        ):
            axis.set_label_text(side)
            most = MOST_NUMBERS if length <= MOST_NUMBERS else 5
            axis.set_major_locator(load_pyplot().MaxNLocator(most, integer=True))  # whole numbers
            words = (axis is place.yaxis and self.rows[name]) or self.words.get(side, ())
            if len(words) == length <= MOST_WORDS:
                said = [literal_text(one) for one in words]
                axis.set_ticks(range(length), said, fontsize=7, rotation=turned)
        if max(m, n) <= MOST_NUMBERS:
            for (row, column), entry in np.ndenumerate(matrix):
                colour = "white" if abs(entry) > 0.6 * reach else "black"
                place.text(
                    column, row, f"{entry + 0.0:.2g}", color=colour, fontsize=7 if n <= 6 else 6,
                    ha="center", va="center",
                )  # fmt: skip
        add_colour_bar(image, place, "entry")


def _largest_of_blocks(matrix: Array) -> Array:
    """Return a matrix of at most `MOST_PIXELS` rows and columns: of each block its largest entry.

    In size: a lone entry among thousands of zeros would fall between pixels else.
    """
    for axis, length in enumerate(matrix.shape):
        if length > MOST_PIXELS:
            starts = np.linspace(0, length, MOST_PIXELS, endpoint=False).astype(np.int64)
            high, low = (f.reduceat(matrix, starts, axis) for f in (np.maximum, np.minimum))
            matrix = np.where(high >= -low, high, low)
    return matrix


def _sides(title: str, matrix: Operator) -> tuple[str, str]:
    """Return what rows and columns of a matrix are, by its letter, or its rows' own words."""
    letter = title.split("=")[0].split(",")[0].strip()
    if letter in SIDES:
        return SIDES[letter]
    return ("leaf", "cell") if rows_have_words(matrix) else UNKNOWN_SIDES


Drawn = tuple[dict[str, MatrixLike], dict[str, tuple[str, str]], dict[str, list[str]]]


def _cell_words(domain: Domain) -> dict[str, list[str]]:
    """Return what each cell is, where they are few."""
    if domain.size > MOST_WORDS:
        return {}
    labels = [list(map(str, one.labels)) for one in domain.attributes]
    return {"cell": [", ".join(codes) for codes in product(*labels)]}


def _matrices_of(what: object, workload: MatrixLike | None, ensemble: int) -> Drawn:
    """Return matrices by their titles, what rows and columns of each are, and words for these."""
    if workload is not None and not isinstance(what, Strategy):
        raise TypeError(
            f"workload with a {type(what).__name__}: expected one with a Strategy alone."
        )
    if isinstance(what, Strategy):
        shown: dict[str, MatrixLike] = {"A": what.matrix, "A⁺": what.pinv}
        if workload is not None:
            shown = {"W": workload, **shown, "W A⁺": what.reconstruction(workload)}
        return shown, {}, {}
    if isinstance(what, Plan):
        return _plan_matrices(what, ensemble)
    if isinstance(what, Forest):
        return {"T": path_matrix(what)}, {}, _cell_words(what.domain)
    if isinstance(what, Operator | np.ndarray) or sparse.issparse(what):
        title = repr(what).split("(")[0] if isinstance(what, Operator) else "matrix"
        return {title: cast(MatrixLike, what)}, {}, {}
    if isinstance(what, Mapping):
        measured = [name for name, one in what.items() if isinstance(one, Strategy)]
        found = {name: one.matrix if name in measured else one for name, one in what.items()}
        # measurements of several strategies are not the same: words of one are not the others'
        return found, {name: (f"measurement of {name}", "cell") for name in measured}, {}
    raise TypeError(
        f"what is of type {type(what).__name__}: expected a matrix, Strategy, Plan or Forest, or a "
        f'mapping of titles to matrices, such as {{"T": T, "A": A}}.'
    )


def _plan_matrices(plan: Plan, ensemble: int) -> Drawn:
    check_index("ensemble", ensemble, len(plan.parts))
    part = plan.parts[ensemble]
    rounded = part.mechanism.rounded
    m, n = rounded.matrix.shape
    if max(part.workload.shape[0], m) * n > MOST_ENTRIES:
        raise ValueError(
            f"the matrices of ensemble {ensemble} have more than {MOST_ENTRIES} entries: expected "
            f"fewer for a picture; plan a smaller domain, or an ensemble of fewer attributes."
        )
    scale = float(rounded.scale)
    strategy = rounded.recovery.to_dense() / scale  # what answers are taken back by
    words = {} if plan.kind.is_disjoint else _cell_words(part.forest.domain)
    cell = "leaf" if plan.kind.answers_queries and plan.kind.is_disjoint else "cell"
    queries = plan.kind.answers_queries
    title = ("W = Q Tᵀ" if plan.kind.is_disjoint else "W = Q Tᵀ T") if queries else "T"
    same = part.workload.shape[1] == strategy.shape[1]
    found: dict[str, MatrixLike] = {
        title: part.workload if same else strategy,
        "A": strategy,
        "A⁺": rounded.recovery.least_squares(np.eye(m)) * scale,
    }
    sides = {
        title: ("query" if queries else "leaf", cell),
        "A": ("measurement", cell),
        "A⁺": (cell, "measurement"),
    }
    return found, sides, words


MOST_LEAVES = 40
BOX = {"boxstyle": "round,pad=0.25", "linewidth": 0.8}


class TreeDisplay(Display):
    """One tree of a forest: what sends records to each branch, and the leaves by their rows of T.

    Parameters
    ----------
    forest : Forest
    tree : int, default=0

    Raises
    ------
    ValueError
        If there is no such tree, or it has more than forty leaves.
    """

    def __init__(self, forest: Forest, tree: int = 0) -> None:
        check_index("tree", tree, forest.n_trees)
        self.n_leaves = int(np.count_nonzero(forest.leaf_tree == tree))
        if self.n_leaves > MOST_LEAVES:
            raise ValueError(
                f"tree {tree} has {self.n_leaves} leaves: expected at most {MOST_LEAVES} for a "
                f"picture; export_text writes larger ones."
            )
        self.forest, self.tree = forest, tree

    @property
    def figsize(self) -> tuple[float, float]:  # type: ignore[override]
        """Inches: a line for each leaf."""
        return (8.0, 0.9 + 0.32 * self.n_leaves)

    @classmethod
    def from_forest(cls, forest: Forest, tree: int = 0, *, ax: Axes | None = None) -> Self:
        """Draw one tree, its root at the left."""
        return cls(forest, tree).plot(ax=ax)

    def _draw(self, ax: Axes) -> None:
        forest, root = self.forest, int(self.forest.roots[self.tree])
        heights: dict[int, float] = {}
        stack, order = [(root, 0, "all records")], []
        while stack:
            node, depth, words = stack.pop()
            order.append((node, depth, words))
            for branch in reversed(range(int(forest.n_children[node]))):
                child = int(forest.first_child[node]) + branch
                stack.append((child, depth + 1, condition(forest, node, branch)))
        for node, _, _ in order:
            if forest.leaf_index[node] >= 0:
                heights[node] = -float(sum(forest.leaf_index[one] >= 0 for one in heights))
        for node, _, _ in reversed(order):
            first, fan = int(forest.first_child[node]), int(forest.n_children[node])
            if fan:
                heights[node] = float(np.mean([heights[first + branch] for branch in range(fan)]))
        for node, depth, words in order:
            first = int(forest.first_child[node])
            for branch in range(int(forest.n_children[node])):
                ends = heights[node], heights[first + branch]
                ax.plot([depth, depth + 1], ends, color=GREY, linewidth=1.0, zorder=1)
            leaf = int(forest.leaf_index[node])
            told = f"{words}: leaf {leaf}" if leaf >= 0 else words
            colour = COLOURS[0] if leaf >= 0 else GREY
            ax.text(
                depth, heights[node], literal_text(told), fontsize=8, ha="left", va="center",
                bbox={**BOX, "facecolor": "white", "edgecolor": colour},
            )  # fmt: skip
        deepest = max(depth for _, depth, _ in order)
        ax.set_xlim(-0.1, deepest + 0.9)
        ax.set_ylim(min(heights.values()) - 0.7, 0.7)
        ax.set_axis_off()
        ax.set_title(f"tree {self.tree} of {forest.n_trees}", fontsize=10)
