"""ε-DP of private growth and labels, by enumerating every tree over a tiny domain.

The law of every output is computed exactly, from the library's own scores, gaps and rates. The
worst log-ratio over neighbouring data sets may not exceed ε. Count-based stopping does.
"""

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from scipy import stats

from mrf_matrix.domain import Domain
from mrf_matrix.forests import MultinomialTrees, PrivateMultinomialTrees
from mrf_matrix.forests.growth.level import LABEL_SCORES, label_gaps, label_rate, private_labels
from mrf_matrix.forests.growth.private import (
    GRID,
    SCORES,
    Candidates,
    PrivateScore,
    attribute_scores,
    candidate_scores,
)
from mrf_matrix.forests.private_multinomial import ChoiceBudget
from mrf_matrix.mechanisms import ZCDP, PureDP
from mrf_matrix.mechanisms.selection import Bits, probabilities

SIZES = (2, 3)
DOMAIN = Domain.from_sizes(SIZES, 2)
CELLS = list(product(range(2), range(3), range(2)))  # (code, code, class)
CANDIDATES = Candidates.of(SIZES)
EPSILON = Fraction(2)
DEPTH = 2


def split_law(records, box, score, b1, b2):
    """Return {candidate: probability} of one node; empty where the box cannot be cut."""
    table = np.array(records, dtype=np.int64).reshape(-1, 3)
    codes, labels = table[:, :2], table[:, 2]
    scores = candidate_scores(DOMAIN, codes, labels, np.zeros(len(table), dtype=int), 1, score)
    low, high = np.array(box)
    inside = low[CANDIDATES.attribute] < CANDIDATES.cut
    options = (inside & (CANDIDATES.cut < high[CANDIDATES.attribute]))[:, None]
    best, has_cut = attribute_scores(scores, options, CANDIDATES)
    of_attribute = probabilities(score.gaps(best, has_cut), has_cut, score.rate(b1))[:, 0]
    law = {}
    for row, attribute in enumerate(CANDIDATES.splittable):
        cuts = options & (CANDIDATES.attribute == attribute)[:, None]
        if cuts.any():
            of_cut = probabilities(score.gaps(scores, cuts), cuts, score.rate(b2))[:, 0]
            for number in np.flatnonzero(cuts):
                law[int(number)] = of_attribute[row] * of_cut[number]
    return law


@cache
def tree_law(records, box, depth, kind, b1, b2):
    """Return {tree: probability}; a tree is a box (leaf) or (candidate, left, right)."""
    splits = split_law(records, box, PrivateScore(kind), b1, b2) if depth else {}
    if not splits:
        return {box: 1.0}
    law = {}
    for number, p in splits.items():
        attribute, cut = int(CANDIDATES.attribute[number]), int(CANDIDATES.cut[number])
        low, high = (list(side) for side in box)
        high[attribute] = cut
        left_box = (tuple(low), tuple(high))
        low, high = (list(side) for side in box)
        low[attribute] = cut
        right_box = (tuple(low), tuple(high))
        lefts = tuple(r for r in records if r[attribute] < cut)
        rights = tuple(r for r in records if r[attribute] >= cut)
        left = tree_law(lefts, left_box, depth - 1, kind, b1, b2)
        right = tree_law(rights, right_box, depth - 1, kind, b1, b2)
        for (a, pa), (b, pb) in product(left.items(), right.items()):
            law[number, a, b] = p * pa * pb
    return law


WHOLE = ((0, 0), SIZES)


def structure_law(records, kind, epsilon=EPSILON, share=Fraction(1, 2)):
    level = epsilon / DEPTH
    return tree_law(tuple(records), WHOLE, DEPTH, kind, level * share, level * (1 - share))


def worst_ratio(one, other):
    """Return the largest |log ratio| over all outputs; infinite where only one is possible."""
    worst = 0.0
    for output in one.keys() | other.keys():
        p, q = one.get(output, 0.0), other.get(output, 0.0)
        if p == q:
            continue
        worst = np.inf if not (p and q) else max(worst, abs(np.log(p / q)))
    return worst


def datasets(most):
    return [records for n in range(most + 1) for records in combinations_with_replacement(CELLS, n)]


@pytest.mark.parametrize("kind", SCORES)
def test_structure_is_private_over_every_tree(kind):
    worst = max(
        worst_ratio(structure_law(records, kind), structure_law(sorted((*records, extra)), kind))
        for records in datasets(1)
        for extra in CELLS
    )
    assert 0.1 < worst <= EPSILON * (1 + 1e-9)


