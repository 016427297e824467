"""Prefix sums in a few numbers of memory: losses over a bound that no strategy can beat.

Run with ``pytest tests/benchmarks/test_streams.py --benchmark-only -s``: it prints, for both
objectives, the loss of each form over the bound, the numbers that a stream keeps, and seconds.

Beside them stands the square root of Fichtenberger, Henzinger, Upadhyay (2023) by its closed form.
For the largest error no Toeplitz strategy is below it, nor a buffered one (Dvijotham et al. 2024).
What jax_privacy's optimisers reach for n = 64 and the largest error is `JAX_LARGEST`.
"""

from collections.abc import Iterator
from math import log, pi

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from strategies import Family, examples, prefix_factorisation, select, toeplitz
from strategies.methods.ordered_cells import square_root
from strategies.problem.problem import Objective

SIZES = (64, 1024, 16_384, 100_000)
FORMS: dict[str, Family] = {
    "4 numbers": prefix_factorisation(bands=4),
    "8 numbers": prefix_factorisation(bands=8),
    "16 numbers": prefix_factorisation(bands=16),
    "toeplitz": toeplitz(),
    "16 bands": toeplitz(bands=16),
    "64 bands": toeplitz(bands=64),
}
JAX_LARGEST = 4.781
"""Least largest error at n = 64 of jax_privacy's matrix_factorization, run beside this library."""


@pytest.fixture(scope="module")
def lines() -> Iterator[list[str]]:
    """Collect the table and print it at the end."""
    table: list[str] = []
    yield table
    print(f"\n{'n':>8} {'objective':<10}{'form':<12}{'loss':>14}{'/bound':>9}{'s':>8}")
    print("\n".join(table))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("objective", ["total", "max"])
@pytest.mark.parametrize("n", SIZES)
def test_streams(
    n: int, objective: Objective, form: str, benchmark: BenchmarkFixture, lines: list[str]
) -> None:
    found = benchmark.pedantic(
        select,
        (examples.prefix_sums(n), "l2", FORMS[form]),
        {"objective": objective, "random_state": 0},
        rounds=1,
        iterations=1,
    )
    seconds = benchmark.stats.stats.mean if benchmark.stats else float("nan")
    lines.append(
        f"{n:>8} {objective:<10}{form:<12}{found.loss:14.6g}{found.certified_ratio:9.4f}"
        f"{seconds:8.1f}"
    )
    root = float(np.sum(square_root(n) ** 2)) ** 2
    if objective == "max" and form.endswith("numbers"):
        assert found.loss < root
        assert n != 64 or found.loss < JAX_LARGEST
    if objective == "max" and form == "toeplitz":
        assert found.loss == pytest.approx(root, rel=1e-8)
        assert root < (1.0 + log(n) / pi + 0.07) ** 2
