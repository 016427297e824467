"""Strategies for the leaves, or for the votes of all cells: what docs/objectives.md sums up.

``python tests/benchmarks/test_vote_strategies.py [NAME ...]`` prints paired differences of accuracy
on held-out records, votes less leaves, at ε = .1, .5, 1 and 2: about half a minute a line. Numbers
are cut at quartiles, more than 4000 records are sampled, and over domains of more than 1100 cells
three ensembles see attributes of so many.
"""

import csv
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture
from rival_data import FOLDER

from mrf_matrix import Attribute, Domain, MatrixForestClassifier, load_dataset
from mrf_matrix.planning import plan

EPSILONS = (0.1, 0.5, 1.0, 2.0)
VOTINGS = ("hard", "weight")
DESIGNS = {"binary, depth 4": ("binary", 4), "multiway, depth 2": ("multiway", 2)}
MOST_CELLS, MOST_RECORDS, MOST_CODES, TREES, RUNS = 1100, 4000, 16, 64, 8


def column(values: list[str]) -> np.ndarray:
    """Return codes: quartiles of numbers of more than five values, else the values."""
    try:
        numbers = np.array([float(value) if value != "?" else np.nan for value in values])
    except ValueError:
        return np.unique(values, return_inverse=True)[1]
    if len(np.unique(numbers[~np.isnan(numbers)])) <= 5:
        return np.unique(values, return_inverse=True)[1]
    numbers = np.where(np.isnan(numbers), np.nanmedian(numbers), numbers)
    return np.searchsorted(np.unique(np.quantile(numbers, [0.25, 0.5, 0.75])), numbers)


def coded(path: Path) -> tuple[Domain, np.ndarray, np.ndarray]:
    """Return domain, codes and labels of a CSV whose last column is the class."""
    generator = np.random.default_rng(1)
    with path.open(newline="") as file:
        _, *rows = csv.reader(file)
    if len(rows) > MOST_RECORDS:
        rows = [rows[i] for i in generator.choice(len(rows), MOST_RECORDS, replace=False)]
    *features, labels = zip(*rows, strict=True)
    columns = [column(list(values)) for values in features]
    codes = np.column_stack([one for one in columns if 0 < one.max() < MOST_CODES])
    _, classes = np.unique(labels, return_inverse=True)
    sizes = (codes.max(axis=0) + 1).tolist()
    domain = Domain(
        [Attribute(f"a{j}", size=size) for j, size in enumerate(sizes)],
        target=Attribute("class", categories=list(range(int(classes.max()) + 1))),
    )
    return domain, codes.astype(np.int32), classes


def subsets(sizes: tuple[int, ...], generator: np.random.Generator) -> list[list[int]]:
    """Return the attributes of one ensemble, or of three over few cells each."""
    if np.prod(np.array(sizes, dtype=float)) <= MOST_CELLS:
        return [list(range(len(sizes)))]
    found = []
    for _ in range(3):
        chosen: list[int] = []
        for j in generator.permutation(len(sizes)).tolist():
            if len(chosen) < 6 and np.prod([sizes[i] for i in [*chosen, j]]) <= MOST_CELLS:
                chosen.append(j)
        found.append(sorted(chosen))
    return found


def gains(
    domain: Domain, codes: np.ndarray, labels: np.ndarray, design: str, seed: int, runs: int = RUNS
) -> tuple[float, dict[tuple[float, str], float]]:
    """Return the ratio of vote errors, and votes less leaves in accuracy by ε and voting."""
    splits, depth = DESIGNS[design]
    features = subsets(domain.sizes, np.random.default_rng(seed))
    words = {"feature_subsets": features, "n_ensembles": len(features), "random_state": seed}
    grown = {"n_trees": TREES, "max_depth": min(depth, min(map(len, features))), "splits": splits}
    plans = {
        what: plan(domain, epsilon=1, optimise_for=what, time_limit=2, **grown, **words)
        for what in ("leaves", "votes")
    }
    found = defaultdict(list)
    for epsilon in EPSILONS:
        for run in range(runs):
            order = np.random.default_rng([seed, run]).permutation(len(labels))
            train, test = np.split(order, [int(0.7 * len(order))])
            right = {}
            for what, made in plans.items():
                model = MatrixForestClassifier(
                    domain, epsilon=epsilon, forest=[part.forest for part in made.parts],
                    strategy=[part.strategy.matrix for part in made.parts],
                    noise="research", noise_state=run, **words,
                ).fit(codes[train], labels[train])  # fmt: skip
                for voting in VOTINGS:
                    voted = model.voted_by(voting)
                    right[what, voting] = (voted.predict(codes[test]) == labels[test]).mean()
            for voting in VOTINGS:
                found[epsilon, voting].append(right["votes", voting] - right["leaves", voting])
    ratio = plans["votes"].rms_per_vote / plans["leaves"].rms_per_vote
    return float(ratio), {key: float(np.mean(values)) for key, values in found.items()}


def main() -> None:
    """Print a line for each data set, design and seed, and means over data sets."""
    names = sys.argv[1:] or sorted(path.stem for path in FOLDER.glob("*.csv"))
    every = defaultdict(list)
    for name in names:
        data = coded(FOLDER / f"{name}.csv")
        for design in DESIGNS:
            both = [gains(*data, design, seed) for seed in (0, 1)]
            mean = {key: np.mean([one[1][key] for one in both]) for key in both[0][1]}
            row = " ".join(f"{voting} {eps:g}: {x:+.3f}" for (eps, voting), x in mean.items())
            print(f"{name}, {design}, rms of votes {both[0][0]:.2f}: {row}", flush=True)
            for key, value in mean.items():
                every[design, *key].append(value)
    for (design, epsilon, voting), values in sorted(every.items()):
        error = np.std(values, ddof=1) / len(values) ** 0.5 if len(values) > 1 else np.nan
        print(f"{design}, {voting}, ε = {epsilon:g}: {np.mean(values):+.4f} ± {error:.4f}")


@pytest.mark.parametrize("design", list(DESIGNS))
def test_votes_of_all_cells_have_less_noise(benchmark: BenchmarkFixture, design: str) -> None:
    data = load_dataset("balance_scale")
    domain = Domain.from_sizes(data.domain.sizes, n_classes=data.domain.n_classes)
    words = (domain, data.codes, data.labels, design, 0, 1)
    ratio, found = benchmark.pedantic(gains, words, rounds=1)
    print(f"\n{design}: rms of votes {ratio:.3f} of that of strategies for leaves; {found}")
    assert ratio < 1.02


if __name__ == "__main__":
    main()
