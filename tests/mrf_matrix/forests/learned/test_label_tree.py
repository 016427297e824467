"""Cells of a tree of cuts, as a table and as a forest: what going down record by record finds."""

import tracemalloc
from collections import Counter
from contextlib import contextmanager
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from mrf_matrix import Attribute, Domain
from mrf_matrix.forests import label_tree
from mrf_matrix.forests.label_tree import (
    MOST_CODES,
    MOST_OF_ONE,
    CellTable,
    Cut,
    LabelTree,
    public_cuts,
    usable_attributes,
)


def every_code(sizes):
    return np.array(list(product(*map(range, sizes))))


def cut_of(attribute, *sides):
    """Return a cut from 0 or 1 for each code."""
    return Cut.of(attribute, np.array(sides, dtype=bool))


def tree_of(cuts, *labels, counted=False):
    """Return a tree; `counted`: with counts of its cells, all the same."""
    counts = np.zeros((len(labels), 2), dtype=np.int64) if counted else None
    return LabelTree(tuple(cuts), np.array(labels, dtype=np.int64), counts)


@st.composite
def sides_of(draw, size):
    """Draw sides with a code on either."""
    one, other = draw(st.permutations(range(size)))[:2]
    sides = draw(st.lists(st.booleans(), min_size=size, max_size=size))
    sides[one], sides[other] = False, True
    return sides


@st.composite
def trees(draw):
    """Draw sizes, and a tree of up to 16 cells over them; cuts of few attributes repeat.

    Some have counts, which tell cells of the same label apart.
    """
    sizes = draw(st.lists(st.integers(2, 5), min_size=1, max_size=4))
    n_cells = 1 << draw(st.integers(1, 4))
    which = draw(st.lists(st.integers(0, len(sizes) - 1), min_size=n_cells - 1, max_size=n_cells))
    cuts = [cut_of(i, *draw(sides_of(sizes[i]))) for i in which[: n_cells - 1]]
    few = draw(st.lists(st.sampled_from(cuts), max_size=3))
    cuts = draw(st.permutations([*few, *cuts]))[: n_cells - 1]
    labels = st.integers(0, draw(st.integers(0, 3)))
    said = draw(st.lists(labels, min_size=n_cells, max_size=n_cells))
    return sizes, tree_of(cuts, *said, counted=draw(st.booleans()))


def cell_of(tree, codes):
    """Return the cell of one record, by going down: an upper side is the second child."""
    node = 0
    while node < len(tree.cuts):
        cut = tree.cuts[node]
        node = 2 * node + (2 if cut.upper[codes[cut.attribute]] else 1)
    return node - len(tree.cuts)


def label_of(tree, codes):
    return int(tree.labels[cell_of(tree, codes)])


def same_as(tree, codes):
    """Return the first cell that says the same as that of a record: itself, where it has counts."""
    if tree.counts is not None:
        return cell_of(tree, codes)
    return tree.labels.tolist().index(label_of(tree, codes))


@given(trees())
def test_cells_are_those_of_going_down(drawn):
    sizes, tree = drawn
    codes = every_code(sizes)
    assert tree.n_cells == len(tree.labels) == 2**tree.depth
    assert tree.cells(codes).tolist() == [cell_of(tree, row) for row in codes.tolist()]


@given(trees())
def test_its_attributes_are_those_on_which_cells_depend(drawn):
    sizes, tree = drawn
    said = np.array([same_as(tree, row) for row in every_code(sizes).tolist()]).reshape(sizes)
    told = [i for i in range(len(sizes)) if (said != np.take(said, [0], axis=i)).any()]
    assert set(told) <= set(tree.attributes) <= {cut.attribute for cut in tree.cuts}
    if not told:
        assert tree.attributes == (tree.cuts[0].attribute,)


@given(trees())
def test_the_table_has_the_cell_of_every_record(drawn):
    sizes, tree = drawn
    places, cells = tree.table.places, tree.table.numbers
    assert cells.size <= 2 ** len(tree.cuts)
    assert [len(place) for place in places] == [sizes[i] for i in tree.attributes]
    for codes in every_code(sizes).tolist():
        row = [place[codes[i]] for i, place in zip(tree.attributes, places, strict=True)]
        assert cells[tuple(row)] == same_as(tree, codes)


