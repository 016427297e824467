"""Forests over large domains under Gaussian noise: loss, bound, and seconds of both.

Run with ``pytest tests/benchmarks/test_forest_strategies.py --benchmark-only -s``. Two domains:
eight attributes of ten ordered codes, 10⁸ cells, and seven of 10, 2, 8, 8, 8, 8 and 10, 819 200
cells.
*Rows* is the loss of measuring the paths themselves, the best that was known before.
"""

from collections.abc import Iterator
from time import process_time

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from mrf_matrix import Attribute, Domain, RandomTrees, path_matrix
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
