"""The residual forest beside the posterior forest, and its ablations.

Run with ``python tests/benchmarks/test_residual.py [--splits N] [DATASET ...]``: prints a table
in Markdown, of which docs/why/residual.md has the means: accuracy, AUC and log-loss on test records
at every ε, pure and at (ε, 1e-6), research noise, number of records public. ``--ablations`` prints
what each constant is worth: differences of accuracy and log-loss, in points, on average over the
sets. Sets are binned without labels (`binary_sets`); ``--records N`` takes a part of larger ones.
``--several`` takes the tasks of more than two classes (`several_sets`), and AUC of each class
against the rest.
"""

import argparse
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pytest
from binary_sets import LARGE, SMALL, binary
from rival_data import RivalData, needs_csv_files, split
from several_sets import NAMES as SEVERAL
from several_sets import several
from sklearn.metrics import log_loss, roc_auc_score

from mrf_matrix import PrivateForestClassifier
from mrf_matrix.estimators import PosteriorForestClassifier, ResidualForestClassifier
from mrf_matrix.estimators.record_source import EncodedRecords
from mrf_matrix.mechanisms import ZCDP, PureDP
from mrf_matrix.posterior import Smoothness
from mrf_matrix.release.curator import Live
from mrf_matrix.residual import ResidualSettings, residual_plan, suits_residual_forest
from mrf_matrix.residual.learning import learn_additive
from mrf_matrix.residual.questions import StepQuestions
from mrf_matrix.residual.step import GAUSSIAN, PURE

EPSILONS = (0.1, 0.5, 1.0, 2.0, 4.0)
DELTA = 1e-6
FIGURES = ("accuracy", "AUC", "log-loss")
gaussian = lru_cache(ZCDP.for_approximate_dp)


class Task(NamedTuple):
    """One fit: data, training and test records, budget in ε, seed."""

    data: RivalData
    train: np.ndarray
    test: np.ndarray
    epsilon: float
    seed: int


Method = Callable[[Task], np.ndarray]


def residual(task: Task, delta: float = 0) -> np.ndarray:
    """Return the residual forest's class probabilities."""
    return _fitted(
        ResidualForestClassifier(task.data.domain, epsilon=task.epsilon, delta=delta), task
    )


def residual_delta(task: Task) -> np.ndarray:
    """Return the same at (ε, `DELTA`)."""
    return residual(task, DELTA)


def posterior(task: Task) -> np.ndarray:
    """Return the posterior forest's."""
    return _fitted(PosteriorForestClassifier(task.data.domain, epsilon=task.epsilon), task)


def posterior_delta(task: Task) -> np.ndarray:
    """Return the same at (ε, `DELTA`)."""
    rho = gaussian(task.epsilon, DELTA).rho
    return _fitted(PosteriorForestClassifier(task.data.domain, epsilon=None, rho=rho), task)


def private_delta(task: Task) -> np.ndarray:
    """Return those of the forest that is expected to be the best at (ε, `DELTA`)."""
    return _fitted(
        PrivateForestClassifier(task.data.domain, epsilon=task.epsilon, delta=DELTA), task
    )


def gated(task: Task) -> np.ndarray:
    """Return those of the one that the public gate names."""
    domain, budget = task.data.domain, PureDP(task.epsilon)
    suits = suits_residual_forest(len(task.train), budget, domain.n_attributes, domain.n_classes)
    return (residual if suits else posterior)(task)


def _fitted(model: Any, task: Task) -> np.ndarray:
    model.set_params(
        n_records=len(task.train), noise="research", noise_state=task.seed, random_state=task.seed
    )
    model.fit(task.data.codes[task.train], task.data.labels[task.train])
    return model.predict_proba(task.data.codes[task.test])


METHODS: dict[str, Method] = {
    "posterior forest": posterior,
    "residual forest": residual,
    "by the gate": gated,
    "posterior forest, δ": posterior_delta,
    "residual forest, δ": residual_delta,
}


OF_SEVERAL = {name: method for name, method in METHODS.items() if method is not gated}
OF_SEVERAL["private forest, δ"] = private_delta


def with_settings(settings: ResidualSettings, law: str) -> Method:
    """Return the residual forest with other constants."""

    def method(task: Task) -> np.ndarray:
        pure = law == "pure"
        plan = residual_plan(
            task.data.domain,
            PureDP(task.epsilon) if pure else gaussian(task.epsilon, DELTA),
            np.random.default_rng(task.seed),
            n_records=len(task.train),
            settings=settings,
        )
        codes, labels = task.data.codes[task.train], task.data.labels[task.train]
        domain = task.data.domain
        records = EncodedRecords(domain, codes, labels)
        curator = Live(plan, records, nullcontext, "research", np.random.default_rng(task.seed))
        return learn_additive(plan, StepQuestions(plan, curator)).probabilities(
            task.data.codes[task.test]
        )

    return method


