"""Time of fit and predict on 10 000 records of 20 attributes, ours beside the rivals."""

from collections.abc import Collection
from pathlib import Path
from time import process_time

import numpy as np
from rival_data import RivalData
from rival_environments import python_for
from rival_methods import OURS
from rival_runs import by_worker, domain_of_codes
from rival_scores import read, record

from mrf_matrix import Domain

SET = "10 000 x 20"
METHODS = ("private forest", "residual forest", "posterior forest", "private naive Bayes")
THEIRS = ("DP-EBM", "DP-EBM, one-hot", "diffprivlib forest", "diffprivlib logistic regression")
REPEATS = 5
NOISES = ("research", "exact")


def made() -> RivalData:
    """Return records of 20 attributes of five codes, of which six tell about the class."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 5, (10_000, 20)).astype(np.int32)
    odds = (codes[:, :6] - 2.0) @ np.array([0.8, 0.6, 0.5, 0.4, 0.3, 0.3])
    labels = (rng.random(len(codes)) < 1 / (1 + np.exp(-odds))).astype(np.int32)
    return RivalData(SET, codes, labels, Domain.from_sizes([5] * 20, 2), np.ones(20, dtype=bool))


def seconds_of(method: str, data: RivalData, *, noise: str) -> list[float]:
    """Return the processor's seconds of every fit and predict, the first one with its imports."""
    found = []
    for seed in range(REPEATS + 1):
        model = OURS[method](domain_of_codes(data), 1.0, len(data.labels), seed)
        model.set_params(noise=noise, noise_state=seed if noise == "research" else None)
        begun = process_time()
        model.fit(data.codes, data.labels).predict_proba(data.codes)
        found.append(round(process_time() - begun, 4))
    return found


def seconds_elsewhere(method: str, data: RivalData, python: str) -> list[float]:
    """Return the same of a rival under its interpreter."""
    every = np.arange(len(data.labels))
    jobs = [(1.0, seed) for seed in range(REPEATS + 1)]
    _, seconds = by_worker(data, method, python, (every, every), jobs)
    return seconds.round(4).tolist()


def timed(path: Path, only: Collection[str] | None, *, again: bool) -> None:
    """Record the seconds of every method that is not recorded yet."""
    data = made()
    kept = {} if again else read(path).get(SET, {})
    for method in METHODS:
        if method not in kept and (only is None or method in only):
            found = {noise: seconds_of(method, data, noise=noise) for noise in NOISES}
            record(path, SET, method, found)
    for method in THEIRS:
        if method in kept or (only is not None and method not in only):
            continue
        python = python_for(method)
        if python is not None:
            record(path, SET, method, {"": seconds_elsewhere(method, data, python)})


def speed_table(kept: dict) -> str:
    """Return the first and the median of the other seconds of every method, in Markdown."""
    lines = [
        "| fit + predict, 10 000 x 20 | noise | seconds | the first one |",
        "|---|---|---|---|",
    ]
    for method, found in kept.get(SET, {}).items():
        for noise, (first, *others) in found.items():
            lines.append(f"| {method} | {noise} | {np.median(others):.2f} | {first:.2f} |")
    return "\n".join(lines)
