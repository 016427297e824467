"""The private forest beside the kinds it chooses from, and what constants bring.

Run with ``python tests/benchmarks/test_private.py [--splits N] [SET ...]``: prints the tables of
docs/private/ in Markdown, test accuracy at every ε with research noise, number of records public.
``--ablations`` prints what constants of screening and rules are worth; ``--gates`` prints leads
over the posterior forest by N ε / d (residuals) and N ε (screening); ``--few`` prints leads over
the majority class at small N ε, and what constants of few choices are worth there, without trees of
labels; ``--labels`` prints what trees of labels bring at small N ε, alone and beside tables, and
what their constants are worth. Two classes: `binary_sets`; several: `rival_held_out` and others.
"""

import argparse
from contextlib import contextmanager
from fractions import Fraction
from statistics import mean
from typing import Any

import numpy as np
import pytest
from binary_sets import LARGE, SMALL, binary
from rival_data import RivalData, needs_csv_files, split
from rival_held_out import load_held_out

from mrf_matrix import PrivateForestClassifier
from mrf_matrix.estimators import PosteriorForestClassifier, ResidualForestClassifier
from mrf_matrix.labels import plan as label_depths
from mrf_matrix.planning.auto import choices, pooled_plan, rules
from mrf_matrix.posterior import label_posterior
from mrf_matrix.residual import step

EPSILONS = (0.1, 0.5, 1.0, 2.0, 4.0)
MOST_RECORDS = 20_000
SEVERAL = (
    "cmc",
    "hayes_roth",
    "vehicle",
    "website_phishing",
    "wine",
    "yeast",
    "zoo",
    "segment",
    "letter",
    "pendigits",
    "winequality_white",
)
KINDS: dict[str, Any] = {
    "posterior forest": PosteriorForestClassifier,
    "residual forest": ResidualForestClassifier,
    "private forest": PrivateForestClassifier,
}
CHANGES: dict[str, dict[str, Any]] = {
    "as it is": {},
    "8 % for choices": {"LARGEST_SHARE": Fraction(8, 100)},
    "12 % for choices": {"LARGEST_SHARE": Fraction(12, 100)},
    "half as many kept": {"KEPT": 0.09, "KEPT_OF_TWO": 0.065},
    "twice as many kept": {"KEPT": 0.37, "KEPT_OF_TWO": 0.26, "MOST_KEPT": 16},
    "always enough": {"TOLD": Fraction(0)},
    "enough from .5": {"TOLD": Fraction(1, 2)},
    "never enough": {"TOLD": Fraction(1)},
    "no screening": {"LEAST_SIGNAL": float("inf")},
    "residuals from any signal": {
        "RESIDUAL_SIGNAL": {"l1": 0, "l2": 0},
        "LEAST_BESIDE_WIDE": 0,
    },
    "residuals beside wide tables": {"WIDE": 1.0},
}
NO_TREES: dict[str, Any] = {
    "LABELS_OF_TWO": {"l1": 0, "l2": 0},
    "LABELS_OF_SEVERAL": (0, 0),
    "LABELS_OF_MANY": 0,
    "POOL_OF_TWO": {"l1": 0, "l2": 0},
    "LATE_POOL_OF_TWO": {"l1": 0, "l2": 0},
    "POOL_OF_SEVERAL": {"l1": 0, "l2": 0},
}
NO_POOLS: dict[str, Any] = {"LABELS_OF_TWO": {"l1": 10_000, "l2": 10_000}}
FEW_CHANGES: dict[str, dict[str, Any]] = {
    "no trees of labels": {},
    "20 % for few choices": {"LARGEST_OF_FEW": Fraction(20, 100)},
    "40 % for few choices": {"LARGEST_OF_FEW": Fraction(40, 100)},
    "half as many kept": {"KEPT": 0.09},
    "twice as many kept": {"KEPT": 0.37},
    "a gate from 130": {"GATED_FROM": 130, "GATED_SIGNAL": 0},
    "screening from 100": {"LEAST_SIGNAL": 100},
}


