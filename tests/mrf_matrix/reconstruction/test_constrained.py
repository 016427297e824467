"""Least squares under a user's constraints, against closed forms and other estimators."""

from inspect import isfunction, signature
from math import inf

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression

from mrf_matrix import Domain, RandomTrees, reconstruction
from mrf_matrix.mechanisms import ZCDP, PureDP, count_cells, measure
from mrf_matrix.reconstruction import (
    Estimate,
    combine,
    equal_to,
    least_squares,
    nearest_on_simplex,
    nonnegative_least_squares,
    rising,
    shrink_leaves,
    with_known_totals,
)
from strategies.operators import MemoryCapError, RowSpaceError, memory_cap

N = 9
RNG = np.random.default_rng(4)
CODES = RNG.integers(0, N, (60, 1))
LABELS = RNG.integers(0, 2, 60)
COUNTS = count_cells(CODES, LABELS, (N,), 2)
TABLE = np.zeros((N, 2))
np.add.at(TABLE, (CODES[:, 0], LABELS), 1)
PREFIXES = np.tril(np.ones((N, N)))
TREE = np.vstack([np.eye(N), np.kron(np.eye(3), np.ones((1, 3)))])
TOTALS = TABLE.sum(axis=0)


def draw(strategy, seed, budget=None):
    budget = PureDP(1) if budget is None else budget
    return measure(strategy, COUNTS, budget, noise="research", random_state=seed)


@given(st.integers(0, 10**6))
@example(8192)  # the solver's longest steps run in a circle
def test_rising_cells_are_isotonic_regression(seed):
    release = draw(np.eye(N), seed)
    found = least_squares(release, np.eye(N), rising(np.eye(N))).values
    for column, noisy in zip(found.T, release.values.T, strict=True):
        np.testing.assert_allclose(column, isotonic_regression(noisy).x, atol=2e-3)


@given(st.integers(0, 10**6))
def test_equalities_are_projections(seed):
    """In the metric AᵀA, the nearest table with ``E X = b``, written out."""
    rng = np.random.default_rng(seed)
    E, b = rng.integers(-1, 2, (2, N)) + np.eye(2, N), rng.normal(size=(2, 2))
    release = draw(TREE, seed)
    found = least_squares(release, TREE, equal_to(E, b)).values
    free = np.linalg.pinv(TREE) @ release.values
    inverse = np.linalg.inv(TREE.T @ TREE)
    moved = inverse @ E.T @ np.linalg.pinv(E @ inverse @ E.T) @ (b - E @ free)
    np.testing.assert_allclose(found, TREE @ (free + moved), atol=1e-6)


@pytest.mark.parametrize(
    ("plain", "known"),
    [
        (combine, {}),
        (with_known_totals, {"class_totals": TOTALS}),
        (with_known_totals, {"total": 60.0}),
        (nonnegative_least_squares, {}),
        (nonnegative_least_squares, {"class_totals": TOTALS}),
        (nonnegative_least_squares, {"total": 60.0}),
    ],
)
def test_the_plain_estimators_are_the_same(plain, known):
    """By themselves, and beside a constraint that says nothing."""
    releases = [draw(TREE, 1), draw(np.eye(N), 2, ZCDP(0.5))]
    nonnegative = plain is nonnegative_least_squares
    expected = plain(releases, TREE, **known)
    same = least_squares(releases, TREE, nonnegative=nonnegative, **known)
    asked = least_squares(
        releases, TREE, lambda counts: [counts <= 1e4], nonnegative=nonnegative, **known
    )
    np.testing.assert_array_equal(same.values, expected.values)
    np.testing.assert_allclose(asked.values, expected.values, atol=2e-4)
    assert same.method == expected.method
    assert asked.expected_error is None


def test_all_constraints_are_met_at_once():
    published = draw(np.kron(np.eye(3), np.ones((1, 3))), 5).values
    thirds = np.kron(np.eye(3), np.ones((1, 3)))
    found = least_squares(
        draw(TREE, 6),
        np.eye(N),
        [equal_to(thirds, np.maximum(published, 0)), rising(np.eye(N)[:3])],
        nonnegative=True,
    )
    assert found.values.min() >= 0
    np.testing.assert_allclose(thirds @ found.values, np.maximum(published, 0), atol=1e-6)
    assert np.diff(found.values[:3], axis=0).min() >= -1e-6


def test_true_constraints_lower_the_error_and_false_ones_raise_it():
    order = np.argsort(TABLE[:, 0] + TABLE[:, 1])
    rows = np.eye(N)[order]
    both = TABLE.sum(axis=1, keepdims=True)
    counts = count_cells(CODES, np.zeros(60, int), (N,), 1)
    free = right = wrong = 0.0
    for seed in range(6):
        release = measure(np.eye(N), counts, PureDP(0.3), noise="research", random_state=seed)
        free += np.sum((release.values - both) ** 2)
        right += np.sum((least_squares(release, np.eye(N), rising(rows)).values - both) ** 2)
        wrong += np.sum(
            (least_squares(release, np.eye(N), equal_to(rows[:1], [[60.0]])).values - both) ** 2
        )
    assert right < 0.8 * free < free < wrong


def test_without_noise_counts_come_back():
    exact = measure(TREE, COUNTS, PureDP(inf), noise="exact")
    found = least_squares(exact, np.eye(N), equal_to(np.ones((1, N)), [TOTALS]))
    np.testing.assert_array_equal(found.values, TABLE)


def test_nonsense_is_refused_by_name():
    release = draw(PREFIXES, 0)
    with pytest.raises(ValueError, match="nothing meets all"):
        least_squares(release, PREFIXES, equal_to(np.ones((1, N)), [[-1, 1]]), nonnegative=True)
    with pytest.raises(TypeError, match="affine cvxpy"):
        least_squares(release, PREFIXES, lambda counts: [counts**2 <= 1])
    with pytest.raises(ValueError, match="values has shape"):
        equal_to(np.eye(N), np.ones(N))
    with pytest.raises(ValueError, match="exactly one"):
        least_squares(release, PREFIXES, rising(PREFIXES), class_totals=TOTALS, total=60)
    with pytest.raises(RowSpaceError):
        least_squares(draw(np.ones((1, N)), 0), PREFIXES, rising(PREFIXES))
    with memory_cap(100), pytest.raises(MemoryCapError):
        least_squares(release, PREFIXES, rising(PREFIXES))


# Displays ----------------------------------------------------------------------------------------


FEW_COUNTS = count_cells(np.array([[0], [2], [2]]), np.zeros(3, int), sizes=(3,), n_classes=1)
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
    return measure(np.eye(3), FEW_COUNTS, budget, noise=noise)


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
