"""Designs chosen without data against the best of the grid, chosen with the test labels.

The grid is the default space of `tune`, and posterior forests of every number of blocks.

Run all of it with ``python tests/benchmarks/test_design_choice.py [STRATEGY] [NAME ...]`` (minutes
for each data set on one core), a part with
``pytest tests/benchmarks/test_design_choice.py --benchmark-only``.

Priors were compared on `DEVELOPMENT` without Nursery; of `HELD_OUT`, the first three were looked at
once, afterwards.
"""

import csv
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mrf_matrix import Domain, load_dataset
from mrf_matrix.mechanisms import CellCounts, count_cells, measure, reconstruct
from mrf_matrix.planning import ExpectedLoss, default_space, plan
from mrf_matrix.planning.plans.block_part import tables_of
from mrf_matrix.planning.search.tuning import designs_of, structures_of
from mrf_matrix.posterior import product_posterior

EPSILONS = (0.1, 0.5, 1.0, 2.0)
TARGET = ("car", "balance_scale", "nursery", "tic_tac_toe")
DEVELOPMENT = (*TARGET, "iris", "monks_3")
HELD_OUT = ("monks_1", "monks_2", "hayes_roth", "wine", "zoo", "mammographic", "cmc", "yeast")
FOLDER = Path(__file__).resolve().parents[3] / "shared" / "data"
GENERATED = {*DEVELOPMENT, "monks_1", "monks_2"}
SMALL = {"balance_scale", "iris", "hayes_roth", "monks_1", "monks_2", "monks_3", "wine", "zoo"}
BINS = 4


def loaded(name):
    """Return codes, labels and domain: generated, or from the folder beside the checkout."""
    if name in GENERATED:
        data = load_dataset(name)
        domain = Domain.from_sizes(data.domain.sizes, n_classes=data.domain.n_classes)
        return np.asarray(data.codes), np.asarray(data.labels), domain
    with (FOLDER / f"{name}.csv").open(newline="") as rows:
        _, *records = csv.reader(rows)
    *columns, labels = zip(*(row for row in records if "?" not in row), strict=True)
    coded = [column for column in map(binned, columns) if column.max() > 0]
    classes, labels = np.unique(labels, return_inverse=True)
    sizes = [int(column.max()) + 1 for column in coded]
    domain = Domain.from_sizes(sizes, n_classes=len(classes))
    return np.stack(coded, axis=1).astype(np.int32), labels, domain


def binned(column):
    """Return codes of a column: its values, or four equal bins between its 1 % and 99 % points.

    A study's stand-in for published ranges: a private release must take them from elsewhere.
    """
    distinct = sorted(set(column))
    try:
        numbers = np.array(column, dtype=float)
    except ValueError:
        return np.searchsorted(distinct, column)
    if len(distinct) <= 8:
        return np.unique(numbers, return_inverse=True)[1]
    least, most = np.percentile(numbers, [1, 99])
    return np.clip(((numbers - least) / (most - least) * BINS).astype(int), 0, BINS - 1)


