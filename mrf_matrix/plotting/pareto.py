"""The designs of a search and its Pareto front."""

from typing import TYPE_CHECKING

import numpy as np

from mrf_matrix.planning import Tuning
from mrf_matrix.plotting.style import COLOURS, GREY, Display, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FIGURES = {
    "measurements": "noisy measurements per class",
    "leaves": "leaves of all trees",
    "nbytes": "peak of a fit (bytes)",
    "seconds": "seconds to plan",
    "rms_per_vote": "rms error of a vote (records per class)",
}


class ParetoDisplay(Display):
    """Objective of every design against another figure, with the front that none beats.

    Parameters
    ----------
    tuning : Tuning
    against : {"measurements", "leaves", "nbytes", "seconds", "rms_per_vote"}, \
default="measurements"
        The figure across.

    Raises
    ------
    ValueError
        If no design has the figure.
    """

    figsize = (7.0, 4.4)

    def __init__(self, tuning: Tuning, against: str = "measurements") -> None:
        if against not in FIGURES:
            raise ValueError(
                f"against={against!r}: expected one of {', '.join(map(repr, FIGURES))}."
            )
        self.tuning, self.against = tuning, against
        trials = [trial for trial in tuning.trials if np.isfinite(trial.value)]
        self.found = [trial for trial in trials if np.isfinite(getattr(trial, against))]
        if not self.found:
            raise ValueError(
                f"against={against!r}: no design of the search has this figure. Expected "
                f"'measurements' or another one."
            )

    @classmethod
    def from_tuning(
        cls, tuning: Tuning, *, against: str = "measurements", ax: "Axes | None" = None
    ) -> "ParetoDisplay":
        """Draw a search."""
        return cls(tuning, against).plot(ax=ax)

    def _draw(self, ax: "Axes") -> None:
        """Draw every feasible design as a point, the front as a staircase, the best named.

        A best design without the figure across (products have no rms error) is a dashed line.
        """
        ax.scatter(
            [getattr(trial, self.against) for trial in self.found],
            [trial.value for trial in self.found],
            color=GREY,
            alpha=0.6,
            s=28,
            label="designs",
        )
        front = sorted(
            self.tuning.pareto("value", self.against), key=lambda t: getattr(t, self.against)
        )
        ax.plot(
            [getattr(trial, self.against) for trial in front],
            [trial.value for trial in front],
            color=COLOURS[0],
            marker="o",
            drawstyle="steps-post",
            label="Pareto front",
        )
        self._plot_best(ax)
        sizes = [getattr(trial, self.against) for trial in self.found]
        if max(sizes) > 10 * min(sizes) > 0:
            ax.set_xscale("log")
        ax.set_xlabel(FIGURES[self.against])
        ax.set_ylabel(f"{self.tuning.objective.replace('_', ' ')} (smaller is better)")
        ax.set_title("designs, compared without data", fontsize=10)
        ax.legend(
            frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=1
        )
        tidy(ax)

    def _plot_best(self, ax: "Axes") -> None:
        best = self.tuning.best
        across = getattr(best, self.against)
        name = "best: " + ", ".join(f"{k} {v}" for k, v in best.design.items())
        if np.isfinite(across):
            ax.scatter(
                [across], [best.value], color=COLOURS[1], marker="D", s=70, zorder=4, label=name
            )
        else:
            ax.axhline(best.value, color=COLOURS[1], linestyle="--", label=f"{name} (no such rms)")
