"""Sensitivity by cell: how much one record in each cell moves what is measured."""

from typing import TYPE_CHECKING

import numpy as np

from mrf_matrix.planning import Plan
from mrf_matrix.plotting.style import COLOURS, GREY, Display, literal, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_CELLS = 100_000


class CellSensitivityDisplay(Display):
    """Column norms of each ensemble's strategy, sorted: where the noise budget is used fully.

    Noise pays for the largest column norm, so cells below it are protected more than asked. The
    curves show how evenly a strategy spreads its sensitivity.

    Parameters
    ----------
    plan : Plan
    """

    figsize = (6.8, 4.0)

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        cells = max(part.mechanism.rounded.matrix.shape[1] for part in plan.parts)
        if cells > MOST_CELLS:
            raise ValueError(
                f"an ensemble of the plan has {cells} cells: expected at most {MOST_CELLS} for a "
                f"picture of each; plan fewer attributes or coarser ones."
            )

    @classmethod
    def from_plan(cls, plan: Plan, *, ax: "Axes | None" = None) -> "CellSensitivityDisplay":
        """Draw a plan's sensitivities."""
        return cls(plan).plot(ax=ax)

    def _draw(self, ax: "Axes") -> None:
        """Draw each ensemble's column norms in descending order, beside the sensitivity."""
        top = 0.0
        for number, (part, colour) in enumerate(
            zip(self.plan.parts, _colours(len(self.plan.parts)), strict=True), start=1
        ):
            rounded = part.mechanism.rounded
            cells = rounded.matrix.shape[1]
            norm = rounded.matrix.column_norms(rounded.norm) / float(rounded.scale)
            order = np.sort(np.asarray(norm))[::-1]
            order = order * (part.sensitivity / order[0])  # the neighbouring factor, in records
            top = max(top, float(order[0]))
            name = "as measured" if part.strategy is None else part.strategy.method
            label = f"ensemble {number}: {name}" if len(self.plan.parts) > 1 else name
            ax.step(
                np.linspace(0, 100, cells), order, where="post", color=colour, label=literal(label)
            )
        ax.axhline(top, color=GREY, linestyle="--", linewidth=1)
        ax.annotate(
            f"sensitivity {top:.3g}: what the noise pays for",
            (0.99, top),
            xycoords=("axes fraction", "data"),
            xytext=(0, 4),
            textcoords="offset points",
            ha="right",
            color=GREY,
            fontsize=9,
        )
        norm_name = "L1" if self.plan.parts[0].mechanism.rounded.norm == "l1" else "L2"
        table = self.plan.kind.table_rows
        ax.set_xlabel(f"{table}, largest first (% of all {table})")
        ax.set_ylabel(f"{norm_name} norm of the strategy's column (per record)")
        ax.set_ylim(0, 1.15 * top)
        ax.set_title("how much one record moves the measurement", fontsize=10)
        ax.legend(frameon=False, fontsize=9, loc="lower left")
        tidy(ax)


def _colours(count: int) -> list[str]:
    return [COLOURS[i % len(COLOURS)] for i in range(count)]