@pytest.mark.parametrize("kind", SCORES)
def test_twice_the_rate_would_be_caught(kind):
    worst = max(
        worst_ratio(
            structure_law(records, kind, 8 * EPSILON),
            structure_law(sorted((*records, extra)), kind, 8 * EPSILON),
        )
        for records in datasets(1)
        for extra in CELLS
    )
    assert worst > EPSILON


def renyi(one, other, alpha):
    """Return the larger of both Renyi divergences of order alpha of two laws on the same trees."""
    p, q = (np.array([law[tree] for tree in one]) for law in (one, other))
    sums = [np.sum(a**alpha * b ** (1 - alpha)) for a, b in ((p, q), (q, p))]
    return np.log(max(sums)) / (alpha - 1)


@cache
def worst_renyi(kind, neighboring, rates):
    """Return the worst divergence over its order, of structures of neighbours."""
    laws = {
        records: tree_law(records, WHOLE, DEPTH, kind, rates.attribute, rates.cut)
        for records in datasets(2)
    }
    pairs = [
        (one, other)
        for one in laws
        for other in laws
        if (
            len(one) + 1 == len(other) and not Counter(one) - Counter(other)
            if neighboring == "add_remove"
            else len(one) == len(other) and sum((Counter(one) - Counter(other)).values()) == 1
        )
    ]
    return max(
        renyi(laws[one], laws[other], alpha) / alpha
        for one, other in pairs
        for alpha in (1.1, 2, 8)
    )


@pytest.mark.parametrize("neighboring", ["add_remove", "replace_one"])
@pytest.mark.parametrize("kind", SCORES)
def test_structure_is_concentrated_over_every_tree(kind, neighboring):
    rho = Fraction(1, 10)
    rates = ChoiceBudget.of(ZCDP(rho), 1, DEPTH, 0.5, neighboring)
    assert rho / 20 < worst_renyi(kind, neighboring, rates) <= rho
    control = replace(rates, attribute=6 * rates.attribute, cut=6 * rates.cut)
    assert worst_renyi(kind, neighboring, control) > rho


def test_rates_of_approximate_claims_are_the_better_ones():
    trees = PrivateMultinomialTrees(epsilon=1, n_trees=10, max_depth=5, delta=1e-6)
    rho = trees.rates.budget.exact
    assert trees.rates.budget == ZCDP.for_approximate_dp(1.0, 1e-6)
    b1, b2, b3 = trees.rates.attribute, trees.rates.cut, trees.rates.label
    assert rho * (1 - Fraction(1, 10**9)) < 10 * 5 * (b1**2 + b2**2) / 8 <= rho
    assert rho * (1 - Fraction(1, 10**9)) < 10 * b3**2 / 8 <= rho
    few = replace(trees, disjoint=True, max_depth=1)
    assert few.rates == replace(few, delta=0).rates  # one choice a record: pure noise is less
    half = replace(trees, neighboring="replace_one").rates
    assert half.attribute == pytest.approx(b1 / 2)


def leaf_boxes(tree):
    if isinstance(tree[0], tuple):
        return [tree]
    return leaf_boxes(tree[1]) + leaf_boxes(tree[2])


def label_law(records, tree, score, epsilon):
    """Return {labels of all leaves: probability}."""
    laws = []
    for low, high in leaf_boxes(tree):
        inside = [
            r[2]
            for r in records
            if all(a <= c < b for a, c, b in zip(low, r[:2], high, strict=True))
        ]
        gaps = label_gaps(np.bincount(inside, minlength=2)[None].astype(int), score)
        laws.append(probabilities(gaps, np.ones_like(gaps, bool), label_rate(epsilon, score))[:, 0])
    return {
        labels: float(np.prod([law[c] for law, c in zip(laws, labels, strict=True)]))
        for labels in product(range(2), repeat=len(laws))
    }


PURE = ChoiceBudget.of(PureDP(EPSILON), 1, DEPTH, 0.5, "add_remove")


@cache
def forest_law(records, kind, label_score, rates=PURE):
    """Return the law of (tree, labels) with every record's coin: structure or estimation."""
    total = Counter()
    for coins in product((True, False), repeat=len(records)):
        structure = tuple(sorted(r for r, coin in zip(records, coins, strict=True) if coin))
        estimation = [r for r, coin in zip(records, coins, strict=True) if not coin]
        law = tree_law(structure, WHOLE, DEPTH, kind, rates.attribute, rates.cut)
        for tree, p in law.items():
            for labels, q in label_law(estimation, tree, label_score, rates.label).items():
                total[tree, labels] += p * q / 2 ** len(records)
    return dict(total)


