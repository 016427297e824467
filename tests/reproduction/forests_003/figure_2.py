"""Figure 2: accuracy against ε on the paper's data sets, beside the authors' code run again."""

from collections.abc import Mapping, Sequence

import numpy as np
from forests_003.panels import EPSILONS, RESEARCH, SETTINGS, accuracies, records
from item import Claim, Figure, Item, Run, Table, by_cell, row_of_means
from sklearn.ensemble import ExtraTreesClassifier

from mrf_matrix import BatchPredictionClassifier, MatrixForestClassifier, PrivateForestClassifier
from mrf_matrix.estimators import PosteriorForestClassifier
from mrf_matrix.plotting.style import COLOURS, GREY, MARKERS, load_pyplot, tidy_axes

TRAINING, PREDICTION = "DP batch training", "DP batch prediction"
LAPLACE, DISJOINT = "Laplace on every tree", "disjoint data"
OPTIMISED = "DP batch prediction, strategy searched (ours)"
POSTERIOR, PRIVATE = "posterior forest (ours)", "private forest (ours)"
OPEN, EXTRA = "M-RF without privacy", "Extra-Trees (not private)"
METHODS = {
    TRAINING: (MatrixForestClassifier, {"strategy": "identity"}),
    PREDICTION: (BatchPredictionClassifier, {"strategy": "identity"}),
    LAPLACE: (MatrixForestClassifier, {"allocation": "per_tree"}),
    DISJOINT: (MatrixForestClassifier, {"allocation": "disjoint"}),
    OPTIMISED: (BatchPredictionClassifier, {"time_limit": 0.2}),
}
CURVES = (TRAINING, PREDICTION, LAPLACE, DISJOINT, EXTRA)
RUN_AGAIN = {
    "Car": ".296 .573 .765 .820  .329 .557 .778 .849  .251 .320 .358 .442  .272 .303 .363 .440"
    " .974 .974 .974 .974",
    "Balance": ".381 .597 .726 .792  .418 .617 .749 .822  .341 .401 .443 .562  .323 .397 .474 .550"
    " .836 .836 .836 .836",
    "Iris": ".473 .716 .847 .927  .522 .718 .880 .911  .351 .496 .716 .787  .400 .464 .642 .791"
    " .933 .933 .933 .933",
    "Mushroom": ".911 .941 .948 .951  .896 .893 .892 .892  .872 .912 .918 .924  .859 .909 .912 .920"
    " 1 1 1 1",
    "Heart": ".553 .697 .716 .742  .528 .696 .727 .741  .539 .613 .666 .763  .548 .569 .648 .740"
    " .829 .829 .829 .829",
}
"""The authors' code, run for 3 forests and splits with 5 draws each: ε of each curve in turn."""

THEIRS = {
    name: dict(
        zip(CURVES, np.reshape(figures.split(), (len(CURVES), -1)).astype(float), strict=True)
    )
    for name, figures in RUN_AGAIN.items()
}
SPLITS_OF_THEIRS, DIGIT = 3, 0.001
COLUMNS = tuple(f"ε = {epsilon:g}" for epsilon in EPSILONS)


def curves(part: str, run: Run) -> list[Figure]:
    """Return every method's accuracy at each ε."""
    data, settings = records(part), SETTINGS[part]
    found: dict[str, list[list[float]]] = {}
    draws = 5 if run.full and len(data.labels) < 20_000 else 1  # there noise hardly shows
    for seed in run.seeds:
        for name, (kind, extra) in METHODS.items():
            if run.full or name in (TRAINING, PREDICTION, LAPLACE, DISJOINT):
                at = accuracies(kind, data, seed, draws=draws, **settings, **extra)
                found.setdefault(name, []).append(at)
        for name, kind in {
            POSTERIOR: PosteriorForestClassifier,
            PRIVATE: PrivateForestClassifier,
        }.items():
            at = accuracies(kind, data, seed, draws=draws, n_records=len(data.halves(seed)[0]))
            found.setdefault(name, []).append(at)
        for name, score in without_privacy(data, seed, settings).items():
            found.setdefault(name, []).append([score] * len(EPSILONS))
    return [
        figure
        for name, runs in found.items()
        for figure in row_of_means(f"{part}, {name}", by_epsilon(runs))
    ]


def by_epsilon(runs: Sequence[Sequence[float]]) -> dict[str, Sequence[float]]:
    """Return the repeats of every ε, from the curves of every repeat."""
    return dict(zip(COLUMNS, zip(*runs, strict=True), strict=True))


def without_privacy(data, seed: int, settings: dict) -> dict[str, float]:
    """Return the accuracies of the same forest, and of Extra-Trees, on the records themselves."""
    train, test, train_y, test_y = data.halves(seed)
    same = MatrixForestClassifier(
        data.domain, epsilon=np.inf, strategy="identity", random_state=seed, **settings
    )
    other = ExtraTreesClassifier(random_state=seed)
    return {
        name: float(np.mean(model.fit(train, train_y).predict(test) == test_y))
        for name, model in {OPEN: same, EXTRA: other}.items()
    }


