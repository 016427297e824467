"""Answers from releases that are not private say so wherever they are printed."""

from inspect import isfunction, signature
from math import inf

import numpy as np
import pytest

from mrf_matrix import Domain, RandomTrees, reconstruction
from mrf_matrix.mechanisms import ZCDP, PureDP, count_cells, measure
from mrf_matrix.reconstruction import (
    Estimate,
    combine,
    least_squares,
    nearest_on_simplex,
    nonnegative_least_squares,
    rising,
    shrink_leaves,
    with_known_totals,
)

COUNTS = count_cells(np.array([[0], [2], [2]]), np.zeros(3, int), sizes=(3,), n_classes=1)
ASKED = np.eye(3)
ONE = PureDP(1)
STUMP = RandomTrees(n_trees=1, max_depth=1).grow(Domain.from_sizes([3]))

# name -> releases to an Estimate
ESTIMATORS = {
    "combine": lambda releases: combine(releases, ASKED),
    "nonnegative_least_squares": lambda releases: nonnegative_least_squares(releases, ASKED),
    "nearest_on_simplex": lambda releases: nearest_on_simplex(releases, ASKED),
    "with_known_totals": lambda releases: with_known_totals(releases, ASKED, class_totals=[3]),
    "with_known_totals, faint": lambda releases: with_known_totals(
        [releases], [[1, 0, 0]], total=3
    ),
    "least_squares": lambda releases: least_squares(releases, ASKED, rising(ASKED)),
    "shrink_leaves": lambda releases: shrink_leaves(STUMP, releases),
}


def release(noise, budget=ONE):
    return measure(np.eye(3), COUNTS, budget, noise=noise)


def test_every_function_that_returns_an_estimate_is_in_the_table():
    functions = [
        name for name in reconstruction.__all__ if isfunction(getattr(reconstruction, name))
    ]
    kinds = {name: signature(getattr(reconstruction, name)).return_annotation for name in functions}
    classes = {name: kind for name, kind in kinds.items() if isinstance(kind, type)}
    returning = {name for name, kind in classes.items() if issubclass(kind, Estimate)}
    assert returning == {name.split(",")[0] for name in ESTIMATORS}


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("budget", [ONE, ZCDP(1)])
def test_research_noise_is_named(name, budget):
    shown = repr(ESTIMATORS[name](release("research", budget)))
    assert "NOT A PRIVATE RELEASE" in shown
    assert "(research noise)" in shown
    assert "NOT A PRIVATE" not in repr(ESTIMATORS[name](release("exact", budget)))


@pytest.mark.parametrize("name", sorted(ESTIMATORS))
def test_missing_noise_is_named(name):
    shown = repr(ESTIMATORS[name](release("exact", PureDP(inf))))
    assert "NOT A PRIVATE RELEASE: no noise was added" in shown


@pytest.mark.parametrize("name", ["combine", "nonnegative_least_squares"])
def test_one_release_of_research_noise_among_private_ones_is_enough(name):
    both = [release("exact"), release("research")]
    shown = repr(ESTIMATORS[name](both))
    assert "NOT A PRIVATE RELEASE" in shown
    assert "(research noise)" in shown
    assert "NOT A PRIVATE" not in repr(ESTIMATORS[name](both[:1] * 2))


def test_an_estimate_of_unknown_origin_claims_nothing():
    shown = repr(Estimate(values=np.ones((2, 1)), variances=None, method="a rule", note="Rough."))
    assert shown == "Estimate(2 x 1, a rule, no expected error. Rough)"
