"""Every rival and every candidate on the same splits: accuracy and calibration, in the same run.

Run one data set with ``pytest tests/benchmarks/test_rivals.py -k car --benchmark-only -s``, or all
of it with ``python tests/benchmarks/test_rivals.py [--only METHOD ...] [DATASET ...]``. Two
environment variables: `RIVALS_JSON`, the file that figures are written to (and added to, when it
is there), and `RIVALS_PYTHON`, an interpreter that has diffprivlib 0.6.6 and interpret-core
(which need scikit-learn 1.5); without it both are left out.
"""

import argparse
import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from rival_data import NAMES, RivalData, available, load, split
from rival_methods import DRAWS_OF_A_SPLIT, FOREIGN, OURS, WITHOUT_PRIVACY
from rival_scores import record, summary, table

from mrf_matrix import Attribute, Domain
from mrf_matrix.estimators import expected_calibration_error

EPSILONS = (0.1, 0.5, 1.0, 2.0)
RUNS = {
    "nursery": (3, 1),
    "mushroom": (3, 1),
    "chess_krvskp": (3, 2),
    "adult": (2, 1),
    "a9a": (2, 1),
}
"""Splits and noise draws of the larger sets; the others have five splits of two draws."""
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


def measured(data: RivalData, factory, splits: int, draws: int, private: bool) -> dict[str, dict]:
    """Return the summaries of one of our methods by ε; "inf" for methods without privacy."""
    domain = domain_of_codes(data)
    runs: dict[str, list[dict]] = {}
    for number in range(splits):
        train, test = split(data.name, number)
        truth = data.labels[test]
        for epsilon, seed in fits(draws, number) if private else [(np.inf, seed_of(number, 0))]:
            model = factory(domain, epsilon, len(train), seed)
            model.fit(data.codes[train], data.labels[train])
            shares = np.zeros((len(test), domain.n_classes))
            shares[:, model.classes_] = model.predict_proba(data.codes[test])
            runs.setdefault(f"{epsilon:g}", []).append(score(shares, truth, number, seed))
    return {epsilon: summary(found) for epsilon, found in runs.items()}


def measured_elsewhere(
    data: RivalData, method: str, python: str, splits: int, draws: int
) -> dict[str, dict]:
    """Return the summaries of a rival that runs under another interpreter, by ε."""
    runs: dict[str, list[dict]] = {}
    for number in range(splits):
        train, test = split(data.name, number)
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


def suits(method: str, data: RivalData) -> bool:
    """Tell whether a rival takes the data: DP-EBM takes two classes; one-hot codes must differ."""
    if method.endswith("one-hot") and max(data.domain.sizes) == 2:
        return False
    return not method.startswith("DP-EBM") or data.domain.n_classes == 2


def study(name: str, path: Path | None = None, only=None, runs=None) -> dict[str, dict]:
    """Measure every method on a data set; record each as soon as it is known."""
    data = load(name)
    splits, draws = runs or RUNS.get(name, (5, 2))
    python = os.environ.get("RIVALS_PYTHON")
    found: dict[str, dict] = {}
    for method in (*WITHOUT_PRIVACY, *OURS, *FOREIGN):
        if only and method not in only:
            continue
        if method in FOREIGN:
            if not python or not suits(method, data):
                continue
            found[method] = measured_elsewhere(data, method, python, splits, draws)
        else:
            factory = {**WITHOUT_PRIVACY, **OURS}[method]
            found[method] = measured(data, factory, splits, draws, method in OURS)
        if path is not None:
            record(path, name, method, found[method])
    return found


def _path() -> Path | None:
    return Path(os.environ["RIVALS_JSON"]) if "RIVALS_JSON" in os.environ else None


@pytest.mark.parametrize("name", NAMES)
def test_rivals(benchmark, name):
    if not available(name):
        pytest.skip("the papers' reference data is not beside this checkout")
    found = benchmark.pedantic(study, args=(name, _path()), rounds=1)
    for figure in ("mean", "ece"):
        Console(width=200).print(table({name: found}, figure))
    for figures in found.values():
        assert all(0 <= one["mean"] <= 1 for one in figures.values())
    assert found["ExtraTrees, no privacy"]["inf"]["mean"] > found["majority class"]["inf"]["mean"]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--only", action="append")
    asked = parser.parse_args()
    kept = {name: study(name, _path(), asked.only) for name in asked.names or NAMES}
    for figure in ("mean", "ece"):
        Console(width=200).print(table(kept, figure))


if __name__ == "__main__":
    main()
