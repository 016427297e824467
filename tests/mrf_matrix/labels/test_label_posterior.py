"""Counts of a tree's cells as they are measured, and what tree and counts imply, cell by cell."""

from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from mrf_matrix import Domain
from mrf_matrix.forests.label_tree import LabelTree
from mrf_matrix.kinds.labels import TreeCells
from mrf_matrix.labels.plan import CONCENTRATIONS, label_plan
from mrf_matrix.labels.posterior import counted_evidence, label_evidence, label_posterior
from mrf_matrix.mechanisms import ZCDP, CellCounts, PureDP
from mrf_matrix.posterior.effects import terms
from mrf_matrix.release.curator import Live

INFINITE = float("inf")
SIZES, K = (4, 3, 5), 3  # of ordered codes
WIDE = (4, 3, 5, 20, 20, 20)  # with too many cuts for sixteen cells
COUNTS = np.arange(8 * K).reshape(8, K) ** 2


ONE = PureDP(1)


def planned(budget=ONE, n_records=300, **options):
    domain = Domain.from_sizes(WIDE, n_classes=K)
    generator = np.random.default_rng(0)
    return label_plan(domain, budget, generator, n_records=n_records, **options)


def tree_of(plan, counts=None):
    first = {cut.attribute: cut for cut in reversed(plan.cuts)}
    cuts = tuple(first[i] for i in (0, 1, 1, 2, 2, 2, 2))[: plan.n_cells - 1]  # no cell is empty
    labels = np.array([0, 2, 1, 0, 2, 2, 1, 0])[: plan.n_cells]
    return LabelTree(cuts, labels, counts)


def drawn(plan, noise, repeats):
    """Return the noise on counts of all cells, several times, (repeats, cells, k)."""
    stream = np.random.default_rng(0) if noise == "research" else None
    tree, found = tree_of(plan), []
    asked, step = TreeCells(plan, tree), plan.counts
    alone = replace(plan, rounds=(), budget=step.budget)  # the other steps are taken
    for _ in range(repeats):
        curator = Live(alone, OneRecordEach(tree), nullcontext, noise, stream)
        answers = curator.measure(step, asked).answers
        assert answers.dtype == np.int64
        found.append(answers - COUNTS)
    return np.array(found)


class OneRecordEach:
    """Cells of a tree's attributes, of which each of the tree's holds one with its records."""

    def __init__(self, tree):
        self.tree = tree

    def cells(self, features):
        sizes = tuple(WIDE[i] for i in features)
        codes = np.indices(sizes[: len(SIZES)]).reshape(len(SIZES), -1).T
        codes = np.pad(codes, ((0, 0), (0, len(features) - len(SIZES))))
        _, first = np.unique(self.tree.cells(codes), return_index=True)
        return CellCounts(codes[first], COUNTS, sizes)


def agreement(noise, law):
    """Return the p-value of chi-square against a law of noise, its tails taken together."""
    reach = int(2 * law.variance**0.5) + 1
    middle = np.arange(-reach, reach + 1)
    seen = [(noise < -reach).sum(), *[(noise == one).sum() for one in middle]]
    mass = law.pmf(middle)
    tail = (1 - mass.sum()) / 2
    expected = noise.size * np.array([tail, *mass, tail])
    return stats.chisquare([*seen, noise.size - sum(seen)], expected).pvalue


@pytest.mark.parametrize(
    ("budget", "neighboring", "noise"),
    [
        (PureDP(1), "add_remove", "exact"),
        (PureDP(1), "replace_one", "research"),
        (ZCDP(0.2), "add_remove", "research"),
        (ZCDP(0.2), "replace_one", "exact"),
    ],
    ids=str,
)
def test_counts_have_the_noise_of_their_share_of_the_budget(budget, neighboring, noise):
    plan = planned(budget, neighboring=neighboring)
    found, law = drawn(plan, noise, 200), plan.counts.law
    assert plan.counts.mechanism(8).law == law
    assert agreement(found, law) > 1e-6
    assert abs(found.mean()) < 5 * (law.variance / found.size) ** 0.5
    whole = replace(plan.counts, budget=plan.budget).law
    assert agreement(found, whole) < 1e-12  # the negative control: noise of the whole budget
    assert abs(np.corrcoef(found.reshape(200, -1).T) - np.eye(8 * K)).max() < 0.4  # each its own


