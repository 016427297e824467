"""Accuracy, or another figure, against ε: the picture of a comparison."""

from typing import TYPE_CHECKING

import numpy as np

from mrf_matrix.base.checks import one_word
from mrf_matrix.plotting.style import COLOURS, GREY, MARKERS, Display, literal, tidy
from mrf_matrix.study import Comparison
from mrf_matrix.study.metrics import METRICS, PERCENT

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LINE_STYLES = ("--", ":")
MOST = 6
"""Curves and lines that an eye can tell apart."""


class AccuracyDisplay(Display):
    """Test accuracy, or another figure, of every method against the budget ε.

    Parameters
    ----------
    comparison : Comparison
        What `compare` returned.
    metric : str, default="accuracy"
        One of `mrf_matrix.study.metrics.METRICS`; methods without it are left out.
    """

    figsize = (7.6, 4.4)

    def __init__(self, comparison: Comparison, metric: str = "accuracy") -> None:
        self.comparison = comparison
        self.metric = one_word("metric", metric, list(METRICS))

    @classmethod
    def from_comparison(
        cls, comparison: Comparison, metric: str = "accuracy", *, ax: "Axes | None" = None
    ) -> "AccuracyDisplay":
        """Draw a study."""
        return cls(comparison, metric).plot(ax=ax)

    def _draw(self, ax: "Axes") -> None:
        """Draw the first methods that spend as curves, the first and last that do not as lines."""
        study = self.comparison
        private = [method for method in study.methods if method.spends]
        others = [method for method in study.methods if not method.spends]
        lines = [*others[:1], *others[1:][-1:]]
        curves = private[: MOST - len(lines)]
        looks = zip(curves, COLOURS, MARKERS, strict=False)
        for method, colour, marker in looks:
            points = [study.summary(method.key, epsilon, self.metric) for epsilon in study.epsilons]
            means = np.array([point.mean for point in points], dtype=np.float64)  # None is NaN
            if np.isnan(means).all():
                continue
            ax.errorbar(
                study.epsilons,
                means,
                yerr=np.nan_to_num([2 * point.standard_error for point in points]),
                label=literal(method.label),
                color=colour,
                marker=marker,
                capsize=3,
            )
        for method, style in zip(lines, LINE_STYLES, strict=False):
            mean = study.summary(method.key, None, self.metric).mean
            if mean is not None:
                ax.axhline(
                    mean, color=GREY, linestyle=style, label=literal(f"{method.label} ({mean:.2f})")
                )
        self._label(ax, len(study.methods) - len(curves) - len(lines))

    def _label(self, ax: "Axes", left_out: int) -> None:
        study = self.comparison
        settings = study.settings
        ax.set_xscale("log")
        ax.set_xticks(study.epsilons, [f"{epsilon:g}" for epsilon in study.epsilons])
        ax.minorticks_off()
        if self.metric in PERCENT or self.metric == "auc":
            ax.set_ylim(0, 1.02)
        relation = settings["neighboring"].replace("_", "/")
        ax.set_xlabel(f"privacy budget ε (pure DP, {relation} neighbours)")
        ax.set_ylabel(f"test {METRICS[self.metric]} (mean ± 2 standard errors)")
        ax.set_title(
            f"{literal(study.dataset)}: {settings['n_trees']} trees "
            f"of depth {settings['max_depth']}, "
            f"{settings['voting']} voting, {settings['noise']} noise",
            fontsize=10,
        )
        title = f"{left_out} more in the table" if left_out > 0 else None
        ax.legend(
            loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=9, title=title
        )
        tidy(ax)
