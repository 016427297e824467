"""Strategies and their certified bound: the picture that needs no data."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mrf_matrix.plotting.style import COLOURS, GREY, UNITS, new_axes, tidy
from mrf_matrix.study import Comparison
from strategies import Strategy
from strategies.operators import Norm

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class StrategyErrorDisplay:
    """Loss of each strategy for one workload, beside the certified lower bound.

    Parameters
    ----------
    losses : mapping of str to float
        By the strategies' names.
    bound : float
        Certified lower bound on the loss of every strategy; 0 where none is known.
    norm : {"l1", "l2"}
        Of Laplace or of Gaussian noise.
    title : str

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn, after `plot`.
    """

    def __init__(self, losses: Mapping[str, float], bound: float, norm: Norm, title: str) -> None:
        self.losses, self.bound, self.norm, self.title = dict(losses), bound, norm, title

    @classmethod
    def from_comparison(
        cls, comparison: Comparison, *, ax: "Axes | None" = None
    ) -> "StrategyErrorDisplay":
        """Draw a study's strategies.

        Parameters
        ----------
        comparison : Comparison
            What `compare` returned.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        """
        rows = [row for row in comparison.strategies if row.note is None]
        bound = max(row.lower_bound for row in rows)
        title = f"{comparison.dataset}: strategies, before any data"
        return cls({row.name: row.loss for row in rows}, bound, "l1", title).plot(ax=ax)

    @classmethod
    def from_strategies(
        cls,
        strategies: Mapping[str, Strategy],
        *,
        title: str = "strategies",
        ax: "Axes | None" = None,
    ) -> "StrategyErrorDisplay":
        """Draw strategies for one workload, from `strategies.select` or `strategies.evaluate`.

        Parameters
        ----------
        strategies : mapping of str to Strategy
            By the names to draw them under, all of one norm.
        title : str
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Raises
        ------
        ValueError
            If there is none, or they are of both norms: their losses are of different units.
        """
        norm = common_norm(strategies)
        losses = {name: one.loss for name, one in strategies.items()}
        bound = max(one.lower_bound for one in strategies.values())
        return cls(losses, bound, norm, title).plot(ax=ax)

    def plot(self, ax: "Axes | None" = None) -> "StrategyErrorDisplay":
        """Draw losses as points on a logarithmic axis, the bound as a line none can cross."""
        ax = new_axes(ax, figsize=(7.6, 3.2))
        losses, bound = list(self.losses.values()), self.bound
        least = min(losses)
        ax.scatter(losses, range(len(losses)), color=COLOURS[0], s=60, zorder=3)
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
        ax.set_yticks(range(len(losses)), list(self.losses))
        ax.set_ylim(len(losses) - 0.5, -0.5)
        ax.set_xlabel(
            rf"loss $\|A\|_{self.norm[1]}^2\,\|WA^+\|_F^2$: squared error over all rows, "
            rf"in units of {UNITS[self.norm]} per class"
        )
        ax.set_title(self.title, fontsize=10, pad=18)
        tidy(ax)
        ax.grid(axis="x", color="0.9", linewidth=0.8)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _mark_bound(self, ax: "Axes", bound: float) -> None:
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


def common_norm(strategies: Mapping[str, Strategy]) -> Norm:
    """Return the norm of all strategies.

    Raises
    ------
    ValueError
        If there is none, or they are of both norms: their errors are of different units.
    """
    norms = sorted({one.norm for one in strategies.values()})
    if len(norms) != 1:
        raise ValueError(
            f"strategies of the norms {norms}: expected at least one, all of one norm."
        )
    return norms[0]
