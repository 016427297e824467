"""A tree of labels: its plan, and what the tree and counts of its cells imply."""

from contextlib import nullcontext
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats
from scipy.stats import beta

from mrf_matrix import Domain
from mrf_matrix.estimators import LabelTreeClassifier
from mrf_matrix.forests.label_tree import LabelTree, number_of_cuts
from mrf_matrix.labels.plan import (
    BELOW,
    CONCENTRATIONS,
    DEEP,
    DEEPEST,
    FLAT,
    GROWN_FROM,
    GROWN_FROM_OF_TWO,
    MORE_CUTS,
    MOST_CLASSES,
    MOST_COUNTS,
    MOST_CUTS,
    SHARE_OF_COUNTS,
    SHARE_OF_FIRST,
    count_threshold,
    label_plan,
    most_cuts,
)
from mrf_matrix.labels.posterior import counted_evidence, label_evidence, label_posterior
from mrf_matrix.labels.questions import TreeCells
from mrf_matrix.mechanisms import (
    NEIGHBORING,
    ZCDP,
    CellCounts,
    DiscreteGaussian,
    DiscreteLaplace,
    PureDP,
)
from mrf_matrix.mechanisms.measurement.mechanism import choice_signal
from mrf_matrix.planning.plans.signal_to_noise import verdict_of
from mrf_matrix.posterior.effects import terms
from mrf_matrix.release.curator import Live
from mrf_matrix.residual.step import ASSUMED_RECORDS

DOMAIN = Domain.from_sizes([4, 3, 5, 2, 6], n_classes=2)
BUDGETS = [PureDP(Fraction(1, 7)), PureDP(0.3), PureDP(2), ZCDP(Fraction(1, 130)), ZCDP(0.7)]


MANY_CUTS = [20] * 5
"""Codes of attributes with more cuts than a tree of sixteen cells has to choose from."""


def planned(budget, n_records=300, domain=DOMAIN, seed=0, **options):
    return label_plan(domain, budget, np.random.default_rng(seed), n_records=n_records, **options)


@pytest.mark.parametrize("neighboring", NEIGHBORING)
@pytest.mark.parametrize("n_records", [None, 1, 20, 300, 10**6])
@pytest.mark.parametrize("budget", BUDGETS)
def test_steps_spend_the_whole_exactly(budget, n_records, neighboring):
    plan = planned(budget, n_records, neighboring=neighboring)
    if choice_signal(budget, n_records or ASSUMED_RECORDS, neighboring) < count_threshold(
        plan.n_classes
    ):
        assert plan.counts is None
        assert plan.steps == (plan.labels,)
        assert plan.labels.budget == budget
    else:
        assert plan.steps == (*[one.step for one in plan.rounds], plan.counts)
        assert plan.counts.budget.exact == budget.exact * SHARE_OF_COUNTS
        assert plan.counts.kind == "totals"
        assert plan.counts.n_columns == plan.n_classes
        assert f"class counts of {plan.n_cells} cells" in plan.counts.measured
    assert sum(step.budget.exact for step in plan.steps) == budget.exact
    assert {step.neighboring for step in plan.steps} == {neighboring}
    assert plan.spent == budget


@pytest.mark.parametrize("k", [2, 3, 9])
@pytest.mark.parametrize(("neighboring", "times"), [("add_remove", 10), ("replace_one", 20)])
def test_counts_are_released_from_a_signal_a_class_on(neighboring, times, k):
    budget, records = PureDP(Fraction(1, 10)), times * count_threshold(k)
    domain = Domain.from_sizes(MANY_CUTS, n_classes=k)
    below, above = (
        planned(budget, n, domain, neighboring=neighboring) for n in (records - 1, records)
    )
    assert choice_signal(budget, records, neighboring) == count_threshold(k)
    assert (below.counts, len(above.steps)) == (None, 2)
    assert above.labels.choice_rate == below.labels.choice_rate * (1 - SHARE_OF_COUNTS)
    assert above.cell_signal == pytest.approx(count_threshold(k) / 8 * float(1 - SHARE_OF_COUNTS))
    assert (below.depth, below.cuts) == (above.depth, above.cuts)


