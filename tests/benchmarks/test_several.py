r"""Several classes where there is some data: what trees of labels in rounds and pools are worth.

``python tests/benchmarks/test_several.py`` prints accuracy, the mean AUC of each class against the
rest, and log-loss of the private forest at several N ε, and what changes of the plan do to them, in
points, on public sets of three classes or more; ``--delta 1e-6`` under (ε, δ).
"""

import argparse
from functools import cache
from typing import Any

import numpy as np
import pytest
from fresh_sets import FRESH_SEVERAL
from rival_data import RivalData, needs_csv_files, split
from rival_runs import domain_of_codes
from rival_sets import SEVERAL, load_set
from several_sets import NAMES, several
from sklearn.metrics import log_loss, roc_auc_score
from test_private import NO_TREES, changed

from mrf_matrix import PrivateForestClassifier

SIGNALS = (300, 450, 700, 1100, 1800, 3000, 6000)
MOST_RECORDS, MOST_TESTED, LARGEST_BUDGET = 3000, 2000, 4
SETS = (*SEVERAL, *FRESH_SEVERAL, *NAMES[:7])
CHANGES: dict[str, dict[str, Any]] = {
    "as it is": {},
    "no trees of labels": NO_TREES,
    "no second round": {"GROWN_FROM": float("inf")},
    "no pools": {"POOL_OF_SEVERAL": {"l1": 0, "l2": 0}},
    "labels up to 500": {"LABELS_OF_MANY": 500},
    "a pool's tree is clear from 500": {"CLEAR_OF_SEVERAL": 500},
}


@cache
def one_set(name: str) -> RivalData:
    """Return one of `SETS`."""
    return several(name) if name in NAMES and name not in SEVERAL else load_set(name)


def figures(data: RivalData, signal: float, number: int, delta: float = 0.0) -> list[float]:
    """Return accuracy, AUC and log-loss of one fit; none where the budget would be too large."""
    records = min(len(split(data, number)[0]), MOST_RECORDS)
    if (epsilon := signal / records) > LARGEST_BUDGET:
        return [np.nan] * 3
    return fitted_figures(data, epsilon, records, number, delta)


def fitted_figures(
    data: RivalData, epsilon: float, records: int, number: int, delta: float = 0.0
) -> list[float]:
    """Return accuracy, AUC and log-loss of one fit to so many records."""
    train, test = split(data, number)
    train, test = train[:records], test[:MOST_TESTED]
    model = PrivateForestClassifier(
        domain_of_codes(data),
        epsilon=epsilon,
        delta=delta,
        n_records=len(train),
        noise="research",
        noise_state=number,
        random_state=number,
    ).fit(data.codes[train], data.labels[train])
    shares, truth = model.predict_proba(data.codes[test]), data.labels[test]
    areas = [
        roc_auc_score(truth == one, shares[:, place])
        for place, one in enumerate(model.classes_.tolist())
        if 0 < (truth == one).sum() < len(truth)
    ]
    right = (model.classes_[shares.argmax(axis=1)] == truth).mean()
    return [right, np.mean(areas), log_loss(truth, shares, labels=model.classes_)]


def means(names: tuple[str, ...], splits: int, delta: float) -> np.ndarray:
    """Return figures of all sets at every signal, (signals, 3)."""
    found = [
        [[figures(one_set(name), at, s, delta) for s in range(splits)] for at in SIGNALS]
        for name in names
    ]
    return np.nanmean(np.array(found), axis=(0, 2))


@needs_csv_files
@pytest.mark.parametrize("signal", [700, 2000])
def test_a_second_round_and_pools_gain_where_classes_are_many(benchmark, signal):
    def right() -> float:
        return float(np.mean([figures(one_set("digits"), signal, s)[0] for s in range(3)]))

    ours = benchmark.pedantic(right, rounds=1)
    with changed(NO_TREES):
        theirs = right()
    assert ours > theirs + 0.03


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=SETS)
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--delta", type=float, default=0.0)
    asked = parser.parse_args()
    print(f"| N ε = {' '.join(map(str, SIGNALS))} | accuracy | AUC | log-loss |")
    usual = np.zeros((len(SIGNALS), 3))
    for name, constants in CHANGES.items():
        with changed(constants):
            found = means(tuple(asked.names), asked.splits, asked.delta)
        usual = usual if constants else found
        differences = [f"{100 * x:+.1f}" for x in (found - usual).T.flat]
        told = differences if constants else [f"{x:.3f}" for x in found.T.flat]
        rows = np.array(told).reshape(3, -1)
        print(f"| {name} | {' | '.join(' '.join(row) for row in rows)} |", flush=True)


if __name__ == "__main__":
    main()