LABEL_CHANGES: dict[str, dict[str, Any]] = {
    "as it is": {},
    "no trees of labels": NO_TREES,
    "trees of labels where pools are": NO_POOLS,
    "no class counts": {"COUNTED_FROM": float("inf")},
    "a pool's parts weigh .5": {"WEIGHTS_BESIDE_TABLES": (0.5, 0.5)},
    "they weigh .9": {"WEIGHTS_BESIDE_TABLES": (0.9, 0.9)},
    "always four cells": {"DEEP_FROM": float("inf"), "DEEP_FOR_MORE": float("inf")},
    "always eight cells": {"DEEP_FROM": 0, "DEEP_FOR_MORE": 0},
    "5 cuts to choose from": {"MOST_CUTS": 5},
    "20 cuts": {"MOST_CUTS": 20},
}
SMALLEST = (6, 12, 20, 35, 60, 100, 200, 300, 450, 700, 1100)
FEW = (20, 35, 60, 100, 200, 280)
FEW_RECORDS = 600
OTHERS_OF_TWO = ("hepatitis", "mammographic", "monks3", "transfusion", "wdbc")
SIGNALS = (50, 100, 150, 220, 320, 600)
COUNTS = (60, 120, 250, 500, 1000, 2000)


def accuracy(
    kind: str, data: RivalData, epsilon: float, seed: int, most: int = MOST_RECORDS
) -> float:
    """Return the test accuracy of one fit to so many records at most."""
    train, test = split(data, seed)
    train = train[:most]
    model = KINDS[kind](
        data.domain,
        epsilon=epsilon,
        n_records=len(train),
        noise="research",
        noise_state=seed,
        random_state=seed,
    ).fit(data.codes[train], data.labels[train])
    return float(model.score(data.codes[test], data.labels[test]))


def means(kind: str, data: RivalData, splits: int) -> list[float]:
    """Return mean accuracies at every ε."""
    return [mean(accuracy(kind, data, one, s) for s in range(splits)) for one in EPSILONS]


