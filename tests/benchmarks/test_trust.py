"""How far votes of several classes are believed: what a private choice of it is worth.

``python tests/benchmarks/test_trust.py`` prints accuracy, AUC (the mean of each class against the
rest) and log-loss of the private forest on public sets of several classes where the choice is made,
in bands of N ε, and what other constants do to them in points (log-loss times 100); ``--delta
1e-6`` under (ε, δ).
"""

import argparse
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from fractions import Fraction
from functools import partial
from multiprocessing import get_context
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from fresh_sets import FRESH
from rival_data import FOLDER, split
from rival_sets import ALL, load_set
from several_sets import NAMES
from test_several import fitted_figures, one_set

from mrf_matrix.mechanisms.budgets.claim import claiming_budgets
from mrf_matrix.planning.private import private_plan, trust

EPSILONS = (0.5, 1, 2, 4, 8)
BANDS = (2500, 5000, 10_000, 20_000, 10**9)
CHANGES: dict[str, dict[str, Any]] = {
    "as it is": {},
    "no choice": {"LEAST_SIGNAL": 10**9},
    "2 % of the budget": {"SHARE": Fraction(2, 100)},
    "5 % of the budget": {"SHARE": Fraction(5, 100)},
    "gains up to 1": {"LARGEST_GAIN": 1.0},
    "factors less alike beforehand": {"SPREAD_OF_FACTORS": 0.6},
}


@contextmanager
def changed(constants: dict[str, Any]) -> Iterator[None]:
    """Let the choice have other constants."""
    with ExitStack() as stack:
        for name, value in constants.items():
            stack.enter_context(patch.object(trust, name, value))
        yield


def cells(delta: float) -> list[tuple[str, float]]:
    """Return the sets and budgets at which the choice is made."""
    several = [name for name in (*ALL, *FRESH) if load_set(name).domain.n_classes > 2]
    found = []
    for name in dict.fromkeys((*several, *NAMES)):
        data = one_set(name)
        known = len(split(data, 0)[0])
        for e in EPSILONS:
            laws = list(claiming_budgets(e, delta, None))
            made = private_plan(data.domain, laws, n_records=known, delta=delta)
            if made.trust is not None:
                found.append((name, e))
    return found


def of_a_cell(splits: int, delta: float, cell: tuple[str, float]) -> tuple[float, np.ndarray]:
    """Return N ε and the figures at one budget."""
    data, known = one_set(cell[0]), len(split(one_set(cell[0]), 0)[0])
    found = [fitted_figures(data, cell[1], known, s, delta) for s in range(splits)]
    return known * cell[1], np.mean(found, axis=0)


@pytest.mark.skipif(not FOLDER.is_dir(), reason="needs the data sets")
def test_the_choice_gains_on_nursery(benchmark):
    def loss() -> float:
        fits = [fitted_figures(one_set("nursery"), 2, 10**9, s)[2] for s in range(3)]
        return float(np.mean(fits))

    ours = benchmark.pedantic(loss, rounds=1)
    with changed({"LEAST_SIGNAL": 10**9}):
        assert ours < loss() - 0.01


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--delta", type=float, default=0.0)
    asked = parser.parse_args()
    made = cells(asked.delta)
    print("| change | N ε below | cells | accuracy | AUC | log-loss |")
    usual: dict[int, np.ndarray] = {}
    for change, constants in CHANGES.items():
        forked = get_context("fork")  # so that each process has the change
        with changed(constants), ProcessPoolExecutor(mp_context=forked) as pool:
            found = list(pool.map(partial(of_a_cell, asked.splits, asked.delta), made))
        places = np.searchsorted(BANDS, [signal for signal, _ in found], side="right")
        for place in np.unique(places).tolist():
            here = np.array([found[i][1] for i in np.flatnonzero(places == place)])
            mean = here.mean(axis=0)
            usual.setdefault(place, mean)
            told = [f"{100 * x:+.1f}" for x in mean - usual[place]]
            told = told if constants else [f"{x:.3f}" for x in mean]
            print(f"| {change} | {BANDS[place]:g} | {len(here)} | {' | '.join(told)} |", flush=True)


if __name__ == "__main__":
    main()
