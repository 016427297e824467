"""Few records at large budgets: what trees beside tables are worth there.

``python tests/benchmarks/test_few_records.py`` prints accuracy, AUC (of several classes the mean of
each against the rest) and log-loss of the private forest for so many records at ε = 3, 4, 6 and 10,
and what changes of the plan do to them, in points, on public sets of two classes and of several;
``--delta 1e-6`` under (ε, δ).
"""

import argparse
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import Any

import numpy as np
from fresh_sets import FRESH
from rival_data import needs_csv_files, split
from rival_sets import ALL, load_set
from several_sets import NAMES
from test_private import NO_TREES, changed
from test_several import fitted_figures, one_set

RECORDS, EPSILONS = (200, 400, 700, 1200), (3, 4, 6, 10)
OF_TWO: dict[str, dict[str, Any]] = {
    "as it is": {},
    "no trees of labels": NO_TREES,
    "pools of fewer records, too": {"FEW_RECORDS": 0},
    "pools to 3000 alone": {"LATE_POOL_OF_TWO": {"l1": 0, "l2": 0}},
}
OF_SEVERAL: dict[str, dict[str, Any]] = {
    "as it is": {},
    "no trees of labels": NO_TREES,
    "labels to 1500 at any budget": {"A_RECORD": 1000},
}
OF_GAUSS: dict[str, dict[str, Any]] = {"pools at any budget": {"A_RECORD_OF_GAUSS": 1000}}
"""More changes, of what is under (ε, δ) alone."""


def of_one_set(splits: int, delta: float, name: str) -> np.ndarray:
    """Return figures for all numbers of records and budgets, (records, budgets, 3)."""
    data = one_set(name)
    there = len(split(data, 0)[0])
    found = [
        [
            np.mean([fitted_figures(data, e, n, s, delta) for s in range(splits)], axis=0)
            if n <= there
            else [np.nan] * 3
            for e in EPSILONS
        ]
        for n in RECORDS
    ]
    return np.array(found)


def show(names: list[str], changes: dict[str, dict[str, Any]], splits: int, delta: float) -> None:
    """Print the table of some sets."""
    print(f"| records | {len(names)} sets at most | accuracy | AUC | log-loss |")
    usual = np.zeros((len(RECORDS), len(EPSILONS), 3))
    for change, constants in changes.items():
        forked = get_context("fork")  # so that each process has the change
        with changed(constants), ProcessPoolExecutor(mp_context=forked) as pool:
            of_sets = list(pool.map(partial(of_one_set, splits, delta), names))
        found = np.nanmean(of_sets, axis=0)
        usual = usual if constants else found
        for n, row in zip(RECORDS, found - usual if constants else found, strict=True):
            told = [
                " ".join(f"{100 * x:+.1f}" if constants else f"{x:.3f}" for x in column)
                for column in row.T
            ]
            print(f"| {n} | {change} | {' | '.join(told)} |", flush=True)


@needs_csv_files
def test_trees_beside_tables_gain_where_records_are_few_and_budgets_large(benchmark):
    def right() -> float:
        fits = [fitted_figures(one_set("digits"), 4, 700, s)[0] for s in range(3)]
        return float(np.mean(fits))

    ours = benchmark.pedantic(right, rounds=1)
    with changed(NO_TREES):
        theirs = right()
    assert ours > theirs + 0.02


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--delta", type=float, default=0.0)
    asked = parser.parse_args()
    more = OF_GAUSS if asked.delta else {}
    classes = {name: load_set(name).domain.n_classes for name in (*ALL, *FRESH)}
    two = [one for one, k in classes.items() if k == 2]
    show(two, OF_TWO | more, asked.splits, asked.delta)
    several = [one for one, k in classes.items() if k > 2] + list(NAMES[:7])
    show(list(dict.fromkeys(several)), OF_SEVERAL | more, asked.splits, asked.delta)


if __name__ == "__main__":
    main()
