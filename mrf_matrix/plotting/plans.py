"""Pictures of a plan, before any data: budget, sensitivity, and errors by leaf and by ε."""

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Self

import numpy as np

from mrf_matrix.base.arrays import Array, Bools, Longs
from mrf_matrix.domain import Attribute
from mrf_matrix.forests import Forest, leaf_masks
from mrf_matrix.forests.assembly import take_trees
from mrf_matrix.mechanisms import ApproximateDP, PrivacyLedger, PureDP
from mrf_matrix.planning import Plan
from mrf_matrix.plotting.style import (
    COLOURS,
    GREY,
    HEAT,
    MARKERS,
    Display,
    add_colour_bar,
    check_index,
    draw_worst_first,
    literal_text,
    text_colour,
    tidy_axes,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


MOST_PARTS = 6


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
        whole, unit = self._whole
        account = self.ledger.account
        amounts = [float(share) * whole for share in self.ledger.shares]
        charges = sorted(zip(account.charges, amounts, strict=True), key=lambda one: -one[1])
        shown = charges if len(charges) <= MOST_PARTS else charges[: MOST_PARTS - 1]
        parts = [(f"{one.number}. {one.what}", amount) for one, amount in shown]
        if len(shown) < len(charges):
            rest = sum(amount for _, amount in charges[len(shown) :])
            parts.append((f"{len(charges) - len(shown)} more", rest))
        at = 0.0
        for (name, amount), colour in zip(parts, COLOURS, strict=False):
            label = literal_text(f"{name[:60]}: {amount:g}")
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
        top = 0.0
        for number, (part, colour) in enumerate(
            zip(self.plan.parts, cycle(COLOURS), strict=False), start=1
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
                np.linspace(0, 100, cells),
                order,
                where="post",
                color=colour,
                label=literal_text(label),
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
        table = "leaves" if self.plan.kind.is_disjoint else "cells"
        ax.set_xlabel(f"{table}, largest first (% of all {table})")
        ax.set_ylabel(f"{norm_name} norm of the strategy's column (per record)")
        ax.set_ylim(0, 1.15 * top)
        ax.set_title("how much one record moves the measurement", fontsize=10)
        ax.legend(frameon=False, fontsize=9, loc="lower left")
        tidy_axes(ax)


MOST_CODES = 60  # codes of an attribute up to which a partition is drawn as a map

MOST_BARS = 24  # leaves that have a bar each; of more, the errors are a curve


class LeafErrorDisplay(Display):
    """Error by leaf of one tree: a map of its partition, or bars where more attributes are split.

    Of many leaves, the errors are a curve.

    Parameters
    ----------
    plan : Plan
        A training plan.
    tree : int, default=0
        Which tree of the ensemble.
    ensemble : int, default=0
    """

    figsize = (6.8, 4.4)

    def __init__(self, plan: Plan, tree: int = 0, ensemble: int = 0) -> None:
        if not plan.releases_leaves:
            raise ValueError(
                f"the plan is of kind {plan.kind.name!r}, which releases no leaves: expected "
                f"kind='matrix'."
            )
        check_index("ensemble", ensemble, len(plan.parts))
        self.part = plan.parts[ensemble]
        self.forest: Forest = self.part.ensemble.forest
        check_index("tree", tree, self.forest.n_trees)
        self.plan, self.tree, self.ensemble = plan, tree, ensemble

    @classmethod
    def from_plan(
        cls, plan: Plan, *, tree: int = 0, ensemble: int = 0, ax: "Axes | None" = None
    ) -> "LeafErrorDisplay":
        """Draw one tree of a plan."""
        return cls(plan, tree, ensemble).plot(ax=ax)

    def _draw(self, ax: "Axes") -> None:
        mine = np.flatnonzero(self.forest.leaf_tree == self.tree)
        errors = np.sqrt(self.part.row_variances[mine])
        forest = take_trees(self.forest, [self.tree])
        split = np.unique(forest.attribute[forest.attribute >= 0]).tolist()
        if len(split) <= 2 and all(forest.domain.sizes[i] <= MOST_CODES for i in split):
            self._draw_map(ax, leaf_masks(forest), errors, split)
        else:
            self._draw_bars(ax, errors)
        ax.set_title(
            f"tree {self.tree}: expected error of a leaf, {self.plan.budget!r}", fontsize=10
        )

    def _draw_map(self, ax: "Axes", masks: list[Bools], errors: Array, split: list[int]) -> None:
        domain = self.forest.domain
        across = split[0] if split else 0
        down = split[1] if len(split) > 1 else None
        rows = masks[down] if down is not None else np.ones((len(errors), 1), dtype=bool)
        table = np.zeros((rows.shape[1], masks[across].shape[1]))
        owner = np.zeros(table.shape, dtype=int)
        for leaf, error in enumerate(errors):
            where = np.outer(rows[leaf], masks[across][leaf])
            table[where], owner[where] = error, leaf
        image = ax.imshow(table, cmap=HEAT, aspect="auto", vmin=0)
        _draw_borders(ax, owner)
        for leaf, error in enumerate(errors):
            places = np.argwhere(owner == leaf)
            if len(places) and len(errors) <= 40:
                y, x = places.mean(axis=0)
                colour = text_colour(error / max(errors.max(), 1e-12))
                ax.text(x, y, f"{error:.3g}", ha="center", va="center", color=colour, fontsize=8)
        _set_code_ticks(ax, "x", domain.attributes[across])
        if down is None:
            ax.set_yticks([])
        else:
            _set_code_ticks(ax, "y", domain.attributes[down])
        add_colour_bar(image, ax, "rms error (records per class)")

    def _draw_bars(self, ax: "Axes", errors: Array) -> None:
        if len(errors) <= MOST_BARS:
            ax.bar(np.arange(len(errors)), errors, width=0.9, color=COLOURS[0])
            ax.set_xlabel("leaf, left to right")
        else:
            draw_worst_first(ax, errors, 100.0, color=COLOURS[0])
            ax.set_xlabel(f"leaves, largest error first (% of {len(errors)})")
            ax.set_ylim(0, 1.1 * float(errors.max()))
        ax.set_ylabel("rms error (records per class)")
        tidy_axes(ax)


def _draw_borders(ax: "Axes", owner: Longs) -> None:
    """Draw lines between cells of different leaves."""
    for y, x in np.argwhere(owner[:, 1:] != owner[:, :-1]):
        ax.plot([x + 0.5] * 2, [y - 0.5, y + 0.5], color="white", linewidth=2.5)
    for y, x in np.argwhere(owner[1:] != owner[:-1]):
        ax.plot([x - 0.5, x + 0.5], [y + 0.5] * 2, color="white", linewidth=2.5)


def _set_code_ticks(ax: "Axes", axis: str, attribute: Attribute) -> None:
    labels = [str(label) for label in attribute.labels]
    step = max(1, len(labels) // 12)
    places = range(0, len(labels), step)
    getattr(ax, f"set_{axis}ticks")(places, [labels[i] for i in places])
    getattr(ax, f"set_{axis}label")(attribute.name)


AMOUNTS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


class ErrorCurveDisplay(Display):
    """Root-mean-square error of leaves or votes against the budget.

    Parameters
    ----------
    plans : Plan, or mapping of str to Plan
        One plan, or several by the name to show, of one kind, and of one law of budget.
    amounts : sequence of float, default=(0.1, 0.2, 0.5, 1, 2, 5)
        Values of ε or ρ.
    """

    figsize = (6.8, 4.2)

    def __init__(
        self, plans: Plan | Mapping[str, Plan], amounts: Sequence[float] = AMOUNTS
    ) -> None:
        self.plans = {"plan": plans} if isinstance(plans, Plan) else dict(plans)
        kinds = {(plan.kind.name, type(plan.budget)) for plan in self.plans.values()}
        if len(kinds) != 1:
            raise ValueError(
                "plans are of different kinds or budgets: expected one kind, and either epsilon "
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
                label=literal_text(name),
            )
        if first.n_records is not None:
            median = float(np.median(first.expected_records))
            label = f"records behind a typical answer: {median:.3g}"
            ax.axhline(median, color=GREY, linestyle="--", label=label)
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
        tidy_axes(ax)
