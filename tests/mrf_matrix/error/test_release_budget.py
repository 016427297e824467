"""The smallest budget under exact discrete noise."""

from fractions import Fraction

import numpy as np
import pytest

from mrf_matrix import expected_error
from mrf_matrix.error import smallest_release_budget
from mrf_matrix.error.expected_error import rounded_up
from strategies import smallest_budget


@pytest.mark.parametrize(("norm", "name"), [("l1", "epsilon"), ("l2", "rho")])
@pytest.mark.parametrize("size", [0.05, 0.4, 3.0, 50.0])
def test_the_targets_hold_there_and_not_a_little_below(norm: str, name: str, size: float) -> None:
    targets = size * np.linspace(1.0, 2.0, 6)
    budget = smallest_release_budget(np.eye(6), np.tri(6), targets, norm=norm)
    assert (expected_error(np.eye(6), np.tri(6), **{name: budget.amount}).row_rms <= targets).all()
    less = budget.amount * (1 - Fraction(1, 50_000))
    assert (expected_error(np.eye(6), np.tri(6), **{name: less}).row_rms > targets).any()


def test_it_agrees_with_continuous_noise_where_targets_are_wide() -> None:
    found = smallest_budget(np.tri(6), 40.0, random_state=0, time_limit=0.2)
    exact = smallest_release_budget(found.strategy, np.tri(6), 40.0)
    assert float(exact.amount) == pytest.approx(found.amount, rel=1e-3)


def test_rounding_is_never_down() -> None:
    for value in np.random.default_rng(0).uniform(1e-6, 1e6, 50):
        up = rounded_up(float(value))
        assert up >= Fraction(float(value))
        assert float(up) == pytest.approx(value, rel=1e-5)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"targets": [1.0]}, "targets has shape"),
        ({"targets": 0.0}, "positive"),
        ({"targets": np.inf}, "finite"),
        ({"targets": 1.0, "norm": "l3"}, "norm='l3'"),
    ],
)
def test_nonsense_is_refused_by_name(given: dict, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        smallest_release_budget(np.eye(3), np.eye(3), **given)


def test_a_worst_row_is_no_total() -> None:
    strategy = smallest_budget(np.tri(3), 1.0, time_limit=0.1).strategy
    with pytest.raises(ValueError, match="objective='max'"):
        expected_error(strategy, epsilon=1.0)
