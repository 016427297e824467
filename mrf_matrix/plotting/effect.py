"""Effects of attributes on the log odds, with the band that noise leaves them."""

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from mrf_matrix.plotting.style import COLOURS, DIVERGING, GREY, Display, colour_bar, literal, tidy
from mrf_matrix.study.effects import Effect, HasPosterior, effect

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_TICKS = 24
MOST_CODES = 40
"""Codes of one attribute that are all drawn; of more, those clearest of noise."""


class EffectDisplay(Display):
    """The effect of one attribute with its noise band, or of a pair as a map.

    Parameters
    ----------
    effect : Effect
        Of one attribute or two.
    """

    def __init__(self, effect: Effect) -> None:
        if len(effect.names) > 2:
            raise ValueError(
                f"effect is of {len(effect.names)} attributes: expected one or two. Ask for the "
                f"effect of one or two of them."
            )
        self.effect = effect

    @classmethod
    def from_estimator(
        cls,
        estimator: HasPosterior,
        attributes: str | Sequence[str],
        *,
        classes: tuple[Hashable, Hashable] | None = None,
        level: float = 0.95,
        ax: "Axes | None" = None,
    ) -> "EffectDisplay":
        """Draw an effect of a fitted forest: post-processing of its release, at no cost.

        Parameters
        ----------
        estimator, attributes, classes, level
            See `mrf_matrix.study.effect`.
        """
        return cls(effect(estimator, attributes, classes=classes, level=level)).plot(ax=ax)

    def _draw(self, ax: "Axes") -> None:
        """Draw a curve with its band, or a map."""
        shown = self.effect if len(self.effect.names) > 1 else clearest(self.effect)
        for axis, labels in zip("xy", shown.labels, strict=False):
            places = np.unique(np.linspace(0, len(labels) - 1, MOST_TICKS).round()).astype(int)
            long = axis == "x" and max(map(len, labels)) * len(places) > 60
            getattr(ax, f"set_{axis}ticks")(
                places, [literal(labels[i]) for i in places], rotation=45 if long else 0
            )
        if len(shown.names) == 1:
            self._curve(ax, shown)
        else:
            self._map(ax)
        left = len(self.effect.log_odds) - len(shown.log_odds)
        some = f" ({len(shown.log_odds)} codes clearest of noise, {left} left out)" if left else ""
        ax.set_xlabel(f"{literal(shown.names[0])}{some}")

    @property
    def _label(self) -> str:
        one, other = self.effect.classes
        return literal(f"log odds of {one} against {other}")

    def _curve(self, ax: "Axes", shown: Effect) -> None:
        """Draw every code with its band, and a line through those that are in order of value."""
        ax.axhline(0, color=GREY, linewidth=0.8)
        places, joined = np.arange(len(shown.log_odds)), shown.in_order[0]
        ax.errorbar(
            places,
            shown.log_odds,
            yerr=(shown.below, shown.above),
            color=COLOURS[0],
            marker="o",
            linestyle="",
            capsize=3,
            elinewidth=1.2,
        )
        ax.plot(places[:joined], shown.log_odds[:joined], color=COLOURS[0], linewidth=1.2)
        ax.set_ylabel(self._label)
        ax.set_title(f"bars: {shown.level:.0%} under the model", fontsize="medium")
        tidy(ax)

    def _map(self, ax: "Axes") -> None:
        shown = self.effect
        most = max(float(np.abs(shown.log_odds).max()), 1e-9)
        image = ax.imshow(
            shown.log_odds.T, cmap=DIVERGING, vmin=-most, vmax=most, origin="lower", aspect="auto"
        )
        across, up = np.nonzero(np.abs(shown.log_odds) > shown.inward)
        ax.scatter(across, up, s=8, color="black", label="beyond its noise band")
        ax.set_ylabel(literal(shown.names[1]))
        colour_bar(image, ax, self._label)


def clearest(effect: Effect) -> Effect:
    """Return the effect of the codes that are clearest of noise, in the domain's order."""
    if len(effect.log_odds) <= MOST_CODES:
        return effect
    ratios = np.abs(effect.log_odds) / np.maximum(effect.inward, 1e-300)
    kept = np.sort(np.argsort(-ratios, kind="stable")[:MOST_TICKS])
    return replace(
        effect,
        labels=(tuple(effect.labels[0][i] for i in kept),),
        in_order=(int((kept < effect.in_order[0]).sum()),),
        log_odds=effect.log_odds[kept],
        below=effect.below[kept],
        above=effect.above[kept],
        shares=effect.shares[kept],
    )
