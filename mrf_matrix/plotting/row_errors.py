"""Errors of a workload's rows, largest first: what one row pays for the others."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from mrf_matrix.base.arrays import Array
from mrf_matrix.plotting.strategy_error import common_norm
from mrf_matrix.plotting.style import COLOURS, GREY, MARKERS, UNITS, Display, literal, tidy
from strategies import Strategy
from strategies.operators import MatrixLike, Norm

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class RowErrorDisplay(Display):
    """Error of every row under several strategies, each from its worst row to its best.

    Parameters
    ----------
    errors : mapping of str to ndarray of shape (q,)
        Errors before the noise constant, by the names to draw them under.
    bound : float
        No strategy keeps every row below it; 0 where nothing is known.
    norm : {"l1", "l2"}
        Of Laplace or of Gaussian noise.
    title : str
    """

    def __init__(self, errors: Mapping[str, Array], bound: float, norm: Norm, title: str) -> None:
        self.errors, self.bound, self.norm, self.title = dict(errors), bound, norm, title

    @classmethod
    def from_strategies(
        cls,
        strategies: Mapping[str, Strategy],
        workload: MatrixLike,
        *,
        title: str = "errors of rows",
        ax: "Axes | None" = None,
    ) -> "RowErrorDisplay":
        """Draw strategies for one workload, with the bound of those of objective "max".

        Parameters
        ----------
        strategies : mapping of str to Strategy
            By the names to draw them under, all of one norm.
        workload : ndarray, scipy sparse or Operator of shape (q, n)
            Whose rows are asked.

        Raises
        ------
        ValueError
            If there is none, or they are of both norms: their errors are of different units.
        """
        norm = common_norm(strategies)
        errors = {name: one.row_errors(workload) for name, one in strategies.items()}
        bounds = [one.lower_bound for one in strategies.values() if one.objective == "max"]
        return cls(errors, max(bounds, default=0.0), norm, title).plot(ax=ax)

    def _draw(self, ax: "Axes") -> None:
        """Draw a line a strategy, its mean as a mark, and the bound as a dashed line."""
        for k, (name, errors) in enumerate(self.errors.items()):
            colour = COLOURS[k % len(COLOURS)]
            share = (np.arange(len(errors)) + 0.5) / len(errors)
            ax.plot(share, np.sort(errors)[::-1], color=colour, label=literal(name))
            ax.plot(1.03, errors.mean(), MARKERS[k % len(MARKERS)], color=colour)
        if self.bound > 0:
            ax.axhline(self.bound, color=GREY, linestyle="--", label="no largest error is below")
        ax.set(
            ylim=(0, None),
            xlabel="share of rows, worst first (marks: the means)",
            ylabel=rf"error, in units of {UNITS[self.norm]}",
        )
        ax.set_title(self.title, fontsize=10)
        tidy(ax)
        ax.legend(frameon=False, fontsize=9)