@pytest.mark.parametrize("noise", ["exact", "research"])
def test_without_noise_counts_are_the_true_ones(noise):
    assert not drawn(planned(PureDP(INFINITE)), noise, 1).any()


def assert_same(found, expected):
    np.testing.assert_array_equal(found.shares, expected.shares)
    np.testing.assert_array_equal(found.weights, expected.weights)
    np.testing.assert_array_equal(found.probabilities, expected.probabilities)


@pytest.mark.parametrize("n_records", [20, 70], ids=["flat", "deep"])
def test_without_counts_cells_of_a_label_say_the_same(n_records):
    plan = planned(n_records=n_records)
    tree = tree_of(plan)
    model = label_posterior(plan, tree)
    first = label_evidence(K, plan.cell_signal, CONCENTRATIONS[plan.depth])
    assert model.sizes is None
    assert model.labels.tolist() == tree.labels.tolist()
    for label, found in zip(tree.labels.tolist(), model.evidence, strict=True):
        assert_same(found, first.turned(label))


@pytest.mark.parametrize("budget", [PureDP(1), ZCDP(0.1)], ids=str)
def test_with_counts_every_cell_says_what_its_own_are_worth(budget):
    plan = planned(budget)
    noisy = COUNTS - 20
    tree = tree_of(plan, noisy)
    model = label_posterior(plan, tree)
    rate = min(float(plan.labels.choice_rate), 1e9)
    assert plan.labels.budget != budget or budget.is_infinite, "the rate is that of its share"
    for label, counts, found in zip(tree.labels.tolist(), noisy, model.evidence, strict=True):
        expected = counted_evidence(
            counts,
            label,
            rate=rate,
            records=300 / 8,
            concentration=CONCENTRATIONS[3],
            law=plan.counts.law,
        )
        assert_same(found, expected)
    sizes = np.maximum(noisy.sum(axis=1), 1)
    np.testing.assert_allclose(model.sizes, sizes / sizes.sum())
    codes = np.array([[i, j, k] for i in range(4) for j in range(3) for k in range(5)])
    assert model.cells_at(codes).tolist() == tree.cells(codes).tolist()
    shares = np.array([one.probabilities for one in model.evidence])
    np.testing.assert_array_equal(model.probabilities(codes), shares[tree.cells(codes)])


@pytest.mark.parametrize("far", [2**62, -(2**62)])
def test_counts_as_large_as_a_file_may_say_have_sizes_and_probabilities(far):
    plan = planned()
    noisy = COUNTS.copy()
    noisy[1:3] = far
    model = label_posterior(plan, tree_of(plan, noisy))
    assert np.isfinite([one.probabilities for one in model.evidence]).all()
    assert model.sizes.min() > 0
    assert model.sizes.sum() == pytest.approx(1)
    [term] = terms(model, 1, 0)
    assert np.isfinite(term.size)


def test_the_term_has_the_sizes_of_the_cells_and_codes_even_within():
    plan = planned(n_records=10**4)
    tree = tree_of(plan, COUNTS)
    model = label_posterior(plan, tree)
    [term] = terms(model, 2, 0)
    whole = term.over_codes()
    codes = np.array(list(np.ndindex(SIZES)))
    cells = tree.cells(codes)
    reached = np.unique(cells)
    of_codes = whole.shares[tuple(codes[::, i] for i in term.attributes)]
    expected = COUNTS.sum(axis=1)[reached] / COUNTS.sum(axis=1)[reached].sum()
    for cell, share in zip(reached, expected, strict=True):
        here = of_codes[cells == cell]
        np.testing.assert_allclose(here, here[0])
        each = share / (cells == cell).sum() * (len(codes) / whole.shares.size)
        assert here[0] == pytest.approx(each)
    odds = np.array([one.log_odds(2, 0) for one in model.evidence])[reached]
    mean = expected @ odds
    assert term.size == pytest.approx((expected @ (odds - mean) ** 2) ** 0.5)
    even = np.bincount(cells, minlength=8)[reached] / len(codes)
    assert term.size != pytest.approx((even @ (odds - even @ odds) ** 2) ** 0.5, rel=1e-2)
