"""T, A and A⁺ as pictures, for domains small enough to look at."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from mrf_matrix.planning import Plan
from mrf_matrix.plotting.style import DIVERGING, colour_bar, load_pyplot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_ENTRIES = 2_000_000
WHICH = ("T", "A", "A+")


class MatrixDisplay:
    """Heat maps of the path matrix T, the strategy A and its pseudo-inverse A⁺.

    Parameters
    ----------
    plan : Plan
        Its mode decides what the first matrix is: the workload over cells, or over leaves.
    ensemble : int, default=0

    Attributes
    ----------
    axes_, figure_ : list of matplotlib Axes, and Figure
        Where they were drawn, after `plot`.
    """

    def __init__(self, plan: Plan, ensemble: int = 0) -> None:
        if not 0 <= ensemble < len(plan.parts):
            raise ValueError(f"ensemble={ensemble}: expected 0 to {len(plan.parts) - 1}.")
        part = plan.parts[ensemble]
        self.plan, self.ensemble = plan, ensemble
        matrix = part.mechanism.rounded.matrix
        n = matrix.shape[1]
        largest = max(part.workload.shape[0], matrix.shape[0]) * n
        if largest > MOST_ENTRIES:
            raise ValueError(
                f"the matrices have {largest} entries: expected at most {MOST_ENTRIES} for a "
                f"picture; plan a smaller domain, or an ensemble of fewer attributes."
            )
        scale = float(part.mechanism.rounded.scale)
        strategy = matrix.to_dense() / scale
        workload = part.workload.to_dense() if part.workload.shape[1] == n else strategy
        self.matrices = {"T": workload, "A": strategy, "A+": np.linalg.pinv(strategy)}

    @classmethod
    def from_plan(
        cls, plan: Plan, *, ensemble: int = 0, ax: "Sequence[Axes] | None" = None
    ) -> "MatrixDisplay":
        """Draw the three matrices of one ensemble.

        Parameters
        ----------
        ax : sequence of three matplotlib Axes, optional
            Where to draw; a new figure by default.
        """
        return cls(plan, ensemble).plot(ax=ax)

    def plot(self, ax: "Sequence[Axes] | None" = None) -> "MatrixDisplay":
        """Draw every matrix with a scale of its own, zero white, signs in two hues."""
        if ax is None:
            _, ax = load_pyplot().subplots(1, 3, figsize=(11.5, 4.4), layout="constrained")
        axes = list(np.ravel(np.asarray(ax, dtype=object)))
        if len(axes) != len(WHICH):
            raise ValueError(f"ax holds {len(axes)} axes: expected {len(WHICH)}.")
        cell = "leaf" if self.plan.kind.answers_queries and self.plan.kind.is_disjoint else "cell"
        workload = {"prediction": "W = Q Tᵀ T: query", "subsample": "W = Q Tᵀ: query"}
        rows = workload.get(self.plan.mode, "T: leaf")
        labels = {"T": (rows, cell), "A": ("A: measurement", cell), "A+": (cell, "measurement")}
        for place, name in zip(axes, WHICH, strict=True):
            matrix = self.matrices[name]
            reach = np.abs(matrix).max()
            image = place.imshow(
                matrix, cmap=DIVERGING, vmin=-reach, vmax=reach, aspect="auto",
                interpolation="nearest",
            )  # fmt: skip
            down, across = labels[name]
            title = {"T": down.split(":")[0], "A": "strategy A", "A+": "pseudo-inverse A⁺"}[name]
            place.set_title(f"{title}, {matrix.shape[0]} × {matrix.shape[1]}", fontsize=10)
            place.set_ylabel(down.split(": ")[-1])
            place.set_xlabel(across)
            for axis in (place.xaxis, place.yaxis):  # rows and columns have whole numbers
                axis.get_major_locator().set_params(integer=True)
            colour_bar(image, place, "entry")
        self.axes_, self.figure_ = axes, axes[0].figure
        return self
