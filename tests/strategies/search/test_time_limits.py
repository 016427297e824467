"""What a limit leaves out, what it never leaves out, and what answers without long steps."""

import pkgutil

import numpy as np
import pytest

from strategies import evaluate, examples, select
from strategies.operators import (
    Kronecker,
    Marginals,
    MemoryCapError,
    RowKronecker,
    Scaled,
    as_operator,
    estimate,
    row_errors,
)

DENSE = np.random.default_rng(0).normal(size=(200, 150))
MASKS = [np.tile(np.eye(3, dtype=bool), (4, 1)), *[np.ones((12, 3), dtype=bool)] * 39]
FOREST = RowKronecker.from_masks(MASKS)
"""Twelve rows of three kinds over 3^40 cells."""


@pytest.mark.parametrize("objective", ["total", "max"])
@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_what_is_too_dear_is_not_tried_and_said(norm: str, objective: str) -> None:
    found = select(DENSE, norm, objective=objective, time_limit=1e-5, random_state=0)
    dear = [one for one in found.candidates if "more than is left" in one.note]
    assert "gaussian_optimal" in {one.family for one in dear}
    assert all(np.isinf(one.loss) and one.seconds == 0 for one in dear)
    assert found.loss <= evaluate(DENSE, np.eye(150), norm, objective).loss * (1 + 1e-9)


@pytest.mark.parametrize(("limit", "most"), [(1e-5, 0), (0.3, 100)])
def test_the_weights_of_rows_are_climbed_within_the_limit(
    monkeypatch: pytest.MonkeyPatch, limit: float, most: int
) -> None:
    asked: list[float] = []
    name = "strategies.bounds.dual_ascent.steps_within"
    plain = pkgutil.resolve_name(name.replace(".steps", ":steps"))
    monkeypatch.setattr(name, lambda *a: asked.append(plain(*a)) or asked[-1])
    select(examples.prefix_sums(150), "l2", objective="max", time_limit=limit, random_state=0)
    assert max(asked, default=0) <= most


@pytest.mark.parametrize("objective", ["total", "max"])
@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("limit", [1e-4, 0.02])
def test_no_limit_puts_a_product_above_its_factors(norm: str, objective: str, limit: float) -> None:
    factors = [examples.prefix_sums(9), examples.all_ranges(8)]
    given = {"objective": objective, "time_limit": limit, "random_state": 0}
    whole = select(Kronecker(factors), norm, **given).loss
    assert whole <= np.prod([select(one, norm, **given).loss for one in factors]) * (1 + 1e-9)


def test_own_rows_too_dear_to_evaluate_count_by_plain_noise() -> None:
    workload = Scaled(2.0, FOREST)
    found = select(workload, "l2", time_limit=1e-12, random_state=0)
    assert found.loss <= workload.sensitivity("l2") ** 2 * 12


def test_rows_too_many_to_be_solved_with_answer_for_themselves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("strategies.operators.base.recovery.BEARABLE", 0.0)
    again = RowKronecker.from_masks(MASKS)
    answers = np.arange(12.0)
    for matrix in (FOREST, again):
        assert np.array_equal(row_errors(FOREST, matrix), np.ones(12))
        assert np.array_equal(estimate(FOREST, matrix, answers), answers)
    assert np.array_equal(estimate(FOREST, Scaled(2, FOREST), answers), answers / 2)
    other = FOREST.take_rows(np.arange(12)[::-1])
    assert not FOREST.has_rule_for(other)
    assert row_errors(other, FOREST) == pytest.approx(np.full(12, 0.25))  # by least squares


def test_more_rows_than_can_be_factorised_are_refused_with_their_price(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seconds = pkgutil.resolve_name("strategies.operators.base.recovery:factorisation_seconds")
    monkeypatch.setattr("strategies.operators.base.recovery.LONGEST", 1.01 * seconds(10))
    with pytest.raises(MemoryCapError, match=r"12 rows .* about .* s\. Expected at most 10 rows"):
        row_errors(FOREST.take_rows(slice(0, 3)), RowKronecker.from_masks(MASKS))


def test_a_sum_over_all_cells_is_one_number() -> None:
    """It has no attribute that varies; found by random workloads."""
    total = as_operator(Marginals((4, 3, 3), [()], [1.0]))
    best = select(total, "l1", objective="max", weights=[0.5], groups=[0], random_state=0)
    assert best.loss == pytest.approx(0.5)