CHANGES: dict[str, dict[str, Any]] = {
    "as it is": {},
    "every pass visits all": {"decay": 1.0},
    "later passes visit half of the last": {"decay": 0.5},
    "first pass has half the share of others": {"first_pass": Fraction(1, 2)},
    "half the share for the scale": {"scale": Fraction(15, 1000)},
    "twice the share for the scale": {"scale": Fraction(6, 100)},
    "rougher kernel": {"smoothness": Smoothness(0.3, 0.9)},
    "no smoothness": {"smoothness": Smoothness(1.0, 0.5)},
    "stronger pooling": {"prior_visits": 6.0, "prior_variance": 0.025, "pooling": 0.5},
    "weaker pooling": {"prior_visits": 2.0, "prior_variance": 0.1, "pooling": 0.25},
    "steps of at most .5": {"largest_step": 0.5},
    "steps of at most 2": {"largest_step": 2.0},
    "pairs: 20 % of the budget": {"pairs": Fraction(2, 10)},
    "pairs: 55 % of the budget": {"pairs": Fraction(55, 100)},
    "a tenth of a pair for its counts": {"pair_counts": Fraction(1, 10)},
    "twice the share for choices": {"choice": Fraction(1, 10)},
}


def figures_of(shares: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Return accuracy, AUC and log-loss of class probabilities."""
    k = shares.shape[1]
    seen = [c for c in range(k) if 0 < np.mean(truth == c) < 1][-1 if k == 2 else 0 :]
    return np.array(
        [
            np.mean(shares.argmax(axis=1) == truth),
            np.mean([roc_auc_score(truth == c, shares[:, c]) for c in seen]),
            log_loss(truth, np.clip(shares, 1e-9, 1), labels=range(k)),
        ]
    )


def measured(name: str, method: Method, splits: int, most: int | None = None) -> np.ndarray:
    """Return mean figures, shape (epsilons, figures)."""
    data, found = several(name) if name in SEVERAL else binary(name), []
    if most is not None and most < len(data.labels):
        part = np.random.default_rng(1).permutation(len(data.labels))[:most]
        data = data._replace(codes=data.codes[part], labels=data.labels[part])
    for seed in range(splits):
        train, test = split(data, seed)
        tasks = [Task(data, train, test, epsilon, seed) for epsilon in EPSILONS]
        found.append([figures_of(method(task), data.labels[test]) for task in tasks])
    return np.mean(found, axis=0)


def line(cells: list[str]) -> str:
    """Return a row of a Markdown table."""
    return "| " + " | ".join(cells) + " |"


def shown(figures: np.ndarray) -> list[str]:
    """Return a method's figures in three cells, one number an ε."""
    return [" ".join(f"{x:.3f}".replace("0.", ".", 1) for x in column) for column in figures.T]


def study(names: list[str], splits: int, most: int | None) -> None:
    """Print every method on every set, and means over the sets."""
    print(line(["set", "method", *FIGURES]), line(["---"] * 5), sep="\n")
    methods = OF_SEVERAL if set(names) <= set(SEVERAL) else METHODS
    kept: dict[str, list[np.ndarray]] = {method: [] for method in methods}
    for name in names:
        for title, method in methods.items():
            kept[title].append(measured(name, method, splits, most))
            print(line([name, title, *shown(kept[title][-1])]), flush=True)
    for title, found in kept.items():
        print(line([f"mean of {len(names)}", title, *shown(np.mean(found, axis=0))]))


def ablations(names: list[str], splits: int, most: int | None) -> None:
    """Print what every change of a constant is worth, in points, at every ε."""
    for law, settings in (("pure", PURE), ("gaussian", GAUSSIAN)):
        print(
            f"\n{law}, mean of {len(names)} sets",
            line(["change", "accuracy", "log-loss"]),
            sep="\n",
        )
        print(line(["---"] * 3))
        base = None
        for title, change in CHANGES.items():
            method = with_settings(replace(settings, **change), law)
            found = np.mean([measured(name, method, splits, most) for name in names], axis=0)
            base = found if base is None else base
            gains = 100 * (found - base)[:, [0, 2]].T if change else found[:, [0, 2]].T
            cells = [" ".join(f"{x:+.1f}" if change else f"{x:.3f}" for x in row) for row in gains]
            print(line([title, *cells]), flush=True)


@needs_csv_files
@pytest.mark.parametrize("name", ["mushroom", "phishing_websites"])
def test_residual_forest_leads_where_its_gate_opens(benchmark, name):
    ours = benchmark.pedantic(measured, args=(name, residual, 2), rounds=1)
    theirs = measured(name, posterior, 2)
    data = binary(name)
    for row, epsilon in enumerate(EPSILONS):
        signal = suits_residual_forest(
            len(data.labels) * 4 // 5, PureDP(epsilon), data.domain.n_attributes, 2
        )
        if signal:
            assert ours[row, 0] > theirs[row, 0] - 0.01
            assert ours[row, 2] < theirs[row, 2] + 0.02


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--several", action="store_true")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--records", type=int)
    parser.add_argument("--ablations", action="store_true")
    asked = parser.parse_args()
    names = asked.names or (SEVERAL if asked.several else [*LARGE, *SMALL])
    (ablations if asked.ablations else study)(list(names), asked.splits, asked.records)


if __name__ == "__main__":
    main()
