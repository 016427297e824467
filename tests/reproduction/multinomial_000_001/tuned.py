"""000 Tables 4 and 5: every forest with parameters searched inside of the training folds."""

from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from item import Figure, Item, Run, Table, by_cell, row_of_means
from multinomial_000_001.folds import PARTLY, in_reach, numeric_records, raw_records
from multinomial_000_001.ranks import paired_ranks
from multinomial_000_001.tuned_scores import tuned_scores
from numpy.typing import ArrayLike
from rivals.classifiers import (
    BernoulliForestClassifier,
    BreimanForestClassifier,
    ComparisonForestClassifier,
    DenilForestClassifier,
    ObliqueForestClassifier,
)

from mrf_matrix import MultinomialForestClassifier
from mrf_matrix.cli.screen import progress_bar

KEPT = Path(__file__).resolve().parents[1] / "folds"
"""Where full runs keep every fold, so that they resume within a part."""

SETS = ("hayes_roth", "echocardiogram", "hepatitis", "vehicle", "yeast", "wilt")
PAPER = {
    # Denil14, BRF, CompRF-C, MRF, CompRF-I, Breiman, +SE, +M; then Table 5, without MRF again
    "hayes_roth":
    "66.62 62.52 45.82 82.28 46.86 80.53 80.12 85.70 80.92 80.62 74.46 79.38 70.77 80.31",
    "echocardiogram":
    "91.66 91.75 89.93 92.11 90.17 92.14 92.00 91.90 92.92 92.00 91.08 92.31 90.77 91.38",
    "hepatitis":
    "64.03 65.66 62.50 66.72 60.26 65.06 67.77 64.77 68.27 67.47 65.87 66.67 65.60 64.00",
    "vehicle":
    "72.96 72.34 62.57 73.75 64.94 74.97 73.45 75.93 81.08 84.92 81.88 78.70 74.60 83.47",
    "yeast":
    "59.84 59.09 16.17 61.79 11.16 62.03 61.81 62.60 64.19 65.47 60.59 64.64 57.88 62.39",
    "wilt":
    "97.72 97.66 97.76 98.56 98.43 98.30 97.90 98.83 98.76 98.80 98.83 98.80 98.69 98.71",
}  # fmt: skip
METHODS: dict[str, Any] = {
    "Denil14": DenilForestClassifier(),
    "BRF": BernoulliForestClassifier(),
    "CompRF-C": ComparisonForestClassifier(),
    "MRF": MultinomialForestClassifier(),
    "CompRF-I": ComparisonForestClassifier(supervised=True),
    "Breiman": BreimanForestClassifier(),
    "Breiman+SE": BreimanForestClassifier(variant="SE"),
    "Breiman+M": BreimanForestClassifier(variant="M"),
    "RoF-PCA": ObliqueForestClassifier(split="pca"),
    "RoF-LDA": ObliqueForestClassifier(split="lda"),
    "MPSVM-T": ObliqueForestClassifier(split="mpsvm_t"),
    "MPSVM-P": ObliqueForestClassifier(split="mpsvm_p"),
    "MPSVM-N": ObliqueForestClassifier(split="mpsvm_n"),
    "HobRaF": ObliqueForestClassifier(split="hobraf"),
}
CONSISTENT = ("Denil14", "BRF", "CompRF-C", "MRF")
RANKS = "average rank"
REPEATS = 10


def grid_of(method: str, d: int, whole: bool) -> list[dict[str, list[Any]]]:
    """Return what is searched for a method over d attributes; the small grid is for few folds."""
    points = [1, 2, 5, 10] if whole else [1, 5]
    some = sorted(
        {max(1, round(one)) for one in ((d**0.5, d / 3, d) if whole else (d**0.5, d / 2))}
    )
    shared: dict[str, list[Any]] = {"min_points": points}
    if method == "BRF":
        chances = [0.01, 0.05, 0.2] if whole else [0.01, 0.05]
        return [shared | {"p_attribute": [p], "p_cut": [p]} for p in chances]
    if method == "Denil14":
        return [shared | {"mean_features": some, "range_points": [100, 1000] if whole else [1000]}]
    if method in ("MRF", "Breiman+M"):
        pairs = product([1, 5, 10, 20, 50], repeat=2) if whole else [(5, 5), (20, 20)]
        return [shared | {"b1": [b1], "b2": [b2]} for b1, b2 in pairs]
    if method.startswith("CompRF"):
        return [shared]
    if method == "MPSVM-T" and whole:
        return [shared | {"max_features": some, "ridge": [0.001, 0.01, 0.1]}]
    return [shared | {"max_features": some}]


