"""Cells of attributes that are cut in two: a partition, and how codes fall on either side."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mrf_matrix import Attribute, Domain
from mrf_matrix.forests.sources.halves import MOST_CODES, Halves, random_halves, usable_attributes

N_CELLS = 4  # of two attributes
ORDERED = Domain.from_sizes([2, 3, 4, 5, 7], n_classes=2)


def unordered(size):
    return Attribute(f"of {size}", categories=[f"c{i}" for i in range(size)])


NAMES = Domain(
    [unordered(4), unordered(5), unordered(6)], target=Attribute("y", categories=["n", "y"])
)


def drawn(domain, count=200, seed=0, n_cut=2):
    return random_halves(domain, n_cut, count, np.random.default_rng(seed))


def sides_of(domain, attribute, seeds=range(200)):
    """Return the different ways in which an attribute's codes were cut."""
    found = set()
    for seed in seeds:
        for halves in drawn(domain, 8, seed):
            if attribute in halves.attributes:
                found.add(halves.upper[halves.attributes.index(attribute)])
    return found


def halves_of(sizes):
    side = [st.lists(st.booleans(), min_size=n, max_size=n).map(tuple) for n in sizes]
    return st.tuples(*side).map(lambda upper: Halves((0, 1), upper))


@settings(deadline=None, max_examples=50)
@given(st.data(), st.integers(1, 6), st.integers(1, 6), st.integers(1, 4))
def test_counts_are_those_of_records_gone_through_one_by_one(data, first, second, k):
    halves = data.draw(halves_of((first, second)))
    generator = np.random.default_rng(data.draw(st.integers(0, 99)))
    codes = np.stack([generator.integers(0, n, 20) for n in (first, second)], axis=1)
    counts = generator.integers(0, 5, (20, k))
    expected = np.zeros((N_CELLS, k), dtype=int)
    for (a, b), row in zip(codes, counts, strict=True):
        expected[2 * halves.upper[0][a] + halves.upper[1][b]] += row
    found = halves.counts(codes, counts)
    assert found.dtype == np.int64
    assert (found == expected).all()
    assert found.sum(axis=0).tolist() == counts.sum(axis=0).tolist()


@pytest.mark.parametrize("domain", [ORDERED, NAMES])
def test_every_record_lies_in_one_of_four_cells(domain):
    for halves in drawn(domain):
        first, second = (domain.sizes[i] for i in halves.attributes)
        codes = np.array(list(product(range(first), range(second))))
        cells = halves.cells(codes)
        assert set(cells.tolist()) == set(range(N_CELLS))  # each side of either has some code
        sides = [np.array(upper) for upper in halves.upper]
        assert (cells // 2 == sides[0][codes[:, 0]]).all()
        assert (cells % 2 == sides[1][codes[:, 1]]).all()


@pytest.mark.parametrize("domain", [ORDERED, NAMES])
def test_pairs_are_two_attributes_in_their_order_and_cuts_fit_their_codes(domain):
    for halves in drawn(domain):
        first, second = halves.attributes
        assert 0 <= first < second < domain.n_attributes
        assert [len(upper) for upper in halves.upper] == [domain.sizes[first], domain.sizes[second]]
        for upper in halves.upper:
            assert abs(2 * sum(upper) - len(upper)) <= 1  # as many on either side, but for one


@pytest.mark.parametrize(
    ("attribute", "cuts"),
    [
        (0, {(False, True)}),
        (1, {(False, True, True), (False, False, True)}),
        (2, {(False, False, True, True)}),
        (3, {(False,) * 2 + (True,) * 3, (False,) * 3 + (True,) * 2}),
        (4, {(False,) * 3 + (True,) * 4, (False,) * 4 + (True,) * 3}),
    ],
)
def test_ordered_codes_are_cut_in_the_middle_and_an_odd_one_falls_on_either_side(attribute, cuts):
    assert ORDERED.ordered == (True,) * 5
    assert sides_of(ORDERED, attribute) == cuts


@pytest.mark.parametrize(("attribute", "cuts"), [(0, 6), (1, 20), (2, 20)])
def test_codes_without_order_are_cut_in_every_even_way(attribute, cuts):
    """4 codes: 6 halves; 5: ten with two above, ten with three; 6: 20."""
    assert NAMES.ordered == (False,) * 3
    assert len(sides_of(NAMES, attribute)) == cuts


def test_every_pair_is_drawn_about_as_often():
    seen = np.zeros((5, 5))
    for seed in range(2000):
        (one,) = drawn(ORDERED, 1, seed)
        seen[one.attributes] += 1
    found = seen[np.triu_indices(5, 1)]
    assert ((found - 200) ** 2 / 200).sum() < 27.9  # chi-square, 9 degrees, 1e-3


def test_the_odd_code_falls_on_either_side_as_often():
    domain = Domain.from_sizes([3, 2], n_classes=2)
    above = sum(sum(drawn(domain, 1, seed)[0].upper[0]) == 2 for seed in range(1000))
    assert abs(above - 500) < 4 * np.sqrt(250)


def test_nothing_is_there_twice_and_the_order_is_that_of_the_draws():
    many = drawn(Domain.from_sizes([2, 2], n_classes=2), 50)
    assert many == (Halves((0, 1), ((False, True), (False, True))),)
    found = drawn(ORDERED)
    assert len(set(found)) == len(found) < 200
    assert found[: len(drawn(ORDERED, 3))] == drawn(ORDERED, 3)


def test_the_seed_decides_alone():
    assert drawn(NAMES, 32, 5) == drawn(NAMES, 32, 5)
    assert drawn(NAMES, 32, 5) != drawn(NAMES, 32, 6)


def test_attributes_of_one_code_are_never_drawn():
    domain = Domain.from_sizes([1, 3, 1, 4, 1], n_classes=2)
    assert {one.attributes for one in drawn(domain)} == {(1, 3)}


def test_no_record_counts_nothing():
    (halves,) = drawn(ORDERED, 1)
    nothing = halves.counts(np.zeros((0, 2), dtype=int), np.zeros((0, 3), dtype=np.int64))
    assert nothing.tolist() == [[0, 0, 0]] * N_CELLS


@pytest.mark.parametrize("n_cut", [1, 3, 4])
def test_more_attributes_make_more_cells_the_first_side_the_highest_bit(n_cut):
    codes = np.array(list(product(*map(range, ORDERED.sizes))))
    for halves in drawn(ORDERED, 20, n_cut=n_cut):
        assert halves.n_cells == 2**n_cut
        assert list(halves.attributes) == sorted(set(halves.attributes))
        sides = [
            np.array(upper)[codes[:, i]]
            for i, upper in zip(halves.attributes, halves.upper, strict=True)
        ]
        expected = sum(side * 2 ** (n_cut - 1 - place) for place, side in enumerate(sides))
        assert (halves.cells(codes[:, halves.attributes]) == expected).all()


def test_attributes_that_can_be_cut_have_two_codes_and_not_too_many():
    domain = Domain.from_sizes([1, 2, MOST_CODES, MOST_CODES + 1, 2**31 - 1], n_classes=2)
    assert usable_attributes(domain) == [1, 2]
    assert {one.attributes for one in drawn(domain, 5)} == {(1, 2)}
