"""Strategies of a plan's workload with the certified bound: what searching bought."""

from typing import TYPE_CHECKING

from mrf_matrix.planning import Plan
from mrf_matrix.plotting.style import COLOURS, GREY, new_axes, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class StrategyBoundDisplay:
    """Loss that every strategy family reached for one ensemble, beside the certified bound.

    Parameters
    ----------
    plan : Plan
        With allocation "matrix".
    ensemble : int, default=0

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn, after `plot`.
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
        self.losses = dict(sorted(finite.items(), key=lambda item: item[1]))

    @classmethod
    def from_plan(
        cls, plan: Plan, *, ensemble: int = 0, ax: "Axes | None" = None
    ) -> "StrategyBoundDisplay":
        """Draw one ensemble's strategies.

        Parameters
        ----------
        plan : Plan
        ensemble : int, default=0
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        """
        return cls(plan, ensemble).plot(ax=ax)

    def plot(self, ax: "Axes | None" = None) -> "StrategyBoundDisplay":
        """Draw losses as points on a logarithmic axis, the bound as a line none can cross."""
        ax = new_axes(ax, figsize=(7.4, 1.6 + 0.36 * len(self.losses)))
        bound = self.strategy.lower_bound
        for height, (name, loss) in enumerate(self.losses.items()):
            chosen = name == self.strategy.method
            ax.scatter(
                loss, height, color=COLOURS[1 if chosen else 0], s=60, zorder=3,
                marker="D" if chosen else "o",
            )  # fmt: skip
            ratio = f" ({loss / bound:,.3g} × bound)" if bound > 0 else ""
            ax.annotate(
                f"{loss:.3g}{ratio}", (loss, height), xytext=(9, -3),
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
        low = bound if bound > 0 else self.strategy.loss
        high = max(self.losses.values())
        ax.set_xlim(low / 1.6, high * (high / low) ** 0.45 * 1.8)
        names = [f"{n} (chosen)" if n == self.strategy.method else n for n in self.losses]
        ax.set_yticks(range(len(names)), names)
        ax.set_ylim(len(names) - 0.5, -0.5)
        unit = r"$2/\varepsilon^2$" if self.strategy.norm == "l1" else r"$1/(2\rho)$"
        ax.set_xlabel(f"loss: squared error over all answers, in units of {unit} per class")
        ax.set_title("strategies for the plan, before any data", fontsize=10, pad=18)
        tidy(ax)
        ax.grid(axis="x", color="0.9", linewidth=0.8)
        self.ax_, self.figure_ = ax, ax.figure
        return self