@pytest.mark.parametrize(("n_records", "share"), [(100, 1), (2000, 1 - SHARE_OF_COUNTS)])
@pytest.mark.parametrize(
    ("neighboring", "times"), [("add_remove", 1), ("replace_one", Fraction(1, 2))]
)
def test_rates_are_those_of_monotone_scores(neighboring, times, n_records, share):
    plan = planned(PureDP(Fraction(1, 10)), n_records, neighboring=neighboring)
    assert plan.labels.choice_rate == Fraction(1, 10) * times * share
    of_rho = planned(ZCDP(Fraction(1, 50)), n_records, neighboring=neighboring)
    epsilon = of_rho.labels.choice_rate / times
    assert epsilon**2 / 8 <= Fraction(1, 50) * share  # rounded down, never up
    assert epsilon**2 / 8 == pytest.approx(float(share) / 50, rel=1e-9)


@pytest.mark.parametrize(("neighboring", "moved"), [("add_remove", 1), ("replace_one", 2)])
def test_noise_of_counts_is_that_of_one_record_in_one_cell_and_class(neighboring, moved):
    laplace = planned(PureDP(2 / SHARE_OF_COUNTS), neighboring=neighboring).counts
    assert laplace.law == DiscreteLaplace(Fraction(moved, 2))
    gaussian = planned(ZCDP(1 / (2 * SHARE_OF_COUNTS)), neighboring=neighboring).counts
    assert isinstance(gaussian.law, DiscreteGaussian)
    square = gaussian.law.scale**2  # two cells or classes move by one each: joint norm sqrt(2)
    assert moved <= square < moved * (1 + Fraction(1, 2**50))


@pytest.mark.parametrize("neighboring", NEIGHBORING)
@pytest.mark.parametrize("k", [2, 4, 5, 7])
@pytest.mark.parametrize("n_records", [1, 299, 301, 599, 601, 1199, 1201, 10**5])
def test_trees_are_deep_from_a_signal_on(n_records, k, neighboring):
    budget, domain = PureDP(Fraction(1, 10)), Domain.from_sizes(MANY_CUTS, n_classes=k)
    plan = planned(budget, n_records, domain, neighboring=neighboring)
    signal = choice_signal(budget, n_records or ASSUMED_RECORDS, neighboring)
    assert signal == pytest.approx(n_records / (20 if neighboring == "replace_one" else 10))
    first = DEEP if signal >= (60 if k < 5 else 30) else FLAT
    grown = signal >= (GROWN_FROM_OF_TWO if k == 2 else GROWN_FROM)
    assert [one.depth for one in plan.rounds] == [first, BELOW][: 1 + grown]
    assert plan.depth == first + grown * BELOW
    assert plan.n_cells == 2**plan.depth
    assert plan.cell_records == n_records / plan.n_cells
    assert f"a tree of {1 << first} cells" in plan.rounds[0].step.measured


@pytest.mark.parametrize("k", [2, 3, 7])
@pytest.mark.parametrize("more", [0, 1])
def test_trees_are_deepest_of_several_classes_where_cuts_are_few(k, more):
    most = int(MORE_CUTS * most_cuts(DEEPEST, k)) + more
    domain = Domain.from_sizes([2] * most, n_classes=k)
    assert number_of_cuts(domain) == most
    small, found, large = (planned(PureDP(0.1), n, domain) for n in (599, 600, 4000))
    assert found.depth == (DEEPEST if k > 2 and not more else DEEP)
    assert len(found.cuts) == min(most, most_cuts(found.depth, k))
    assert small.depth < DEEPEST
    assert large.depth == (DEEP if k == 2 else DEEP + BELOW)


@pytest.mark.parametrize("neighboring", NEIGHBORING)
@pytest.mark.parametrize("budget", [PureDP(Fraction(7, 5)), ZCDP(Fraction(1, 3))], ids=str)
@pytest.mark.parametrize("k", [2, 3])
def test_two_rounds_share_what_counts_leave(k, budget, neighboring):
    domain = Domain.from_sizes([4, 3, 5], n_classes=k)
    one, two = (planned(budget, n, domain, neighboring=neighboring) for n in (200, 10**5))
    assert one.depth == (DEEP if k == 2 else DEEPEST)
    assert (len(one.rounds), len(two.rounds)) == (1, 2)
    drawn = budget.exact * (1 - SHARE_OF_COUNTS)
    first, second = (one.step.budget.exact for one in two.rounds)
    assert first == drawn * SHARE_OF_FIRST
    assert first + second == drawn == one.labels.budget.exact
    assert two.labels == two.rounds[1].step
    assert "below each" in two.labels.measured


