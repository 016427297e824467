"""Expected error of every leaf over the tree's partition of two attributes, or leaf by leaf."""

from typing import TYPE_CHECKING

import numpy as np

from mrf_matrix.base.arrays import Array, Bools, Longs
from mrf_matrix.domain import Attribute
from mrf_matrix.forests import Forest, leaf_masks
from mrf_matrix.planning import Plan
from mrf_matrix.plotting.style import COLOURS, HEAT, Display, colour_bar, text_colour, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_CELLS = 60  # codes of an attribute up to which a partition is drawn as a map

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
        self.plan = plan
        self.tree = tree
        self.ensemble = ensemble
        self._check()

    def _check(self) -> None:
        if not self.plan.releases_leaves:
            raise ValueError(
                f"the plan's mode is {self.plan.mode!r}, which releases no leaves: expected "
                f"mode='training'."
            )
        for name, value, most in (
            ("ensemble", self.ensemble, len(self.plan.parts)),
            ("tree", self.tree, self._forest.n_trees),
        ):
            if not 0 <= value < most:
                raise ValueError(f"{name}={value}: expected 0 to {most - 1}.")

    @property
    def _forest(self) -> Forest:
        return self.plan.parts[min(self.ensemble, len(self.plan.parts) - 1)].ensemble.forest

    @classmethod
    def from_plan(
        cls, plan: Plan, *, tree: int = 0, ensemble: int = 0, ax: "Axes | None" = None
    ) -> "LeafErrorDisplay":
        """Draw one tree of a plan."""
        return cls(plan, tree, ensemble).plot(ax=ax)

    def _draw(self, ax: "Axes") -> None:
        """Draw the root-mean-square error of each leaf, in records per class."""
        forest = self._forest
        mine = np.flatnonzero(forest.leaf_tree == self.tree)
        errors = np.sqrt(self.plan.parts[self.ensemble].row_variances[mine])
        masks = [mask[mine] for mask in leaf_masks(forest)]
        split = [i for i, mask in enumerate(masks) if not mask.all()]
        if len(split) <= 2 and all(forest.domain.sizes[i] <= MOST_CELLS for i in split):
            self._map(ax, masks, errors, split)
        else:
            self._bars(ax, errors)
        ax.set_title(
            f"tree {self.tree}: expected error of a leaf, {self.plan.budget!r}", fontsize=10
        )

    def _map(self, ax: "Axes", masks: list[Bools], errors: Array, split: list[int]) -> None:
        domain = self._forest.domain
        across = split[0] if split else 0
        down = split[1] if len(split) > 1 else None
        rows = masks[down] if down is not None else np.ones((len(errors), 1), dtype=bool)
        table = np.zeros((rows.shape[1], masks[across].shape[1]))
        owner = np.zeros(table.shape, dtype=int)
        for leaf, error in enumerate(errors):
            where = np.outer(rows[leaf], masks[across][leaf])
            table[where], owner[where] = error, leaf
        image = ax.imshow(table, cmap=HEAT, aspect="auto", vmin=0)
        _borders(ax, owner)
        for leaf, error in enumerate(errors):
            places = np.argwhere(owner == leaf)
            if len(places) and len(errors) <= 40:
                y, x = places.mean(axis=0)
                colour = text_colour(error / max(errors.max(), 1e-12))
                ax.text(x, y, f"{error:.3g}", ha="center", va="center", color=colour, fontsize=8)
        _code_ticks(ax, "x", domain.attributes[across])
        if down is None:
            ax.set_yticks([])
        else:
            _code_ticks(ax, "y", domain.attributes[down])
        colour_bar(image, ax, "rms error (records per class)")

    def _bars(self, ax: "Axes", errors: Array) -> None:
        if len(errors) <= MOST_BARS:
            ax.bar(np.arange(len(errors)), errors, width=0.9, color=COLOURS[0])
            ax.set_xlabel("leaf, left to right")
        else:
            share = 100 * (np.arange(len(errors)) + 0.5) / len(errors)
            ax.plot(share, np.sort(errors)[::-1], color=COLOURS[0], drawstyle="steps-mid")
            ax.set_xlabel(f"leaves, largest error first (% of {len(errors)})")
            ax.set_ylim(0, 1.1 * float(errors.max()))
        ax.set_ylabel("rms error (records per class)")
        tidy(ax)


def _borders(ax: "Axes", owner: Longs) -> None:
    """Draw lines between cells of different leaves."""
    for y, x in np.argwhere(owner[:, 1:] != owner[:, :-1]):
        ax.plot([x + 0.5] * 2, [y - 0.5, y + 0.5], color="white", linewidth=2.5)
    for y, x in np.argwhere(owner[1:] != owner[:-1]):
        ax.plot([x - 0.5, x + 0.5], [y + 0.5] * 2, color="white", linewidth=2.5)


def _code_ticks(ax: "Axes", axis: str, attribute: Attribute) -> None:
    labels = [str(label) for label in attribute.labels]
    step = max(1, len(labels) // 12)
    places = range(0, len(labels), step)
    getattr(ax, f"set_{axis}ticks")(places, [labels[i] for i in places])
    getattr(ax, f"set_{axis}label")(attribute.name)
