"""Forests over large domains under Gaussian noise: loss, bound, and seconds of both.

Run with ``pytest tests/benchmarks/test_forest_strategies.py --benchmark-only -s``. Two domains:
eight attributes of ten ordered codes, 10⁸ cells, and seven of 10, 2, 8, 8, 8, 8 and 10, 819 200
cells.
Run as a program it prints how often votes of two sets are right, by this optimum and by the paths.
*Rows* is the loss of measuring the paths themselves, the best that was known before.
"""

from collections.abc import Iterator
from functools import partial
from time import process_time

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture
from rival_data import RivalData, load, split

from mrf_matrix import Attribute, Domain, MatrixForestClassifier, RandomTrees, path_matrix
from strategies import select

TENS, EIGHTS = list(range(11)), list(range(9))
ORDERED = [Attribute(f"a{i}", edges=TENS) for i in range(8)]
MIXED = [
    Attribute("age", edges=TENS),
    Attribute("sex", categories=["f", "m"]),
    Attribute("ward", categories=list("abcdefgh")),
    *(Attribute(name, edges=EIGHTS) for name in ("crea", "crp", "na")),
    Attribute("los", edges=TENS),
]
DOMAINS = {"ordered": ORDERED, "mixed": MIXED}
MOST = {  # certified ratio
    ("ordered", "binary", 16): 1.02, ("ordered", "binary", 64): 1.035,
    ("mixed", "binary", 16): 1.02, ("mixed", "binary", 64): 1.035,
    ("ordered", "multiway", 16): 1.4, ("ordered", "multiway", 64): 1.45,
    ("mixed", "multiway", 16): 1.7, ("mixed", "multiway", 64): 1.2,
}  # fmt: skip


@pytest.fixture(scope="module")
def lines() -> Iterator[list[str]]:
    """Collect the table and print it at the end."""
    table: list[str] = []
    yield table
    head = f"{'forest':<24}{'family':<20}{'rows':>10}{'loss':>10}{'bound':>10}{'ratio':>8}"
    head += f"{'s':>7}{'+ s':>7}"
    print("\n" + "\n".join([head, *table]))


@pytest.mark.parametrize(("name", "splits", "n_trees"), MOST)
def test_forests(
    benchmark: BenchmarkFixture, lines: list[str], name: str, splits: str, n_trees: int
) -> None:
    domain = Domain(DOMAINS[name], target=Attribute("y", categories=[0, 1]))
    forest = RandomTrees(n_trees=n_trees, max_depth=3, splits=splits)
    paths = path_matrix(forest.grow(domain, random_state=0))
    began = process_time()
    found = benchmark.pedantic(select, (paths, "l2"), {"random_state": 0}, rounds=1)
    selected = process_time()
    bound = found.lower_bound
    own = next((c.loss for c in found.candidates if c.family == "workload_itself"), found.loss)
    lines.append(
        f"{name + ' ' + splits + ' ' + str(n_trees):<24}{found.method:<20}{own:10.5g}"
        f"{found.loss:10.5g}{bound:10.5g}{found.loss / bound:8.3f}{selected - began:7.1f}"
        f"{process_time() - selected:7.1f}"
    )
    assert found.certified_ratio <= MOST[name, splits, n_trees]


def print_votes(n_forests: int = 3, n_draws: int = 8) -> None:
    """Print how often votes are right, by the optimum of leaves and by the paths themselves."""
    print("| data | voting | ρ | path_optimal | workload_itself |")
    print("|---|---|---|---|---|")
    for name in ("nursery", "tic_tac_toe"):
        data = load(name)
        domain = Domain.from_sizes(data.domain.sizes, n_classes=data.domain.n_classes)
        for voting in ("hard", "weight"):
            for rho in (1e-4, 1e-3):
                cells = []
                for family in ("path_optimal", "workload_itself"):
                    made = partial(
                        MatrixForestClassifier, domain, rho=rho, n_trees=16, max_depth=3,
                        splits="binary", voting=voting, strategy=family, noise="research",
                    )  # fmt: skip
                    found = [
                        right(made(random_state=seed, noise_state=draw), data, seed)
                        for seed in range(n_forests)
                        for draw in range(n_draws)
                    ]
                    error = np.std(found, ddof=1) / np.sqrt(len(found))
                    cells.append(f"{np.mean(found):.3f} ± {error:.3f}")
                print(f"| {name} | {voting} | {rho:g} | {' | '.join(cells)} |", flush=True)


def right(model: MatrixForestClassifier, data: RivalData, seed: int) -> float:
    """Return how often a model is right on the test part of a split."""
    train, test = split(data, seed)
    model.fit(data.codes[train], data.labels[train])
    return float((model.predict(data.codes[test]) == data.labels[test]).mean())


if __name__ == "__main__":
    print_votes()
