"""Shares of a budget in closed form, against numerical minima."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrf_matrix.mechanisms import budget_shares

LOSSES = st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=6)
POWER = {"l1": 2, "l2": 1}


def errors(losses, shares, norm: str) -> np.ndarray:
    return np.asarray(losses) / np.asarray(shares) ** POWER[norm]


@given(LOSSES, st.sampled_from(["l1", "l2"]), st.integers(0, 2**32 - 1))
def test_no_other_shares_are_better(losses, norm: str, seed: int) -> None:
    others = np.random.default_rng(seed).dirichlet(np.ones(len(losses)), 20) + 1e-9
    total = errors(losses, budget_shares(losses, norm, "total"), norm).sum()
    worst = errors(losses, budget_shares(losses, norm, "max"), norm).max()
    for other in others:
        found = errors(losses, other / other.sum(), norm)
        assert total <= found.sum() * (1 + 1e-9)
        assert worst <= found.max() * (1 + 1e-9)


@given(LOSSES, st.sampled_from(["l1", "l2"]))
def test_the_worst_is_least_where_all_are_equal(losses, norm: str) -> None:
    shares = budget_shares(losses, norm, "max")
    assert sum(shares) == pytest.approx(1.0)
    found = errors(losses, shares, norm)
    assert found.max() == pytest.approx(found.min())


def test_equal_losses_share_alike() -> None:
    for rule in ("equal", "total", "max"):
        assert budget_shares([5.0] * 4, "l1", rule) == pytest.approx((0.25,) * 4)
    assert budget_shares([1.0, 9.0], "l1", "equal") == (0.5, 0.5)


@pytest.mark.parametrize(
    ("losses", "norm", "rule", "said"),
    [
        ([], "l1", "total", "losses"),
        ([1.0, 0.0], "l1", "total", "losses"),
        ([1.0, float("nan")], "l1", "total", "losses"),
        ([1.0, float("inf")], "l2", "max", "losses"),
        ([1.0], "l3", "max", "norm"),
        ([1.0], "l1", "sum", "rule"),
    ],
)
def test_nonsense_is_refused_by_name(losses, norm, rule, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        budget_shares(losses, norm, rule)
