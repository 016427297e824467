"""Marginals, Kronecker products and unions beside closed forms and the product of 1-D answers.

Run with ``pytest tests/benchmarks/test_structured_workloads.py --benchmark-only -s``: it prints,
for each workload and norm, loss over the reference, over the bound, and seconds. The reference is
noise on each row, or the product of the factors' own selections for products.
"""

from collections.abc import Callable, Iterator
from itertools import combinations
from math import prod

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from strategies import examples, select
from strategies.operators import Identity, Kronecker, Marginals, Operator


def marginals(sizes: tuple[int, ...], *orders: int) -> Marginals:
    chosen = [c for order in orders for c in combinations(range(len(sizes)), order)]
    return Marginals(sizes, chosen, [1.0] * len(chosen))


MARGINALS: dict[str, Callable[[], Marginals]] = {
    "12 x 4, 1-2-3-way": lambda: marginals((4,) * 12, 1, 2, 3),
    "14 mixed, 3-way": lambda: marginals((2, 3, 4, 5, 6, 7, 8) * 2, 3),
    "20 x 10, 1-2-way": lambda: marginals((10,) * 20, 1, 2),
    "30 x 3, 1-2-3-way": lambda: marginals((3,) * 30, 1, 2, 3),
    "123 binary, 2-way": lambda: marginals((2,) * 123, 2),
}
PREFIX, RANGES = examples.prefix_sums, examples.all_ranges
PRODUCTS: dict[str, Callable[[], Kronecker]] = {
    "prefix 64 x 64": lambda: Kronecker([PREFIX(64)] * 2),
    "ranges 64 x 64": lambda: Kronecker([RANGES(64)] * 2),
    "prefix 16^4": lambda: Kronecker([PREFIX(16)] * 4),
    "P115 I2 I63 I17 I2": lambda: Kronecker([PREFIX(115), *map(Identity, (2, 63, 17, 2))]),
}
UNIONS: dict[str, Callable[[], Operator]] = {"census-like": examples.census_like}


@pytest.fixture(scope="module")
def lines() -> Iterator[list[str]]:
    """Collect the table and print it at the end."""
    table: list[str] = []
    yield table
    head = f"{'workload':<20}{'norm':<5}{'family':<22}{'/reference':>11}{'/bound':>12}{'s':>7}"
    print("\n" + "\n".join([head, *table]))


def reference(name: str, workload: Operator, norm: str) -> float:
    if isinstance(workload, Kronecker):
        single = {id(f): select(f, norm, random_state=0).loss for f in workload.factors}
        return prod(single[id(f)] for f in workload.factors)
    return workload.sensitivity(norm) ** 2 * workload.shape[0]


@pytest.mark.parametrize("norm", ["l2", "l1"])
@pytest.mark.parametrize("name", [*MARGINALS, *PRODUCTS, *UNIONS])
def test_structured_workloads(
    benchmark: BenchmarkFixture, lines: list[str], name: str, norm: str
) -> None:
    workload = (MARGINALS | PRODUCTS | UNIONS)[name]()
    options = {"random_state": 0}
    found = benchmark.pedantic(select, (workload, norm), options, rounds=1)
    seconds = benchmark.stats["mean"] if benchmark.stats else float("nan")
    peer = reference(name, workload, norm)
    ratio = found.certified_ratio
    lines.append(
        f"{name:<20}{norm:<5}{found.method:<22}{found.loss / peer:11.4f}{ratio:12.6g}{seconds:7.2f}"
    )
    assert found.lower_bound <= found.loss
    assert found.loss <= peer * (1 + 1e-4)
    if name in MARGINALS and norm == "l2":
        assert ratio <= 1 + 1e-9
