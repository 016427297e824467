"""What an attribute accepts, and how it numbers its codes."""

import copy
import pickle
from dataclasses import FrozenInstanceError, replace
from math import inf, nan

import numpy as np
import pytest

from mrf_matrix.domain import Attribute, DomainError

REFUSED = {
    "no kind": ({}, "none of size, categories, edges"),
    "two kinds": ({"size": 2, "categories": ["a", "b"]}, "size and categories"),
    "size zero": ({"size": 0}, "positive integer"),
    "size negative": ({"size": -3}, "positive integer"),
    "size float": ({"size": 2.0}, "positive integer"),
    "size bool": ({"size": True}, "positive integer"),
    "size huge": ({"size": 2**31}, "coarser"),
    "no categories": ({"categories": []}, "no categories"),
    "a string": ({"categories": "ab"}, "expected a list"),
    "not a list": ({"categories": 3}, "expected a list"),
    "repeated": ({"categories": ["a", "b", "a"]}, r"'a' \(2 times\)"),
    "repeated numbers": ({"categories": [1, 1.0]}, "repeated"),
    "None": ({"categories": ["a", None]}, "missing='category'"),
    "NaN": ({"categories": [1.0, nan]}, "missing='category'"),
    "a tuple": ({"categories": [("a",)]}, "tuple"),
    "a huge number": ({"categories": [2**60]}, "as strings"),
    "a huge range": ({"categories": range(2**60, 2**60 + 3)}, "as strings"),
    "one edge": ({"edges": [1]}, "at least 2"),
    "no edge, open": ({"edges": [], "outside": "open"}, "at least 1"),
    "falling edges": ({"edges": [1, 3, 2]}, "3, 2 are not increasing"),
    "equal edges": ({"edges": [1, 1]}, "not increasing"),
    "equal as floats": ({"edges": [2**53, 2**53 + 1]}, "not increasing"),
    "infinite edge": ({"edges": [0, inf]}, "outside='open'"),
    "NaN edge": ({"edges": [0, nan]}, "finite"),
    "text edge": ({"edges": ["0", "1"]}, "finite number"),
    "bool edge": ({"edges": [False, True]}, "finite number"),
    "edges a string": ({"edges": "01"}, "expected a list"),
    "open categories": ({"categories": ["a"], "outside": "open"}, "unknown='other'"),
    "other bins": ({"edges": [0, 1], "unknown": "other"}, "outside='open'"),
    "bad option": ({"size": 2, "missing": "drop"}, "missing='drop'"),
    "label taken": ({"categories": ["(other)"], "unknown": "other"}, "rename"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_attributes_are_refused_by_name(case: str) -> None:
    arguments, words = REFUSED[case]
    with pytest.raises(DomainError, match=words) as caught:
        Attribute("age", **arguments)
    assert "age" in str(caught.value)


@pytest.mark.parametrize("name", ["", None, 3, b"age"])
def test_a_name_is_text(name: object) -> None:
    with pytest.raises(DomainError, match="non-empty string"):
        Attribute(name, size=2)  # type: ignore[arg-type]


def test_sizes_and_labels() -> None:
    plain = Attribute("a", size=3, missing="category")
    assert (plain.size, plain.labels, plain.missing_code) == (4, (0, 1, 2, "(missing)"), 3)
    text = Attribute("a", categories=["x", "y"], unknown="other", missing="category")
    assert text.labels == ("x", "y", "(other)", "(missing)")
    assert (text.other_code, text.missing_code, text.n_known) == (2, 3, 2)
    bins = Attribute("a", edges=[0, 0.5, 2], outside="open")
    assert bins.labels == ("(-inf, 0)", "[0, 0.5)", "[0.5, 2)", "[2, inf)")
    assert bins.bins == ((-inf, 0), (0, 0.5), (0.5, 2), (2, inf))
    assert Attribute("a", edges=[0, 1]).labels == ("[0, 1]",)
    assert Attribute("a", edges=[1], outside="open").size == 2


def test_a_large_size_costs_nothing() -> None:
    assert Attribute("id", size=2**31 - 1).size == 2**31 - 1


def test_numpy_scalars_become_python_ones() -> None:
    attribute = Attribute("a", categories=np.array(["x", "y"]))
    assert [type(value) for value in attribute.labels] == [str, str]
    attribute = Attribute("a", categories=np.array([3, 1]), missing="category")
    assert [type(value) for value in attribute.labels[:2]] == [int, int]
    assert [type(edge) for edge in Attribute("a", edges=np.array([0, 1])).edges or ()] == [int, int]


def test_booleans_differ_from_numbers() -> None:
    assert Attribute("a", categories=[True, 1, "1"]).size == 3


def test_value_semantics() -> None:
    attribute = Attribute("a", categories=["x", "y"])
    assert attribute == Attribute("a", categories=("x", "y"))
    assert hash(attribute) == hash(Attribute("a", categories=("x", "y")))
    assert replace(attribute, missing="category").size == 3
    assert replace(Attribute("a", size=4), name="b") == Attribute("b", size=4)
    assert pickle.loads(pickle.dumps(attribute)) == attribute == copy.deepcopy(attribute)
    with pytest.raises(FrozenInstanceError):
        attribute.name = "b"  # type: ignore[misc]


@pytest.mark.parametrize(
    "attribute",
    [
        Attribute("a", size=3, missing="category"),
        Attribute("a", categories=["x", 1, True], unknown="other"),
        Attribute("a", edges=[0, 0.25, 1], outside="open"),
    ],
)
def test_the_repr_makes_the_attribute(attribute: Attribute) -> None:
    assert eval(repr(attribute), {"Attribute": Attribute}) == attribute
