"""Figure 2: accuracy against ε on the paper's data sets, beside the authors' code run again."""

import numpy as np
from forests_003.panels import EPSILONS, RESEARCH, SETTINGS, accuracies, records
from item import Claim, Figure, Item, Run, Table, mean_of
from sklearn.ensemble import ExtraTreesClassifier

from mrf_matrix import (
    BatchPredictionClassifier,
    MatrixForestClassifier,
    PosteriorForestClassifier,
    PrivateForestClassifier,
)
from mrf_matrix.plotting.style import COLOURS, GREY, MARKERS, load_pyplot, tidy

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
THEIRS = {  # the authors' code, run for 3 forests and splits with 5 draws each
    "Car": {
        TRAINING: (0.296, 0.573, 0.765, 0.820),
        PREDICTION: (0.329, 0.557, 0.778, 0.849),
        LAPLACE: (0.251, 0.320, 0.358, 0.442),
        DISJOINT: (0.272, 0.303, 0.363, 0.440),
        EXTRA: (0.974,) * 4,
    },
    "Balance": {
        TRAINING: (0.381, 0.597, 0.726, 0.792),
        PREDICTION: (0.418, 0.617, 0.749, 0.822),
        LAPLACE: (0.341, 0.401, 0.443, 0.562),
        DISJOINT: (0.323, 0.397, 0.474, 0.550),
        EXTRA: (0.836,) * 4,
    },
    "Iris": {
        TRAINING: (0.473, 0.716, 0.847, 0.927),
        PREDICTION: (0.522, 0.718, 0.880, 0.911),
        LAPLACE: (0.351, 0.496, 0.716, 0.787),
        DISJOINT: (0.400, 0.464, 0.642, 0.791),
        EXTRA: (0.933,) * 4,
    },
    "Mushroom": {
        TRAINING: (0.911, 0.941, 0.948, 0.951),
        PREDICTION: (0.896, 0.893, 0.892, 0.892),
        LAPLACE: (0.872, 0.912, 0.918, 0.924),
        DISJOINT: (0.859, 0.909, 0.912, 0.920),
        EXTRA: (1.00,) * 4,
    },
    "Heart": {
        TRAINING: (0.553, 0.697, 0.716, 0.742),
        PREDICTION: (0.528, 0.696, 0.727, 0.741),
        LAPLACE: (0.539, 0.613, 0.666, 0.763),
        DISJOINT: (0.548, 0.569, 0.648, 0.740),
        EXTRA: (0.829,) * 4,
    },
}
SPLITS_OF_THEIRS = 3
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
        mean_of(f"{part}, {name}", column, values)
        for name, runs in found.items()
        for column, values in zip(COLUMNS, np.transpose(runs), strict=True)
    ]


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


def curve_gap(table: Table, name: str, method: str) -> float:
    """Return the root mean square over ε of ours minus theirs, in standard errors of both.

    Theirs are means of three forests and splits with as many draws: their spread is taken from
    ours.
    """
    ours = [table.figure(f"{name}, {method}", column) for column in COLUMNS]
    if any(one.error is None or one.repeats < 5 for one in ours):
        raise KeyError("too few repeats for an error bar")
    squares = [
        (one.value - theirs) ** 2 / (one.error**2 * (1 + one.repeats / SPLITS_OF_THEIRS))
        for one, theirs in zip(ours, THEIRS[name][method], strict=True)
    ]
    return float(np.sqrt(np.mean(squares)))


def within_errors(*methods: str) -> Claim:
    """Return the claim that these curves are within two standard errors of theirs on every set."""
    return lambda t: all(curve_gap(t, name, one) < 2 for name in THEIRS for one in methods)


def ahead(better: str, worse: str, by: float = 0.0):
    """Return the claim that one method's mean over ε is ahead of another's on every set."""

    def holds(table: Table) -> bool:
        names = {row.split(", ")[0] for row in table.rows} - {"Adult"}  # where all say no
        return all(
            table.row(f"{name}, {better}").mean() > table.row(f"{name}, {worse}").mean() + by
            for name in names
        )

    return holds


def picture(table: Table):
    """Draw one panel a data set; theirs grey."""
    plt = load_pyplot()
    names = list(dict.fromkeys(row.split(", ")[0] for row in table.rows))
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
        tidy(ax)
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
                TRAINING, PREDICTION
            ),
            "forests of 40 columns of Adult's 123 stay within a point of the majority": lambda t: (
                abs(t.row(f"Adult, {TRAINING}") - 0.764).max() < 0.01
            ),
            "the private forest is ahead of both of the paper's (ours)": lambda t: (
                ahead(PRIVATE, TRAINING)(t) and ahead(PRIVATE, PREDICTION)(t)
            ),
        },
        paper={
            (f"{name}, {method}", column): value
            for name, methods in THEIRS.items()
            for method, values in methods.items()
            for column, value in zip(COLUMNS, values, strict=True)
        },
        why="The figure prints no numbers. In brackets stands the authors' code, run for 3 forests"
        " and splits with 5 noise draws each (not on Adult). Splits and forests are others here."
        " Disjoint data are some ten points ahead of the authors' code at ε = 2 on Car and Balance,"
        " and equal below; we do not know why."
        " Adult is a9a, its official records to train and to test on: ten random ones of 123 binary"
        " columns an ensemble carry nothing, and every method of the paper predicts the majority"
        " (.764); with its 14 attributes (h=3, d̄=4) forests of the same kind learn.",
        beyond="Strategies searched by the portfolio, posterior forests, and the private forest,"
        " which plans posterior, residual and screened forests and takes the best expected. On"
        " Heart, two classes and 297 records, that choice is behind the posterior forest.",
        picture=picture,
    ),
)
