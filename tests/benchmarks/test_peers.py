"""All tables of what peers reach beside ours: ``python tests/benchmarks/test_peers.py [WORD ...]``.

A line is printed for every workload whose name holds one of the words: what peers reach, our loss
by default `select`, `random_state=0`, its ratio to the best peer, our bound and CPU seconds. Losses
are ``‖A‖² ‖W A⁺‖²``.

Peers' figures are constants. RP+: ResidualPlanner+ (Xiao, He, Zhang, Kifer, arXiv 2305.08175);
HDMM: McKenna, Miklau, Hay, Machanavajjhala (2018): both run from their public repositories. QS:
QuerySmasher, read off arXiv 2604.00868. Trees: the best product of equally weighted b-ary trees,
b = 2 ... 16, of our own.
"""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture
from scipy import sparse
from test_unions import LAPLACE, LARGEST, TOTAL, ways

from strategies import select
from strategies.examples import census_like
from strategies.operators import (
    Identity,
    Operator,
    RowKronecker,
    Sparse,
)


@dataclass(frozen=True)
class Row:
    """A workload, its noise and objective, and what peers reach."""

    make: Callable[[], Operator]
    peers: str  # names and losses, "NAME LOSS, NAME LOSS"; nothing where none is known
    norm: str = "l1"
    objective: str = "total"

    @property
    def best(self) -> float:
        """The least loss of a peer, NaN without one."""
        losses = [float(part.split()[-1]) for part in self.peers.split(",") if part]
        return min(losses, default=float("nan"))


def ends(n: int, q: int, seed: int, longest: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return first cells of random ranges and the ones after their last."""
    generator = np.random.default_rng(seed)
    cells = generator.integers(0, n, (q, 2))
    starts, stops = cells.min(axis=1), cells.max(axis=1) + 1
    if longest is not None:
        stops = np.minimum(n, starts + 1 + generator.integers(0, longest, q))
    return starts, stops


def plain_ranges(n: int, q: int, longest: int | None = None) -> Sparse:
    """Return random ranges as plain rows, their columns shuffled."""
    starts, stops = ends(n, q, 0, longest)
    held = (np.arange(n) >= starts[:, None]) & (np.arange(n) < stops[:, None])
    order = np.random.default_rng(9).permutation(n)
    return Sparse(sparse.csr_array(held[:, order].astype(np.int64)))


def plain_boxes(n: int, q: int) -> Sparse:
    """Return random boxes on a square grid as plain rows."""
    cells, masks = np.arange(n), []
    for seed in (1, 2):
        starts, stops = ends(n, q, seed)
        masks.append((cells >= starts[:, None]) & (cells < stops[:, None]))
    return Sparse(RowKronecker.from_masks(masks).to_sparse())


PLAIN = list(map(Identity, (50, 100, 7, 4, 2)))
ROWS: dict[str, Row] = {
    **{name: Row(make, peers, "l2") for name, (make, peers, *_) in TOTAL.items()},
    **{f"{name}, largest": Row(make, peers, "l2", "max")
       for name, (make, peers, *_) in LARGEST.items()},
    **{f"{name}, Laplace": Row(make, peers) for name, (make, peers, _) in LAPLACE.items()},
    "Laplace CPS plain 1-way": Row(lambda: ways(PLAIN, [1]), "HDMM 1930.888"),
    "Laplace CPS plain 2-way": Row(lambda: ways(PLAIN, [2]), "HDMM 190457.3"),
    "Laplace CPS plain 3-way": Row(lambda: ways(PLAIN, [3]), "HDMM 1745744"),
    "Laplace 6 x 4 codes 2-way": Row(lambda: ways([Identity(4)] * 6, [2]), "HDMM 22838.16"),
    "Laplace 8 binary 2-way": Row(lambda: ways([Identity(2)] * 8, [2]), "HDMM 7168"),
    "Laplace census-like": Row(census_like, ""),
    "Laplace ranges 3000 x 4096": Row(lambda: plain_ranges(4096, 3000), "Trees 395515"),
    "Laplace ranges to 300": Row(lambda: plain_ranges(4096, 3000, 300), "Trees 164165"),
    "Laplace ranges to 30": Row(lambda: plain_ranges(4096, 3000, 30), "Trees 45577"),
    "Laplace ranges 12000 x 4200": Row(lambda: plain_ranges(4200, 12000), "Trees 1.5966e6"),
    "Laplace boxes 64": Row(lambda: plain_boxes(64, 2000), "Trees 700170"),
    "Laplace boxes 256": Row(lambda: plain_boxes(256, 2000), "Trees 3.13947e6"),
    "Gaussian boxes 64": Row(lambda: plain_boxes(64, 2000), "", "l2"),
    "Gaussian ranges 12000 x 4200": Row(
        lambda: plain_ranges(4200, 12000), "Trees 345878", "l2"
    ),
    "Gaussian ranges 3000 x 4096": Row(lambda: plain_ranges(4096, 3000), "", "l2"),
}  # fmt: skip
HEAD = "| workload | peers | ours | / best | bound | CPU s |\n|---|---|---|---|---|---|"


def line(name: str) -> tuple[str, float]:
    """Return a row of the table, and our loss over the best peer's."""
    row = ROWS[name]
    workload, began = row.make(), time.process_time()
    found = select(workload, row.norm, random_state=0, objective=row.objective)
    seconds = time.process_time() - began
    ratio = found.loss / row.best
    numbers = f"{found.loss:.6g} | {ratio:.3f} | {found.lower_bound:.6g} | {seconds:.1f}"
    return f"| {name} | {row.peers} | {numbers} |", ratio


@pytest.mark.parametrize("name", ["Laplace boxes 64", "10^5 prefix", "Laplace 6 x 4 codes 2-way"])
def test_ahead_of_peers(benchmark: BenchmarkFixture, name: str) -> None:
    text, ratio = benchmark.pedantic(line, (name,), rounds=1)
    print(f"\n{HEAD}\n{text}")
    assert ratio < 1


def main() -> None:
    """Print the lines of all workloads, or of those whose names hold one of the words given."""
    print(HEAD)
    words = sys.argv[1:]
    for name in ROWS:
        if not words or any(word in name for word in words):
            print(line(name)[0], flush=True)


if __name__ == "__main__":
    main()
