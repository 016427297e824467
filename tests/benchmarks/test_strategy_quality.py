"""Our strategies beside the best published ones, on the papers' workloads and the literature's.

Run with ``pytest tests/benchmarks/test_strategy_quality.py --benchmark-only -s``: it prints, for
each workload, loss over the Identity's, over the best published template's, over our certified
bound, and seconds. ``--benchmark-disable -k ...`` runs single ones without timing.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from math import exp, log
from pathlib import Path

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from mrf_matrix import path_matrix_from_codes, prediction_workload, query_matrix
from strategies import Strategy, examples, select
from strategies.operators import Operator

ENSEMBLES = {
    "car": ("",),
    "balance": ("",),
    "iris": ("",),
    "heart": ("_e0", "_e1"),
    "mushroom": ("_e0", "_e1", "_e2", "_e3", "_e4"),
}
REFERENCES = [(name, suffix) for name, suffixes in ENSEMBLES.items() for suffix in suffixes]
LITERATURE = {
    "prefix sums": (examples.prefix_sums(64), 907.0),
    "all ranges": (examples.all_ranges(64), 32_090.0),
    "binary tree": (examples.binary_tree(64), 448.0),
}
"""Workloads over 64 ordered cells, and losses that a search has to reach."""


@dataclass(frozen=True)
class Line:
    name: str
    kind: str
    identity: float
    published: float
    strategy: Strategy
    seconds: float

    @property
    def ratio(self) -> float:
        return self.strategy.loss / self.published

    def __str__(self) -> str:
        loss = self.strategy.loss
        return (
            f"{self.name:<14}{self.kind:<12}{self.strategy.method:<18}{loss / self.identity:9.3f}"
            f"{self.ratio:11.3f}{loss / self.strategy.lower_bound:8.2f}{self.seconds:9.1f}"
        )


@pytest.fixture(scope="module")
def lines() -> Iterator[list[Line]]:
    """Collect the table and print it at the end."""
    table: list[Line] = []
    yield table
    print(
        f"\n{'workload':<26}{'family':<18}{'/identity':>9}{'/published':>11}{'/bound':>8}{'s':>9}"
    )
    print("\n".join(map(str, table)))
    for kind in ("training", "prediction"):
        logs = [log(line.ratio) for line in table if line.kind == kind]
        if logs:
            print(f"geometric mean over {kind}: {exp(np.mean(logs)):.3f} of the best published")


def reference_workload(shared: Path, name: str, suffix: str, kind: str) -> Operator:
    with np.load(shared / "workloads" / f"{name}_seed0.npz") as data:
        sizes = data[f"domain{suffix}"].tolist()
        paths = path_matrix_from_codes(data[f"paths{suffix}"], sizes, data[f"tree_id{suffix}"])
        if kind == "training":
            return paths
        return prediction_workload(paths, query_matrix(data[f"Q{suffix}"], sizes))


def published(shared: Path, name: str, suffix: str, kind: str) -> dict[str, float]:
    table = json.loads((shared / "workloads" / "reference.json").read_text())
    found = next(e for e in table[name]["ensemble_workloads"] if e["suffix"] == suffix)
    numbers: dict[str, float] = found[kind]
    return numbers


@pytest.mark.parametrize("kind", ["training", "prediction"])
@pytest.mark.parametrize(("name", "suffix"), REFERENCES)
def test_reference_workloads(
    benchmark: BenchmarkFixture,
    shared_dir: Path,
    lines: list[Line],
    name: str,
    suffix: str,
    kind: str,
) -> None:
    workload = reference_workload(shared_dir, name, suffix, kind)
    numbers = published(shared_dir, name, suffix, kind)
    options = {"random_state": 0}
    strategy = benchmark.pedantic(select, (workload,), options, rounds=1)
    seconds = benchmark.stats["mean"] if benchmark.stats else float("nan")
    best = numbers["best_of_all_templates"]
    lines.append(Line(name + suffix, kind, numbers["identity"], best, strategy, seconds))
    # the reference prints one decimal
    assert strategy.loss <= best * (1 + 1e-6) + 0.05
    assert strategy.lower_bound <= strategy.loss


@pytest.mark.parametrize(("name", "suffix"), REFERENCES)
@pytest.mark.parametrize("kind", ["training", "prediction"])
def test_gaussian_optimum(
    benchmark: BenchmarkFixture, shared_dir: Path, name: str, suffix: str, kind: str
) -> None:
    workload = reference_workload(shared_dir, name, suffix, kind)
    strategy = benchmark.pedantic(select, (workload, "l2"), {"random_state": 0}, rounds=1)
    if strategy.matrix.shape[0] <= 2000:
        assert strategy.loss <= strategy.lower_bound * 1.001


@pytest.mark.parametrize("name", LITERATURE)
def test_literature(benchmark: BenchmarkFixture, lines: list[Line], name: str) -> None:
    workload, target = LITERATURE[name]
    strategy = benchmark.pedantic(select, (workload,), {"random_state": 0}, rounds=1)
    seconds = benchmark.stats["mean"] if benchmark.stats else float("nan")
    identity = float(workload.row_squares().sum())
    lines.append(Line(name, "literature", identity, target, strategy, seconds))
    assert strategy.loss <= target
