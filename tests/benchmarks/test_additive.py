"""Additive models of many records: effects are recovered whatever the base rate is.

Run with ``python tests/benchmarks/test_additive.py [--records N] [--seeds K]``: prints in Markdown
what is lost of what can be gained over a constant forecast, the worst code and the strongest pair.
True log odds are sums over single attributes: of one, of several, or of several that repeat each
other. ``--stays`` prints AUC on two million stays in hospital instead, 1.6 million to train on.
Research noise.
"""

import argparse
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import OneHotEncoder
from test_rare import stays

from mrf_matrix import Domain, PrivateForestClassifier
from mrf_matrix.estimators import ResidualForestClassifier
from mrf_matrix.posterior.effects import terms

SIZES = (10, 4, 4, 3, 2)
DOMAIN = Domain.from_sizes(SIZES, n_classes=2)
RECORDS = 1_000_000
BASES = (0.5, 0.1, 0.02)
BUDGETS = (float("inf"), 1.0)
ENOUGH = 1000
"""Codes of so many positive records are judged."""

STRONG = np.array([-2, -1.3, -1, -0.9, -0.6, -0.3, 0, 0.4, 0.9, 2])
OTHER = np.array([0, -0.7, 0.35, 1])


class Table(NamedTuple):
    """Records whose true log odds are known."""

    codes: np.ndarray
    labels: np.ndarray
    log_odds: np.ndarray


def apart(n: int, draw: np.random.Generator) -> np.ndarray:
    """Return codes of attributes that know nothing of each other."""
    return np.column_stack([draw.integers(0, size, n) for size in SIZES])


def alike(n: int, draw: np.random.Generator) -> np.ndarray:
    """Return codes of attributes that largely repeat each other."""
    common, columns = draw.normal(size=n), []
    for size, shared in zip(SIZES, (0.9, 0.8, 0.8, 0.7, 0.5), strict=True):
        score = shared * common + np.sqrt(1 - shared**2) * draw.normal(size=n)
        columns.append(np.clip((score + 2) / 4 * size, 0, size - 1).astype(int))
    return np.column_stack(columns)


def of_one(codes: np.ndarray) -> np.ndarray:
    """Return log odds by the first attribute."""
    return STRONG[codes[:, 0]]


def of_several(codes: np.ndarray) -> np.ndarray:
    """Return log odds by three attributes."""
    return np.linspace(-2, 2, 10)[codes[:, 0]] + OTHER[codes[:, 1]] + codes[:, 4]


SCENARIOS: dict[str, tuple[Callable, Callable]] = {
    "one effect": (apart, of_one),
    "several": (apart, of_several),
    "correlated": (alike, of_several),
}


def table(scenario: str, base: float, n: int, seed: int) -> Table:
    """Return a table of n records, of which this share is positive."""
    draw, (codes_of, effects_of) = np.random.default_rng(seed), SCENARIOS[scenario]
    codes = codes_of(n, draw)
    odds = effects_of(codes)
    odds = odds + brentq(lambda one: expit(odds + one).mean() - base, -20, 20)
    return Table(codes, (draw.random(n) < expit(odds)).astype(np.int32), odds)


def fitted(data: Table, epsilon: float, seed: int = 0) -> ResidualForestClassifier:
    """Return a model that is told how many records there are."""
    model = ResidualForestClassifier(
        DOMAIN, epsilon=epsilon, n_records=len(data.labels), noise="research", noise_state=seed,
        random_state=seed,
    )  # fmt: skip
    return model.fit(data.codes, data.labels)


def regret(data: Table, log_odds: np.ndarray) -> float:
    """Return how much of what can be gained over the constant forecast is lost, in percent."""

    def missed(odds: np.ndarray) -> float:
        truth = data.log_odds
        losses = expit(truth) * (truth - odds) - np.logaddexp(0, truth) + np.logaddexp(0, odds)
        return float(losses.mean())

    constant = np.full(len(log_odds), logit(data.labels.mean()))
    return 100 * missed(log_odds) / missed(constant)


