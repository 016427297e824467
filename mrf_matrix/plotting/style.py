"""One look for every picture: colour-blind safe colours, markers that differ without colour."""

from collections.abc import Iterable, Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any, Self

import numpy as np

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
UNITS = {"l1": r"records², times $2/\varepsilon^2$", "l2": r"records², times $1/(2\rho)$"}
"""Units of a squared error before the noise constant, for Laplace and for Gaussian noise."""
HEAT = "cividis"  # sequential map, even in lightness for everyone
UNSIGNED = "Purples"  # the half of the next one that is above zero
UNKNOWN = "#D0D0D0"
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


MOST_STEPS = 24
LONGEST_STEP = 48  # characters of a line, of two at most


class StepDisplay(Display):
    """Steps of a plan: the share of the budget of each, and the noise of its numbers.

    Parameters
    ----------
    words : sequence of str
        What each step measures or chooses.
    shares : sequence of float
        Of the whole; steps beyond 24 are one bar.
    errors : sequence of str
        What stands beside the bars, such as "± 2.57".
    whole : str
        The budget.
    """

    def __init__(
        self, words: Sequence[str], shares: Sequence[float], errors: Sequence[str], whole: str
    ) -> None:
        rest = len(words) - MOST_STEPS
        most = MOST_STEPS - 1 if rest > 0 else len(words)
        more = [f"{rest + 1} more steps"] if rest > 0 else []
        self.words, self.whole = [*words[:most], *more], whole
        self.shares = [*shares[:most], *([sum(shares[most:])] if more else [])]
        self.errors = [*errors[:most], *([""] if more else [])]
        self.figsize = (7.6, 1.2 + 0.32 * len(self.words))

    def _draw(self, ax: "Axes") -> None:
        places = range(len(self.words))
        bars = ax.barh(places, [100 * one for one in self.shares], color=COLOURS[0], height=0.7)
        told = [fill(one, LONGEST_STEP, max_lines=2, placeholder=" …") for one in self.words]
        ax.set_yticks(places, [literal_text(one) for one in told], fontsize=8)
        ax.bar_label(bars, [literal_text(one) for one in self.errors], padding=4, fontsize=8)
        ax.margins(y=0.02)
        ax.invert_yaxis()
        ax.set_xlim(0, 118 * max(self.shares, default=0.0) or 1.0)  # room for the labels
        ax.set_xlabel("share of the budget (%); ± noise of a number, in records (rms)")
        ax.set_title(literal_text(f"steps of {self.whole}"), fontsize=10)
        ax.spines[["top", "right"]].set_visible(False)


class AnswerDisplay(Display):
    """Expected error of every answer of a plan, from the worst to the best; a curve an ensemble.

    Parameters
    ----------
    errors : sequence of (str, sequence of float)
        Names of ensembles, and the root-mean-square errors of their answers, in records.
    unit : str
        What an answer is.
    whole : str
        The budget.
    """

    def __init__(self, errors: "Sequence[tuple[str, Sequence[float]]]", unit: str, whole: str):
        self.errors, self.unit, self.whole = errors, unit, whole

    def _draw(self, ax: "Axes") -> None:
        for number, (name, errors) in enumerate(self.errors):
            colour = COLOURS[number % len(COLOURS)]
            draw_worst_first(ax, errors, 100.0, color=colour, label=literal_text(name))
        ax.set(xlim=(0, 100), ylim=(0, None))
        ax.set_xlabel(f"{self.unit}s, worst first (%)")
        ax.set_ylabel(f"rms error of a {self.unit} (records per class)")
        ax.set_title(literal_text(f"expected error, {self.whole}"), fontsize=10)
        ax.legend(frameon=False, fontsize=8, loc="lower left")
        tidy_axes(ax)


def draw_worst_first(ax: "Axes", errors: Iterable[float], whole: float, **look: Any) -> None:
    """Draw errors as steps from the worst to the best, each over its part of the whole."""
    falling = sorted(errors, reverse=True)
    edges = [whole * place / len(falling) for place in range(len(falling) + 1)]
    ax.step(edges, [*falling, falling[-1]], where="post", **look)


def tidy_axes(ax: "Axes") -> None:
    """Take away what carries no information."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color="0.9", linewidth=0.8)
    ax.set_axisbelow(True)


def add_colour_bar(image: "ScalarMappable", ax: "Axes", label: str) -> None:
    ax.figure.colorbar(image, ax=ax, label=label, shrink=0.9)


def literal_text(words: str) -> str:
    r"""Return words of somebody else as matplotlib draws them: no mathematics, no hidden label.

    >>> literal_text("$x^{$"), literal_text("_none")
    ('\\$x^{\\$', ' _none')
    """
    return ("" if words[:1] != "_" else " ") + words.replace("$", r"\$")


def check_index(name: str, value: int, count: int) -> None:
    if not 0 <= value < count:
        raise ValueError(f"{name}={value}: expected 0 to {count - 1}.")


def text_colour(level: float) -> str:
    """Return the colour of text that is readable on a heat map's level, 0 to 1."""
    return "white" if level < 0.6 else "black"


MOST_WORDS = 24
"""Most rows or cells of a matrix that are labelled in words."""
MOST_NUMBERS = 8
"""Rows and columns of a matrix whose entries are written on it."""


def rows_have_words(matrix: Any) -> bool:
    """Tell whether an operator's rows say in words what they are, as those of a forest do."""
    return matrix.shape[0] > 0 and all(matrix.take_rows(np.zeros(1, dtype=np.int64)).row_words())


def row_words(matrix: Any) -> list[str]:
    """Return what each row of an operator is, where they say it and are few."""
    words: list[str] = matrix.row_words() if matrix.shape[0] <= MOST_WORDS else []
    return words if all(words) else []
