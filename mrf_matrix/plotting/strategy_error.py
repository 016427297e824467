"""Strategies and their certified bound: the picture that needs no data."""

from typing import Any

from mrf_matrix.estimators import Comparison
from mrf_matrix.plotting.style import COLOURS, GREY, new_axes, tidy


class StrategyErrorDisplay:
    """Loss of each strategy for a forest, beside the certified lower bound.

    Parameters
    ----------
    comparison : Comparison
        The study whose strategies to draw.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn, after `plot`.
    """

    def __init__(self, comparison: Comparison) -> None:
        self.comparison = comparison

    @classmethod
    def from_comparison(cls, comparison: Comparison, *, ax: Any = None) -> "StrategyErrorDisplay":
        """Draw a study's strategies.

        Parameters
        ----------
        comparison : Comparison
            What `compare` returned.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        """
        return cls(comparison).plot(ax=ax)

    def plot(self, ax: Any = None) -> "StrategyErrorDisplay":
        """Draw losses as horizontal bars on a logarithmic axis, the bound as a line."""
        ax = new_axes(ax, figsize=(7.6, 3.2))
        rows = self.comparison.strategies
        bound = max(row.lower_bound for row in rows)
        least = min(row.loss for row in rows)
        names = [row.name for row in rows]
        bars = ax.barh(names, [row.loss for row in rows], color=COLOURS[0], height=0.6)
        labels = [f"{row.loss:.3g}  ({row.loss / least:.3g} × best)" for row in rows]
        ax.bar_label(bars, labels, padding=4, fontsize=9)
        if bound > 0:
            ax.axvline(bound, color=GREY, linestyle="--")
            ax.annotate(
                f"no strategy is below {bound:.3g}",
                (bound, 1.0),
                xycoords=("data", "axes fraction"),
                xytext=(3, 3),
                textcoords="offset points",
                color=GREY,
                fontsize=9,
            )
        ax.set_xscale("log")
        low = min(bound, least) if bound > 0 else least
        ax.set_xlim(low / 3, max(row.loss for row in rows) * 60)
        ax.invert_yaxis()
        ax.set_xlabel("loss ‖A‖₁² ‖W A⁺‖²_F (squared error over all leaves, × 2/ε² per class)")
        ax.set_title(f"{self.comparison.dataset}: strategies, before any data", fontsize=10, pad=18)
        tidy(ax)
        ax.grid(visible=False, axis="y")
        self.ax_, self.figure_ = ax, ax.figure
        return self