def worst_code(data: Table, log_odds: np.ndarray, attributes: int = len(SIZES)) -> float:
    """Return the largest distance of a code's mean forecast from its counts, on the log odds.

    `attributes`: the first so many are judged.
    """
    shares, found = expit(log_odds), 0.0
    for codes in data.codes.T[:attributes]:
        counts, positive = np.bincount(codes), np.bincount(codes, data.labels)
        gaps = logit(np.bincount(codes, shares) / counts) - logit(positive / counts)
        found = max(found, float(np.abs(gaps[positive > ENOUGH]).max(initial=0)))
    return found


def strongest_pair(model: ResidualForestClassifier) -> float:
    """Return the size of the strongest table of several attributes: no effect is theirs."""
    found = terms(model.posterior_, 1, 0)
    return max((one.size for one in found if len(one.attributes) > 1), default=0.0)


def main_effects(data: Table) -> np.ndarray:
    """Return the log odds of a logistic regression on single attributes, without privacy."""
    codes = OneHotEncoder().fit_transform(data.codes)
    return LogisticRegression(C=100, max_iter=500).fit(codes, data.labels).decision_function(codes)


def print_stays(seeds: int) -> None:
    """Print AUC on made-up stays, 6 % of which are followed by another, and without privacy."""
    print("| seed | regression | residual, ε = ∞ | residual, ε = 1 | private, ε = 1 |")
    print("|---|---|---|---|---|")
    for seed in range(seeds):
        data = stays(0.06, seed, 2_000_000)
        train, test = slice(1_600_000), slice(1_600_000, None)
        codes = OneHotEncoder(handle_unknown="ignore").fit(data.codes[train])
        plain = LogisticRegression(max_iter=200)
        plain.fit(codes.transform(data.codes[train]), data.labels[train])
        risks = [plain.decision_function(codes.transform(data.codes[test]))]
        kinds = ResidualForestClassifier, ResidualForestClassifier, PrivateForestClassifier
        for kind, epsilon in zip(kinds, (float("inf"), 1.0, 1.0), strict=True):
            model = kind(
                data.domain, epsilon=epsilon, n_records=1_600_000, noise="research",
                noise_state=seed, random_state=seed,
            )  # fmt: skip
            model.fit(data.codes[train], data.labels[train])
            risks.append(model.predict_proba(data.codes[test])[:, 1])
        found = (f"{roc_auc_score(data.labels[test], one):.4f}" for one in risks)
        print(f"| {seed} | {' | '.join(found)} |", flush=True)


@pytest.mark.long
@pytest.mark.parametrize("epsilon", BUDGETS)
@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_effects_are_recovered_whatever_the_base_rate(scenario, base, epsilon):
    """Noise is no small part of a thousand records where attributes repeat each other.

    There the first attribute is judged, whose effects are strongest.
    """
    data, noisy = table(scenario, base, RECORDS, 0), scenario == "correlated" and epsilon == 1
    model = fitted(data, epsilon)
    odds = model.decision_function(data.codes)
    assert worst_code(data, odds, 1 if noisy else len(SIZES)) < np.log(1.06)
    assert strongest_pair(model) < (0.1 if noisy else 0.01)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=RECORDS)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--stays", action="store_true")
    given = parser.parse_args()
    if given.stays:
        print_stays(given.seeds)
        return
    print("| scenario | base rate | ε | regret, % | of main effects | worst code | pair |")
    print("|---|---|---|---|---|---|---|")
    for scenario in SCENARIOS:
        for base in BASES:
            tables = [table(scenario, base, given.records, seed) for seed in range(given.seeds)]
            plain = np.mean([regret(one, main_effects(one)) for one in tables])
            for epsilon in BUDGETS:
                models = [fitted(one, epsilon, seed) for seed, one in enumerate(tables)]
                odds = [m.decision_function(t.codes) for m, t in zip(models, tables, strict=True)]
                lost = np.mean([regret(t, o) for t, o in zip(tables, odds, strict=True)])
                worst = max(worst_code(t, o) for t, o in zip(tables, odds, strict=True))
                pair = max(map(strongest_pair, models))
                figures = f"{lost:.2f} | {plain:.2f} | {worst:.3f} | {pair:.3f}"
                print(f"| {scenario} | {base} | {epsilon:g} | {figures} |", flush=True)


if __name__ == "__main__":
    main()