def accuracies(made, codes, labels, seed, draws):
    """Return the mean test accuracy under each voting rule: a fifth of the records is held out.

    The class columns of one release are repeated, so that noise is drawn several times at once.
    """
    order = np.random.default_rng(seed).permutation(len(labels))
    test, train = np.split(order, [len(labels) // 5])
    part, k = made.parts[0], made.n_classes
    forest = part.ensemble.forest
    counts = count_cells(codes[train], labels[train], forest.domain.sizes, k)
    several = CellCounts(counts.codes, np.tile(counts.counts, (1, draws)), counts.sizes)
    rng = np.random.default_rng(seed)
    release = measure(part.mechanism, several, noise="research", random_state=rng)
    values = reconstruct(release, part.workload).reshape(-1, draws, k)
    largest = (values + 1e-6 * rng.random(values.shape)).argmax(axis=2)
    leaves = forest.apply(codes[test])
    scores = {}
    for rule, cast in (("weight", values), ("hard", np.eye(k)[largest])):
        votes = sum(cast[column] for column in leaves.T)
        votes = votes + 1e-9 * np.abs(votes).max() * rng.random(votes.shape)
        scores[rule] = float((votes.argmax(axis=2) == labels[test][:, None]).mean())
    return scores


def posterior_accuracies(made, codes, labels, seed, draws):
    """Return the mean test accuracy of a posterior forest on the same split."""
    order = np.random.default_rng(seed).permutation(len(labels))
    test, train = np.split(order, [len(labels) // 5])
    measurement, sizes = made.parts[0].measurement, made.domain.sizes
    rng, scores = np.random.default_rng(seed), []
    for _ in range(draws):
        counts = count_cells(codes[train], labels[train], sizes, made.n_classes)
        release = measure(measurement.mechanism, counts, noise="research", random_state=rng)
        tables, totals = tables_of(measurement, release)
        posterior = product_posterior(tables, made.domain.ordered, totals)
        largest = posterior.probabilities(codes[test]).argmax(axis=1)
        scores.append(float((largest == labels[test]).mean()))
    return {"tables": np.mean(scores)}


def posterior_space(domain):
    """Return numbers of blocks: chosen, and each up to that of the attributes."""
    return {"n_blocks": ["auto", *range(1, domain.n_attributes + 1)]}


def study(name, strategy="auto", splits=4, draws=4, space=None, time_limit=0.5, epsilons=EPSILONS):
    """Return expected losses, test accuracies and draws of every design at every budget.

    The plans are those of `tune` with seed 0; a split, forest and strategy for each other seed.
    """
    codes, labels, domain = loaded(name)
    space = {**default_space(domain, "matrix"), "strategy": [strategy], **(space or {})}
    known = len(labels) - len(labels) // 5
    loss, expected, real, measured = ExpectedLoss(), {}, {}, {}
    for group in structures_of(designs_of(space)):
        shared = {key: value for key, value in group[0].items() if key != "voting"}
        for seed in range(splits):
            made = plan(domain, epsilon=1, n_records=known, time_limit=time_limit,
                        random_state=seed, **shared)  # fmt: skip
            for epsilon in epsilons:
                there = made.at(epsilon=epsilon)
                scores = accuracies(there, codes, labels, seed, draws)
                for design in group:
                    key = (epsilon, *design.values())
                    if seed == 0:
                        expected[key] = loss(replace(there, voting=design["voting"]))
                        measured[key] = there.parts[0].n_measurements
                    real.setdefault(key, []).append(scores[design["voting"]])
    for design in designs_of(posterior_space(domain)):
        for epsilon in epsilons:
            for seed in range(splits):
                try:
                    made = plan(domain, "tables", epsilon=epsilon, n_records=known,
                                random_state=seed, **design)  # fmt: skip
                except ValueError:  # blocks of too many cells
                    break
                key = (epsilon, "tables", *design.values())
                if seed == 0:
                    expected[key] = loss(made)
                    measured[key] = made.parts[0].n_measurements
                scores = posterior_accuracies(made, codes, labels, seed, draws)
                real.setdefault(key, []).append(scores["tables"])
    return expected, real, measured


def distances(expected, real, draws, epsilon):
    """Return figures at one budget.

    Test accuracy of the chosen design, of the oracle, of the median design, and of an *honest*
    oracle: the best design of all other splits, on the split left out.
    """
    keys = [key for key in real if key[0] == epsilon]
    table = np.array([real[key] for key in keys])
    offered = [key for key in keys if key[1:2] != ("tables",) or key[2] == "auto"]
    least = min(expected[key] for key in offered)
    near = [key for key in offered if expected[key] <= least + ExpectedLoss().tolerance]
    chosen = keys.index(min(near, key=lambda key: (draws[key], expected[key])))
    means = table.mean(axis=1)
    rest = (table.sum(axis=1, keepdims=True) - table).argmax(axis=0)
    honest = table[rest, np.arange(table.shape[1])].mean()
    best = int(means.argmax())
    return means[chosen], means[best], np.median(means), honest, keys[chosen][1:], keys[best][1:]


@pytest.mark.parametrize("name", TARGET[:2])
def test_design_choice(benchmark, name):
    space = {"max_depth": [1, 3], "n_trees": [16], "splits": ["multiway"], "voting": ["hard"]}
    settings = {"splits": 2, "draws": 1, "space": space, "epsilons": (1.0,)}
    found = benchmark.pedantic(study, args=(name, "identity"), kwargs=settings, rounds=1)
    chosen, oracle, *_ = distances(*found, 1.0)
    assert chosen > oracle - 0.2


def main(strategy, names):
    gaps = []
    for name in names:
        found = study(name, strategy, splits=6 if name in SMALL else 4)
        for epsilon in EPSILONS:
            chosen, oracle, median, honest, ours, best = distances(*found, epsilon)
            gaps.append((oracle - chosen, honest - chosen, oracle - median))
            print(f"| {name} | {epsilon:g} | {chosen:.3f} | {oracle:.3f} | {honest:.3f} | "
                  f"{median:.3f} | {list(ours)} | {list(best)} |", flush=True)  # fmt: skip
        print(name, np.round(np.mean(gaps[-4:], axis=0), 4), flush=True)
    print("mean distance of the choice to the oracle and the honest one, and of the median:")
    print(np.round(np.mean(gaps, axis=0), 4))


if __name__ == "__main__":
    strategy, *names = sys.argv[1:] or ["auto"]
    main(strategy, names or TARGET)
