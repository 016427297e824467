"""Expected error against ε (or ρ): plans side by side, before any data."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from mrf_matrix.mechanisms import PureDP
from mrf_matrix.planning import Plan
from mrf_matrix.plotting.style import COLOURS, GREY, MARKERS, Display, literal, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

AMOUNTS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


class ErrorCurveDisplay(Display):
    """Root-mean-square error of leaves or votes against the budget.

    Parameters
    ----------
    plans : Plan, or mapping of str to Plan
        One plan, or several by the name to show, of one mode and kind of budget.
    amounts : sequence of float, default=(0.1, 0.2, 0.5, 1, 2, 5)
        Values of ε or ρ.
    """

    figsize = (6.8, 4.2)

    def __init__(
        self, plans: Plan | Mapping[str, Plan], amounts: Sequence[float] = AMOUNTS
    ) -> None:
        self.plans = {"plan": plans} if isinstance(plans, Plan) else dict(plans)
        kinds = {(plan.mode, type(plan.budget)) for plan in self.plans.values()}
        if len(kinds) != 1:
            raise ValueError(
                "plans are of different modes or budgets: expected one mode, and either epsilon "
                "or rho for all."
            )
        self.amounts = tuple(amounts)

    @classmethod
    def from_plan(
        cls,
        plan: Plan | Mapping[str, Plan],
        *,
        amounts: Sequence[float] = AMOUNTS,
        ax: "Axes | None" = None,
    ) -> "ErrorCurveDisplay":
        """Draw one or several plans."""
        return cls(plan, amounts).plot(ax=ax)

    def _draw(self, ax: "Axes") -> None:
        """Draw one curve for each plan on logarithmic axes."""
        first = next(iter(self.plans.values()))
        pure = isinstance(first.budget, PureDP)
        for number, (name, plan) in enumerate(self.plans.items()):
            moved = [
                plan.at(epsilon=amount) if pure else plan.at(rho=amount) for amount in self.amounts
            ]
            rms = [one.rms_per_leaf if one.releases_leaves else one.rms_per_vote for one in moved]
            ax.plot(
                self.amounts,
                rms,
                color=COLOURS[number % len(COLOURS)],
                marker=MARKERS[number % len(MARKERS)],
                label=literal(name),
            )
        if first.n_records is not None:
            self._mark_records(ax, first)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xticks(self.amounts, [f"{amount:g}" for amount in self.amounts])
        ax.minorticks_off()
        relation = first.neighboring.replace("_", "/")
        ax.set_xlabel(
            f"privacy budget {'ε (pure DP' if pure else 'ρ (zCDP'}, {relation} neighbours)"
        )
        answer = "leaf" if first.releases_leaves else "vote"
        ax.set_ylabel(f"rms error of a {answer} (records per class)")
        ax.set_title("expected error, before any data", fontsize=10)
        if len(self.plans) > 1 or first.n_records is not None:
            ax.legend(frameon=False, fontsize=9)
        tidy(ax)

    def _mark_records(self, ax: "Axes", plan: Plan) -> None:
        median = float(np.median(plan.expected_records))
        ax.axhline(
            median,
            color=GREY,
            linestyle="--",
            label=f"records behind a typical answer: {median:.3g}",
        )
