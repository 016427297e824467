"""Blocks of the router, runs of the partition, draws of sources, and the engine of growth."""

import tracemalloc
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from grown_sources import SIZES, SOURCES
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats
from scipy.stats import chisquare
from sklearn.tree import DecisionTreeClassifier

from mrf_matrix import Provenance, path_matrix
from mrf_matrix.domain import Domain
from mrf_matrix.forests import (
    BlockTrees,
    BreimanTrees,
    ForestError,
    PrivateMultinomialTrees,
    RandomTrees,
)
from mrf_matrix.forests.assembly import graft
from mrf_matrix.forests.ensembles import balanced_blocks
from mrf_matrix.forests.forest import BLOCK, ROWS
from mrf_matrix.forests.growth import grow as grow_module
from mrf_matrix.forests.growth import level as level_module
from mrf_matrix.forests.growth import private as private_sizes
from mrf_matrix.forests.growth import search as cuts_module
from mrf_matrix.forests.growth.grow import bare_roots, grow_forest, grow_further
from mrf_matrix.forests.growth.growth import (
    CRITERIA,
    GREEDY,
    AllAttributes,
    AllRecords,
    Bootstrap,
    Growth,
    Impurity,
    Partition,
    RandomAttributes,
    Softmax,
    Stopping,
)
from mrf_matrix.forests.growth.level import choose_in_groups, choose_rows, public_labels
from mrf_matrix.forests.growth.private import Candidates, GrowthSizes
from mrf_matrix.forests.growth.records import Items
from mrf_matrix.forests.growth.search import find_code_cuts
from mrf_matrix.forests.nodes import nearest_same_attribute
from mrf_matrix.forests.partition import _check_runs, _check_sets
from mrf_matrix.forests.random_trees import draw_available
from mrf_matrix.mechanisms import PureDP
from mrf_matrix.mechanisms.selection import Bits, Rate, coin_exp, probabilities, select