@pytest.mark.parametrize("depth", [FLAT, DEEP])
@pytest.mark.parametrize("k", [2, 3, 10, 100, MOST_CLASSES])
def test_cuts_are_as_many_as_their_counts_allow(depth, k):
    found = most_cuts(depth, k)
    assert 1 <= found <= MOST_CUTS
    assert found**depth * k <= MOST_COUNTS
    assert found == MOST_CUTS or (found + 1) ** depth * k > MOST_COUNTS
    plan = planned(PureDP(1), 10**4, Domain.from_sizes([20] * 30, n_classes=k))
    depths = [one.depth for one in plan.rounds]
    assert len(plan.cuts) == max(most_cuts(one, k) for one in depths)
    assert plan.attributes == tuple(sorted({cut.attribute for cut in plan.cuts}))


def test_an_unknown_number_of_records_is_the_assumed_one():
    for budget in BUDGETS:
        unknown, assumed = planned(budget, None), planned(budget, ASSUMED_RECORDS)
        assert unknown.steps == assumed.steps
        assert unknown.cell_signal == assumed.cell_signal
        assert unknown.n_records is None


def test_cuts_are_drawn_from_the_public_domain_and_the_seed_alone():
    domain = Domain.from_sizes([20] * 30, n_classes=2)
    one, other = (
        planned(PureDP(0.2), 300, domain),
        planned(ZCDP(0.2), 900, domain, neighboring="replace_one"),
    )
    assert one.depth == other.depth
    assert planned(PureDP(0.2), 10**5, domain).cuts == one.cuts
    assert one.cuts == other.cuts
    assert one.cuts != planned(PureDP(0.2), 300, domain, seed=1).cuts


@pytest.mark.parametrize("kind", [PureDP, ZCDP])
def test_an_infinite_budget_stays_infinite(kind):
    plan = planned(kind(float("inf")))
    assert plan.spent.is_infinite
    assert plan.labels.choice_rate == float("inf")
    assert all(step.budget.is_infinite for step in plan.steps)
    assert plan.counts.law.variance == 0
    assert plan.depth == DEEP + BELOW
    assert plan.cell_signal == float("inf")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"domain": Domain.from_sizes([3, 3], n_classes=MOST_CLASSES + 1)},
            "domain names 1001 classes: expected 1 to 1000",
        ),
        (
            {"domain": Domain.from_sizes([1, 1, 1], n_classes=2)},
            "domain has no attribute that can be cut",
        ),
        (
            {"domain": Domain.from_sizes([1, 10**9, 10**9], n_classes=2)},
            "domain has no attribute that can be cut",
        ),
        ({"neighboring": "both"}, "neighboring='both'"),
        ({"budget": PureDP(10**9)}, r"PureDP\(epsilon=1000000000\) is too large"),
        ({"budget": ZCDP(10**18)}, r"ZCDP\(rho=.*is too large for exact choices.*inf"),
    ],
)
def test_refusals_name_what_is_wrong(options, message):
    given = {"budget": PureDP(1), "n_records": 100} | options
    with pytest.raises(ValueError, match=message):
        planned(**given)


def test_a_domain_without_classes_is_refused():
    with pytest.raises(ValueError, match="target"):
        planned(PureDP(1), domain=Domain.from_sizes([3, 3]))


@pytest.mark.parametrize(("n_records", "counts"), [(100, []), (2000, [2**0.5])])
def test_its_figures_tell_the_sensitivity_and_the_claim(n_records, counts):
    found = planned(ZCDP(0.02), n_records, neighboring="replace_one", delta=1e-6).to_dict()
    assert [step["sensitivity"] for step in found["steps"]] == pytest.approx([2, *counts])
    assert found["claim"].startswith("(epsilon=")
    assert found["neighboring"] == "replace_one"