@pytest.mark.parametrize(("kind", "label_score"), [("normalized", "share"), ("majority", "count")])
def test_the_whole_forest_is_private_over_every_tree_and_labelling(kind, label_score):
    worst = 0.0
    for records in datasets(1):
        one = forest_law(records, kind, label_score)
        assert sum(one.values()) == pytest.approx(1)
        for extra in CELLS[:6:2]:  # the others are these with codes or classes swapped
            other = forest_law(tuple(sorted((*records, extra))), kind, label_score)
            worst = max(worst, worst_ratio(one, other))
    assert 0.1 < worst <= EPSILON * (1 + 1e-9)


@pytest.mark.parametrize(("kind", "label_score"), [("normalized", "share"), ("majority", "count")])
def test_the_whole_forest_is_concentrated_over_every_tree_and_labelling(kind, label_score):
    rho = Fraction(1, 10)
    rates = ChoiceBudget.of(ZCDP(rho), 1, DEPTH, 0.5, "add_remove")
    control = replace(rates, label=12 * rates.label)
    for given, low, high in ((rates, rho / 50, rho), (control, rho, np.inf)):
        pairs = [
            [forest_law(one, kind, label_score, given) for one in (records, (*records, extra))]
            for records in datasets(1)
            for extra in CELLS[:6:2]  # as above
        ]
        worst = max(renyi(one, other, 2) / 2 for one, other in pairs)
        assert low < worst <= high


@pytest.mark.parametrize("score", LABEL_SCORES)
def test_labels_are_private(score):
    tables = [np.array([[a, b, c]]) for a, b, c in product(range(4), repeat=3)]
    worst = 0.0
    for table in tables:
        for c in range(3):
            more = table.copy()
            more[0, c] += 1
            p, q = (
                probabilities(
                    label_gaps(t, score), np.ones((3, 1), bool), label_rate(EPSILON, score)
                )
                for t in (table, more)
            )
            worst = max(worst, np.abs(np.log(p / q)).max())
    assert EPSILON / 4 < worst <= EPSILON * (1 + 1e-9)


def test_count_based_stopping_breaks_it():
    """One record more makes a split possible that was impossible: no ε bounds that ratio.

    The paper's engine with k = 3: a node is split if it has 4 estimation points, and a cut needs
    two structure points. With 5 records no coins allow both, with 6 some do.
    """
    trees = MultinomialTrees(n_trees=2000, min_points=3, max_depth=1, split_pure=True)
    codes = np.array([[0, 0], [1, 2], [0, 1], [1, 0], [0, 2], [1, 1]])
    labels = np.array([0, 1, 0, 1, 0, 1])
    five = trees.grow(DOMAIN, codes[:5], labels[:5], 0).forest
    six = trees.grow(DOMAIN, codes, labels, 0).forest
    assert (five.attribute < 0).all()
    share = (six.attribute[six.roots] >= 0).mean()
    assert 0.15 < share <= 15 / 64  # C(6, 2) / 2**6, less equal pairs of structure points


def test_the_enumeration_sees_count_based_stopping():
    k = 2

    def stopping_law(records):
        """Structure points are fixed; the node is split if more than k estimation points fall."""
        split = structure_law(((0, 0, 0), (1, 2, 1)), "normalized")
        return split if len(records) > k else {WHOLE: 1.0}

    few = (CELLS[0],) * k
    assert worst_ratio(stopping_law(few), stopping_law((*few, CELLS[1]))) == np.inf


@pytest.mark.parametrize("kind", SCORES)
def test_growing_follows_the_enumerated_law(kind):
    records = [CELLS[0], CELLS[0], CELLS[7], CELLS[11], CELLS[4]]
    table = np.array(records)
    n_trees = 6000
    source = PrivateMultinomialTrees(
        epsilon=EPSILON * n_trees * 4, n_trees=n_trees, max_depth=DEPTH, score=kind
    )
    forest = source.grow(DOMAIN, table[:, :2], table[:, 2], noise="research", noise_state=1).forest
    law = structure_law(sorted(records), kind, EPSILON * 4)
    observed = Counter(as_tree(forest, int(root), WHOLE) for root in forest.roots)
    assert observed.keys() <= law.keys()
    keys = sorted(law, key=law.get)
    f_obs, f_exp = np.array([[observed[key], n_trees * law[key]] for key in keys]).T
    rare = np.searchsorted(np.cumsum(f_exp), 20) + 1
    f_obs = np.append(f_obs[:rare].sum(), f_obs[rare:])
    f_exp = np.append(f_exp[:rare].sum(), f_exp[rare:])
    assert stats.chisquare(f_obs, f_exp).pvalue > 1e-4
    other = structure_law(sorted(records), kind, EPSILON * 2)
    wrong = np.array([n_trees * other[key] for key in keys])
    wrong = np.append(wrong[:rare].sum(), wrong[rare:])
    assert stats.chisquare(f_obs, wrong * f_obs.sum() / wrong.sum()).pvalue < 1e-6


