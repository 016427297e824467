"""Pictures of models and their comparison: effects, reliability, accuracy against ε."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from itertools import cycle
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from mrf_matrix.base.checks import one_word
from mrf_matrix.plotting.style import (
    COLOURS,
    DIVERGING,
    GREY,
    MARKERS,
    Display,
    add_colour_bar,
    literal_text,
    tidy_axes,
)
from mrf_matrix.study import Comparison
from mrf_matrix.study.calibration import METRICS, PERCENT, Reliability, reliability
from mrf_matrix.study.effects import Effect, ModelVotes, Name, effect, importance

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
        estimator: ModelVotes,
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
        shown = self.effect if len(self.effect.names) > 1 else clearest_codes(self.effect)
        for axis, labels in zip("xy", shown.labels, strict=False):
            places = np.unique(np.linspace(0, len(labels) - 1, MOST_TICKS).round()).astype(int)
            long = axis == "x" and max(map(len, labels)) * len(places) > 60
            getattr(ax, f"set_{axis}ticks")(
                places, [literal_text(labels[i]) for i in places], rotation=45 if long else 0
            )
        if len(shown.names) == 1:
            self._draw_curve(ax, shown)
        else:
            self._draw_map(ax)
        left = len(self.effect.log_odds) - len(shown.log_odds)
        some = f" ({len(shown.log_odds)} codes clearest of noise, {left} left out)" if left else ""
        ax.set_xlabel(f"{literal_text(shown.names[0])}{some}")

    @property
    def _label(self) -> str:
        one, other = self.effect.classes
        return literal_text(f"log odds of {one} against {other}")

    def _draw_curve(self, ax: "Axes", shown: Effect) -> None:
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
        tidy_axes(ax)

    def _draw_map(self, ax: "Axes") -> None:
        shown = self.effect
        most = max(float(np.abs(shown.log_odds).max()), 1e-9)
        image = ax.imshow(
            shown.log_odds.T, cmap=DIVERGING, vmin=-most, vmax=most, origin="lower", aspect="auto"
        )
        across, up = np.nonzero(np.abs(shown.log_odds) > shown.inward)
        ax.scatter(across, up, s=8, color="black", label="beyond its noise band")
        ax.set_ylabel(literal_text(shown.names[1]))
        add_colour_bar(image, ax, self._label)


def clearest_codes(effect: Effect) -> Effect:
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


MOST_STRENGTHS = 20


class StrengthDisplay(Display):
    """Importance of a fitted forest's terms, largest first; `EffectDisplay` shows attributes.

    Parameters
    ----------
    strengths : mapping of str or tuple of str to float
        From `mrf_matrix.study.importance`.
    """

    def __init__(self, strengths: Mapping[Name, float]) -> None:
        self.strengths = dict(list(strengths.items())[:MOST_STRENGTHS])

    @property
    def figsize(self) -> tuple[float, float]:  # type: ignore[override]
        """Inches: a line for each term."""
        return (6.8, 1.2 + 0.28 * len(self.strengths))

    @classmethod
    def from_estimator(
        cls,
        estimator: ModelVotes,
        *,
        classes: tuple[Hashable, Hashable] | None = None,
        ax: "Axes | None" = None,
    ) -> Self:
        """Draw a fitted forest, see `importance`: post-processing of its release, at no cost."""
        return cls(importance(estimator, classes=classes)).plot(ax=ax)

    def _draw(self, ax: "Axes") -> None:
        names = [one if isinstance(one, str) else " × ".join(one) for one in self.strengths]
        places = range(len(names))
        ax.barh(places, list(self.strengths.values()), color=COLOURS[0])
        ax.set_yticks(places, list(map(literal_text, names)))
        ax.invert_yaxis()
        ax.set_xlabel("rms of the log odds, by released shares")
        ax.set_title("strength of attributes", fontsize=10)
        tidy_axes(ax)
        ax.grid(axis="y", visible=False)
        ax.grid(axis="x", color="0.9", linewidth=0.8)


CURVE = "reliability"
SMALLEST, LARGEST = 12.0, 220.0
"""Areas of markers, in square points: of a bin with hardly any record, and with all of them."""


class ReliabilityDisplay(Display):
    """Share of right labels against predicted probability, bin by bin, of one or more classifiers.

    A classifier that knows how sure it is lies on the diagonal; below it, it is too sure of itself.
    The area of a marker is the share of the records in its bin.

    Parameters
    ----------
    curves : mapping of str to Reliability
        By the name to show.
    """

    figsize = (7.6, 4.4)

    def __init__(self, curves: Mapping[str, Reliability]) -> None:
        if not curves:
            raise ValueError("curves is empty: expected at least one, by the name to show.")
        self.curves = dict(curves)

    @classmethod
    def from_estimator(
        cls,
        estimator: object,
        X: object,
        y: object,
        *,
        n_bins: int = 10,
        name: str | None = None,
        ax: "Axes | None" = None,
    ) -> "ReliabilityDisplay":
        """Draw fitted classifiers on records that they have not seen.

        Parameters
        ----------
        estimator : classifier, or mapping of str to classifier
            With `predict_proba` and `classes_`.
        X, y : records and their classes
            Whatever is drawn of private records is not private.
        n_bins : int, default=10
            Equal bins of probability.
        name : str, optional
            Name of a single classifier; that of its class by default.
        """
        models = _as_mapping(estimator, name or type(estimator).__name__)
        curves = {
            key: reliability(y, model.predict_proba(X), n_bins, classes=model.classes_)
            for key, model in models.items()
        }
        return cls(curves).plot(ax=ax)

    @classmethod
    def from_predictions(
        cls,
        y: object,
        proba: object,
        *,
        classes: object = None,
        n_bins: int = 10,
        name: str = "classifier",
        ax: "Axes | None" = None,
    ) -> "ReliabilityDisplay":
        """Draw predicted probabilities.

        Parameters
        ----------
        y : array of shape (b,)
            True classes.
        proba : array of shape (b, k), or mapping of str to such arrays
        classes : array of shape (k,), optional
            The class of each column; 0 to k - 1 by default.
        n_bins, name, ax
            See `from_estimator`.
        """
        curves = {
            key: reliability(y, shares, n_bins, classes=classes)
            for key, shares in _as_mapping(proba, name).items()
        }
        return cls(curves).plot(ax=ax)

    def _draw(self, ax: "Axes") -> None:
        from matplotlib.collections import PathCollection

        before = sum(line.get_gid() == CURVE for line in ax.lines)
        if not before:
            ax.plot([0, 1], [0, 1], color=GREY, linestyle="--", label="calibrated")
        for number, (name, curve) in enumerate(self.curves.items(), start=before):
            colour = COLOURS[number % len(COLOURS)]
            label = literal_text(f"{name} (ECE {curve.error:.3f})")
            ax.plot(curve.confidence, curve.accuracy, color=colour, alpha=0.6, gid=CURVE)
            ax.scatter(
                curve.confidence,
                curve.accuracy,
                s=SMALLEST + (LARGEST - SMALLEST) * curve.counts / curve.counts.sum(),
                color=colour,
                marker=MARKERS[number % len(MARKERS)],
                label=label,
                zorder=3,
            )
        ax.set_xlim(0, 1.02)
        ax.set_ylim(0, 1.02)
        ax.set_aspect("equal")
        ax.set_xlabel("predicted probability of the label (mean of a bin)")
        ax.set_ylabel("share of right labels")
        legend = ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=9)
        for handle in legend.legend_handles[1:]:
            if isinstance(handle, PathCollection):
                handle.set_sizes([40.0])  # areas mean something in the axes only
        tidy_axes(ax)


def _as_mapping(given: object, name: str) -> dict[str, Any]:
    return dict(given) if isinstance(given, Mapping) else {name: given}


LINE_STYLES = ("--", "-.", ":")
FAINT = "#B5B5B5"
"""Of methods behind those that colours and markers tell apart."""


class AccuracyDisplay(Display):
    """Test accuracy, or another figure, of every method against the budget ε, best first.

    Parameters
    ----------
    comparison : Comparison
        What `compare` returned.
    metric : str, default="accuracy"
        One of `mrf_matrix.study.calibration.METRICS`; methods without it are left out.
    """

    figsize = (7.6, 4.4)

    def __init__(self, comparison: Comparison, metric: str = "accuracy") -> None:
        self.comparison = comparison
        self.metric = one_word("metric", metric, list(METRICS))

    @classmethod
    def from_comparison(
        cls, comparison: Comparison, metric: str = "accuracy", *, ax: "Axes | None" = None
    ) -> "AccuracyDisplay":
        """Draw a study."""
        return cls(comparison, metric).plot(ax=ax)

    def _draw(self, ax: "Axes") -> None:
        study = self.comparison
        best_first = study.ranking(self.metric)
        looks = [*zip(COLOURS, MARKERS, strict=True)]
        looks += [(FAINT, ".")] * (len(best_first) - len(looks))
        for place, method in enumerate(best_first):
            colour, marker = looks[place]
            points = study.summaries_of(method, self.metric)
            means = np.array([point.mean for point in points], dtype=np.float64)  # None is NaN
            if np.isnan(means).all():
                continue
            ax.errorbar(
                study.epsilons,
                means,
                yerr=np.nan_to_num([2 * point.standard_error for point in points]),
                label=literal_text(method.label),
                color=colour,
                marker=marker,
                capsize=3,
                zorder=3 - place / len(best_first),  # the best above those that it equals
            )
        others = [method for method in study.methods if not method.spends]
        for method, style in zip(others, cycle(LINE_STYLES), strict=False):
            mean = study.summary(method.key, None, self.metric).mean
            if mean is not None:
                ax.axhline(
                    mean,
                    color=GREY,
                    linestyle=style,
                    label=literal_text(f"{method.label} ({mean:.2f})"),
                )
        self._label_axes(ax)

    def _label_axes(self, ax: "Axes") -> None:
        study = self.comparison
        settings = study.settings
        ax.set_xscale("log")
        ax.set_xticks(study.epsilons, [f"{epsilon:g}" for epsilon in study.epsilons])
        ax.minorticks_off()
        if self.metric in PERCENT or self.metric == "auc":
            ax.set_ylim(0, 1.02)
        relation = settings["neighboring"].replace("_", "/")
        law = f"δ = {settings['delta']:g}" if settings.get("delta") else "pure DP"
        ax.set_xlabel(f"privacy budget ε ({law}, {relation} neighbours)")
        ax.set_ylabel(f"test {METRICS[self.metric]} (mean ± 2 standard errors)")
        ax.set_title(
            f"{literal_text(study.dataset)}: {settings['n_trees']} trees "
            f"of depth {settings['max_depth']}, "
            f"{settings['voting']} voting, {settings['noise']} noise",
            fontsize=10,
        )
        handles, labels = ax.get_legend_handles_labels()
        order = sorted(range(len(labels)), key=lambda i: hasattr(handles[i], "axes"))  # lines last
        ax.legend(
            [handles[i] for i in order], [labels[i] for i in order],
            loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=9,
        )  # fmt: skip
        tidy_axes(ax)
