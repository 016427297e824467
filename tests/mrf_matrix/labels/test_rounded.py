"""Rounded numbers of trees: as near as is proved, and the draw never depends on them."""

from bisect import bisect_right
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrf_matrix import Domain
from mrf_matrix.forests.label_tree import public_cuts
from mrf_matrix.labels import draw as module
from mrf_matrix.labels.draw import (
    MARGIN,
    OFF,
    STEEPEST,
    Exponential,
    Rounding,
    ScaledNumbers,
    _cut_worths,
    _label_worths,
    draw_tree,
    running_sums,
    weights,
)
from mrf_matrix.labels.questions import joint_counts
from mrf_matrix.mechanisms.selection import Bits

RATES = [Fraction(1, 10**6), Fraction(1, 50), Fraction(3, 2), Fraction(40), STEEPEST]


def rounded(numbers):
    """Return whole numbers, one by one, as they are rounded."""
    found = Rounding.of(np.array(numbers, dtype=object)).weights
    return [ScaledNumbers(*one) for one in zip(*found, strict=True)]


def exact(one):
    return Fraction(float(one.parts)) * Fraction(2) ** int(one.powers)


def table(seed, depth, k=2, most=400):
    """Return cuts of random records, and all that a draw needs of these."""
    generator = np.random.default_rng(seed)
    domain = Domain.from_sizes([3, 2, 4], n_classes=k)
    cuts = public_cuts(domain, 5, generator)
    codes = generator.integers(0, domain.sizes, size=(12, 3))
    counts = generator.integers(0, generator.integers(2, most), size=(12, k))
    return cuts, joint_counts(cuts, (0, 1, 2), codes, counts, depth)


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("rate", RATES, ids=float)
@given(seed=st.integers(0, 10**6), k=st.sampled_from([2, 3, 7]))
def test_what_trees_are_worth_is_nearly_that_in_whole_numbers(rate, depth, seed, k):
    _, counts = table(seed, depth, k)
    rules = Exponential(weights(rate, int(counts.total.max())), Bits())
    lower, upper = counts.split()
    whole = [int(one) for one in _cut_worths(lower, upper, rules)]
    for one, number in zip(_cut_worths(lower, upper, rules.rounding), whole, strict=True):
        assert abs(exact(one) / number - 1) < Fraction(OFF)


def test_single_precision_is_further_off_than_proved():
    """The negative control."""
    _, counts = table(0, 3)
    rules = Exponential(weights(Fraction(1, 50), int(counts.total.max())), Bits())
    parts, powers = rules.rounding.weights
    rounding = Rounding(ScaledNumbers(parts.astype(np.float32).astype(float), powers))
    found, whole = (_cut_worths(*counts.split(), each) for each in (rounding, rules))
    off = [abs(exact(one) / int(number) - 1) for one, number in zip(found, whole, strict=True)]
    assert max(off) > OFF


@given(st.lists(st.integers(0, 3000).flatmap(lambda n: st.integers(1 << n, 2 << n)), min_size=1))
def test_running_sums_are_nearly_the_whole_ones(numbers):
    upto, size, sure = running_sums(rounded(numbers))
    sums = list(accumulate(numbers))
    if sure:
        assert size == sums[-1].bit_length()
        for one, number in zip(upto.tolist(), sums, strict=True):
            assert abs(Fraction(one) - Fraction(number, 1 << size)) < Fraction(OFF)
    assert abs(Fraction(float(upto[-1])) - Fraction(sums[-1], 1 << size)) < Fraction(OFF)


