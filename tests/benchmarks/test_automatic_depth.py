"""The figures of docs/choosing.md: automatic depth beside what it is measured against.

Print its tables with ``python tests/benchmarks/test_automatic_depth.py [DATASET ...]``: mean test
accuracy over five splits (a fifth is tested on) of two draws of research noise. Held-out sets had
no say in the method, and the last two were not looked at while it was made. With ``pytest
tests/benchmarks/test_automatic_depth.py --benchmark-only -s`` it measures two sets at one budget.
"""

import csv
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture
from rival_data import FOLDER, RivalData, load

from mrf_matrix import (
    Domain,
    MatrixForestClassifier,
    PosteriorForestClassifier,
    PureDP,
    load_dataset,
)
from mrf_matrix.estimators.training.naive_bayes import PrivateNaiveBayesClassifier
from mrf_matrix.planning.blocks.automatic_tables import planned_tables

SETS = ("car", "balance_scale", "iris", "tic_tac_toe", "mushroom")
HELD_OUT = ("monks_1", "monks_3", "hayes_roth", "wine")
EPSILONS = (0.1, 0.5, 1.0, 2.0)
SPLITS, DRAWS = 5, 2
FEW_CELLS = 2000
"""Cells up to which they are scored here at any budget, and without noise: seconds a fit."""
WINE_BINS = 4


def automatic(domain: Domain, **settings: Any) -> Any:
    """``max_depth="auto"``, the number of records being public."""
    return MatrixForestClassifier(domain, max_depth="auto", **settings)


def automatic_of_unknown_size(domain: Domain, n_records: int, **settings: Any) -> Any:
    """The same, the number of records not being public."""
    return MatrixForestClassifier(domain, max_depth="auto", **settings)


def automatic_on_cells(domain: Domain, **settings: Any) -> Any:
    """The same, cells being measured whatever the budget."""
    return MatrixForestClassifier(domain, max_depth="auto", strategy="identity", **settings)


def fixed(domain: Domain, n_records: int, **settings: Any) -> Any:
    """Cells, depth 4, hard votes."""
    return MatrixForestClassifier(domain, strategy="identity", **settings)


def naive_bayes(domain: Domain, n_records: int, random_state: int, **settings: Any) -> Any:
    """Private naive Bayes."""
    return PrivateNaiveBayesClassifier(domain, **settings)


METHODS: dict[str, Callable[..., Any]] = {
    "automatic": automatic,
    "automatic, N not public": automatic_of_unknown_size,
    "automatic, cells": automatic_on_cells,
    "fixed": fixed,
    "naive Bayes": naive_bayes,
    "posterior forest": PosteriorForestClassifier,
}


def data_of(name: str) -> RivalData:
    """Return a data set as codes."""
    if name in SETS:
        return load(name)
    if name.startswith("monks"):
        data = load_dataset(name)
        ordered = np.zeros(data.domain.n_attributes, dtype=bool)
        return RivalData(name, data.codes, data.labels, data.domain, ordered)
    with (FOLDER / f"{name}.csv").open(newline="") as file:
        _, *rows = csv.reader(file)
    table = np.array(rows, dtype=float)
    labels = table[:, -1].astype(np.int32) - 1
    if name == "hayes_roth":
        codes, sizes = table[:, :-1].astype(np.int32) - 1, [3, 4, 4, 4]
    else:  # equal bins between the extremes, which are taken for public here
        low, high = table[:, :-1].min(axis=0), table[:, :-1].max(axis=0)
        scaled = (table[:, :-1] - low) / (high - low) * WINE_BINS
        codes = np.minimum(scaled.astype(np.int32), WINE_BINS - 1)
        sizes = [WINE_BINS] * codes.shape[1]
    domain = Domain.from_sizes(sizes, n_classes=int(labels.max()) + 1)
    return RivalData(name, codes, labels, domain, np.ones(len(sizes), dtype=bool))


