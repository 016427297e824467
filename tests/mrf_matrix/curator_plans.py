"""Plans of a few steps over six cells, private records, and a curator of both."""

from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from mrf_matrix import Domain
from mrf_matrix.mechanisms import PureDP, calibrate, count_cells
from mrf_matrix.release.curator import Cells, Live, StrategyStep
from mrf_matrix.release.plan import Deferred, FewOptions
from mrf_matrix.residual.step import ResidualStep
from strategies.operators import Identity

DOMAIN = Domain.from_sizes([3, 2], n_classes=2)
HALF = PureDP(1) * (1 / 2)


@dataclass(frozen=True, eq=False)
class Plan:
    """Some steps over a domain."""

    steps: tuple
    budget: object = PureDP(1)
    neighboring: str = "add_remove"
    domain: Domain = DOMAIN
    n_records: int | None = None
    delta: float = 0.0


def measuring(budget=HALF, attribute=0, neighboring="add_remove"):
    size = DOMAIN.sizes[attribute]
    return StrategyStep(
        f"counts of attribute {attribute}",
        calibrate(Identity(size), budget, neighboring=neighboring),
    )


def choosing(budget=HALF):
    return ResidualStep("screening", "which attribute", budget, "add_remove")


def cells(attribute=0):
    return Cells((attribute,), (DOMAIN.sizes[attribute],), 2)


@dataclass(frozen=True, eq=False)
class Largest(FewOptions):
    """The attribute whose first code has most records."""

    kind = "screening"
    options: np.ndarray = field(default_factory=lambda: np.ones(2, dtype=bool))

    def scores(self, data):
        return np.array([int(data.cells((i,)).counts[0].sum()) for i in range(2)])


class Records:
    """Private records that count how often they are opened."""

    def __init__(self, fails=False):
        generator = np.random.default_rng(0)
        self.codes = np.stack([generator.integers(size, size=50) for size in DOMAIN.sizes], axis=1)
        self.labels, self.opened, self.fails = generator.integers(2, size=50), 0, fails

    def cells(self, features):
        self.opened += 1
        if self.fails:
            raise MemoryError
        sizes = tuple(DOMAIN.sizes[i] for i in features)
        return count_cells(self.codes[:, list(features)], self.labels, sizes, 2)


def live(plan, records=None, **more):
    """Return a curator, and the list that it puts a word in for each charge."""
    paid = []

    @contextmanager
    def charge():
        paid.append("charged")
        try:
            yield
        finally:
            paid.append("ended")

    stream = np.random.default_rng(0)
    made = Live(plan, records or Records(), charge, "research", stream, **more)
    return made, paid


TWO = Plan((measuring(), measuring(attribute=1)))
DEFERRED = Plan((choosing(), Deferred("what follows", HALF, "add_remove")))
