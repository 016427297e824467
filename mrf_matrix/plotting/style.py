"""One look for every picture: colour-blind safe colours, markers that differ without colour."""

from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import ModuleType

    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.figure import Figure, SubFigure

# Okabe and Ito's palette (2008), told apart by people with any common colour blindness; a dark
# wine red (Tol) instead of its yellow, which is too pale on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#000000", "#56B4E9", "#882255")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
GREY = "#6B6B6B"
UNITS = {"l1": r"$2/\varepsilon^2$", "l2": r"$1/(2\rho)$"}
"""Noise constants behind a loss, for Laplace and for Gaussian noise."""
HEAT = "cividis"  # sequential map, even in lightness for everyone
DIVERGING = "PuOr"  # two hues that stay apart under all common colour blindness, zero white


def load_pyplot() -> "ModuleType":
    """Import matplotlib when a picture is asked for, or say how to install it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            "Pictures need matplotlib: install it with pip install 'mrf-matrix[plot]'."
        ) from error
    return plt


class Display:
    """A picture: what ``from_...`` makes, and `plot` draws again on other axes.

    ``from_...`` takes ``ax=``, the matplotlib Axes to draw on; by default a new figure's.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn, after `plot`.
    """

    figsize: tuple[float, float] = (6.4, 4.2)
    ax_: "Axes"
    figure_: "Figure | SubFigure"

    def plot(self, ax: "Axes | None" = None) -> Self:
        """Draw on the given axes, or on those of a new figure laid out to fit its labels."""
        if ax is None:
            ax = load_pyplot().subplots(figsize=self.figsize, layout="constrained")[1]
        self._draw(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _draw(self, ax: "Axes") -> None:
        raise NotImplementedError


def tidy(ax: "Axes") -> None:
    """Take away what carries no information."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color="0.9", linewidth=0.8)
    ax.set_axisbelow(True)


def colour_bar(image: "ScalarMappable", ax: "Axes", label: str) -> None:
    """Put a labelled colour bar beside an image."""
    ax.figure.colorbar(image, ax=ax, label=label, shrink=0.9)


def literal(words: str) -> str:
    r"""Return words of somebody else as matplotlib draws them: no mathematics, no hidden label.

    >>> literal("$x^{$"), literal("_none")
    ('\\$x^{\\$', ' _none')
    """
    return ("" if words[:1] != "_" else " ") + words.replace("$", r"\$")


def text_colour(level: float) -> str:
    """Return the colour of text that is readable on a heat map's level, 0 to 1."""
    return "white" if level < 0.6 else "black"
