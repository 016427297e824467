"""Where a budget went: one bar, a part for each charge or measurement."""

from typing import TYPE_CHECKING, Self

from mrf_matrix.mechanisms import ApproximateDP, PrivacyLedger
from mrf_matrix.plotting.style import COLOURS, GREY, Display, literal

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST = 6


class BudgetDisplay(Display):
    """What is spent of a ledger's total, by charge, and what is left.

    Parameters
    ----------
    ledger : PrivacyLedger
        Of a finite total.

    Raises
    ------
    ValueError
        If its total is infinite: there are no shares of it.
    """

    figsize = (7.6, 1.9)

    def __init__(self, ledger: PrivacyLedger) -> None:
        if ledger.budget.is_infinite:
            raise ValueError("ledger has an infinite total: expected a finite one, to show shares.")
        self.ledger = ledger

    @classmethod
    def from_ledger(cls, ledger: PrivacyLedger, *, ax: "Axes | None" = None) -> Self:
        """Draw a ledger."""
        return cls(ledger).plot(ax=ax)

    @property
    def _whole(self) -> tuple[float, str]:
        """The bar's length, and what it is of: the total, or under (ε, δ) one in shares of it."""
        total = self.ledger.budget
        if isinstance(total, ApproximateDP):
            return 1.0, f"share of (ε = {float(total.epsilon):g}, δ = {float(total.delta):g})"
        letter = {"epsilon": "ε", "rho": "ρ"}[total.parameter]
        return float(total.exact), f"{letter} of {float(total.exact):g}"

    def _draw(self, ax: "Axes") -> None:
        """Draw the largest charges, the others as one part, and what is left."""
        whole, unit = self._whole
        account = self.ledger.account
        amounts = [float(share) * whole for share in self.ledger.shares]
        charges = sorted(zip(account.charges, amounts, strict=True), key=lambda one: -one[1])
        shown = charges if len(charges) <= MOST else charges[: MOST - 1]
        parts = [(f"{one.number}. {one.what}", amount) for one, amount in shown]
        if len(shown) < len(charges):
            rest = sum(amount for _, amount in charges[len(shown) :])
            parts.append((f"{len(charges) - len(shown)} more", rest))
        at = 0.0
        for (name, amount), colour in zip(parts, COLOURS, strict=False):
            label = literal(f"{name[:60]}: {amount:g}")
            ax.barh(0, amount, left=at, color=colour, edgecolor="white", label=label)
            at += amount
        ax.barh(
            0, whole - at, left=at, color="white", edgecolor=GREY, label=f"left: {whole - at:g}"
        )
        ax.set(xlim=(0, whole), yticks=[])
        ax.set_xlabel(f"{unit}, {self.ledger.neighboring.replace('_', '/')}")
        ax.set_title("privacy ledger", fontsize=10)
        ax.spines[["top", "right", "left"]].set_visible(False)
        ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=9)
