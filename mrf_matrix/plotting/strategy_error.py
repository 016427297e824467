"""Strategies and their certified bound: the picture that needs no data."""

from typing import Any

from mrf_matrix.plotting.style import COLOURS, GREY, new_axes, tidy
from mrf_matrix.study import Comparison


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
    def from_comparison(
        cls, comparison: Comparison, *, ax: object = None
    ) -> "StrategyErrorDisplay":
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
        """Draw losses as points on a logarithmic axis, the bound as a line none can cross."""
        ax = new_axes(ax, figsize=(7.6, 3.2))
        rows = [row for row in self.comparison.strategies if row.note is None]
        losses = [row.loss for row in rows]
        least, bound = min(losses), max(row.lower_bound for row in rows)
        ax.scatter(losses, range(len(rows)), color=COLOURS[0], s=60, zorder=3)
        for height, loss in enumerate(losses):
            ax.annotate(
                f"{loss:.3g} ({loss / least:,.3g} × least)",
                (loss, height),
                xytext=(9, -3),
                textcoords="offset points",
                fontsize=9,
            )
        if bound > 0:
            self._mark_bound(ax, bound)
        ax.set_xscale("log")
        ax.set_xlim((bound if bound > 0 else least) / 2, max(losses) * 40)
        ax.set_yticks(range(len(rows)), [row.name for row in rows])
        ax.set_ylim(len(rows) - 0.5, -0.5)
        ax.set_xlabel(
            r"loss $\|A\|_1^2\,\|WA^+\|_F^2$: squared error over all leaves, in units of "
            r"$2/\varepsilon^2$ per class"
        )
        ax.set_title(f"{self.comparison.dataset}: strategies, before any data", fontsize=10, pad=18)
        tidy(ax)
        ax.grid(axis="x", color="0.9", linewidth=0.8)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _mark_bound(self, ax: Any, bound: float) -> None:
        ax.axvline(bound, color=GREY, linestyle="--")
        ax.annotate(
            f"certified: no strategy is below {bound:.3g}",
            (bound, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(3, 3),
            textcoords="offset points",
            color=GREY,
            fontsize=9,
        )
