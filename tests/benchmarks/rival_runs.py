"""Fits of one method on the splits of a data set: ours here, rivals under their interpreter."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from rival_data import RivalData, coded_attribute, split
from rival_methods import DRAWS_OF_A_SPLIT
from rival_scores import summary

from mrf_matrix import Attribute, Domain
from mrf_matrix.study.calibration import all_metrics

EPSILONS = (0.1, 0.5, 1.0, 2.0, 4.0)
MOST_RECORDS = 20_000
"""Of a split's training records, so that rivals of some seconds a fit can be run at all."""
WORKER = Path(__file__).parent / "rival_worker.py"
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def seed_of(split_number: int, draw: int) -> int:
    """Return the seed of one fit: of its noise, and by its split of everything public."""
    return split_number * DRAWS_OF_A_SPLIT + draw


def halves(data: RivalData, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the records to train on, `MOST_RECORDS` at most, and those to test."""
    train, test = split(data, number)
    return train[:MOST_RECORDS], test


def score(shares: np.ndarray, truth: np.ndarray, split_number: int, seconds: float) -> dict:
    """Return what is recorded of one fit; a record without shares has equal ones."""
    total = shares.sum(axis=1, keepdims=True)
    known = np.isfinite(total) & (total > 0)
    even = np.full(shares.shape, 1 / shares.shape[1])
    shares = np.divide(shares, total, out=even, where=np.broadcast_to(known, shares.shape))
    found = all_metrics(truth, shares.argmax(axis=1), shares)
    return {"split": split_number, "seconds": seconds} | found


def fits(draws: int, split_number: int) -> list[tuple[float, int]]:
    """Return budget and seed of every fit on a split."""
    seeds = [seed_of(split_number, draw) for draw in range(draws)]
    return [(epsilon, seed) for epsilon in EPSILONS for seed in seeds]


def domain_of_codes(data: RivalData) -> Domain:
    """Return the domain of codes."""
    attributes = [
        coded_attribute(f"x{i}", size, ordered=bool(ordered))
        for i, (size, ordered) in enumerate(zip(data.domain.sizes, data.ordered, strict=True))
    ]
    return Domain(attributes, Attribute("class", size=data.domain.n_classes))


def shares_of(
    data: RivalData, factory: Any, number: int, budgets: list[tuple[float, int]]
) -> Iterator[np.ndarray]:
    """Yield the predicted shares of a split's test records for each budget and seed."""
    for shares, _ in timed_shares_of(data, factory, number, budgets):
        yield shares


def timed_shares_of(
    data: RivalData, factory: Any, number: int, budgets: list[tuple[float, int]]
) -> Iterator[tuple[np.ndarray, float]]:
    """Yield the same, each with the processor's seconds in fit and predict."""
    domain = domain_of_codes(data)
    train, test = halves(data, number)
    for epsilon, seed in budgets:
        model = factory(domain, epsilon, len(train), seed)
        begun = process_time()
        model.fit(data.codes[train], data.labels[train])
        found = model.predict_proba(data.codes[test])
        seconds = process_time() - begun
        shares = np.zeros((len(test), domain.n_classes))
        shares[:, model.classes_] = found
        yield shares, seconds


def measured(data: RivalData, factory: Any, splits: int, draws: int, private: bool) -> dict:
    """Return the summaries of one of our methods by ε; "inf" for methods without privacy."""

    def run(number: int, jobs: list[tuple[float, int]]) -> Iterator[tuple[np.ndarray, float]]:
        return timed_shares_of(data, factory, number, jobs)

    return _summaries(data, run, splits, draws, private=private)


def measured_elsewhere(data: RivalData, method: str, python: str, splits: int, draws: int) -> dict:
    """Return the summaries of a rival that runs under another interpreter, by ε."""

    def run(number: int, jobs: list[tuple[float, int]]) -> Iterator[tuple[np.ndarray, float]]:
        shares, seconds = by_worker(data, method, python, halves(data, number), jobs)
        return zip(shares, seconds, strict=True)

    return _summaries(data, run, splits, draws, private=True)


def _summaries(data: RivalData, run: Any, splits: int, draws: int, *, private: bool) -> dict:
    runs: dict[str, list[dict]] = {}
    for number in range(splits):
        truth = data.labels[halves(data, number)[1]]
        jobs = fits(draws, number) if private else [(np.inf, seed_of(number, 0))]
        for (epsilon, _), (shares, seconds) in zip(jobs, run(number, jobs), strict=True):
            runs.setdefault(f"{epsilon:g}", []).append(score(shares, truth, number, seconds))
    return {epsilon: summary(found) for epsilon, found in runs.items()}


def by_worker(data, method, python, parts, jobs) -> tuple[np.ndarray, np.ndarray]:
    """Return shares and seconds of fits under another interpreter, which runs on one thread."""
    with tempfile.TemporaryDirectory() as folder:
        given, wanted = Path(folder) / "in.npz", Path(folder) / "out.npz"
        np.savez(
            given,
            codes=data.codes,
            labels=data.labels,
            train=parts[0],
            test=parts[1],
            sizes=np.array(data.domain.sizes),
            ordered=data.ordered,
            n_classes=data.domain.n_classes,
            epsilons=np.array([epsilon for epsilon, _ in jobs]),
            seeds=np.array([seed for _, seed in jobs]),
        )
        command = [python, str(WORKER), str(given), str(wanted), method]
        subprocess.run(command, check=True, env=os.environ | ONE_THREAD, stdout=subprocess.DEVNULL)
        with np.load(wanted) as arrays:
            return arrays["shares"], arrays["seconds"]
