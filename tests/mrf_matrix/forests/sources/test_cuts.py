"""Public cuts: all different, of every attribute in turn, and no more than are asked for."""

import tracemalloc
from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from mrf_matrix import Attribute, Domain
from mrf_matrix.forests.sources.random_trees import (
    MOST_CODES,
    MOST_OF_ONE,
    Cut,
    public_cuts,
    usable_attributes,
)

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


def test_a_seed_always_draws_the_same(domain):
    assert drawn(domain, seed=3) == drawn(domain, seed=3)


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


@pytest.mark.parametrize(
    ("codes", "said"),
    [([1], "1"), ([1, 2, 3, 9], "1, 2, 3, 9"), ([1, 2, 3, 8, 9], "1, 2, 3, 8, ...")],
)
def test_it_is_said_which_codes_are_above(codes, said):
    upper = np.isin(np.arange(10), codes)
    assert repr(Cut.of(0, upper)) == f"Cut(codes {said} of 10 of attribute 0 above)"


def test_of_many_codes_few_are_said():
    cut = Cut.of(99_999, np.arange(MOST_CODES) >= MOST_CODES // 2)
    assert len(repr(cut)) < 100
