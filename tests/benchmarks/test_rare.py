"""Rare outcomes: every kind of forest where one class is a few records in a hundred.

Run with ``python tests/benchmarks/test_rare.py [--repeats N]``: prints tables in
Markdown; docs/rare_outcomes.md has their means. ``stays``: made-up hospital stays, 12 attributes,
one of 200 codes; ``random``: 6 to 20 attributes with random effects that repeat each other; 10 000
records to train on. Real sets have their minority thinned to one record in twenty. Research noise.
"""

import argparse
from collections.abc import Callable, Sequence
from contextlib import contextmanager

import numpy as np
from binary_sets import binary, coded_set
from rival_data import RivalData, needs_csv_files, split
from scipy.optimize import brentq
from scipy.special import expit
from sklearn.metrics import balanced_accuracy_score, log_loss, roc_auc_score

from mrf_matrix import PrivateForestClassifier
from mrf_matrix.estimators import PosteriorForestClassifier, ResidualForestClassifier
from mrf_matrix.planning.auto import choices

EPSILONS = (0.5, 1.0, 2.0)
SHARES = (0.02, 0.06, 0.15, 0.3)
RECORDS = 10_000
FIGURES = ("AUC", "log-loss", "balanced accuracy")
THINNED = ("adult", "mushroom", "connect4", "letter", "pendigits", "winequality_white", "wilt")
KINDS = {
    "posterior forest": (PosteriorForestClassifier, True, True),
    "residual forest": (ResidualForestClassifier, True, True),
    "private forest, classes taken as even": (PrivateForestClassifier, True, False),
    "private forest": (PrivateForestClassifier, True, True),
    "private forest, N not told": (PrivateForestClassifier, False, True),
}
"""Class, whether it is told N, and whether it may ask how rare the rarer class is."""


def outcomes(log_odds: np.ndarray, share: float, draw: np.random.Generator) -> np.ndarray:
    """Draw labels whose expected share is given."""
    base = brentq(lambda one: expit(log_odds + one).mean() - share, -30, 30)
    return (draw.random(len(log_odds)) < expit(log_odds + base)).astype(np.int32)


