"""Fits of one method on the splits of a data set: ours here, rivals under their interpreter."""

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rival_data import RivalData, split
from rival_methods import DRAWS_OF_A_SPLIT
from rival_scores import summary

from mrf_matrix import Attribute, Domain
from mrf_matrix.study import expected_calibration_error

EPSILONS = (0.1, 0.5, 1.0, 2.0)
WORKER = Path(__file__).parent / "rival_worker.py"


def seed_of(split_number: int, draw: int) -> int:
    """Return the seed of one fit: of its noise, and by its split of everything public."""
    return split_number * DRAWS_OF_A_SPLIT + draw


def score(shares: np.ndarray, truth: np.ndarray, split_number: int, seed: int) -> dict:
    """Return what is recorded of one fit."""
    return {
        "split": split_number,
        "seed": seed,
        "accuracy": float(np.mean(shares.argmax(axis=1) == truth)),
        "ece": expected_calibration_error(truth, shares),
    }


def fits(draws: int, split_number: int) -> list[tuple[float, int]]:
    """Return budget and seed of every fit on a split."""
    seeds = [seed_of(split_number, draw) for draw in range(draws)]
    return [(epsilon, seed) for epsilon in EPSILONS for seed in seeds]


def domain_of_codes(data: RivalData) -> Domain:
    """Return the domain of codes; falling numbers stand for codes without an order."""
    sizes = data.domain.sizes
    attributes = [
        Attribute(f"x{i}", size=size)
        if ordered
        else Attribute(f"x{i}", categories=(*range(size),)[::-1])
        for i, (size, ordered) in enumerate(zip(sizes, data.ordered, strict=True))
    ]
    return Domain(attributes, Attribute("class", size=data.domain.n_classes))


def shares_of(
    data: RivalData, factory: Any, number: int, budgets: list[tuple[float, int]]
) -> Iterator[np.ndarray]:
    """Yield the predicted shares of a split's test records for each budget and seed."""
    domain = domain_of_codes(data)
    train, test = split(data, number)
    for epsilon, seed in budgets:
        model = factory(domain, epsilon, len(train), seed)
        model.fit(data.codes[train], data.labels[train])
        shares = np.zeros((len(test), domain.n_classes))
        shares[:, model.classes_] = model.predict_proba(data.codes[test])
        yield shares


def measured(data: RivalData, factory: Any, splits: int, draws: int, private: bool) -> dict:
    """Return the summaries of one of our methods by ε; "inf" for methods without privacy."""
    runs: dict[str, list[dict]] = {}
    for number in range(splits):
        truth = data.labels[split(data, number)[1]]
        budgets = fits(draws, number) if private else [(np.inf, seed_of(number, 0))]
        found = shares_of(data, factory, number, budgets)
        for (epsilon, seed), shares in zip(budgets, found, strict=True):
            runs.setdefault(f"{epsilon:g}", []).append(score(shares, truth, number, seed))
    return {epsilon: summary(found) for epsilon, found in runs.items()}


def measured_elsewhere(data: RivalData, method: str, python: str, splits: int, draws: int) -> dict:
    """Return the summaries of a rival that runs under another interpreter, by ε."""
    runs: dict[str, list[dict]] = {}
    for number in range(splits):
        train, test = split(data, number)
        jobs = fits(draws, number)
        shares = _worker(data, method, python, train, test, jobs)
        for (epsilon, seed), found in zip(jobs, shares, strict=True):
            runs.setdefault(f"{epsilon:g}", []).append(
                score(found, data.labels[test], number, seed)
            )
    return {epsilon: summary(found) for epsilon, found in runs.items()}


def _worker(data, method, python, train, test, jobs) -> np.ndarray:
    with tempfile.TemporaryDirectory() as folder:
        given, wanted = Path(folder) / "in.npz", Path(folder) / "out.npz"
        np.savez(
            given,
            codes=data.codes,
            labels=data.labels,
            train=train,
            test=test,
            sizes=np.array(data.domain.sizes),
            ordered=data.ordered,
            n_classes=data.domain.n_classes,
            epsilons=np.array([epsilon for epsilon, _ in jobs]),
            seeds=np.array([seed for _, seed in jobs]),
        )
        subprocess.run([python, str(WORKER), str(given), str(wanted), method], check=True)
        with np.load(wanted) as arrays:
            return arrays["shares"]
