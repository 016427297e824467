"""Strategies and their certified bound: the picture that needs no data."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mrf_matrix.planning import Plan
from mrf_matrix.plotting.style import COLOURS, GREY, UNITS, Display, literal, tidy
from mrf_matrix.study import Comparison
from strategies import Strategy
from strategies.operators import Norm

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class StrategyErrorDisplay(Display):
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
    chosen : str, optional
        The one that is marked.
    """

    def __init__(
        self,
        losses: Mapping[str, float],
        bound: float,
        norm: Norm,
        title: str,
        chosen: str | None = None,
    ) -> None:
        self.losses, self.bound, self.norm, self.title = dict(losses), bound, norm, title
        self.chosen = chosen

    @property
    def figsize(self) -> tuple[float, float]:  # type: ignore[override]
        """Inches: a line for each strategy."""
        return (7.6, 1.6 + 0.36 * len(self.losses))

    @classmethod
    def from_comparison(
        cls, comparison: Comparison, *, ax: "Axes | None" = None
    ) -> "StrategyErrorDisplay":
        """Draw the strategies of a study, of `compare`."""
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

        Raises
        ------
        ValueError
            If there is none, or they are of both norms: their losses are of different units.
        """
        norm = common_norm(strategies)
        losses = {name: one.loss for name, one in strategies.items()}
        bound = max(one.lower_bound for one in strategies.values())
        return cls(losses, bound, norm, title).plot(ax=ax)

    def _draw(self, ax: "Axes") -> None:
        """Draw losses as points on a logarithmic axis, the bound as a line none can cross."""
        bound, least, most = self.bound, min(self.losses.values()), max(self.losses.values())
        low, word = (bound, "bound") if bound > 0 else (least, "least")
        ax.scatter(list(self.losses.values()), range(len(self.losses)), color=COLOURS[0], s=60)
        for height, (name, loss) in enumerate(self.losses.items()):
            if name == self.chosen:
                ax.scatter(loss, height, color=COLOURS[1], marker="D", s=60, zorder=4)
            ax.annotate(
                f"{loss:.3g} ({_times(loss / low)} × {word})", (loss, height), xytext=(9, -3),
                textcoords="offset points", fontsize=9,
            )  # fmt: skip
        if bound > 0:
            ax.axvline(bound, color=GREY, linestyle="--")
            ax.annotate(
                f"certified: no strategy is below {bound:.3g}", (bound, 1.0),
                xycoords=("data", "axes fraction"), xytext=(3, 3), textcoords="offset points",
                color=GREY, fontsize=9,
            )  # fmt: skip
        ax.set_xscale("log")
        ax.set_xlim(low / 1.6, most * max(6.0, (most / low) ** 0.62 * 1.8))  # room for words
        names = [f"{name} (chosen)" if name == self.chosen else name for name in self.losses]
        ax.set_yticks(range(len(names)), list(map(literal, names)))
        ax.set_ylim(len(names) - 0.5, -0.5)
        ax.set_xlabel(
            rf"loss $\|A\|_{self.norm[1]}^2\,\|WA^+\|_F^2$: squared error over all rows, "
            rf"in units of {UNITS[self.norm]} per class"
        )
        ax.set_title(literal(self.title), fontsize=10, pad=18)
        tidy(ax)
        ax.grid(axis="x", color="0.9", linewidth=0.8)


def _times(ratio: float) -> str:
    return f"{ratio:.3g}" if ratio < 1000 else f"{ratio:,.0f}"


class StrategyBoundDisplay(StrategyErrorDisplay):
    """Loss that every strategy family reached for one ensemble of a plan: what searching bought.

    Parameters
    ----------
    plan : Plan
        With allocation "matrix".
    ensemble : int, default=0
    """

    def __init__(self, plan: Plan, ensemble: int = 0) -> None:
        if not 0 <= ensemble < len(plan.parts):
            raise ValueError(f"ensemble={ensemble}: expected 0 to {len(plan.parts) - 1}.")
        strategy = plan.parts[ensemble].strategy
        if strategy is None:
            raise ValueError(
                f"the plan (mode={plan.mode!r}, allocation={plan.allocation!r}) measures its "
                f"answers by no strategy: expected another mode than 'posterior', and "
                f"allocation='matrix'."
            )
        self.plan, self.strategy = plan, strategy
        finite = {c.family: c.loss for c in strategy.candidates if c.loss < float("inf")}
        finite[strategy.method] = min(strategy.loss, finite.get(strategy.method, strategy.loss))
        losses = dict(sorted(finite.items(), key=lambda item: item[1]))
        title = "strategies for the plan, before any data"
        super().__init__(losses, strategy.lower_bound, strategy.norm, title, strategy.method)

    @classmethod
    def from_plan(
        cls, plan: Plan, *, ensemble: int = 0, ax: "Axes | None" = None
    ) -> "StrategyBoundDisplay":
        """Draw one ensemble's strategies."""
        return cls(plan, ensemble).plot(ax=ax)


def common_norm(strategies: Mapping[str, Strategy]) -> Norm:
    """Return the norm of all strategies.

    Raises ValueError if there is none, or they are of both norms: their errors are of different
    units.
    """
    norms = sorted({one.norm for one in strategies.values()})
    if len(norms) != 1:
        raise ValueError(
            f"strategies of the norms {norms}: expected at least one, all of one norm."
        )
    return norms[0]