@pytest.mark.parametrize("n_records", [0, 1, ROWS - 1, ROWS + 1, BLOCK // 5 + 1])
@pytest.mark.parametrize("n_trees", [1, 5])
def test_blocks_join_without_a_seam(n_records, n_trees, slow):
    forest = RandomTrees(n_trees, 2, "binary").grow(Domain.from_sizes([4, 3]), random_state=1)
    codes = np.random.default_rng(0).integers(0, 3, size=(n_records, 2))
    oracle = slow(forest)
    expected = {cell: oracle.route(list(cell)) for cell in np.ndindex(4, 3)}
    leaves = forest.apply(codes)
    assert leaves.shape == (n_records, n_trees)
    assert leaves.dtype == np.int32
    assert leaves.tolist() == [expected[tuple(record)] for record in codes.tolist()]


def test_more_trees_than_a_block_holds():
    forest = RandomTrees(BLOCK + 7, 1).grow(Domain.from_sizes([2, 3]), random_state=0)
    leaves = forest.apply(np.array([[1, 2]]))[0]
    assert (forest.leaf_tree[leaves] == np.arange(forest.n_trees)).all()


# Following codes down -----------------------------------------------------------------------------


def complaint(check, *arguments) -> str | None:
    try:
        check(*arguments)
    except ForestError as error:
        return str(error)
    return None


def test_following_runs_and_following_sets_find_the_same_branches():
    rng = np.random.default_rng(0)
    found = []
    for seed in range(200):
        domain = Domain.from_sizes(rng.integers(2, 7, size=2).tolist())
        forest = RandomTrees(2, 3, "binary").grow(domain, random_state=seed)
        pattern = forest.pattern.copy()
        node = rng.choice(np.flatnonzero(forest.attribute >= 0))
        cut = rng.integers(1, domain.sizes[forest.attribute[node]])
        pattern[node] = max(domain.sizes) - cut
        moved = replace(forest, pattern=pattern, allow_empty=True)
        above, edge = nearest_same_attribute(moved)
        runs = complaint(_check_runs, moved, above, edge)
        sets = complaint(_check_sets, moved, above, edge, np.ones(moved.n_nodes, dtype=bool))
        assert runs == sets
        found.append(runs is not None)
    assert 0 < sum(found) < len(found)


# Sources ------------------------------------------------------------------------------------------


def p_value(drawn: np.ndarray, outcomes: int) -> float:
    """Return the chi-square p-value of the drawn outcomes against the uniform law."""
    return float(chisquare(np.bincount(drawn, minlength=outcomes)).pvalue)


def test_negative_control_a_two_per_cent_bias_of_the_draw_is_rejected():
    available = np.ones((200_000, 3), dtype=bool)
    drawn = draw_available(available, np.random.default_rng(6))
    assert p_value(drawn, 3) > 1e-3
    moved = np.where((drawn == 0) & (np.random.default_rng(7).random(len(drawn)) < 0.02), 1, drawn)
    assert p_value(moved, 3) < 1e-6


# Trees over blocks -------------------------------------------------------------------------------


@st.composite
def domains_and_blocks(draw):
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    order = draw(st.permutations(range(len(sizes))))
    used = draw(st.integers(1, len(sizes)))
    n_blocks = draw(st.integers(1, used + 2))
    return sizes, balanced_blocks(order[:used], sizes, n_blocks), order[:used]


@given(drawn=domains_and_blocks())
def test_leaves_partition_and_lie_in_the_order_of_codes(drawn):
    sizes, blocks, used = drawn
    assert sorted(i for block in blocks for i in block) == sorted(used)
    forest = BlockTrees(blocks).grow(Domain.from_sizes(sizes))
    cells = np.stack(np.unravel_index(np.arange(np.prod(sizes)), sizes), axis=1)
    leaves = forest.apply(cells)
    assert leaves.shape == (len(cells), len(blocks) + 1)
    start = 0
    for tree, block in enumerate(blocks):
        fans = [sizes[i] for i in block]
        expected = start + np.ravel_multi_index(tuple(cells[:, list(block)].T), fans)
        np.testing.assert_array_equal(leaves[:, tree], expected)
        start += int(np.prod(fans))
    assert (leaves[:, -1] == start).all()
    assert forest.n_leaves == start + 1
    dense = path_matrix(forest).to_dense()
    np.testing.assert_array_equal(dense.sum(axis=0), len(blocks) + 1)
    np.testing.assert_array_equal(np.flatnonzero(dense[:, 0]), np.sort(leaves[0]))


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_blocks_are_balanced(count):
    sizes = [2, 2, 2, 2, 4, 4, 8, 1, 3]
    blocks = balanced_blocks(range(9), sizes, count)
    weights = [np.log2([sizes[i] for i in block]).sum() for block in blocks]
    assert max(weights) - min(weights) <= 3  # no more than the largest attribute


def test_more_blocks_than_attributes_leave_none_empty():
    assert sorted(balanced_blocks([2, 0], [3, 9, 2], 5)) == [(0,), (2,)]
    with pytest.raises(ValueError, match="n_blocks=0"):
        balanced_blocks([0], [2], 0)


# Private growth -----------------------------------------------------------------------------------

DOMAIN = Domain.from_sizes([3, 4, 2], 2)


def records(n, seed=0):
    rng = np.random.default_rng(seed)
    return np.stack([rng.integers(0, s, n) for s in DOMAIN.sizes], axis=1), rng.integers(0, 2, n)


def peak(grow):
    tracemalloc.start()
    grow()
    size = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return size


@pytest.mark.parametrize("disjoint", [False, True])
def test_memory_does_not_grow_with_records_times_trees(monkeypatch, disjoint):
    monkeypatch.setattr(private_sizes, "POINTS", 1 << 12)
    codes, labels = records(20_000)

    def grown(n_trees):
        trees = PrivateMultinomialTrees(1, n_trees, 2, structure_share=0.5, disjoint=disjoint)
        return lambda: trees.grow(DOMAIN, codes, labels)

    grown(1)()  # what is imported and kept once
    assert peak(grown(24)) < 1.5 * peak(grown(3))


@pytest.mark.parametrize("points", [1, 100, 1 << 20])
def test_the_forest_does_not_tell_how_many_trees_were_grown_together(monkeypatch, points):
    monkeypatch.setattr(private_sizes, "POINTS", points)
    codes, labels = records(40)
    grown = PrivateMultinomialTrees(1, 5, 6).grow(DOMAIN, codes, labels)
    forest = grown.forest
    assert np.array_equal(forest.roots, np.arange(5))
    assert np.array_equal(np.concatenate(forest.levels), np.arange(forest.n_nodes))


@pytest.mark.parametrize("points", [1, 100, 1 << 20])
def test_leaf_counts_are_of_the_points_that_the_structure_has_not_seen(monkeypatch, points):
    monkeypatch.setattr(private_sizes, "POINTS", points)
    codes, labels = records(200)
    grown = PrivateMultinomialTrees(1, 7, 3, structure_share=0.001).grow(DOMAIN, codes, labels)
    leaf = grown.forest.apply(codes)
    k = DOMAIN.n_classes
    all_of_them = np.zeros((grown.forest.n_leaves, k), dtype=int)
    np.add.at(all_of_them, (leaf, labels[:, None]), 1)
    assert (grown.leaf_counts <= all_of_them).all()
    assert grown.leaf_counts.sum() > 0.9 * 7 * 200
    nothing = PrivateMultinomialTrees(1, 7, 3).grow(DOMAIN, codes, labels)
    assert nothing.leaf_counts.sum() == 0


def test_sizes_bound_what_is_grown():
    for depth in range(6):
        bound = GrowthSizes(DOMAIN, 4, depth)
        forest = PrivateMultinomialTrees(1, 4, depth).grow(DOMAIN, *records(30)).forest
        assert forest.n_leaves <= bound.leaves
    assert GrowthSizes(DOMAIN, 4, 10**9).leaves == 4 * 24
    assert forest.n_leaves > GrowthSizes(DOMAIN, 4, 2).leaves


# Growth -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", SOURCES, ids=repr)
def test_equal_seeds_give_equal_forests_on_any_number_of_threads(source, data, monkeypatch):
    domain, codes, labels = data
    monkeypatch.setattr(grow_module, "MOST_POINTS", 1500)  # four blocks of three trees
    one = source.grow(domain, codes, labels, 3, n_jobs=1)
    two = source.grow(domain, codes, labels, 3, n_jobs=2)
    assert one.forest == two.forest
    np.testing.assert_array_equal(one.leaf_counts, two.leaf_counts)
    assert one.forest != source.grow(domain, codes, labels, 4).forest


def test_greedy_trees_do_not_depend_on_chunks(data, monkeypatch):
    labels = data[2]
    rng = np.random.default_rng(1)
    fine = np.stack([rng.permutation(400) for _ in range(3)], axis=1)
    domain = Domain.from_sizes([400] * 3, data[0].n_classes)
    # deeper nodes have cuts of equal worth, which are drawn
    growth = Growth(AllRecords(), AllAttributes(), GREEDY, Stopping(20, "sides", max_depth=4))
    whole = grow_forest(domain, fine, labels, growth, 2, random_state=0).forest
    monkeypatch.setattr(level_module, "CHUNK", 64)
    assert grow_forest(domain, fine, labels, growth, 2, random_state=0).forest == whole


@pytest.mark.parametrize("criterion", ["gini", "entropy"])
@pytest.mark.parametrize("least", [1, 6])
def test_greedy_trees_are_scikit_learns_on_raw_values(criterion, least):
    """One code per distinct value, thresholds halfway: the same cells of training records."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(300, 4))
    X[:, 3] = np.round(X[:, 3], 1)
    y = (X[:, 0] + X[:, 1] ** 2 + 0.3 * rng.normal(size=300) > 0.5).astype(int)
    codes = np.empty(X.shape, dtype=int)
    centres = []
    for i, column in enumerate(X.T):
        values, codes[:, i] = np.unique(column, return_inverse=True)
        centres.append(values)
    domain = Domain.from_sizes([len(values) for values in centres], 2)
    growth = Growth(
        AllRecords(), AllAttributes(), GREEDY, Stopping(least, "sides"), Impurity(criterion)
    )
    ours = grow_forest(domain, codes, y, growth, 1, centres=centres, random_state=0).forest
    theirs = DecisionTreeClassifier(
        criterion=criterion, min_samples_leaf=least, random_state=0
    ).fit(X, y)
    # equally good cuts may be chosen otherwise: compare the two roots, and the training error
    root = int(ours.roots[0])
    threshold = max(domain.sizes) - int(ours.pattern[root])
    assert ours.attribute[root] == theirs.tree_.feature[0]
    values = centres[int(ours.attribute[root])]
    assert (values[:threshold] <= theirs.tree_.threshold[0]).all()
    assert (values[threshold:] > theirs.tree_.threshold[0]).all()
    leaves = ours.apply(codes)[:, 0]
    counts = np.bincount(leaves * 2 + y).reshape(-1, 2) if y[-1] >= 0 else None
    right = counts.max(axis=1).sum() / 300
    assert right == pytest.approx(theirs.score(X, y), abs=0.02)
    if least == 1:
        assert right == 1


def test_thresholds_lie_halfway_between_values():
    codes = np.array([[0], [0], [3], [3]])
    centres = [np.array([0.0, 10.0, 11.0, 12.0])]
    growth = Growth(AllRecords(), AllAttributes(), GREEDY, Stopping(1, "sides"))
    forest = grow_forest(
        Domain.from_sizes([4], 2), codes, np.array([0, 0, 1, 1]), growth, 1, centres=centres
    ).forest
    assert forest.apply(np.arange(4)[:, None]).ravel().tolist() == [0, 1, 1, 1]
    middle = grow_forest(Domain.from_sizes([4], 2), codes, np.array([0, 0, 1, 1]), growth, 1).forest
    assert middle.apply(np.arange(4)[:, None]).ravel().tolist() == [0, 0, 1, 1]


def test_nominal_attributes_are_cut_one_code_against_the_rest():
    codes = np.array([[0], [1], [2], [3]] * 5)
    labels = (codes[:, 0] == 2).astype(int)
    growth = Growth(AllRecords(), AllAttributes(), GREEDY, Stopping(1))
    domain = Domain.from_sizes([4], 2)
    forest = grow_forest(domain, codes, labels, growth, 1, nominal=("x0",)).forest
    assert forest.n_leaves == 2
    assert forest.apply(np.arange(4)[:, None]).ravel().tolist() == [0, 0, 1, 0]
    assert grow_forest(domain, codes, labels, growth, 1).forest.n_leaves == 3


@pytest.mark.parametrize("sizes", [(2,), (1, 3), (4, 1, 2)])
def test_candidates_are_all_thresholds(sizes):
    candidates = Candidates.of(sizes)
    expected = [(i, cut) for i, size in enumerate(sizes) for cut in range(1, size)]
    found = zip(candidates.attribute.tolist(), candidates.cut.tolist(), strict=True)
    assert list(found) == expected


# Grown further -----------------------------------------------------------------------------------
GREEDY_TREES = BreimanTrees(6, "entropy", 1, max_features=4)


@pytest.fixture(scope="module")
def fewer_records():
    rng = np.random.default_rng(0)
    codes = np.stack([rng.integers(0, size, 300) for size in SIZES], axis=1)
    labels = (codes[:, 0] + codes[:, 2] + rng.integers(0, 4, 300)) // 5
    return Domain.from_sizes(SIZES, int(labels.max()) + 1), codes, labels


def further(forest, codes, labels, source, random_state=0):
    return grow_further(
        forest, codes, labels, source.growth, nominal=source.nominal, random_state=random_state
    )


def test_no_split_is_undone_and_leaves_are_cut_by_the_new_records_only(fewer_records, all_cells):
    domain, codes, labels = fewer_records
    cells = all_cells(SIZES)
    before = further(bare_roots(domain, 6), codes[:60], labels[:60], GREEDY_TREES)
    after = further(before, codes[60:], labels[60:], GREEDY_TREES)
    np.testing.assert_array_equal(after.attribute[after.roots], before.attribute[before.roots])
    old, new = before.apply(cells).ravel(), after.apply(cells).ravel()
    assert len(np.unique(new * before.n_leaves + old)) == after.n_leaves > before.n_leaves
    pure = np.zeros(240, dtype=int)
    unchanged = further(before, codes[60:], pure, GREEDY_TREES)
    np.testing.assert_array_equal(unchanged.apply(cells), before.apply(cells))


def test_the_depth_limit_counts_the_splits_above(fewer_records):
    domain, codes, labels = fewer_records
    source = replace(GREEDY_TREES, max_depth=3)
    forest = further(bare_roots(domain, 6), codes, labels, replace(GREEDY_TREES, max_depth=2))
    assert forest.max_depth == 2
    for _ in range(3):
        forest = further(forest, codes, labels, source)
    assert forest.max_depth == 3


@given(data=st.data())
def test_a_hung_tree_splits_its_leaf_alone(data, any_forest, all_cells):
    forest = data.draw(any_forest)
    below = RandomTrees(forest.n_leaves, 1).grow(forest.domain, data.draw(st.integers(0, 9)))
    if any(size == 1 for size in forest.domain.sizes):
        return
    below, forest = replace(below, allow_empty=True), replace(forest, allow_empty=True)
    cells = all_cells(forest.domain.sizes)
    leaf, inside = forest.apply(cells), below.apply(cells)
    both = graft(forest, below).apply(cells)
    below_here = np.take_along_axis(inside, leaf, axis=1)
    # leaves are numbered left to right, as the trees below are: by leaf, then within its tree
    np.testing.assert_array_equal(both, below_here)


def test_what_cannot_be_hung_is_refused():
    domain = Domain.from_sizes([3, 2])
    forest = RandomTrees(2, 1).grow(domain, random_state=0)
    with pytest.raises(ValueError, match="subtrees has 1 trees: expected"):
        graft(forest, RandomTrees(1, 1).grow(domain))
    below = RandomTrees(forest.n_leaves, 0).grow(domain)
    np.testing.assert_array_equal(
        graft(forest, below).apply(np.array([[1, 1]])), forest.apply(np.array([[1, 1]]))
    )
    paid = replace(below, provenance=Provenance.spent(PureDP(1)))
    (charge,) = graft(forest, paid).provenance.spendings  # what it cost is kept
    assert charge.budget == PureDP(1)


# Choices of splits --------------------------------------------------------------------------------

TREES = 20_000
SPLIT_SIZES = (4, 3, 5)


def split_p_value(observed, expected):
    expected = np.asarray(expected, dtype=float)
    if (np.asarray(observed)[expected == 0] > 0).any():
        return 0.0
    kept = expected > 0
    if kept.sum() == 1:
        return 1.0
    return stats.chisquare(np.asarray(observed)[kept], expected[kept]).pvalue


@pytest.fixture(scope="module")
def split_records():
    rng = np.random.default_rng(3)
    codes = np.stack([rng.integers(0, size, 60) for size in SPLIT_SIZES], axis=1)
    labels = (codes[:, 0] + rng.integers(0, 3, 60) > 3).astype(int) + (codes[:, 2] > 3)
    return codes, labels


def law(codes, labels, b1, b2):
    """Return the root's law over (attribute, cut) straight from the paper's formulas."""
    tables = []
    for i, size in enumerate(SPLIT_SIZES):
        counts = np.stack([np.bincount(labels[codes[:, i] == c], minlength=3) for c in range(size)])
        left = np.cumsum(counts, axis=0)[:-1]
        tables.append(Impurity("gini").decrease(left, counts.sum(axis=0) - left))

    def softmax(scores, b):
        scaled = (scores - scores.min()) / (scores.max() - scores.min())
        if np.isinf(b):
            return (scaled == 1) / (scaled == 1).sum()
        weights = np.exp(b / 2 * scaled)
        return weights / weights.sum()

    of_attribute = softmax(np.array([table.max() for table in tables]), b1)
    return np.concatenate([p * softmax(t, b2) for p, t in zip(of_attribute, tables, strict=True)])


def roots(codes, labels, b1, b2, seed):
    growth = Growth(AllRecords(), AllAttributes(), Softmax(b1, b2), Stopping(1, max_depth=1))
    domain = Domain.from_sizes(SPLIT_SIZES, 3)
    forest = grow_forest(domain, codes, labels, growth, TREES, random_state=seed).forest
    threshold = max(SPLIT_SIZES) - forest.pattern[forest.roots]
    first = np.cumsum([0, *(size - 1 for size in SPLIT_SIZES)])
    number = first[forest.attribute[forest.roots]] + threshold - 1
    return np.bincount(number, minlength=first[-1])


@pytest.mark.parametrize(("b1", "b2"), [(0, 0), (3, 7), (10, 10), (np.inf, 2), (np.inf, np.inf)])
def test_attributes_and_cuts_follow_the_two_softmax_laws(split_records, b1, b2):
    counts = roots(*split_records, b1, b2, seed=1)
    assert split_p_value(counts, TREES * law(*split_records, b1, b2)) > 1e-4


@pytest.mark.parametrize(("b1", "b2"), [(4, 7), (3, 8)])
def test_a_slightly_different_law_is_rejected(split_records, b1, b2):
    counts = roots(*split_records, 3, 7, seed=1)
    assert split_p_value(counts, TREES * law(*split_records, b1, b2)) < 1e-6


def test_rows_and_groups_choose_alike():
    rng = np.random.default_rng(0)
    scores = np.array([0.0, 1.0, 3.0, -np.inf, 2.0])
    n = 40_000
    b, uniform = np.full(n, 2.0), rng.random(n)
    rows = choose_rows(np.tile(scores[:, None], n), b, uniform)
    some = np.isfinite(scores)
    groups = choose_in_groups(
        np.repeat(np.arange(n), some.sum()), np.tile(scores[some], n), b, uniform, n
    )
    position = np.flatnonzero(some)[groups - some.sum() * np.arange(n)]
    assert (rows == position).mean() > 0.9999  # up to rounding of the running sums
    weights = np.where(some, np.exp(np.where(some, scores, 0) / 3), 0)
    assert split_p_value(np.bincount(rows, minlength=5), n * weights / weights.sum()) > 1e-4


def test_equal_scores_are_chosen_uniformly_whatever_b():
    scores = np.zeros((3, 30_000))
    for b in (0.0, 5.0, np.inf):
        rng = np.random.default_rng(1)
        rows = choose_rows(scores, np.full(30_000, b), rng.random(30_000))
        assert split_p_value(np.bincount(rows), [10_000] * 3) > 1e-4


def test_no_option_gives_minus_one():
    scores = np.array([[-np.inf, 0.0]])
    assert choose_rows(scores, np.ones(2), np.zeros(2)).tolist() == [-1, 0]
    empty = np.empty(0)
    assert (
        choose_in_groups(empty.astype(int), empty, np.ones(2), np.zeros(2), 2).tolist() == [-1] * 2
    )


@pytest.mark.parametrize("b3", [0.0, 4.0, np.inf])
def test_labels_follow_their_softmax(b3):
    counts = np.tile([3, 1, 3, 0], (40_000, 1))
    labels = public_labels(counts, b3, np.random.default_rng(0))
    shares = np.array([3, 1, 3, 0]) / 7
    weights = (shares == shares.max()) if np.isinf(b3) else np.exp(b3 * shares / 2)
    weights = weights / weights.sum()
    assert split_p_value(np.bincount(labels, minlength=4), 40_000 * weights) > 1e-4
    if np.isfinite(b3):
        wrong = np.exp((b3 + 0.5) * shares / 2)
        wrong /= wrong.sum()
        assert split_p_value(np.bincount(labels, minlength=4), 40_000 * wrong) < 1e-3


@pytest.mark.parametrize("noise", [Bits(), Bits(np.random.default_rng(5))])
def test_coins_of_exp_have_their_probability(noise):
    n, shift = 240_000, 20  # the control is 14 standard deviations off: true coins pass it
    for x in (0.0, 0.3, 1.0, 2.5):
        heads = coin_exp(np.full(n, round(x * 2**shift)), shift, noise).sum()
        assert abs(heads - n * np.exp(-x)) <= 5 * np.sqrt(n * np.exp(-x) * (1 - np.exp(-x)))
    wrong = abs(heads - n * np.exp(-2.4)) / np.sqrt(n * np.exp(-2.4))
    assert wrong > 5


def test_selection_follows_its_law_and_not_another():
    gaps = np.array([[0], [3], [10], [1]]).repeat(40_000, axis=1)
    options = np.array([[True], [True], [True], [False]]).repeat(40_000, axis=1)
    rate = Rate(1 << 18, 20)
    rows = select(gaps, options, rate, Bits(np.random.default_rng(0)))
    observed = np.bincount(rows, minlength=4)
    expected = 40_000 * probabilities(gaps[:, :1], options[:, :1], rate)[:, 0]
    assert split_p_value(observed, expected) > 1e-4
    other = 40_000 * probabilities(gaps[:, :1], options[:, :1], Rate(1 << 18, 19))[:, 0]
    assert split_p_value(observed, other) < 1e-6


def test_infinite_rate_is_uniform_among_the_best():
    gaps = np.array([[0], [0], [1]]).repeat(20_000, axis=1)
    options = np.ones_like(gaps, dtype=bool)
    rows = select(gaps, options, Rate(None), Bits(np.random.default_rng(0)))
    assert split_p_value(np.bincount(rows, minlength=3), [10_000, 10_000, 0]) > 1e-4


def test_attribute_laws_draw_distinct_attributes_of_the_right_number():
    rng = np.random.default_rng(0)
    n, d = 20_000, 9
    for attributes, number in (
        (RandomAttributes(), np.full(1, 3)),
        (RandomAttributes(5), np.full(1, 5)),
    ):
        drawn = attributes.draw(n, d, rng)
        found = (drawn >= 0).sum(axis=0)
        assert (found == number).all()
        for column in drawn.T[:200]:
            kept = column[column >= 0]
            assert len(set(kept.tolist())) == len(kept)
        seen = np.bincount(drawn[drawn >= 0], minlength=d)
        assert split_p_value(seen, np.full(d, seen.sum() / d)) > 1e-4
    assert AllAttributes().draw(3, d, rng) is None


def test_points_partition_or_bootstrap():
    rng = np.random.default_rng(0)
    (tree, record), (tree_e, record_e) = Partition(3.0).draw(1000, 20, rng)
    both = np.sort(np.concatenate([tree * 1000 + record, tree_e * 1000 + record_e]))
    np.testing.assert_array_equal(both, np.arange(20_000))
    assert stats.binomtest(len(tree), 20_000, 0.75).pvalue > 1e-4
    (tree, record), same = Bootstrap().draw(50, 400, rng)
    assert same[1] is record
    assert (np.bincount(tree) == 50).all()
    assert split_p_value(np.bincount(record), [400] * 50) > 1e-4


def test_exact_bits_refuse_a_seed():
    with pytest.raises(ValueError, match="cannot be seeded"):
        Bits.of("exact", 3)
    with pytest.raises(ValueError, match="expected 'exact' or 'research'"):
        Bits.of("fast")


# Cuts of a node ----------------------------------------------------------------------------------


ROUTES = ("_count_table", "_sum_table", "_sorted_runs")


def random_items(seed, n_nodes, n_classes, size, n, estimation, criterion="gini"):
    """Return items sorted by (node, slot) with random codes; node 0 stays empty sometimes."""
    rng = np.random.default_rng(seed)
    slots = n_classes + estimation
    node = rng.integers(0, n_nodes, n)
    slot = rng.integers(0, slots, n)
    order = np.lexsort((slot, node))
    items = Items(
        np.arange(n), node[order], slot[order], n_nodes, n_classes, slots, Impurity(criterion)
    )
    return items, rng.integers(0, size, n).astype(np.int32)


def purity(counts, criterion):
    n = counts.sum()
    return (
        n * (1 - Impurity(criterion).values(counts))
        if criterion == "gini"
        else -n * Impurity(criterion).values(counts)
    )


def naive(items, codes, criterion, least, equal=False):
    """Return {(node, low, high): score} by looking at one candidate after the other."""
    found = {}
    for node in range(items.n_nodes):
        here = items.node == node
        is_class = here & (items.slot < items.n_classes)
        present = np.unique(codes[is_class])
        pairs = [(c, c) for c in present] if equal else list(pairwise(present))
        for low, high in pairs:
            left = codes == low if equal else codes <= low
            sides = [
                np.bincount(items.slot[is_class & side], minlength=items.n_classes)
                for side in (left, ~left)
            ]
            if not sides[0].sum() or not sides[1].sum():
                continue
            judged = here & (items.slot == items.n_classes)
            if items.n_slots == items.n_classes:
                judged = here
            if min((judged & left).sum(), (judged & ~left).sum()) < least:
                continue
            found[node, int(low), int(high)] = sum(purity(side, criterion) for side in sides)
    return found


def as_dict(found):
    cuts = found.cuts()
    return {
        (int(n), int(a), int(b)): s
        for n, a, b, s in zip(cuts.node, cuts.low, cuts.high, cuts.score, strict=True)
    }


def check(found, expected, n_nodes):
    got = as_dict(found)
    assert got.keys() == expected.keys()
    np.testing.assert_allclose(
        [got[key] for key in expected], list(expected.values()), rtol=1e-9, atol=1e-9
    )
    best = found.best()
    for node in range(n_nodes):
        scores = [s for key, s in expected.items() if key[0] == node]
        np.testing.assert_allclose(best[node], max(scores, default=-np.inf), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("estimation", [False, True])
@given(seed=st.integers(0, 10**6), least=st.integers(1, 3))
@example(seed=1573, least=1)  # a slot for estimation points, and none of them
def test_routes_agree_with_counting(route, criterion, estimation, seed, least):
    rng = np.random.default_rng(seed)
    n_nodes, k, size = rng.integers(1, 6), rng.integers(1, 5), rng.integers(2, 9)
    n = int(rng.integers(1, 60))
    items, codes = random_items(seed, int(n_nodes), int(k), size, n, estimation, criterion)
    found = getattr(cuts_module, route)(items, codes, int(size), least)
    check(found, naive(items, codes, criterion, least), items.n_nodes)


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("estimation", [False, True])
@given(seed=st.integers(0, 10**6), least=st.integers(1, 3))
def test_one_code_cuts_agree_with_counting(criterion, estimation, seed, least):
    items, codes = random_items(seed, 4, 3, 5, 40, estimation, criterion)
    found = find_code_cuts(items, codes, 5, least)
    check(found, naive(items, codes, criterion, least, equal=True), 4)


def test_the_oracle_sees_a_wrong_score():
    items, codes = random_items(0, 2, 2, 4, 30, False)
    expected = naive(items, codes, "gini", 1)
    expected[next(iter(expected))] += 0.01
    with pytest.raises(AssertionError):
        check(cuts_module.find_cuts(items, codes, 4), expected, 2)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_scores_order_cuts_as_impurity_decreases_do(criterion):
    impurity = Impurity(criterion)
    rng = np.random.default_rng(0)
    whole = rng.integers(0, 9, 4) + 1
    left = rng.integers(0, whole, size=(50, 4))
    decrease = impurity.decrease(left, whole - left)
    scores = [purity(a, criterion) + purity(whole - a, criterion) for a in left]
    slope = np.diff(scores) / np.where(np.diff(decrease) == 0, np.nan, np.diff(decrease))
    np.testing.assert_allclose(slope[np.isfinite(slope)], whole.sum(), rtol=1e-6)
    assert decrease.min() > -1e-12
