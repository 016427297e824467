"""Unions of groups of attributes, where marginals for Laplace noise start."""

import numpy as np
import pytest

from strategies import evaluate, examples, select
from strategies.methods.marginals.algebra import dealt, equal_loss, group_designs
from strategies.operators import Marginals, memory_cap
from strategies.operators.masks.energies import structure_energies


@pytest.mark.parametrize(("sizes", "order"), [((2,) * 6, 2), ((3, 2, 5, 2), 1), ((2, 3, 2), 3)])
def test_losses_are_those_of_the_matrices(sizes: tuple[int, ...], order: int) -> None:
    workload = examples.marginals(sizes, order)
    energies = structure_energies(workload)
    assert energies is not None
    designs = group_designs(energies)
    assert designs
    for sets in designs:
        chosen = [tuple(map(int, np.flatnonzero(row))) for row in sets]
        matrix = Marginals(sizes, chosen, [1.0] * len(chosen))
        assert equal_loss(energies, sets) == pytest.approx(evaluate(workload, matrix).loss)


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_every_attribute_is_dealt_once(count: int) -> None:
    groups = dealt((7, 2, 2, 5, 3), count)
    assert (groups.sum(axis=0) == 1).all()
    assert groups.any(axis=1).all()


@pytest.mark.parametrize(
    ("size", "d", "order", "below"), [(2, 12, 3, 0.86), (4, 12, 3, 0.045), (2, 20, 2, 0.01)]
)
def test_a_second_is_enough(size: int, d: int, order: int, below: float) -> None:
    """Most of what long searches find, as a share of the Identity's loss."""
    workload = examples.marginals((size,) * d, order)
    found = select(workload, "l1", random_state=0, time_limit=1.0)
    assert found.loss < below * workload.shape[0] * (size**d / size**order)


def test_tables_stay_within_the_memory_cap() -> None:
    energies = structure_energies(examples.marginals((2,) * 16, 2))
    assert energies is not None
    with memory_cap(2**16):
        assert max(2 ** sets.sum(axis=1).max() for sets in group_designs(energies)) <= 2**9