def models(data: RivalData, make: Any, epsilon: float, draws: int = DRAWS) -> Any:
    """Yield fitted models with the records that they are to be tested on."""
    domain = Domain.from_sizes(data.domain.sizes, n_classes=data.domain.n_classes)
    for split in range(SPLITS):
        order = np.random.default_rng(split).permutation(len(data.labels))
        cut = len(order) // 5
        train, test = order[cut:], order[:cut]
        for draw in range(draws if np.isfinite(epsilon) else 1):
            seed = {"noise_state": 1000 * split + draw, "random_state": split}
            model = make(domain, epsilon=epsilon, n_records=len(train), noise="research", **seed)
            yield model.fit(data.codes[train], data.labels[train]), test


def accuracies(data: RivalData, make: Any, epsilon: float) -> np.ndarray:
    """Return the test accuracy of every split and draw."""
    found = models(data, make, epsilon)
    return np.array([model.score(data.codes[t], data.labels[t]) for model, t in found])


def plans_cells(data: RivalData, epsilon: float, n_records: int | None) -> bool:
    """Tell whether cells are measured: with the seed of a fit, then, all fits on them agree."""
    return planned_tables(
        data.domain,
        PureDP(epsilon),
        neighboring="add_remove",
        n_records=n_records,
        class_share=0.1,
        strategy="auto",
        n_trees=5 * 128,
    ).are_cells


def figures(data: RivalData, epsilon: float) -> dict[str, float]:
    """Return each method's mean accuracy, where it is measured, and errors of scores.

    "±" is the standard error of a mean over these runs.
    """
    few, found, runs = data.domain.size <= FEW_CELLS, {}, {}
    known = len(data.labels) - len(data.labels) // 5
    if few:
        fitted = list(models(data, automatic_on_cells, epsilon))
        scores = [model.score(data.codes[t], data.labels[t]) for model, t in fitted]
        runs["automatic, cells"] = np.array(scores)
        rows = [[row.std_error for row in model.choice_.table] for model, _ in fitted]
        found["error of a score"] = float(np.mean(rows))
        runs["fixed"] = accuracies(data, fixed, epsilon)
    if few or np.isfinite(epsilon):
        for method, number in (("automatic", known), ("automatic, N not public", None)):
            if few and plans_cells(data, epsilon, number):
                runs[method] = runs["automatic, cells"]
            else:
                runs[method] = accuracies(data, METHODS[method], epsilon)
        found["±"] = float(runs["automatic"].std(ddof=1) / np.sqrt(len(runs["automatic"])))
    for method in ("naive Bayes", "posterior forest"):
        runs[method] = accuracies(data, METHODS[method], epsilon)
    return {method: float(run.mean()) for method, run in runs.items()} | found


def main(names: list[str]) -> None:
    """Print a table for each data set, budget by budget."""
    for name in names or [*SETS, *HELD_OUT]:
        data = data_of(name)
        share = np.bincount(data.labels).max() / len(data.labels)
        print(f"{name} (majority {share:.3f}, {data.domain.size} cells)", flush=True)
        for epsilon in (*EPSILONS, np.inf):
            row = "  ".join(f"{what} {value:.3f}" for what, value in figures(data, epsilon).items())
            print(f"  ε = {epsilon:g}: {row}", flush=True)


@pytest.mark.parametrize("name", ["car", "balance_scale"])
def test_automatic_depth_is_no_worse_than_naive_bayes(benchmark: BenchmarkFixture, name: str):
    """At small budgets, within the error of ten runs."""
    data, epsilon = data_of(name), 0.5
    ours = benchmark.pedantic(accuracies, (data, automatic, epsilon), rounds=1)
    theirs = accuracies(data, naive_bayes, epsilon)
    print(f"\n{name} at ε = {epsilon:g}: {ours.mean():.3f}, naive Bayes {theirs.mean():.3f}")
    assert ours.mean() > theirs.mean() - 0.03


if __name__ == "__main__":
    main(sys.argv[1:])
