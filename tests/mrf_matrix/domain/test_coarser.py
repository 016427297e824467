"""Coarser domains: bins of equally many neighbouring codes, for the same records."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrf_matrix import Attribute, Domain
from mrf_matrix.domain import DomainError
from mrf_matrix.domain.attribute import MOST_BINS, coarser_codes


def of_kind(kind, n, missing):
    """An attribute of `n` codes in order, beside that of missing values."""
    more = {"missing": "category"} if missing else {}
    match kind:
        case "size":
            return Attribute("a", size=n, **more)
        case "numbers":
            return Attribute("a", categories=[2.5 * i - 7 for i in range(n)], **more)
        case "bins":
            return Attribute("a", edges=[i * i for i in range(n + 1)], **more)
        case "open":
            return Attribute("a", edges=[3 * i for i in range(n - 1)], outside="open", **more)
        case _:
            days = np.datetime64("2020-02-20") + np.arange(n + 1)
            return Attribute("a", edges=[str(day) for day in days], **more)


KINDS = ("size", "numbers", "bins", "open", "dates")


@given(st.sampled_from(KINDS), st.integers(3, 70), st.integers(2, 20), st.booleans())
def test_bins_hold_equally_many_neighbouring_codes_and_the_same_records(kind, n, most, missing):
    fine = of_kind(kind, n, missing)
    domain = Domain([fine])
    coarse = domain.coarser(most)
    one = coarse.attributes[0]
    assert one.n_known <= most
    codes = np.arange(fine.size)[:, None]
    found = coarse.encode(domain.decode(codes, numeric="midpoint"))[:, 0]
    np.testing.assert_array_equal(
        coarser_codes(domain.attributes, coarse.attributes, codes)[:, 0], found
    )
    if missing:
        assert found[-1] == one.missing_code == one.size - 1
        found = found[:-1]
    width = 1 if n <= most else -(-n // most)
    from_last = (n - 1 - np.arange(n)) // width
    np.testing.assert_array_equal(found, from_last[0] - from_last)
    assert one.n_known == from_last[0] + 1
    assert (one is fine) == (n <= most)


@pytest.mark.parametrize(
    "attribute",
    [
        Attribute("a", categories=[f"{i:03}" for i in range(100)]),
        Attribute("a", categories=[*range(100)][::-1]),
        Attribute("a", size=100, unknown="other"),
        Attribute("a", groups={str(i): [f"{i:02}"] for i in range(40)}),
        Attribute("a", size=MOST_BINS),
    ],
)
def test_codes_without_an_order_stay_and_those_that_others_follow(attribute):
    assert Domain([attribute]).coarser().attributes[0] is attribute


def test_target_and_names_stay_and_once_is_enough():
    domain = Domain.from_sizes([100, 3, 17], n_classes=30)
    coarse = domain.coarser()
    assert coarse.names == domain.names
    assert coarse.target is domain.target
    assert coarse.sizes == (15, 3, 9)
    assert coarse.coarser() == coarse
    assert domain.coarser(5).sizes == (5, 3, 5)


def test_a_domain_of_billions_of_codes_is_no_matter():
    most = Domain([Attribute("a", size=2**31 - 1)]).coarser()
    assert most.sizes == (MOST_BINS,)
    np.testing.assert_array_equal(most.encode([[0], [2**31 - 2]])[:, 0], [0, MOST_BINS - 1])


@pytest.mark.parametrize("most", [0, 1, 2.5, True, "many"])
def test_bad_numbers_of_bins_are_refused_by_name(most):
    with pytest.raises(ValueError, match="most="):
        Domain.from_sizes([100]).coarser(most)


def test_values_outside_are_refused_as_before():
    coarse = Domain.from_sizes([100]).coarser()
    with pytest.raises(DomainError):
        coarse.encode([[100]])
    assert coarse.encode([[99]])[0, 0] == 14


def test_missing_values_come_after_the_codes_in_order():
    assert Attribute("a", edges=[0, 1, 2, 3], missing="category").is_ordered
    assert Attribute("a", size=4, unknown="other", missing="category").is_ordered
    assert not Attribute("a", categories=["x", "y"], missing="category").is_ordered
    assert not Attribute("a", groups={"x": ["1"], "y": ["2"]}).is_ordered


@pytest.mark.parametrize(
    "attribute",
    [
        # midpoints are marks of missing values
        Attribute(
            "a", edges=range(0, 82, 2), missing="category", missing_values=[*range(1, 80, 6)]
        ),
        # there are no numbers between edges
        Attribute("a", edges=[1 + i * 2.0**-52 for i in range(41)]),
        Attribute("a", edges=[2**60 + 256 * i for i in range(41)]),
        Attribute("a", edges=[-1.7e308, *range(40), 1.7e308], outside="open"),
        Attribute("a", size=10**8, missing="category"),
    ],
    ids=["marks", "adjacent", "large", "largest", "many"],
)
def test_codes_go_to_the_bins_of_their_lower_ends(attribute):
    coarse = Domain([attribute]).coarser().attributes[0]
    codes = np.unique(np.linspace(0, attribute.size - 1, 50).astype(np.int64))
    found = coarser_codes([attribute], [coarse], codes[:, None])[:, 0]
    if attribute.missing_code is not None:
        assert found[-1] == coarse.missing_code
        codes, found = codes[:-1], found[:-1]
    if attribute.is_binned:
        ends = [low for low, _ in attribute.bins]
        starts = [low for low, _ in coarse.bins]
    else:
        ends, starts = range(attribute.n_known), coarse.edges[:-1]
    wanted = [sum(start <= ends[code] for start in starts) - 1 for code in codes.tolist()]
    assert found.tolist() == wanted


def test_marks_of_missing_values_are_missing_in_bins_too():
    fine = Attribute("a", size=100, missing="category", missing_values=[-9, 999])
    coarse = Domain([fine]).coarser()
    assert coarse.encode([[-9], [999], [99]])[:, 0].tolist() == [16 - 1, 16 - 1, 14]
