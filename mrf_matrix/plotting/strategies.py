"""Pictures of strategies: errors with their bound, where noise lands, and a search's designs."""

from __future__ import annotations  # help() shows the names of types, not all they stand for

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Self

import numpy as np

from mrf_matrix.base.arrays import Array
from mrf_matrix.planning import Plan, Tuning
from mrf_matrix.plotting.style import (
    COLOURS,
    GREY,
    HEAT,
    MARKERS,
    MOST_NUMBERS,
    UNITS,
    UNKNOWN,
    Display,
    add_colour_bar,
    check_index,
    draw_worst_first,
    literal_text,
    load_pyplot,
    row_words,
    rows_have_words,
    text_colour,
    tidy_axes,
)
from mrf_matrix.study import Comparison
from strategies import Strategy
from strategies.operators import Identity, MatrixLike, Norm, as_operator

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class StrategyErrorDisplay(Display):
    """Loss of each strategy for one workload, beside the certified lower bound.

    Parameters
    ----------
    losses : mapping of str to float
        By the strategies' names.
    bound : float
        Certified lower bound on the loss of every strategy; 0 where none is known.
    norm : {"l1", "l2"}
        Of Laplace or of Gaussian noise.
    title : str
    chosen : str, optional
        The one that is marked.
    """

    def __init__(
        self,
        losses: Mapping[str, float],
        bound: float,
        norm: Norm,
        title: str,
        chosen: str | None = None,
    ) -> None:
        self.losses, self.bound, self.norm, self.title = dict(losses), bound, norm, title
        self.chosen = chosen

    @property
    def figsize(self) -> tuple[float, float]:  # type: ignore[override]
        """Inches: a line for each strategy."""
        return (7.6, 1.6 + 0.36 * len(self.losses))

    @classmethod
    def from_comparison(
        cls, comparison: Comparison, *, ax: Axes | None = None
    ) -> StrategyErrorDisplay:
        """Draw the strategies of a study, of `compare`."""
        rows = [row for row in comparison.strategies if row.note is None]
        bound = max(row.lower_bound for row in rows)
        norm: Norm = "l2" if comparison.settings.get("delta") else "l1"
        title = f"{comparison.dataset}: strategies, before any data"
        losses = {row.name: row.loss for row in rows}
        chosen = next((row.name for row in rows if row.is_selected), None)
        return cls(losses, bound, norm, title, chosen).plot(ax=ax)

    @classmethod
    def from_strategies(
        cls,
        strategies: Mapping[str, Strategy],
        *,
        title: str = "strategies",
        ax: Axes | None = None,
    ) -> StrategyErrorDisplay:
        """Draw strategies for one workload, from `strategies.select` or `strategies.evaluate`.

        Parameters
        ----------
        strategies : mapping of str to Strategy
            By the names to draw them under, all of one norm.

        Raises
        ------
        ValueError
            If there is none, or they are of both norms: their losses are of different units.
        """
        norm = common_norm(strategies)
        losses = {name: one.loss for name, one in strategies.items()}
        bound = max(one.lower_bound for one in strategies.values())
        return cls(losses, bound, norm, title).plot(ax=ax)

    def _draw(self, ax: Axes) -> None:
        bound, least, most = self.bound, min(self.losses.values()), max(self.losses.values())
        low, word = (bound, "bound") if bound > 0 else (least, "least")
        ax.scatter(list(self.losses.values()), range(len(self.losses)), color=COLOURS[0], s=60)
        for height, (name, loss) in enumerate(self.losses.items()):
            if name == self.chosen:
                ax.scatter(loss, height, color=COLOURS[1], marker="D", s=60, zorder=4)
            ax.annotate(
                f"{loss:.3g} ({_ratio_text(loss / low)} × {word})", (loss, height), xytext=(9, -3),
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
        ax.set_xlim(low / 1.6, most * max(6.0, (most / low) ** 0.62 * 1.8))  # room for words
        names = list(self.losses)
        ax.set_yticks(range(len(names)), list(map(literal_text, names)))
        for name, tick in zip(names, ax.get_yticklabels(), strict=True):
            tick.set_fontweight("bold" if name == self.chosen else "normal")
        ax.set_ylim(len(names) - 0.5, -0.5)
        ax.set_xlabel(
            rf"loss $\|A\|_{self.norm[1]}^2\,\|WA^+\|_F^2$: squared error of all queries"
            f"\nin one class ({UNITS[self.norm]})"
        )
        ax.set_title(literal_text(self.title), fontsize=10, pad=18)
        tidy_axes(ax)
        ax.grid(axis="x", color="0.9", linewidth=0.8)


def _ratio_text(ratio: float) -> str:
    return f"{ratio:.3g}" if ratio < 1000 else f"{ratio:,.0f}"


class StrategyBoundDisplay(StrategyErrorDisplay):
    """Loss that every strategy family reached for one ensemble of a plan: what searching bought.

    Parameters
    ----------
    plan : Plan
        With allocation "matrix".
    ensemble : int, default=0
    """

    def __init__(self, plan: Plan, ensemble: int = 0) -> None:
        check_index("ensemble", ensemble, len(plan.parts))
        strategy = plan.parts[ensemble].strategy
        if strategy is None:
            raise ValueError(
                f"the plan (kind={plan.kind.name!r}, allocation={plan.allocation!r}) measures its "
                f"answers by no strategy: expected another kind than 'tables', and "
                f"allocation='matrix'."
            )
        self.plan, self.strategy = plan, strategy
        finite = {c.family: c.loss for c in strategy.candidates if c.loss < float("inf")}
        finite[strategy.method] = min(strategy.loss, finite.get(strategy.method, strategy.loss))
        losses = dict(sorted(finite.items(), key=lambda item: item[1]))
        title = "strategies for the plan, before any data"
        super().__init__(losses, strategy.lower_bound, strategy.norm, title, strategy.method)

    @classmethod
    def from_plan(
        cls, plan: Plan, *, ensemble: int = 0, ax: Axes | None = None
    ) -> StrategyBoundDisplay:
        """Draw one ensemble's strategies."""
        return cls(plan, ensemble).plot(ax=ax)


def common_norm(strategies: Mapping[str, Strategy]) -> Norm:
    """Return the norm of all strategies.

    Raises TypeError if there is something else among them; ValueError if there is none, or they are
    of both norms: their errors are of different units.
    """
    if not isinstance(strategies, Mapping):
        raise TypeError(
            f"strategies is of type {type(strategies).__name__}: expected a mapping of names to "
            f'strategies, such as {{"mine": strategies.evaluate(W, A)}}.'
        )
    for name, one in strategies.items():
        if not isinstance(one, Strategy):
            raise TypeError(
                f"strategies[{name!r}] is of type {type(one).__name__}: expected a Strategy, which "
                f"strategies.evaluate(W, A, norm) makes of a matrix."
            )
    norms = sorted({one.norm for one in strategies.values()})
    if len(norms) != 1:
        raise ValueError(
            f"strategies of the norms {norms}: expected at least one, all of one norm."
        )
    return norms[0]


class RowErrorDisplay(Display):
    """Error of every row under several strategies, each from its worst row to its best.

    Parameters
    ----------
    errors : mapping of str to ndarray of shape (q,)
        Errors before the noise constant, by the names to draw them under.
    bound : float
        No strategy keeps every row below it; 0 where nothing is known.
    norm : {"l1", "l2"}
        Of Laplace or of Gaussian noise.
    title : str
    """

    def __init__(self, errors: Mapping[str, Array], bound: float, norm: Norm, title: str) -> None:
        self.errors, self.bound, self.norm, self.title = dict(errors), bound, norm, title

    @classmethod
    def from_strategies(
        cls,
        strategies: Mapping[str, Strategy],
        workload: MatrixLike,
        *,
        title: str = "errors of rows",
        ax: Axes | None = None,
    ) -> RowErrorDisplay:
        """Draw strategies for one workload, with the bound of those of objective "max".

        `strategies` as for `StrategyErrorDisplay.from_strategies`; `workload` of shape (q, n): the
        queries.
        """
        norm = common_norm(strategies)
        errors = {name: one.row_errors(workload) for name, one in strategies.items()}
        bounds = [one.lower_bound for one in strategies.values() if one.objective == "max"]
        return cls(errors, max(bounds, default=0.0), norm, title).plot(ax=ax)

    def _draw(self, ax: Axes) -> None:
        for k, (name, errors) in enumerate(self.errors.items()):
            colour = COLOURS[k % len(COLOURS)]
            draw_worst_first(ax, errors, 1.0, color=colour, label=literal_text(name))
            ax.plot(1.03, errors.mean(), MARKERS[k % len(MARKERS)], color=colour)
        if self.bound > 0:
            ax.axhline(self.bound, color=GREY, linestyle="--", label="lower bound on the largest")
        ax.set(
            ylim=(0, None),
            xlabel="share of queries, worst first (marks: means)",
            ylabel=f"squared error of a query\n({UNITS[self.norm]})",
        )
        ax.set_title(literal_text(self.title), fontsize=10)
        tidy_axes(ax)
        ax.legend(frameon=False, fontsize=9)


class NoiseDisplay(Display):
    """Where noise lands: the variance of every query, or of every cell, by strategy.

    Parameters
    ----------
    errors : mapping of str to ndarray
        ``||A||² ||(W A⁺)_r||²`` of every row, by the strategies' names.
    norm : {"l1", "l2"}
    rows : str, default="query"
        What a row is.
    words : sequence of str, optional
        What each row is, where they are few.
    """

    figsize = (7.2, 3.6)

    def __init__(
        self, errors: Mapping[str, Array], norm: str, rows: str = "query", words: Sequence[str] = ()
    ) -> None:
        lengths = {len(one) for one in errors.values()}
        if len(lengths) != 1:
            raise ValueError(f"errors of {sorted(lengths)} rows: expected some, all of one length.")
        self.errors, self.norm, self.rows, self.words = dict(errors), norm, rows, list(words)

    @classmethod
    def from_strategies(
        cls,
        strategies: Mapping[str, Strategy],
        workload: MatrixLike,
        *,
        rows: str | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Draw the errors of a workload's rows; with the identity as workload those of cells."""
        norm = common_norm(strategies)
        asked = as_operator(workload, "workload")
        errors = {name: one.row_errors(asked) for name, one in strategies.items()}
        if rows is None:
            rows = "leaf" if rows_have_words(asked) else "query"
            rows = "cell" if isinstance(asked, Identity) else rows
        return cls(errors, norm, rows, row_words(asked)).plot(ax=ax)

    def _draw(self, ax: Axes) -> None:
        table = np.array(list(self.errors.values()))
        known = np.isfinite(table)
        image = ax.imshow(
            np.where(known, table, np.nan), cmap=HEAT, vmin=0.0, aspect="auto",
            interpolation="nearest",
        )  # fmt: skip
        ax.set_facecolor(UNKNOWN)
        ax.set_yticks(range(len(table)), [literal_text(name) for name in self.errors])
        ax.set_xlabel(self.rows + ("" if known.all() else "; grey: not determined"))
        ax.xaxis.set_major_locator(load_pyplot().MaxNLocator(integer=True))
        if self.words:
            said = [literal_text(one) for one in self.words]
            ax.set_xticks(range(len(said)), said, rotation=90, fontsize=7)
        if table.shape[1] <= MOST_NUMBERS:
            most = table[known].max(initial=0.0) or 1.0
            for (row, column), error in np.ndenumerate(table):
                colour = text_colour(error / most) if known[row, column] else "black"
                words = f"{error:.3g}" if known[row, column] else "–"
                ax.text(column, row, words, color=colour, fontsize=8, ha="center", va="center")
        ax.set_title("where noise lands", fontsize=10)
        add_colour_bar(image, ax, f"variance of a {self.rows} ({UNITS[self.norm]})")


FIGURES = {
    "measurements": "noisy measurements per class",
    "leaves": "leaves of all trees",
    "nbytes": "peak of a fit (bytes)",
    "seconds": "seconds to plan",
    "rms_per_vote": "rms error of a vote (records per class)",
}


class ParetoDisplay(Display):
    """Objective of every design against another figure, with the front that none beats.

    Parameters
    ----------
    tuning : Tuning
    against : {"measurements", "leaves", "nbytes", "seconds", "rms_per_vote"}, \
default="measurements"
        The figure across.

    Raises
    ------
    ValueError
        If no design has the figure.
    """

    figsize = (7.0, 4.4)

    def __init__(self, tuning: Tuning, against: str = "measurements") -> None:
        if against not in FIGURES:
            raise ValueError(
                f"against={against!r}: expected one of {', '.join(map(repr, FIGURES))}."
            )
        self.tuning, self.against = tuning, against
        trials = [trial for trial in tuning.trials if np.isfinite(trial.value)]
        self.found = [trial for trial in trials if np.isfinite(getattr(trial, against))]
        if not self.found:
            raise ValueError(
                f"against={against!r}: no design of the search has this figure. Expected "
                f"'measurements' or another one."
            )

    @classmethod
    def from_tuning(
        cls, tuning: Tuning, *, against: str = "measurements", ax: Axes | None = None
    ) -> ParetoDisplay:
        """Draw a search."""
        return cls(tuning, against).plot(ax=ax)

    def _draw(self, ax: Axes) -> None:
        """Draw every feasible design as a point, the front as a staircase, the best named.

        A best design without the figure across (products have no rms error) is a dashed line.
        """
        ax.scatter(
            [getattr(trial, self.against) for trial in self.found],
            [trial.value for trial in self.found],
            color=GREY,
            alpha=0.6,
            s=28,
            label="designs",
        )
        front = sorted(
            self.tuning.pareto("value", self.against), key=lambda t: getattr(t, self.against)
        )
        ax.plot(
            [getattr(trial, self.against) for trial in front],
            [trial.value for trial in front],
            color=COLOURS[0],
            marker="o",
            drawstyle="steps-post",
            label="Pareto front",
        )
        self._plot_best(ax)
        sizes = [getattr(trial, self.against) for trial in self.found]
        if max(sizes) > 10 * min(sizes) > 0:
            ax.set_xscale("log")
        ax.set_xlabel(FIGURES[self.against])
        ax.set_ylabel(f"{self.tuning.objective.replace('_', ' ')} (smaller is better)")
        ax.set_title("designs, compared without data", fontsize=10)
        ax.legend(
            frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=1
        )
        tidy_axes(ax)

    def _plot_best(self, ax: Axes) -> None:
        best = self.tuning.best
        across = getattr(best, self.against)
        name = "best: " + ", ".join(f"{k} {v}" for k, v in best.design.items())
        if np.isfinite(across):
            ax.scatter(
                [across], [best.value], color=COLOURS[1], marker="D", s=70, zorder=4, label=name
            )
        else:
            ax.axhline(best.value, color=COLOURS[1], linestyle="--", label=f"{name} (no such rms)")