def curve_gap(table: Table, row: str, theirs: Sequence[float]) -> float:
    """Return the root mean square over ε of ours minus theirs, in standard errors of both.

    Theirs are means of three forests and splits with as many draws, of three digits: their spread
    is taken from ours.
    """
    ours = [table.figure(row, column) for column in COLUMNS]
    if any(one.error is None or one.repeats < 5 for one in ours):
        raise KeyError("too few repeats for an error bar")
    squares = [
        (one.value - his) ** 2 / (one.error**2 * (1 + one.repeats / SPLITS_OF_THEIRS) + DIGIT**2)
        for one, his in zip(ours, theirs, strict=True)
    ]
    return float(np.sqrt(np.mean(squares)))


def within_errors(methods: Mapping[str, str]) -> Claim:
    """Return the claim that rows are within two standard errors of curves of theirs on all sets."""
    return lambda t: all(
        curve_gap(t, f"{name}, {row}", theirs[curve]) < 2
        for name, theirs in THEIRS.items()
        for row, curve in methods.items()
    )


def ahead(better: str, worse: str, by: float = 0.0):
    """Return the claim that one method's mean over ε is ahead of another's on every set."""

    def holds(table: Table) -> bool:
        names = {*table.sets} - {"Adult"}  # where all say no
        return all(
            table.row(f"{name}, {better}").mean() > table.row(f"{name}, {worse}").mean() + by
            for name in names
        )

    return holds


def picture(table: Table):
    """Draw one panel a data set; theirs grey."""
    plt = load_pyplot()
    names = table.sets
    columns = min(4, len(names))
    lines = -(-len(names) // columns)
    figure, axes = plt.subplots(
        lines,
        columns,
        figsize=(3.3 * columns, 0.4 + 3 * lines),
        layout="constrained",
        sharey=True,
        squeeze=False,
    )
    shown = [*METHODS, POSTERIOR, PRIVATE]
    for ax, name in zip(axes.flat, names, strict=False):
        for method, colour, marker in zip(shown, COLOURS, MARKERS, strict=False):
            values = table.row(f"{name}, {method}")
            ax.plot(EPSILONS, values, color=colour, marker=marker, markersize=4, label=method)
        for method, line in ((TRAINING, "--"), (PREDICTION, ":")):
            if name in THEIRS:
                ax.plot(
                    EPSILONS,
                    THEIRS[name][method],
                    line,
                    color=GREY,
                    label=f"authors' code, {method}",
                )
        ax.set(xscale="log", title=name, xlabel="ε", ylim=(0, 1.02))
        ax.set_xticks(EPSILONS, [f"{e:g}" for e in EPSILONS])
        ax.minorticks_off()
        tidy_axes(ax)
    for ax in axes.flat[len(names) :]:
        ax.set_axis_off()
    axes[0, 0].set_ylabel("test accuracy")
    figure.legend(
        *axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=3, fontsize=8
    )
    return figure


ITEMS = (
    Item(
        name="003-figure-2",
        title="Figure 2: accuracy against ε",
        rows=(8, 9, 12, 13, 14, 15, 19),
        measure=curves,
        privacy=RESEARCH,
        parts=tuple(SETTINGS),
        quick=("Car", "Balance"),
        repeats=10,
        quick_repeats=2,
        claims={
            "batch training is ahead of Laplace noise on every tree": ahead(TRAINING, LAPLACE),
            "batch training is ahead of disjoint data": ahead(TRAINING, DISJOINT),
            "by 20 points and more on Car at ε of 1 and 2": lambda t: bool(
                (t.row(f"Car, {TRAINING}") - t.row(f"Car, {LAPLACE}"))[2:].min() > 0.2
            ),
            "both curves are within two standard errors of the authors' code": within_errors(
                {TRAINING: TRAINING, PREDICTION: PREDICTION}
            ),
            "Laplace noise on every tree and Extra-Trees are within two of theirs": within_errors(
                {LAPLACE: LAPLACE, EXTRA: EXTRA}
            ),
            "forests of 40 columns of Adult's 123 stay within a point of the majority": lambda t: (
                abs(t.row(f"Adult, {TRAINING}") - 0.764).max() < 0.01
            ),
            "the private forest is ahead of both of the paper's (ours)": lambda t: (
                ahead(PRIVATE, TRAINING)(t) and ahead(PRIVATE, PREDICTION)(t)
            ),
        },
        paper=by_cell(
            {f"{name}, {one}": v for name, theirs in THEIRS.items() for one, v in theirs.items()},
            COLUMNS,
        ),
        why="The figure prints no numbers. In brackets stands the authors' code, run for 3 forests"
        " and splits with 5 noise draws each (not on Adult). Splits and forests are others here."
        " Of their curves the farthest is Laplace noise on Car: 1.8 standard errors over twenty"
        " repeats, 2.2 over the first ten."
        " Disjoint data are some ten points ahead of theirs at ε = 2 on Car and Balance, because"
        " here leaves that tie share their vote: see [what decides](forests_003.md#003-disjoint)."
        " Adult is a9a, its official records to train and to test on: ten random ones of 123 binary"
        " columns an ensemble carry nothing, and every method of the paper predicts the majority"
        " (.764); with its 14 attributes (h=3, d̄=4) forests of the same kind learn.",
        beyond="Strategies searched by the portfolio, posterior forests, and the private forest,"
        " which plans posterior, residual and screened forests and takes the best expected. On"
        " Heart, two classes and 297 records, that choice is behind the posterior forest.",
        picture=picture,
    ),
)