def as_tree(forest, node, box):
    attribute = int(forest.attribute[node])
    if attribute < 0:
        return box
    cut = int(max(SIZES) - forest.pattern[node])
    number = int(np.flatnonzero((CANDIDATES.attribute == attribute) & (CANDIDATES.cut == cut))[0])
    low, high = (list(side) for side in box)
    high[attribute] = cut
    left = (tuple(low), tuple(high))
    low, high = (list(side) for side in box)
    low[attribute] = cut
    right = (tuple(low), tuple(high))
    child = int(forest.first_child[node])
    return number, as_tree(forest, child, left), as_tree(forest, child + 1, right)


def test_normalized_gaps_reach_their_range_and_never_leave_it():
    rng = np.random.default_rng(0)
    score = PrivateScore("normalized")
    for scores in (np.zeros((4, 3)), rng.normal(size=(4, 3)) * 1e300, np.eye(4, 3)):
        gaps = score.gaps(scores, np.ones((4, 3), bool))
        assert gaps.min() >= 0
        assert gaps.max() <= GRID
    assert score.gaps(np.zeros((4, 1)), np.ones((4, 1), bool)).max() == 0
    assert score.gaps(np.array([[0.0], [1.0]]), np.ones((2, 1), bool)).tolist() == [[GRID], [0]]


def test_budgets_are_theorem_two():
    trees = PrivateMultinomialTrees(epsilon=1, n_trees=10, max_depth=5)
    rates = trees.rates
    assert (rates.label, rates.attribute, rates.cut) == (Fraction(1, 10), *2 * [Fraction(1, 100)])
    assert rates.budget == PureDP(1)
    both = PrivateMultinomialTrees(epsilon=1, disjoint=True, neighboring="replace_one")
    assert both.rates.label == Fraction(1, 2)


def test_labels_of_leaves_follow_their_law():
    counts = np.tile([2, 5, 1], (30_000, 1))
    for score in LABEL_SCORES:
        labels = private_labels(counts, Fraction(1, 2), score, Bits(np.random.default_rng(0)))
        rate = label_rate(Fraction(1, 2), score)
        law = probabilities(label_gaps(counts[:1], score), np.ones((3, 1), bool), rate)[:, 0]
        assert stats.chisquare(np.bincount(labels), 30_000 * law).pvalue > 1e-4


def test_infinite_budget_takes_the_best():
    table = np.array(CELLS * 3)
    labels = table[:, 0]
    for kind in SCORES:
        source = PrivateMultinomialTrees(float("inf"), n_trees=5, max_depth=1, score=kind)
        forest = source.grow(DOMAIN, table[:, :2], labels).forest
        assert (forest.attribute[forest.roots] == 0).all()


def test_no_records_and_no_cuts_are_served():
    empty = np.empty((0, 2), dtype=int)
    source = PrivateMultinomialTrees(1, n_trees=3, max_depth=2)
    assert source.grow(DOMAIN, empty, np.empty(0, dtype=int)).forest.n_trees == 3
    single = Domain.from_sizes([1, 1], 2)
    forest = source.grow(single, np.zeros((4, 2), int), np.zeros(4, int)).forest
    assert forest.n_leaves == 3
    small = Domain.from_sizes([2, 1], 2)
    deep = PrivateMultinomialTrees(1, n_trees=2, max_depth=6)
    assert deep.grow(small, np.zeros((4, 2), int), np.zeros(4, int)).forest.max_depth == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epsilon": 0}, "epsilon=0"),
        ({"n_trees": 0}, "n_trees=0"),
        ({"max_depth": -1}, "max_depth=-1"),
        ({"score": "gini"}, "score='gini'"),
        ({"structure_share": 2.0}, "structure_share=2.0"),
        ({"neighboring": "both"}, "neighboring='both'"),
    ],
)
def test_parameters_are_checked(change, message):
    with pytest.raises(ValueError, match=message):
        PrivateMultinomialTrees(**({"epsilon": 1} | change))
