"""A fitted model at a glance: how far each attribute moves the log odds."""

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Self

from mrf_matrix.plotting.style import COLOURS, Display, literal, tidy
from mrf_matrix.study.effects import HasPosterior, Name, importance

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST = 20


class StrengthDisplay(Display):
    """Importance of a fitted forest's terms, largest first; `EffectDisplay` shows attributes.

    Parameters
    ----------
    strengths : mapping of str or tuple of str to float
        From `mrf_matrix.study.importance`.
    """

    def __init__(self, strengths: Mapping[Name, float]) -> None:
        self.strengths = dict(list(strengths.items())[:MOST])

    @property
    def figsize(self) -> tuple[float, float]:  # type: ignore[override]
        """Inches: a line for each term."""
        return (6.8, 1.2 + 0.28 * len(self.strengths))

    @classmethod
    def from_estimator(
        cls,
        estimator: HasPosterior,
        *,
        classes: tuple[Hashable, Hashable] | None = None,
        ax: "Axes | None" = None,
    ) -> Self:
        """Draw a fitted forest, see `importance`: post-processing of its release, at no cost."""
        return cls(importance(estimator, classes=classes)).plot(ax=ax)

    def _draw(self, ax: "Axes") -> None:
        """Draw a bar a term."""
        names = [one if isinstance(one, str) else " × ".join(one) for one in self.strengths]
        places = range(len(names))
        ax.barh(places, list(self.strengths.values()), color=COLOURS[0])
        ax.set_yticks(places, list(map(literal, names)))
        ax.invert_yaxis()
        ax.set_xlabel("rms of the log odds, by released shares")
        ax.set_title("strength of attributes", fontsize=10)
        tidy(ax)
        ax.grid(axis="y", visible=False)
        ax.grid(axis="x", color="0.9", linewidth=0.8)