@given(trees())
def test_codes_share_a_row_of_the_table_if_no_cut_tells_them_apart(drawn):
    sizes, tree = drawn
    places, cells = tree.table.places, tree.table.numbers
    for i, place, length in zip(tree.attributes, places, cells.shape, strict=True):
        alike = [tuple(cut.upper[code] for cut in tree.cuts if cut.attribute == i)
                 for code in range(sizes[i])]  # fmt: skip
        assert length <= len(set(alike))
        assert len(set(zip(alike, place.tolist(), strict=True))) == len(set(alike))
        assert sorted(set(place.tolist())) == list(range(length))


@given(trees())
def test_the_forest_is_a_partition_with_the_cell_of_every_record(drawn):
    sizes, tree = drawn
    codes = every_code(sizes)
    forest, cells = tree.forest(Domain.from_sizes(sizes))
    leaves = forest.apply(codes[:, tree.attributes])[:, 0]
    assert forest.n_trees == 1
    assert len(cells) == forest.n_leaves <= tree.n_cells
    assert set(leaves.tolist()) == set(range(forest.n_leaves))  # none is empty
    assert [cells[leaf] for leaf in leaves] == [same_as(tree, row) for row in codes.tolist()]


def leaves_below(forest, node):
    """Return the numbers of leaves below a node."""
    if forest.attribute[node] < 0:
        return [int(forest.leaf_index[node])]
    children = range(forest.first_child[node], forest.first_child[node] + 2)
    return [leaf for child in children for leaf in leaves_below(forest, child)]


@given(trees())
def test_of_the_forest_no_cut_can_be_left_out(drawn):
    """Below every one are cells that differ, and no more cuts than the tree has on a path."""
    sizes, tree = drawn
    forest, cells = tree.forest(Domain.from_sizes(sizes))
    assert forest.max_depth <= tree.depth
    assert (forest.n_leaves == 1) == (len(set(cells)) == 1)
    for node in np.flatnonzero(forest.attribute >= 0):
        assert len({cells[leaf] for leaf in leaves_below(forest, node)}) > 1


@given(trees())
def test_with_counts_every_cell_that_is_reached_is_a_leaf_whatever_it_is_labelled(drawn):
    sizes, tree = drawn
    counted = tree_of(tree.cuts, *tree.labels, counted=True)
    reached = {cell_of(tree, row) for row in every_code(sizes).tolist()}
    _, cells = counted.forest(Domain.from_sizes(sizes))
    assert sorted(reached) == cells, "from the lowest sides to the uppermost"
    told = {tree.cuts[node].attribute for node in parents_of_two(tree, reached)}
    assert set(counted.attributes) == (told or {tree.cuts[0].attribute})
    _, few = tree_of(tree.cuts, *[0] * tree.n_cells).forest(Domain.from_sizes(sizes))
    assert few == [0], "the negative control: without counts all of one label are one"


def parents_of_two(tree, reached):
    """Return the nodes with a cell that is reached on either side."""
    below = {node: {node - len(tree.cuts)} & reached for node in range(2 * len(tree.cuts) + 1)}
    for node in reversed(range(len(tree.cuts))):
        below[node] = below[2 * node + 1] | below[2 * node + 2]
    inner = range(len(tree.cuts))
    return [node for node in inner if below[2 * node + 1] and below[2 * node + 2]]


@given(trees(), st.data())
def test_the_laws_notice_a_label_and_a_side_that_are_exchanged(drawn, data):
    """The negative control: of a changed tree table and forest are not those of the first."""
    sizes, tree = drawn
    codes = every_code(sizes)
    reached = sorted({cell_of(tree, row) for row in codes.tolist()})
    wrong = tree.labels.copy()
    wrong[data.draw(st.sampled_from(reached))] += 1
    other = LabelTree(tree.cuts, wrong, tree.counts)
    forest, cells = other.forest(Domain.from_sizes(sizes))
    leaves = forest.apply(codes[:, other.attributes])[:, 0]
    said = [wrong[cells[leaf]] for leaf in leaves]
    assert said != [label_of(tree, row) for row in codes.tolist()]
    root = tree.cuts[0]
    turned = (Cut.of(root.attribute, ~root.upper), *tree.cuts[1:])
    cells = LabelTree(turned, tree.labels).cells(codes)
    assert not (cells == tree.cells(codes)).any()


