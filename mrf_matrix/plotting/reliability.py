"""How far to believe predicted probabilities: accuracy against confidence."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mrf_matrix.plotting.style import COLOURS, GREY, MARKERS, Display, literal, tidy
from mrf_matrix.study.calibration import Reliability, reliability

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
        models = _named(estimator, name or type(estimator).__name__)
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
            for key, shares in _named(proba, name).items()
        }
        return cls(curves).plot(ax=ax)

    def _draw(self, ax: "Axes") -> None:
        """Draw one curve for each classifier, beside those that the axes hold already."""
        from matplotlib.collections import PathCollection

        before = sum(line.get_gid() == CURVE for line in ax.lines)
        if not before:
            ax.plot([0, 1], [0, 1], color=GREY, linestyle="--", label="calibrated")
        for number, (name, curve) in enumerate(self.curves.items(), start=before):
            colour = COLOURS[number % len(COLOURS)]
            label = literal(f"{name} (ECE {curve.error:.3f})")
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
        tidy(ax)


def _named(given: object, name: str) -> dict[str, Any]:
    return dict(given) if isinstance(given, Mapping) else {name: given}