def scores_of(part: str, method: str, run: Run) -> np.ndarray:
    """Return every fold's accuracy in per cent; a full run keeps and takes up folds."""
    whole = run.full and run.repeats >= REPEATS
    numeric = method.startswith("CompRF") or isinstance(METHODS[method], ObliqueForestClassifier)
    read = numeric_records if numeric else raw_records
    X, y = in_reach(*read(part), run, REPEATS)
    n_trees = 100 if whole else 30
    model = METHODS[method].set_params(n_trees=n_trees, random_state=0)
    size = "whole" if whole else "small"
    with progress_bar(quiet=not run.full) as show:
        found = tuned_scores(
            model,
            grid_of(method, X.shape[1], whole),
            X,
            y,
            n_repeats=run.repeats,
            n_folds=10 if whole else 5 if run.full else 3,
            n_inner=5 if whole else 2,
            kept_in=KEPT / f"{part}-{method}-{size}.jsonl" if run.full else None,
            progress=lambda _, done, total: show(f"{part}: {method}", done, total),
        )
    return 100 * found.scores


def compared(part: str, run: Run) -> list[Figure]:
    """Return every method's mean on a set, and the p-value of its folds against the MRF's.

    The part `RANKS` gives the average ranks over the sets, of all and of the consistent forests.
    """
    if part == RANKS:
        return average_ranks(run)
    scores = {method: scores_of(part, method, run) for method in methods_of(run)}
    return row_of_means(part, scores) + p_values(part, scores)


def methods_of(run: Run) -> list[str]:
    """Return what is compared: HobRaF in whole runs only, for it fits one node after another."""
    if not run.full:
        return ["MRF", "Breiman", "RoF-LDA"]
    return [one for one in METHODS if one != "HobRaF" or run.repeats >= REPEATS]


def p_values(part: str, scores: Mapping[str, ArrayLike]) -> list[Figure]:
    """Return the p-value of Wilcoxon's signed-rank test of each method's folds beside the MRF's."""
    tested = paired_ranks({part: scores}, "MRF")
    return [
        Figure(f"{part}, p beside MRF", method, float(p), repeats=len(np.ravel(scores["MRF"])))
        for method, p in zip(tested.methods, tested.p_values[0], strict=True)
        if method != "MRF"
    ]


def average_ranks(run: Run) -> list[Figure]:
    """Return average ranks, from the folds that the parts before have kept."""
    found = []
    for row, methods in {RANKS: methods_of(run), f"{RANKS}, consistent": [*CONSISTENT]}.items():
        scores = {name: {one: scores_of(name, one, run) for one in methods} for name in SETS}
        ranks = paired_ranks(scores, "MRF")
        found += [
            Figure(row, method, float(rank), repeats=len(SETS))
            for method, rank in zip(ranks.methods, ranks.average_ranks, strict=True)
        ]
    return found


def advanced_ahead(table: Table) -> bool:
    """Say whether a rotation forest is ahead of the MRF on Vehicle, as printed."""
    return max(table["vehicle", "RoF-PCA"], table["vehicle", "RoF-LDA"]) > table["vehicle", "MRF"]


def first_of_the_consistent(table: Table) -> bool:
    """Say whether the MRF has the best average rank of the four consistent forests."""
    ranks = {one: table[f"{RANKS}, consistent", one] for one in CONSISTENT}
    return min(ranks, key=lambda one: ranks[one]) == "MRF"


ITEMS = (
    Item(
        name="000-tables4-5",
        title="Every forest with tuned parameters (000, Tables 4 and 5)",
        rows=(37,),
        measure=compared,
        privacy="Not private: forests learn from raw records, and the records choose parameters.",
        parts=(*SETS, RANKS),
        quick=("wine",),
        repeats=REPEATS,
        quick_repeats=1,
        claims={
            "of the consistent forests the MRF has the best average rank": first_of_the_consistent,
            "rotation forests are ahead of the MRF on Vehicle": advanced_ahead,
            "tuned forests know Wilt (in quick runs Wine)": lambda t: (
                min(t.row("wilt" if "wilt" in t.rows else "wine")) > 90
            ),
        },
        paper=by_cell({name: [*map(float, line.split())] for name, line in PAPER.items()}, METHODS),
        why="Accuracies in per cent; a row below each set has the p-value of Wilcoxon's signed-rank"
        " test of the folds beside the MRF's (folds share records, so it is too small). The paper"
        " does not state its grid. A whole run (ten times ten folds) searches minimum leaf 1, 2, 5,"
        " 10; √d, d/3, d attributes; B₁, B₂ of 1, 5, 10, 20, 50; p of .01, .05, .2; ranges of 100"
        " and 1000 points; ridges of .001, .01, .1; by five inner folds, with 100 trees. A run of"
        " fewer folds is of five folds and searches two values a parameter by two inner folds, with"
        f" 30 trees, without HobRaF. {PARTLY} CompRF's column of Yeast (16.2,"
        " 11.2) is below any majority and cannot be had. Hayes-Roth has 160 records here, 132 in"
        " the paper.",
        form=".2f",
    ),
)
