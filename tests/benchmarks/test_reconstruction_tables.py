"""The tables of docs/reconstruction.md and more of their rows, computed again.

Run ``python tests/benchmarks/test_reconstruction_tables.py`` with one thread of BLAS; it takes
about two minutes. Noise is research noise with fixed seeds, so the same figures come out.
"""

import numpy as np
import pytest

from mrf_matrix.compilation import path_matrix
from mrf_matrix.datasets import load_dataset
from mrf_matrix.forests import RandomTrees
from mrf_matrix.mechanisms import PureDP, count_cells, measure
from mrf_matrix.reconstruction import (
    combine,
    nonnegative_least_squares,
    shrink_leaves,
    vote_noise_share,
    with_known_totals,
)
from strategies.operators import Identity, RowKronecker, Scaled, Stack

EPSILONS = (0.1, 0.5, 1, 2)
TRAINING = 970 / 1728


def halves(data, seed):
    """Return training and test records, drawn anew for every seed."""
    order = np.random.default_rng(seed).permutation(len(data.labels))
    stop = round(TRAINING * len(order))
    return order[:stop], order[stop:]


def released(data, train, strategy, epsilon, seed):
    sizes, classes = data.domain.sizes, int(data.labels.max()) + 1
    counts = count_cells(data.codes[train], data.labels[train], sizes, classes)
    release = measure(strategy, counts, PureDP(epsilon), noise="research", random_state=seed)
    return counts, release


def cells(data):
    return Identity(data.domain.size, data.domain.sizes)


def cells_and_totals(data):
    """Return a strategy that spends a fifth of its budget on the class totals."""
    everything = RowKronecker.from_masks([np.ones((1, size)) for size in data.domain.sizes])
    return Stack([Scaled(4, cells(data)), everything])


def leaf_errors(epsilon, draws=5):
    """Return root-mean-square errors per leaf and class of six estimators, on Car."""
    car = load_dataset("car")
    forest = RandomTrees(n_trees=16, max_depth=3).grow(car.domain, random_state=0)
    paths, squares = path_matrix(forest), []
    for seed in range(draws):
        train, _ = halves(car, seed)
        counts, release = released(car, train, cells(car), epsilon, seed)
        truth = counts.answers(paths)
        known = {"class_totals": np.bincount(car.labels[train], minlength=4)}
        found = [
            combine(release, paths),
            with_known_totals(release, paths, **known),
            nonnegative_least_squares(release, paths),
            nonnegative_least_squares(release, paths, **known),
            shrink_leaves(forest, release),
            shrink_leaves(forest, release, **known),
        ]
        squares.append([np.mean((one.values - truth) ** 2) for one in found])
    return np.sqrt(np.mean(squares, axis=0))


def votes(name, strategy, epsilon, draws=5):
    """Return the share of noise kept, and accuracies of weight voting with three leaf values."""
    data = load_dataset(name)
    forest = RandomTrees(n_trees=64, max_depth=4).grow(data.domain, random_state=0)
    paths, found, share = path_matrix(forest), [], 0.0
    for seed in range(draws):
        train, test = halves(data, seed)
        _, release = released(data, train, strategy(data), epsilon, seed)
        leaves = forest.apply(data.codes[test])
        values = [
            combine(release, paths).values,
            shrink_leaves(forest, release).values,
            shrink_leaves(forest, release, noise_share=0.3).values,
        ]
        labels = [value[leaves].sum(axis=1).argmax(axis=1) for value in values]
        found.append([np.mean(label == data.labels[test]) for label in labels])
        share = vote_noise_share(forest, release)
    return share, np.mean(found, axis=0)


VOTES = {
    "Car, cells": ("car", cells),
    "Car, a fifth on class totals": ("car", cells_and_totals),
    "Balance, cells": ("balance_scale", cells),
}


def test_cut_off_noise_adds_up_in_leaves_unless_totals_are_known():
    plain, totals, cut, cut_totals, shrunk, shrunk_totals = leaf_errors(0.5, draws=1)
    assert cut > 1.5 * plain
    assert totals == pytest.approx(plain, rel=0.05)
    assert max(cut_totals, shrunk, shrunk_totals) < 0.5 * plain


def main():
    print("root-mean-square error per leaf and class, Car, 970 records, 16 trees of depth 3")
    for epsilon in EPSILONS:
        print(epsilon, leaf_errors(epsilon).round(2))
    print("accuracy of weight voting, 64 trees of depth 4: least squares, shrunk, noise_share=.3")
    for title, (name, strategy) in VOTES.items():
        for epsilon in EPSILONS:
            share, found = votes(name, strategy, epsilon)
            print(title, round(share, 2), epsilon, found.round(3))


if __name__ == "__main__":
    main()