def test_a_budget_that_moves_no_label_has_a_verdict():
    for budget in (ZCDP(Fraction(1, 10**26)), PureDP(Fraction(1, 10**400))):
        assert verdict_of(planned(budget, 50)).is_hopeless


# Counts, and what they imply ----------------------------------------------------------------------


SIZES, K = (4, 3, 5), 3  # of ordered codes
WIDE = (4, 3, 5, 20, 20, 20)  # with too many cuts for sixteen cells
COUNTS = np.arange(8 * K).reshape(8, K) ** 2


ONE = PureDP(1)


def counted_plan(budget=ONE, n_records=300, **options):
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
    plan = counted_plan(budget, neighboring=neighboring)
    found, law = drawn(plan, noise, 200), plan.counts.law
    assert plan.counts.mechanism(8).law == law
    assert agreement(found, law) > 1e-6
    assert abs(found.mean()) < 5 * (law.variance / found.size) ** 0.5
    whole = replace(plan.counts, budget=plan.budget).law
    assert agreement(found, whole) < 1e-12  # the negative control: noise of the whole budget
    assert abs(np.corrcoef(found.reshape(200, -1).T) - np.eye(8 * K)).max() < 0.4  # each its own


def assert_same(found, expected):
    np.testing.assert_array_equal(found.shares, expected.shares)
    np.testing.assert_array_equal(found.weights, expected.weights)
    np.testing.assert_array_equal(found.probabilities, expected.probabilities)


@pytest.mark.parametrize("n_records", [20, 70], ids=["flat", "deep"])
def test_without_counts_cells_of_a_label_say_the_same(n_records):
    plan = counted_plan(n_records=n_records)
    tree = tree_of(plan)
    model = label_posterior(plan, tree)
    first = label_evidence(K, plan.cell_signal, CONCENTRATIONS[plan.depth])
    assert model.sizes is None
    assert model.labels.tolist() == tree.labels.tolist()
    for label, found in zip(tree.labels.tolist(), model.evidence, strict=True):
        assert_same(found, first.rotate(label))


@pytest.mark.parametrize("budget", [PureDP(1), ZCDP(0.1)], ids=str)
def test_with_counts_every_cell_says_what_its_own_are_worth(budget):
    plan = counted_plan(budget)
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
    plan = counted_plan()
    noisy = COUNTS.copy()
    noisy[1:3] = far
    model = label_posterior(plan, tree_of(plan, noisy))
    assert np.isfinite([one.probabilities for one in model.evidence]).all()
    assert model.sizes.min() > 0
    assert model.sizes.sum() == pytest.approx(1)
    [term] = terms(model, 1, 0)
    assert np.isfinite(term.size)


def test_the_term_has_the_sizes_of_the_cells_and_codes_even_within():
    plan = counted_plan(n_records=10**4)
    tree = tree_of(plan, COUNTS)
    model = label_posterior(plan, tree)
    [term] = terms(model, 2, 0)
    whole = term.expand_codes()
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


@pytest.mark.parametrize(("epsilon", "depth"), [(0.19, FLAT), (0.21, DEEP)])
def test_probabilities_are_those_of_a_label(epsilon, depth):
    X = np.random.default_rng(0).integers(0, (4, 3, 5, 2), size=(300, 4))
    domain = Domain.from_sizes((4, 3, 5, 2), n_classes=2)
    model = LabelTreeClassifier(domain, epsilon=epsilon, n_records=300, random_state=0)
    shares = model.fit(X, (X[:, 0] > 1).astype(int)).predict_proba(X)
    [said] = {one.probabilities.max() for one in model.posterior_.evidence}
    assert model.tree_.depth == depth
    assert model.posterior_.labels.tolist() == model.tree_.labels.tolist()
    a = CONCENTRATIONS[depth]
    largest = beta(a + 1, a).sf(0.5)  # the mean share of the larger class
    assert 0.9 * largest < said < largest
    assert np.allclose(shares.max(axis=1), said)
    assert np.allclose(shares.sum(axis=1), 1)
    assert (model.predict(X) == shares.argmax(axis=1)).all()
    odds = model.decision_function(X)
    assert np.allclose(odds, np.log(shares[:, 1] / shares[:, 0]))