def stays(share: float, seed: int, n: int = 2 * RECORDS) -> RivalData:
    """Return made-up stays in hospital, of which this share is followed by another."""
    draw = np.random.default_rng(seed)
    weights = 1 / (np.arange(200) + 5)
    places = np.random.default_rng(1).permutation(200)
    code = places[draw.choice(200, n, p=weights / weights.sum())]
    age, days = np.clip(draw.normal(58, 18, n), 18, 99), draw.gamma(2, 3, n)
    pressure, kidney = draw.normal(130, 20, n), np.exp(draw.normal(0, 0.4, n))
    urgent, ward = draw.random(n) < 0.3, draw.choice(4, n, p=[0.45, 0.35, 0.08, 0.12])
    before = draw.poisson(0.7, n)
    odds = 0.035 * age + 0.9 * urgent + 0.55 * before + 0.7 * np.log(kidney) + 0.05 * days
    odds += np.array([0.9, 0.3, 0.7, 0, 0.5, 0.8, -0.5, -0.8])[code // 25]
    odds += np.array([0, 0, 0.8, 0.5])[ward]

    def cut(values: np.ndarray, edges: Sequence[float], missing: float = 0):
        size = len(edges) + 1
        codes = np.where(draw.random(n) < missing, size, np.searchsorted(edges, values))
        return codes, size + (missing > 0), missing == 0

    columns = [
        cut(age, range(28, 98, 10)), (draw.integers(0, 2, n), 2, False),
        (draw.integers(0, 8, n), 8, True), (urgent.astype(int), 2, False), (code, 200, False),
        cut(days, range(5, 35, 5), 0.02), cut(pressure, range(80, 220, 20), 0.05),
        cut(kidney, [0.5, 0.8, 1, 1.3, 2], 0.12), (draw.choice(3, n), 3, False),
        (ward, 4, False), (np.minimum(before, 4), 5, True), (draw.integers(0, 5, n), 5, False),
    ]  # fmt: skip
    return coded_set("stays", columns, outcomes(odds, share, draw))


def random_table(share: float, seed: int, n: int = 2 * RECORDS) -> RivalData:
    """Return a table of random sizes and effects, whose attributes repeat each other."""
    draw = np.random.default_rng(1000 + seed)
    d, shared = int(draw.integers(6, 21)), draw.choice([0, 0.2, 0.5])
    scores = np.sqrt(1 - shared) * draw.normal(size=(n, d))
    scores += np.sqrt(shared) * draw.normal(size=(n, 1))
    weights = np.sqrt(draw.gamma(draw.choice([0.1, 0.5, 1.5]), size=d) + 1e-9)
    odds = scores @ (weights * np.where(draw.random(d) < 0.4, -1, 1))
    odds *= np.sqrt(draw.choice([1.0, 2.0, 4.0]) / odds.var())
    columns = []
    for column in scores.T:
        size, ordered = int(draw.choice([2, 3, 4, 5, 8, 10, 20])), bool(draw.random() < 0.5)
        edges = np.quantile(column, draw.dirichlet(np.full(size, 2)).cumsum()[:-1])
        codes = np.searchsorted(edges, column)
        columns.append((codes if ordered else draw.permutation(size)[codes], size, ordered))
    return coded_set("random", columns, outcomes(odds, share, draw))


def thinned(name: str, seed: int, share: float = 0.05) -> RivalData:
    """Return a real set whose minority is thinned to a share, and is class 1."""
    data, draw = binary(name), np.random.default_rng(seed)
    labels = (data.labels == (data.labels.mean() < 0.5)).astype(np.int32)
    rare, usual = np.flatnonzero(labels), np.flatnonzero(labels == 0)
    most = min(len(rare), round(len(usual) * share / (1 - share)))
    kept = draw.permutation(np.append(usual, draw.choice(rare, most, replace=False)))[:25_000]
    return data._replace(codes=data.codes[kept], labels=labels[kept])


@contextmanager
def asking(allowed: bool):
    """Let plans ask how rare the rarer class is, or not."""
    before = choices.BALANCE_FROM
    choices.BALANCE_FROM = before if allowed else float("inf")
    try:
        yield
    finally:
        choices.BALANCE_FROM = before


def figures(kind: str, data: RivalData, epsilon: float, seed: int) -> list[float]:
    """Return the figures of one fit; log-loss beside that of the constant forecast."""
    train, test = split(data, seed)
    train, (made, told, asks) = train[:RECORDS], KINDS[kind]
    model = made(
        data.domain, epsilon=epsilon, n_records=len(train) if told else None, noise="research",
        noise_state=seed, random_state=seed,
    )  # fmt: skip
    with asking(asks):
        shares = model.fit(data.codes[train], data.labels[train]).predict_proba(data.codes[test])
    truth, risk = data.labels[test], np.clip(shares[:, 1], 1e-6, 1 - 1e-6)
    usual = truth.mean()
    constant = log_loss(truth, np.full(len(truth), usual))
    return [
        roc_auc_score(truth, risk),
        log_loss(truth, risk) - constant,
        balanced_accuracy_score(truth, risk > usual),
    ]


def print_table(name: str, made: Callable[[int], RivalData], repeats: int) -> None:
    """Print a row of every kind: each figure at every ε."""
    sets = [made(seed) for seed in range(repeats)]
    for kind in KINDS:
        rows = [
            np.mean([figures(kind, one, epsilon, s) for s, one in enumerate(sets)], axis=0)
            for epsilon in EPSILONS
        ]
        told = [
            " ".join(f"{one:.3f}".replace("0.", ".", 1) for one in c) for c in np.transpose(rows)
        ]
        print(f"| {name} | {kind} | {' | '.join(told)} |", flush=True)


def test_the_plan_gains_where_a_class_is_rare(benchmark):
    sets = [random_table(0.04, seed) for seed in range(6)]  # of fewer, luck decides more

    def ranked(kind: str) -> float:
        return float(np.mean([figures(kind, one, 1.0, seed)[0] for seed, one in enumerate(sets)]))

    asked = benchmark.pedantic(ranked, args=("private forest",), rounds=1)
    assert asked > ranked("private forest, classes taken as even")


@needs_csv_files
def test_thinned_sets_have_their_share():
    labels = thinned("wilt", 0, 0.03).labels
    assert abs(labels.mean() - 0.03) < 1e-3


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    print(f"| data | forest | {' | '.join(FIGURES)} |\n|---|---|{'---|' * len(FIGURES)}")
    for share in SHARES:
        print_table(f"stays, {share:.0%}", lambda seed, p=share: stays(p, seed), repeats)
        print_table(f"random, {share:.0%}", lambda seed, p=share: random_table(p, seed), repeats)
    for name in THINNED:
        print_table(f"{name}, 5 %", lambda seed, n=name: thinned(n, seed), repeats)


if __name__ == "__main__":
    main()
