"""Every kind on the papers' own forests and splits: accuracy, strategy, seconds.

Run with ``pytest tests/benchmarks/test_reference_accuracy.py --benchmark-only -s``: it prints one
line for each data set and kind, with mean accuracy at ε = .1, .5, 1, 2 over five draws of
research noise. Strategies are searched for four seconds, once for each batch.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from mrf_matrix import (
    BatchPredictionClassifier,
    Domain,
    MatrixForestClassifier,
    SubsampleAggregateClassifier,
)
from mrf_matrix.forests import Forest, forest_from_paths

EPSILONS = (0.1, 0.5, 1.0, 2.0)
DRAWS = 5
SEARCH = {"time_limit": 4.0}
ENSEMBLES = {"car": 1, "balance": 1, "iris": 1, "heart": 2, "mushroom": 5}
MODES: dict[str, Any] = {
    "matrix": partial(MatrixForestClassifier, **SEARCH),
    "batch": partial(BatchPredictionClassifier, **SEARCH),
    "prediction, identity": partial(BatchPredictionClassifier, strategy="identity"),
    "Laplace on every tree": partial(MatrixForestClassifier, allocation="per_tree"),
    "disjoint data": partial(MatrixForestClassifier, allocation="disjoint"),
    "subsample, weight": partial(SubsampleAggregateClassifier, **SEARCH),
    "subsample, hard": partial(SubsampleAggregateClassifier, voting="hard", **SEARCH),
    "subsample, per query": partial(SubsampleAggregateClassifier, allocation="per_query"),
    "no privacy, hard": partial(MatrixForestClassifier, strategy="identity", epsilon=np.inf),
    "no privacy, weight": partial(
        MatrixForestClassifier, strategy="identity", epsilon=np.inf, voting="weight"
    ),
}


@pytest.fixture(scope="module")
def lines() -> Iterator[list[str]]:
    """Collect the table and print it at the end."""
    table: list[str] = []
    yield table
    print("\n" + "\n".join(table))


def reference(folder: Path, name: str) -> tuple[Domain, list[Forest], list[Any], list[Any]]:
    count = ENSEMBLES[name]
    ends = [""] if count == 1 else [f"_e{i}" for i in range(count)]
    with np.load(folder / "workloads" / f"{name}_seed0.npz") as arrays:
        sizes = arrays["domain" if count == 1 else "full_domain"].tolist()
        domain = Domain.from_sizes(sizes, n_classes=int(arrays["y_train"].max()) + 1)
        seen = [
            list(range(len(sizes))) if count == 1 else arrays["features" + e].tolist() for e in ends
        ]
        forests = [
            forest_from_paths(arrays["paths" + e], arrays["tree_id" + e], domain.select(f))
            for e, f in zip(ends, seen, strict=True)
        ]
        codes = [arrays[key].astype(np.int32) for key in ("X_train", "y_train", "Q", "y_test")]
    return domain, forests, seen, codes


def study(make: Any, codes: list[Any]) -> tuple[list[float], str]:
    """Return mean accuracies at every ε, and the strategies' families."""
    X, y, queries, truth = codes
    chosen: dict[str, Any] = {}
    methods, means = "", []
    for epsilon in EPSILONS:
        scores = []
        for draw in range(DRAWS):
            fixed = make.keywords.get("epsilon") is not None
            seeds = {"noise_state": draw} if fixed else {"noise_state": draw, "epsilon": epsilon}
            model = make(noise="research", random_state=0, **seeds).set_params(**chosen)
            scores.append(float(model.fit(X, y).score(queries, truth)))
            parts = (
                model.batches_[0].plan.parts if hasattr(model, "batches_") else (model.ensembles_)
            )
            found = [one.strategy for one in parts]
            if found[0] is not None:
                chosen = {"strategy": found}
                methods = " ".join(dict.fromkeys(one.method for one in found))
        means.append(float(np.mean(scores)))
    return means, methods


@pytest.mark.parametrize("kind", MODES)
@pytest.mark.parametrize("name", ENSEMBLES)
def test_reference_accuracy(
    benchmark: BenchmarkFixture, shared_dir: Path, lines: list[str], name: str, kind: str
) -> None:
    domain, forests, seen, codes = reference(shared_dir, name)
    bound = MODES[kind]
    make = partial(bound.func, domain, forest=forests, feature_subsets=seen, **bound.keywords)
    means, methods = benchmark.pedantic(study, (make, codes), rounds=1)
    seconds = benchmark.stats["mean"] if benchmark.stats else float("nan")
    figures = " ".join(f"{mean:.3f}" for mean in means)
    lines.append(f"{name:<10}{kind:<24}{figures}{seconds:8.1f} s  {methods}")
    assert means[-1] > 0.8 / domain.n_classes
