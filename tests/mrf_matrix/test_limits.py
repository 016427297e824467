"""Limits bound what they say, and numbers beyond all use are refused by name."""

from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
import pytest

import strategies
from mrf_matrix import ZCDP, Domain, PureDP, RandomTrees, path_matrix, plan
from mrf_matrix.mechanisms import calibrate
from mrf_matrix.planning import ExpectedLoss
from mrf_matrix.planning.search import design_trials
from mrf_matrix.planning.search.design_trials import DesignTrials, Stopwatch
from mrf_matrix.study import compare, reliability

SMALL = Domain.from_sizes([2, 3, 2], n_classes=2)
WIDE = Domain.from_sizes([2] * 1100, n_classes=2)  # more cells than a float counts
HUGE = 10**30

REFUSED: dict[str, tuple[str, Callable[[], object]]] = {
    "n_ensembles": ("n_ensembles=1000000000: .* at most", lambda: plan(SMALL, n_ensembles=10**9)),
    "queries": ("queries=1000000000: .* at most", lambda: plan(SMALL, "subsample", queries=10**9)),
    "parties": ("parties=1.* to 2147483647", lambda: plan(SMALL, n_trees=2, parties=HUGE)),
    "n_bins": ("n_bins=1.* at most", lambda: reliability([0, 1], [[1, 0], [0, 1]], HUGE)),
    "n_splits": ("n_splits=1000000000: .* at most", lambda: compare("monks_1", n_splits=10**9)),
    "n_draws": ("n_draws=1000000000: .* at most", lambda: compare("monks_1", n_draws=10**9)),
    "epsilon": (r"epsilon=1e-300.*2\*\*55", lambda: calibrate(np.eye(2), PureDP(1e-300))),
    "rho": (r"rho=1e-300.*2\*\*55", lambda: calibrate(np.eye(2), ZCDP(1e-300))),
    "cells": ("1100 attributes.*max_features", lambda: plan(WIDE, n_trees=2, max_depth=1)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_absurd_numbers_are_refused_by_name(name: str) -> None:
    message, call = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        call()


def test_numbers_at_the_edge_are_taken() -> None:
    assert calibrate(np.eye(2), PureDP(1e-16)).law.scale > 1e15
    made = plan(WIDE, "subsample", n_trees=2, max_depth=1, queries=2)  # votes, not cells
    assert made.n_classes == 2


def test_a_family_that_a_time_limit_does_not_cover_is_not_begun() -> None:
    domain = Domain.from_sizes([4] * 20, n_classes=2)
    paths = path_matrix(RandomTrees(n_trees=4, max_depth=2).grow(domain, random_state=0))
    short, long = (
        {one.family: one for one in strategies.select(paths, time_limit=limit).candidates}
        for limit in (1e-5, 0.2)
    )
    assert "takes about" in short["marginals"].note
    assert np.isfinite(long["marginals"].loss)  # control: what a longer limit covers


def test_a_trial_that_a_time_limit_does_not_cover_is_not_begun() -> None:
    domain = Domain.from_sizes([2] * 11, n_classes=2)
    paths = path_matrix(RandomTrees(n_trees=12, max_depth=9).grow(domain, random_state=0))
    short, long = (
        {one.family: one for one in strategies.select(paths, time_limit=limit).candidates}
        for limit in (0.05, 2.0)
    )
    assert "takes about" in short["marginals"].note
    assert np.isfinite(long["marginals"].loss)


def test_a_design_that_takes_twice_the_limit_is_given_up(monkeypatch: Any) -> None:
    """By a clock of its own, that ticks at every look."""
    ticks = count()
    monkeypatch.setattr(design_trials, "monotonic", lambda: float(next(ticks)))
    fixed = {
        "epsilon": 1, "delta": 0.0, "rho": None, "neighboring": "add_remove", "n_records": 50,
        "random_state": 0, "kind": "tables",
    }  # fmt: skip
    group: list[dict[str, Any]] = [{"kind": "tables", "n_blocks": 2}]

    def found(limit: float | None) -> list[Any]:
        clock = Stopwatch(limit, lambda: 0.0)  # which is not over when the design is begun
        goal = ExpectedLoss(n_targets=8, n_queries=4)
        return DesignTrials(SMALL, fixed, goal, 1, None, None, clock).run(group)

    assert found(2.0) == []
    assert len(found(None)) == 1  # control
