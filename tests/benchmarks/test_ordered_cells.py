"""Prefix sums and ranges over ordered cells: losses beside the Identity's and the best tree's.

Run with ``pytest tests/benchmarks/test_ordered_cells.py --benchmark-only -s``: it prints loss over
the Identity's, over the best equally weighted b-ary tree's (b = 2 to 16, with or without its top
levels), over the bound, and seconds. Then random ranges as plain rows, rows and columns shuffled.
"""

from collections.abc import Iterator

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from strategies import examples, select
from strategies.methods.trees import equal_loss, trees
from strategies.operators import Norm, Ranges
from strategies.operators.ordered_sums import ordered_gram

MAKERS = {"prefix": examples.prefix_sums, "ranges": examples.all_ranges}
ASKED = {
    ("prefix", 256): 0.2096,
    ("prefix", 512): 0.1374,
    ("prefix", 1024): 0.0886,
    ("prefix", 4096): 0.0350,
    ("prefix", 8192): 0.0218,
    ("ranges", 256): 0.3797,
    ("ranges", 512): 0.2659,
    ("ranges", 1024): 0.1773,
    ("ranges", 4096): 0.0720,
    ("ranges", 8192): 0.0470,
}
"""Ratios to the Identity's loss that a search is asked to reach for Laplace noise."""


@pytest.fixture(scope="module")
def lines() -> Iterator[list[str]]:
    """Collect the table and print it at the end."""
    table: list[str] = []
    yield table
    print(
        f"\n{'workload':<16}{'norm':<6}{'/identity':>10}{'asked':>9}{'/tree':>8}{'/bound':>9}{'s':>8}"
    )
    print("\n".join(table))


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize(("kind", "n"), ASKED)
def test_ordered_cells(
    kind: str, n: int, norm: Norm, benchmark: BenchmarkFixture, lines: list[str]
) -> None:
    workload = MAKERS[kind](n)
    gram = ordered_gram(workload)
    assert gram is not None
    strategy = benchmark.pedantic(
        select, (workload, norm), {"random_state": 0}, rounds=1, iterations=1
    )
    tree = min(equal_loss(gram, sizes, norm) for sizes in trees(n))
    ratio = strategy.loss / gram.diagonal.sum()
    seconds = benchmark.stats.stats.mean if benchmark.stats else float("nan")
    asked = f"{ASKED[kind, n]:9.4f}" if norm == "l1" else " " * 9
    lines.append(
        f"{kind + ' ' + str(n):<16}{norm:<6}{ratio:10.5f}{asked}{strategy.loss / tree:8.3f}"
        f"{strategy.certified_ratio:9.4f}{seconds:8.1f}"
    )
    assert strategy.lower_bound <= strategy.loss < tree


SHUFFLED = {
    (4096, 3000, 4096): 0.705,
    (4096, 3000, 300): 0.73,
    (4096, 3000, 30): 0.75,
    (4200, 12000, 4200): 0.77,
    (4096, 300, 4096): 0.40,
    (1000, 1000, 1000): 0.73,
}
"""Cells, random ranges and their longest: what is asked of the best plain tree, Laplace noise."""


def random_ranges(n: int, q: int, longest: int) -> Ranges:
    """Return ranges between two random cells, or from one on over a random length."""
    generator = np.random.default_rng(0)
    ends = generator.integers(0, n, (q, 2))
    starts, stops = ends.min(axis=1), ends.max(axis=1) + 1
    if longest < n:
        stops = np.minimum(n, starts + 1 + generator.integers(0, longest, q))
    return Ranges(n, starts, stops, np.ones(q))


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("kind", SHUFFLED)
def test_shuffled_ranges(
    kind: tuple[int, int, int], norm: Norm, benchmark: BenchmarkFixture, lines: list[str]
) -> None:
    ranges, generator = random_ranges(*kind), np.random.default_rng(1)
    n, q, longest = kind
    rows = ranges.to_sparse()[generator.permutation(q)][:, generator.permutation(n)]
    strategy = benchmark.pedantic(select, (rows, norm), {"random_state": 0}, rounds=1, iterations=1)
    tree = min(equal_loss(ranges, sizes, norm) for sizes in trees(n))
    seconds = benchmark.stats.stats.mean if benchmark.stats else float("nan")
    asked = f"{SHUFFLED[kind]:9.4f}" if norm == "l1" else " " * 9
    lines.append(
        f"{f'{q} x {n}, {longest}':<19}{norm:<6}{strategy.loss / ranges.row_squares().sum():7.4f}"
        f"{asked}{strategy.loss / tree:8.4f}{strategy.certified_ratio:9.4f}{seconds:8.1f}"
    )
    assert strategy.lower_bound <= strategy.loss < tree