@contextmanager
def changed(constants: dict[str, Any]):
    """Change constants of screening, or of what kinds are considered, for a while."""
    places = (choices, rules, pooled_plan, step, label_depths, label_posterior)
    homes = {name: next(p for p in places if hasattr(p, name)) for name in constants}
    before = {name: getattr(home, name) for name, home in homes.items()}
    for name, value in constants.items():
        setattr(homes[name], name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(homes[name], name, value)


def shown(values, *, signed: bool = False) -> str:
    """Write figures without their leading zeros."""
    if signed:
        return " ".join(f"{100 * one:+.1f}" for one in values)
    return " ".join(f"{one:.3f}".lstrip("0") for one in values)


def print_accuracies(sets: list[RivalData], splits: int) -> None:
    """Print a row a set, and the means."""
    names = [n for n in KINDS if n != "residual forest" or sets[0].domain.n_classes == 2]
    print(f"| | {' | '.join(names)} |\n|---|{'---|' * len(names)}")
    found: dict[str, list[list[float]]] = {name: [] for name in names}
    for data in sets:
        for name in names:
            found[name].append(means(name, data, splits))
        print(f"| {data.name} | {' | '.join(shown(found[n][-1]) for n in names)} |", flush=True)
    average = [shown(np.mean(found[n], axis=0)) for n in names]
    print(f"| **mean** | {' | '.join(average)} |")


def print_gates(sets: list[RivalData], splits: int) -> None:
    """Print leads over the posterior forest by signal: of residuals, and of screening."""
    for kind, most, levels in (
        ("residual forest", 3000, SIGNALS),
        ("private forest", 1200, COUNTS),
    ):
        print(f"| {kind} | {' | '.join(map(str, levels))} |\n|---|{'---|' * len(levels)}")
        for data in sets:
            n = min(most, len(data.labels) * 4 // 5)
            times = data.domain.n_attributes if kind == "residual forest" else 1
            found = []
            for level in levels:
                with changed(NO_TREES):
                    leads = [
                        accuracy(kind, data, level * times / n, seed, n)
                        - accuracy("posterior forest", data, level * times / n, seed, n)
                        for seed in range(splits)
                    ]
                found.append(mean(leads))
            told = shown(found, signed=True).split()
            print(f"| {data.name} | {' | '.join(told)} |", flush=True)


def ahead_of_majority(kind: str, data: RivalData, splits: int) -> list[float]:
    """Return by how much it is ahead of the majority class at every N ε of FEW."""
    found = []
    for signal in FEW:
        leads = []
        for seed in range(splits):
            train, test = split(data, seed)
            train = train[:FEW_RECORDS]
            usual = np.bincount(data.labels[train]).argmax()
            right = accuracy(kind, data, signal / len(train), seed, FEW_RECORDS)
            leads.append(right - float((data.labels[test] == usual).mean()))
        found.append(mean(leads))
    return found


def print_few(sets: list[RivalData], splits: int) -> None:
    """Print leads over the majority class at small N ε, and how many sets are a point below it."""
    print(f"N ε of {shown_counts(FEW)}; at most {FEW_RECORDS} records")
    for classes in ("two", "several"):
        here = [data for data in sets if (data.domain.n_classes == 2) == (classes == "two")]
        kinds = [("posterior forest", "posterior forest", {})]
        kinds.append(("private forest", "private forest", {}))
        kinds += [(name, "private forest", NO_TREES | more) for name, more in FEW_CHANGES.items()]
        for name, kind, constants in kinds if here else []:
            with changed(constants):
                found = np.array([ahead_of_majority(kind, data, splits) for data in here])
            below = shown_counts((found < -0.01).sum(axis=0))
            told = shown(found.mean(axis=0), signed=True)
            print(
                f"| {classes} classes, {len(here)} sets | {name} | {told} | {below} |", flush=True
            )


def print_labels(sets: list[RivalData], splits: int) -> None:
    """Print accuracy at small N ε, and what changes of trees of labels do to it, in points."""
    print(f"N ε of {shown_counts(SMALLEST)}; at most {FEW_RECORDS} records")
    for classes in ("two", "several"):
        here = [data for data in sets if (data.domain.n_classes == 2) == (classes == "two")]
        usual = np.zeros(len(SMALLEST))
        for name, constants in LABEL_CHANGES.items() if here else []:
            with changed(constants):
                found = np.mean([at_smallest(data, splits) for data in here], axis=0)
            usual = usual if constants else found
            told = shown(found - usual, signed=True) if constants else shown(found)
            print(f"| {classes} classes, {len(here)} sets | {name} | {told} |", flush=True)


def at_smallest(data: RivalData, splits: int) -> list[float]:
    """Return mean accuracies of the private forest at every N ε of SMALLEST."""
    n = min(FEW_RECORDS, len(split(data, 0)[0]))
    return [
        mean(accuracy("private forest", data, one / n, s, n) for s in range(splits))
        for one in SMALLEST
    ]


def shown_counts(counts) -> str:
    """Write whole numbers beside each other."""
    return " ".join(str(int(one)) for one in counts)


def print_ablations(sets: list[RivalData], splits: int) -> None:
    """Print differences of mean accuracy, in points, for every change."""
    usual = np.zeros(len(EPSILONS))
    for name, constants in CHANGES.items():
        with changed(constants):
            found = np.mean([means("private forest", data, splits) for data in sets], axis=0)
        if not constants:
            usual = found
        told = shown(found) if not constants else shown(found - usual, signed=True)
        print(f"| {name} | {told} |", flush=True)


@needs_csv_files
def test_trees_of_labels_gain_where_there_is_little_data(benchmark):
    data = [binary(name) for name in ("banknote", "pendigits", "letter")]

    def right() -> np.ndarray:
        return np.mean([at_smallest(one, 4) for one in data], axis=0)

    ours = benchmark.pedantic(right, rounds=1)
    with changed(NO_TREES):
        theirs = right()
    assert ours[:4].mean() > theirs[:4].mean() + 0.02


@needs_csv_files
@pytest.mark.parametrize("name", ["mushroom", "chess_krvskp"])
def test_screening_gains_where_few_attributes_tell(benchmark, name):
    data = binary(name)
    ours = benchmark.pedantic(means, args=("private forest", data, 1), rounds=1)[1]
    assert ours > means("posterior forest", data, 1)[1]


def main() -> None:
    """Print the tables asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--ablations", action="store_true")
    parser.add_argument("--gates", action="store_true")
    parser.add_argument("--few", action="store_true")
    parser.add_argument("--labels", action="store_true")
    asked = parser.parse_args()
    two = [binary(name) for name in asked.names or LARGE + SMALL if name in LARGE + SMALL]
    several = [
        load_held_out(name)
        for name in asked.names or SEVERAL
        if name in SEVERAL and name not in (asked.names and LARGE + SMALL)
    ]
    if asked.few or asked.labels:
        others = [load_held_out(name) for name in OTHERS_OF_TWO if not asked.names]
        printed = print_few if asked.few else print_labels
        printed(two + others + several[:8], asked.splits)
    elif asked.gates:
        print_gates(two, asked.splits)
    elif asked.ablations:
        print_ablations(two + several, asked.splits)
    else:
        for sets in filter(None, (two, several)):
            print_accuracies(sets, asked.splits)


if __name__ == "__main__":
    main()
