"""Prefix sums and ranges over ordered cells: losses beside the Identity's and the best tree's.

Run with ``pytest tests/benchmarks/test_ordered_cells.py --benchmark-only -s``: it prints loss over
the Identity's, over the best equally weighted b-ary tree's (b = 2 to 16, with or without its top
levels), over the bound, and seconds.
"""

from collections.abc import Iterator

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from strategies import examples, select
from strategies.methods.ordered.hierarchy import equal_loss, trees
from strategies.operators import Norm
from strategies.operators.ordered.ordered_gram import ordered_gram

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