def test_attributes_of_many_codes_take_little_memory():
    size, generator = 1 << 16, np.random.default_rng(0)
    cuts = [Cut.of(i % 2, generator.permutation(size) < size // 2) for i in range(7)]
    tree = tree_of(cuts, *range(8))
    codes = generator.integers(0, size, (500, 2))
    tracemalloc.start()
    try:
        places, table = tree.table.places, tree.table.numbers
        cells = tree.cells(codes)
        forest, of_leaves = tree.forest(Domain.from_sizes([size] * 2))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 40e6
    assert table.shape == (2**4, 2**3)
    assert cells.tolist() == [cell_of(tree, row) for row in codes.tolist()]
    assert table[places[0][codes[:, 0]], places[1][codes[:, 1]]].tolist() == cells.tolist()
    assert [
        of_leaves[leaf] for leaf in forest.apply(codes[:, tree.attributes])[:, 0]
    ] == cells.tolist()


# Tables of cells ---------------------------------------------------------------------------------


SIZES = (3, 4, 2, 5)
EVERY = np.array(list(product(*map(range, SIZES))))


def grown(seed, depth=5):
    """Return a tree of random cuts, with counts, so that no cells are the same."""
    generator = np.random.default_rng(seed)
    cuts = []
    for _ in range(2**depth - 1):
        i = int(generator.integers(len(SIZES)))
        cuts.append(Cut.of(i, np.arange(SIZES[i]) >= generator.integers(1, SIZES[i])))
    n = 2**depth
    return LabelTree(tuple(cuts), generator.integers(0, 2, n), np.ones((n, 2), dtype=np.int64))


def test_a_table_looks_cells_up_and_weighs_codes_alike():
    places = (np.array([0, 1, 1]), np.array([0, 0, 0, 1]))
    table = CellTable((0, 3), places, np.array([[2, 0], [1, 1]]))
    codes = np.array([[0, 9, 9, 0], [1, 9, 9, 3], [0, 9, 9, 3]])
    assert table.cells(codes).tolist() == [2, 1, 0]
    assert table.table is table
    np.testing.assert_allclose(table.shares, np.outer([1 / 3, 2 / 3], [3 / 4, 1 / 4]))
    np.testing.assert_allclose(table.cell_shares, [1 / 12, 2 / 3, 1 / 4])


@pytest.mark.parametrize("seed", range(5))
def test_a_tree_and_its_table_say_the_same(seed):
    tree = grown(seed)
    assert tree.table is not None
    assert (tree.table.cells(EVERY) == tree.cells(EVERY)).all()
    held = np.bincount(tree.cells(EVERY), minlength=tree.n_cells) / len(EVERY)
    np.testing.assert_allclose(tree.cell_shares, held, atol=1e-15)
    even = np.zeros(tree.n_cells)
    even[: len(tree.table.cell_shares)] = tree.table.cell_shares
    np.testing.assert_allclose(even, held, atol=1e-15)
    assert (held == 0).any(), "some cuts leave nothing on a side"


def test_a_table_that_is_too_large_is_not_written_out(monkeypatch):
    tree = grown(0)
    size = tree.table.numbers.size
    monkeypatch.setattr(label_tree, "MOST_PLACES", size)
    assert grown(0).table is not None
    monkeypatch.setattr(label_tree, "MOST_PLACES", size - 1)
    assert grown(0).table is None


def test_a_table_has_columns_for_attributes_that_are_cut_alone():
    """Of the last ones of a million attributes: columns for all would be 8 MB a place."""
    tree, far = grown(0), 10**6
    cuts = tuple(Cut(cut.attribute + far, cut.sides) for cut in tree.cuts)
    moved = LabelTree(cuts, tree.labels, tree.counts)
    assert moved.attributes == tuple(i + far for i in tree.attributes)
    with tracing() as peak:
        table = moved.table
        assert peak() < 1e6
    assert table.numbers.tolist() == tree.table.numbers.tolist()


@contextmanager
def tracing():
    """Yield a function that returns the largest memory taken since, in bytes."""
    tracemalloc.start()
    try:
        yield lambda: tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


# Public cuts --------------------------------------------------------------------------------------

ALL = 10**6  # more than there are


def named(*sizes):
    """Return a domain of attributes whose codes have no order."""
    return Domain(
        [
            Attribute(f"x{i}", categories=[f"c{code}" for code in range(size)])
            for i, size in enumerate(sizes)
        ]
    )


DOMAINS = {
    "ordered": Domain.from_sizes([2, 3, 4, 5, 7, 16, 17, 100]),
    "named": named(2, 3, 4, 5, 6, 7, 30),
    "mixed": Domain(
        [*Domain.from_sizes([9, 1, 2]).attributes, Attribute("y", categories=[*"abcde"])]
    ),
    "of one code": Domain.from_sizes([1, 3, 1, 4, 1]),
    "one": Domain.from_sizes([5]),
    "one without order": named(11),
    "many": Domain.from_sizes([2] * 40),
}
SEEDS = range(5)


def drawn(domain, most=ALL, seed=0):
    return public_cuts(domain, most, np.random.default_rng(seed))


def above(cut):
    return tuple(np.flatnonzero(cut.upper).tolist())


@pytest.fixture(params=DOMAINS)
def domain(request):
    return DOMAINS[request.param]


@pytest.mark.parametrize("seed", SEEDS)
def test_cuts_are_different_and_have_codes_on_both_sides_the_first_below(domain, seed):
    found = drawn(domain, seed=seed)
    assert len(set(found)) == len(found)
    assert len({(cut.attribute, above(cut)) for cut in found}) == len(found)
    for cut in found:
        assert cut.upper.shape == (domain.sizes[cut.attribute],)
        assert cut.upper.any()
        assert not cut.upper[0]


@pytest.mark.parametrize("seed", SEEDS)
def test_every_attribute_has_a_cut_before_one_has_another(domain, seed):
    found, turns = drawn(domain, seed=seed), Counter()
    order = {cut.attribute: place for place, cut in reversed(list(enumerate(found)))}
    assert sorted(order) == usable_attributes(domain)
    places = []
    for cut in found:
        turns[cut.attribute] += 1
        places.append((turns[cut.attribute], order[cut.attribute]))
    assert places == sorted(places)  # by turns, and always in the same order
    assert max(turns.values()) <= MOST_OF_ONE


@pytest.mark.parametrize("most", [1, 2, 3, 5, 8, 64])
def test_fewer_cuts_are_the_first_of_all(domain, most):
    whole, some = drawn(domain), drawn(domain, most)
    assert some == whole[:most]
    assert len(some) == min(most, len(whole))


def test_other_seeds_draw_others():
    assert len({drawn(DOMAINS["named"], seed=seed) for seed in range(20)}) == 20
    assert len({drawn(DOMAINS["many"], 1, seed=seed) for seed in range(20)}) > 5


def test_attributes_of_one_code_or_too_many_are_never_cut():
    domain = Domain.from_sizes([1, 2, MOST_CODES, MOST_CODES + 1, 2**31 - 1])
    assert usable_attributes(domain) == [1, 2]
    assert {cut.attribute for cut in drawn(domain)} == {1, 2}
    assert drawn(Domain.from_sizes([1, MOST_CODES + 1])) == ()


@pytest.mark.parametrize("size", range(2, MOST_OF_ONE + 2))
def test_few_ordered_codes_are_cut_at_every_place(size):
    found = [above(cut) for cut in drawn(Domain.from_sizes([size]))]
    assert found[0] == tuple(range((size + 1) // 2, size))
    assert sorted(found) == [tuple(range(first, size)) for first in range(1, size)]


@given(size=st.integers(2, 5000) | st.just(MOST_CODES))
def test_ordered_codes_are_cut_in_the_middle_of_one_of_the_longest_parts(size):
    ends = [0, size]
    for cut in drawn(Domain.from_sizes([size])):
        first = above(cut)[0]
        assert above(cut) == tuple(range(first, size))
        low = max(end for end in ends if end < first)
        high = min(end for end in ends if end > first)
        assert (first - low) - (high - first) in (0, 1)  # an odd code is below
        assert high - low >= np.diff(sorted(ends)).max() - 1
        ends.append(first)
    assert len(ends) == 2 + min(size - 1, MOST_OF_ONE)


def is_half(cut):
    return abs(2 * sum(cut.upper) - len(cut.upper)) <= 1


def is_single(cut):
    return sum(cut.upper) in (1, len(cut.upper) - 1)


@pytest.mark.parametrize("size", [8, 9, 12, 15, 16, 40, 1000])
@pytest.mark.parametrize("seed", SEEDS)
def test_codes_without_order_are_cut_in_half_then_each_then_in_half(size, seed):
    first, *others = drawn(named(size), seed=seed)
    singles = min(size, MOST_OF_ONE - 1)
    assert len(others) == MOST_OF_ONE - 1
    assert [is_half(cut) for cut in (first, *others[singles:])] == [True] * (MOST_OF_ONE - singles)
    assert all(is_single(cut) for cut in others[:singles])


@pytest.mark.parametrize(("size", "count"), [(2, 1), (3, 3), (4, 7), (5, 15)])
def test_few_codes_without_order_are_cut_in_every_way(size, count):
    """All 2**(size - 1) - 1 ways: either one code or two are on the smaller side."""
    codes = range(1, size)
    ways = {upper for many in range(1, size) for upper in combinations(codes, many)}
    assert len(ways) == count
    found = {above(cut) for seed in SEEDS for cut in drawn(named(size), seed=seed)}
    assert found == ways


def agrees(seen, expected):
    """Return the p-value of chi-square."""
    seen, expected = np.array(seen), np.array(expected, dtype=float)
    return stats.chisquare(seen, seen.sum() * expected / expected.sum()).pvalue


def of_first(domain, what, draws=3000):
    """Return how often the first cut is which, most frequent last."""
    return sorted(Counter(what(drawn(domain, 1, seed)[0]) for seed in range(draws)).values())


@pytest.mark.parametrize(("size", "halves"), [(4, 3), (5, 10), (6, 10)])
def test_every_half_is_as_likely(size, halves):
    seen = of_first(named(size), above)
    assert len(seen) == halves
    assert agrees(seen, [1] * halves) > 1e-4
    assert agrees(seen, [1] * (halves - 1) + [2]) < 1e-6  # the negative control


def test_it_is_random_which_attributes_are_cut_where_there_are_too_many():
    seen = of_first(Domain.from_sizes([2, 3, 50, 4, 7, 2]), lambda cut: cut.attribute)
    assert len(seen) == 6
    assert agrees(seen, [1] * 6) > 1e-4
    assert agrees(seen, [2, 3, 50, 4, 7, 2]) < 1e-6  # the negative control: not by their codes


def many(kind, size):
    """Return a domain of attributes of many codes."""
    if kind == "named":
        return named(*[size] * 130)
    return Domain([Attribute(f"x{i}", size=size) for i in range(10_000)])


@pytest.mark.parametrize(("kind", "size"), [("ordered", 20_000), ("named", 5_000)])
def test_only_cuts_that_are_asked_for_are_written_out(kind, size):
    most = 64
    domain = many(kind, size)
    assert len(usable_attributes(domain)) > 2 * most
    tracemalloc.start()
    try:
        found = drawn(domain, most)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len({cut.attribute for cut in found}) == most
    # the sides, twice: those of cuts and those that sources hold
    assert most * size < peak < 2 * most * size + 20e6


def test_a_cut_is_its_attribute_and_its_sides():
    upper = np.array([False, True, True])
    cut = Cut.of(3, upper)
    assert cut.attribute == 3
    assert cut.upper.dtype == bool
    assert (cut.upper == upper).all()
    assert cut == Cut.of(3, upper.astype(int))
    assert hash(cut) == hash(Cut.of(3, upper.copy()))
    assert cut != Cut.of(2, upper)
    assert cut != Cut.of(3, ~upper)
    assert cut != Cut.of(3, upper[:2])
    upper[0] = True
    assert not cut.upper[0]
    with pytest.raises(ValueError, match="read-only"):
        cut.upper[0] = True