@pytest.mark.parametrize("away", [-1, 0, 1])
def test_how_many_bits_there_are_is_unsure_near_a_power_of_two(away):
    half = 1 << 500
    assert not running_sums(rounded([half, half + away]))[-1]
    assert running_sums(rounded([half, half // 2 + away]))[-1]


@dataclass(frozen=True, eq=False)
class Fixed(Bits):
    """Numbers that are written down, the last first."""

    left: list = field(default_factory=list)

    def number(self, bits):
        number = self.left.pop()
        assert number < 1 << bits
        return number


def chosen(numbers, *drawn):
    """Return the place that is drawn with these numbers, and whether whole ones were compared."""
    asked = []

    def options(rules):
        asked.append(rules)
        return np.array(numbers, dtype=object) if rules is one else rounded(numbers)

    one = Exponential(weights(Fraction(1), 0), Fixed(left=list(drawn)[::-1]))
    place = one.draw(options)
    assert not one.bits.left
    return place, len(asked) == 2


NUMBERS = [3 << 700, 1 << 300, (5 << 700) + 12345, 7 << 640, (9 << 700) + 1]
SUMS = list(accumulate(NUMBERS))


@pytest.mark.parametrize("away", [-(1 << 600), -1, 0, 1, 1 << 600])
@pytest.mark.parametrize("near", SUMS[:-1])
def test_a_number_that_is_next_to_a_sum_is_compared_in_whole_numbers(near, away):
    place, compared = chosen(NUMBERS, near + away)
    assert place == bisect_right(SUMS, near + away)
    assert compared


@pytest.mark.parametrize("away", [-1, 0, 1])
def test_a_number_that_is_not_below_the_whole_sum_is_drawn_again(away):
    again = [] if away < 0 else [SUMS[0]]
    place, compared = chosen(NUMBERS, SUMS[-1] + away, *again)
    assert (place, compared) == (4 if away < 0 else 1, True)
    far = SUMS[-1] + SUMS[-1] // 100
    assert chosen(NUMBERS, far, far, SUMS[-1] // 3) == (2, False)


@pytest.mark.parametrize("numbers", [[1 << 500] * 2, [1 << 500, (1 << 500) - 1], [1 << 900]])
def test_a_sum_next_to_a_power_of_two_is_compared_in_whole_numbers(numbers):
    for number in (0, numbers[0] - 1, sum(numbers) - 1):
        place, compared = chosen(numbers, number)
        assert place == bisect_right(list(accumulate(numbers)), number)
        assert compared


def off_by(part, monkeypatch):
    """Put running sums as far from the whole ones as a part of what is proved."""
    nearly = module.running_sums

    def further(numbers):
        upto, size, sure = nearly(numbers)
        return upto + part * OFF, size, sure

    monkeypatch.setattr(module, "running_sums", further)


@pytest.mark.parametrize("part", [-0.999, 0.999])
def test_places_hold_for_sums_that_are_as_far_off_as_may_be(part, monkeypatch):
    assert Fraction(OFF) + Fraction(1, 2**53) < Fraction(MARGIN)
    off_by(part, monkeypatch)
    step = int(OFF * (1 << SUMS[-1].bit_length()))
    for near in SUMS[:-1]:
        for away in (-step, -1, 0, step):
            assert chosen(NUMBERS, near + away)[0] == bisect_right(SUMS, near + away)


def test_sums_further_off_than_the_margin_would_be_told_apart(monkeypatch):
    """The negative control."""
    off_by(1.5 * MARGIN / OFF, monkeypatch)
    places = [chosen(NUMBERS, near)[0] for near in SUMS[:-1]]
    assert places != [bisect_right(SUMS, near) for near in SUMS[:-1]]


def test_without_a_margin_places_would_depend_on_what_is_rounded(monkeypatch):
    """The negative control."""
    monkeypatch.setattr(module, "MARGIN", 0.0)
    places = [chosen(NUMBERS, near - 1)[0] for near in SUMS[:-1]]
    assert places != [bisect_right(SUMS, near - 1) for near in SUMS[:-1]]


def in_whole_numbers(counts, rules):
    """Return the places of the cuts of a tree, and its labels, drawn from the definition."""
    places, nodes = [], [counts]
    for order in range(counts.order, -1, -1):
        below = []
        for node in nodes:
            lower, upper = node.split() if order else (node, node)
            of = _cut_worths(lower, upper, rules) if order else _label_worths(node, rules)
            upto = list(accumulate(int(one) for one in of))
            places.append(bisect_right(upto, rules.bits.number_below(upto[-1])))
            below += [lower.at(places[-1]), upper.at(places[-1])] if order else []
        nodes = below
    return places


@pytest.mark.parametrize(("margin", "least", "most"), [(MARGIN, 0, 0.1), (0.05, 0.1, 1), (2, 1, 1)])
@pytest.mark.parametrize("rate", RATES, ids=float)
def test_the_same_bits_draw_the_same_tree_as_whole_numbers_do(
    rate, margin, least, most, monkeypatch
):
    """`least`, `most`: share of places that are compared in whole numbers, as empty cells are."""
    monkeypatch.setattr(module, "MARGIN", margin)
    compared, compare = [], Exponential._draw_exactly
    monkeypatch.setattr(
        Exponential, "_draw_exactly", lambda *given: compared.append(1) or compare(*given)
    )
    drawn = 0
    for seed in range(6):
        cuts, counts = table(seed, 1 + seed % 3, 2 + seed % 2, most=60)
        numbers = weights(rate, int(counts.total.max()))
        one, other = (Exponential(numbers, Bits(np.random.default_rng(seed))) for _ in range(2))
        for _ in range(3):
            tree, _ = draw_tree(cuts, counts, one)
            found = [cuts.index(cut) for cut in tree.cuts] + tree.labels.tolist()
            assert found == in_whole_numbers(counts, other)
            drawn += len(found)
        assert one.bits.number(64) == other.bits.number(64), "as many bits were used"
    assert least * drawn <= len(compared) <= most * drawn
