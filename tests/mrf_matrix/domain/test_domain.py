"""The domain as a value: sizes, decoding, selection, display."""

import copy
import json
import pickle
import warnings
from dataclasses import FrozenInstanceError, replace
from math import inf, nan
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrf_matrix.domain import (
    Attribute,
    Domain,
    DomainError,
    PrivacyLeakWarning,
    as_domain,
    required_domain,
)

RICH = Domain(
    [
        Attribute("text", categories=["a", "b"], unknown="other", missing="category"),
        Attribute("size", size=3),
        Attribute("gap", size=2, missing="category"),
        Attribute("range", categories=range(5, 8)),
        Attribute("mixed", categories=["x", 1, 2.5, True]),
        Attribute("flag", categories=[True, False]),
        Attribute("bins", edges=[0, 1, 10]),
        Attribute("open", edges=[3], outside="open", missing="category"),
    ],
    target=Attribute("class", categories=["no", "yes"]),
)


def test_sizes_are_exact_however_large() -> None:
    domain = Domain.from_sizes([10] * 100)
    assert domain.size == 10**100
    assert domain.sizes == (10,) * 100
    assert domain.names[:2] == ("x0", "x1")
    assert "10" in repr(domain)


def test_from_sizes_has_classes_on_demand() -> None:
    domain = Domain.from_sizes([4, 3], n_classes=3)
    assert (domain.n_attributes, domain.n_classes, domain.classes) == (2, 3, (0, 1, 2))
    with pytest.raises(DomainError, match="no target"):
        _ = Domain.from_sizes([4]).n_classes


REFUSED: dict[str, tuple[Any, str]] = {
    "none": (lambda: Domain([]), "at least one"),
    "no sizes": (lambda: Domain.from_sizes([]), "at least one"),
    "one attribute": (lambda: Domain(Attribute("a", size=2)), "list of Attribute"),  # type: ignore[arg-type]
    "names": (lambda: Domain(["a"]), "'a' of type str"),  # type: ignore[list-item]
    "number": (lambda: Domain(3), "list of Attribute"),  # type: ignore[arg-type]
    "repeated": (lambda: Domain([Attribute("a", size=2)] * 2), "more than once: 'a'"),
    "target's name": (
        lambda: Domain([Attribute("a", size=2)], Attribute("a", size=2)),
        "more than once: 'a'",
    ),
    "target": (lambda: Domain([Attribute("a", size=2)], "a"), "target='a'"),  # type: ignore[arg-type]
    "size": (lambda: Domain.from_sizes([2, 0]), "'x1': size=0"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_domains_are_refused(case: str) -> None:
    make, words = REFUSED[case]
    with pytest.raises(DomainError, match=words):
        make()


@given(data=st.data())
def test_decoding_undoes_encoding(data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.tuples(*(st.integers(0, n - 1) for n in RICH.sizes)), max_size=9))
    codes = np.array(rows, dtype=np.int32).reshape(-1, RICH.n_attributes)
    values = RICH.decode(codes, numeric="midpoint")
    assert tuple(values) == RICH.names
    np.testing.assert_array_equal(RICH.encode(values), codes)


def test_decoding_into_frames() -> None:
    domain = RICH.select(["text", "size", "bins", "open"])
    codes = np.array([[0, 2, 1, 0], [3, 0, 0, 2]])
    for native, library in (("pandas", pd), ("polars", pl), ("pyarrow", pa)):
        frame = domain.decode(codes, native=native, numeric="midpoint")
        assert type(frame).__module__.startswith(library.__name__)
        np.testing.assert_array_equal(domain.encode(frame), codes)


def test_decoded_values() -> None:
    values = RICH.decode([[2, 1, 2, 0, 1, 0, 1, 1]])
    found = {name: column.tolist()[0] for name, column in values.items()}
    assert found == {
        "text": "(other)", "size": 1, "gap": None, "range": 5, "mixed": 1, "flag": True,
        "bins": "[1, 10]", "open": "[3, inf)",
    }  # fmt: skip
    assert RICH.decode_target([1, 0]).tolist() == ["yes", "no"]
    assert values["size"].dtype == np.int64


@pytest.mark.parametrize(
    ("codes", "words"),
    [
        ([[0]], r"expected integers of shape .rows, 8"),
        ([0] * 8, "wrong shape"),
        ([[0.0] * 8], "float64"),
        ([[0, 3, 0, 0, 0, 0, 0, 0]], "'size' leave the domain: expected 0 to 2"),
        ([[-1, 0, 0, 0, 0, 0, 0, 0]], "'text' leave the domain"),
    ],
)
def test_bad_codes_are_refused(codes: list[Any], words: str) -> None:
    with pytest.raises(DomainError, match=words):
        RICH.decode(codes)


def test_bad_options_of_decode() -> None:
    with pytest.raises(DomainError, match="numeric='mean'"):
        RICH.decode(np.zeros((1, 8), dtype=int), numeric="mean")  # type: ignore[arg-type]
    with pytest.raises(DomainError, match=r"expected 0 to 1"):
        RICH.decode_target([2])


def test_select_by_name_and_position() -> None:
    domain = RICH.select(["flag", 0, -1])
    assert domain.names == ("flag", "text", "open")
    assert domain.target == RICH.target
    for key in ("none", 8, -9, True, 1.5, None):
        with pytest.raises(DomainError, match="No attribute"):
            RICH.select([key])  # type: ignore[list-item]


def test_value_semantics() -> None:
    assert Domain.from_sizes([2, 3]) == Domain.from_sizes([2, 3])
    assert len({Domain.from_sizes([2, 3]), Domain.from_sizes([2, 3]), RICH}) == 2
    assert replace(RICH, target=None) != RICH


def test_display() -> None:
    assert eval(repr(RICH), {"Attribute": Attribute, "Domain": Domain}) == RICH
    html = RICH._repr_html_()
    assert "8 attributes" in html
    assert "(target)" in html
    hostile = Domain([Attribute("<script>", categories=["<b>"])])._repr_html_()
    assert "<script>" not in hostile
    assert "<b>" not in hostile
    huge = Domain.from_sizes([10] * 5000)
    assert "about 1.0e5000 cells" in repr(huge)
    assert "about 1.0e5000 cells" in huge._repr_html_()
    assert "950 more" in Domain.from_sizes([2] * 1000)._repr_html_()
    assert "980 more" in repr(Domain.from_sizes([2] * 1000))


# Read off records --------------------------------------------------------------------------------


COLUMNS: dict[str, list[Any]] = {
    "text": ["b", "a", None, "b"] * 10,
    "flag": [True, False, True, True] * 10,
    "few": [3, 1, 3, 1] * 10,
    "many": [float(i) for i in range(40)],
}


@pytest.mark.parametrize("make", [dict, pd.DataFrame, pl.DataFrame, pa.table])
def test_from_data_fits_its_records(make: Any) -> None:
    records = make(COLUMNS)
    with pytest.warns(PrivacyLeakWarning, match="nothing that uses it is differentially private"):
        domain = Domain.from_data(records, ["n", "p"] * 20, max_bins=4)
    assert domain.names == tuple(COLUMNS)
    assert domain.sizes == (3, 2, 2, 4)
    assert domain.attributes[2].labels == ("(-inf, 2.0)", "[2.0, inf)")
    assert domain.attributes[0].labels == ("a", "b", "(missing)")
    assert domain.classes == ("n", "p")
    codes = domain.encode(records)
    assert np.bincount(codes[:, 3]).tolist() == [10, 10, 10, 10]
    later = {"text": ["a"], "flag": [True], "few": [99], "many": [-5.5]}
    assert domain.encode(later).tolist() == [[0, 1, 1, 0]]


def test_arrays_get_names() -> None:
    with pytest.warns(PrivacyLeakWarning):
        domain = Domain.from_data(np.arange(20.0).reshape(10, 2), max_bins=3)
    assert domain.names == ("x0", "x1")
    assert domain.target is None
    with pytest.warns(PrivacyLeakWarning):
        assert Domain.from_data([[1, "a"], [2, "b"]]).sizes == (2, 2)


@pytest.mark.parametrize(
    ("records", "options", "words"),
    [
        ({"a": [None, None]}, {}, "no values"),
        ({"a": [str(i) for i in range(99)]}, {}, "more than max_categories=64 distinct"),
        ({"a": [float("inf")]}, {}, "no finite values"),
        ({"a": [1]}, {"max_bins": 0}, "max_bins=0"),
        ({"a": [1]}, {"max_categories": True}, "max_categories=True"),
        (np.zeros(3), {}, "1 dimensions; expected two"),
    ],
)
def test_what_has_no_domain(records: Any, options: dict[str, Any], words: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        with pytest.raises(DomainError, match=words):
            Domain.from_data(records, **options)


def test_a_target_called_class_does_not_clash() -> None:
    with pytest.warns(PrivacyLeakWarning):
        domain = Domain.from_data({"class": [1, 2]}, [0, 1])
    assert domain.target is not None
    assert domain.target.name == "target"


# Attributes --------------------------------------------------------------------------------------


REFUSED_ATTRIBUTES = {
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


@pytest.mark.parametrize("case", REFUSED_ATTRIBUTES)
def test_bad_attributes_are_refused_by_name(case: str) -> None:
    arguments, words = REFUSED_ATTRIBUTES[case]
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


def test_attributes_are_values() -> None:
    attribute = Attribute("a", categories=["x", "y"])
    assert attribute == Attribute("a", categories=("x", "y"))
    assert hash(attribute) == hash(Attribute("a", categories=("x", "y")))
    assert replace(attribute, missing="category").size == 3
    assert replace(Attribute("a", size=4), name="b") == Attribute("b", size=4)
    assert pickle.loads(pickle.dumps(attribute)) == attribute == copy.deepcopy(attribute)
    with pytest.raises(FrozenInstanceError):
        attribute.name = "b"  # type: ignore[misc]


# Coarser domains ----------------------------------------------------------------------------------


def test_target_and_names_stay_and_once_is_enough():
    domain = Domain.from_sizes([100, 3, 17], n_classes=30)
    coarse = domain.coarser()
    assert coarse.names == domain.names
    assert coarse.target is domain.target
    assert coarse.sizes == (15, 3, 9)
    assert coarse.coarser() == coarse
    assert domain.coarser(5).sizes == (5, 3, 5)


@pytest.mark.parametrize("most", [0, 1, 2.5, True, "many"])
def test_bad_numbers_of_bins_are_refused_by_name(most):
    with pytest.raises(ValueError, match="most="):
        Domain.from_sizes([100]).coarser(most)


def test_missing_values_come_after_the_codes_in_order():
    assert Attribute("a", edges=[0, 1, 2, 3], missing="category").is_ordered
    assert Attribute("a", size=4, unknown="other", missing="category").is_ordered
    assert not Attribute("a", categories=["x", "y"], missing="category").is_ordered
    assert not Attribute("a", groups={"x": ["1"], "y": ["2"]}).is_ordered


def test_marks_of_missing_values_are_missing_in_bins_too():
    fine = Attribute("a", size=100, missing="category", missing_values=[-9, 999])
    coarse = Domain([fine]).coarser()
    assert coarse.encode([[-9], [999], [99]])[:, 0].tolist() == [16 - 1, 16 - 1, 14]


# Files --------------------------------------------------------------------------------------------

plain = st.characters(exclude_categories=("Cc", "Cf", "Cs", "Zl", "Zp"))
names = st.text(plain, min_size=1, max_size=8).filter(
    lambda text: text not in ("(other)", "(missing)")
)
categories = st.lists(
    st.one_of(names, st.integers(-5, 5), st.floats(-9, 9, allow_nan=False), st.booleans()),
    min_size=1,
    max_size=6,
    unique_by=lambda value: (isinstance(value, bool), isinstance(value, str), value),
)
edges = st.lists(
    st.one_of(st.integers(-99, 99), st.floats(-99, 99)), min_size=2, max_size=6, unique=True
).map(sorted)
option = st.sampled_from(["error", "category"])


@st.composite
def attributes(draw: st.DrawFn, name: str) -> Attribute:
    kind = draw(st.sampled_from(["size", "categories", "edges"]))
    missing = draw(option)
    if kind == "size":
        return Attribute(name, size=draw(st.integers(1, 99)), missing=missing)
    if kind == "edges":
        outside = draw(st.sampled_from(["error", "open"]))
        return Attribute(name, edges=draw(edges), outside=outside, missing=missing)
    unknown = draw(st.sampled_from(["error", "other"]))
    return Attribute(name, categories=draw(categories), unknown=unknown, missing=missing)


@st.composite
def domains(draw: st.DrawFn) -> Domain:
    chosen = draw(st.lists(names, min_size=1, max_size=4, unique=True))
    listed = [draw(attributes(name)) for name in chosen]
    return Domain(listed[:-1], listed[-1]) if len(listed) > 1 else Domain(listed)


@given(domain=domains())
def test_json_keeps_everything(domain: Domain, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "domain.json"
    domain.save(path)
    again = Domain.load(path)
    assert again == domain
    for one, other in zip(domain.attributes, again.attributes, strict=True):
        assert list(map(type, one.labels)) == list(map(type, other.labels))
    assert Domain.from_dict(json.loads(json.dumps(domain.to_dict()))) == domain


def test_the_file_is_readable(tmp_path: Path) -> None:
    path = tmp_path / "domain.json"
    Domain([Attribute("é", categories=["a"]), Attribute("b", edges=[0, 1])]).save(str(path))
    lines = path.read_text(encoding="utf-8").splitlines()
    assert '    {"name": "é", "categories": ["a"]},' in lines
    assert [child.name for child in tmp_path.iterdir()] == ["domain.json"]


GOOD = {"name": "a", "size": 2}
HOSTILE: dict[str, tuple[Any, str]] = {
    "not json": ("{", "not a domain file in JSON"),
    "binary": (b"\x80\x04\x95\xff", "not a domain file"),
    "a list": ([], "is list; expected an object"),
    "nothing": ({}, "'attributes' is missing"),
    "unknown key": ({"attributes": [GOOD], "code": "import os"}, "unknown keys 'code'"),
    "format": ({"format": "pickle", "attributes": [GOOD]}, "format='pickle'"),
    "later": ({"schema_version": 2, "attributes": [GOOD]}, "Upgrade"),
    "version text": ({"schema_version": "1", "attributes": [GOOD]}, "schema_version='1'"),
    "version bool": ({"schema_version": True, "attributes": [GOOD]}, "schema_version=True"),
    "version zero": ({"schema_version": 0, "attributes": [GOOD]}, "schema_version=0"),
    "attributes text": ({"attributes": "ab"}, "is str; expected a list"),
    "attribute text": ({"attributes": ["ab"]}, "attribute 0 is str"),
    "no attributes": ({"attributes": []}, "at least one"),
    "no name": ({"attributes": [{"size": 2}]}, "attribute 0: the key 'name'"),
    "attribute key": ({"attributes": [GOOD | {"__class__": 1}]}, "unknown keys '__class__'"),
    "bad size": ({"attributes": [GOOD | {"size": 2.5}]}, "attribute 0: .*size=2.5"),
    "bad list": ({"attributes": [{"name": "a", "categories": {"a": 1}}]}, "categories is dict"),
    "null category": ({"attributes": [{"name": "a", "categories": [None]}]}, "category None"),
    "bad option": ({"attributes": [GOOD | {"missing": ["category"]}]}, "missing="),
    "bad target": ({"attributes": [GOOD], "target": 3}, "target is int"),
    "repeated key": ('{"attributes": [], "attributes": []}', "repeated keys"),
    "NaN": ('{"attributes": [{"name": "a", "edges": [NaN, 1]}]}', "NaN is not a JSON number"),
    "deep": ("[" * 100_000, "not a domain file"),
    "endless digits": ('{"attributes": [{"name": "a", "size": ' + "9" * 9999 + "}]}", "JSON"),
    "infinite": ('{"attributes": [{"name": "a", "edges": [0, 1e999]}]}', "finite"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_files_are_refused(case: str, tmp_path: Path) -> None:
    content, words = HOSTILE[case]
    path = tmp_path / "domain.json"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(DomainError, match=words):
        Domain.load(path)


def test_a_missing_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Domain.load(tmp_path / "none.json")


def test_numpy_input_is_saved_as_plain_numbers(tmp_path: Path) -> None:
    domain = Domain([Attribute("a", edges=np.linspace(0, 1, 4)), Attribute("b", size=np.int64(3))])  # type: ignore[arg-type]
    domain.save(tmp_path / "d.json")
    assert Domain.load(tmp_path / "d.json") == domain


# Declared by hand ---------------------------------------------------------------------------------

ADMITTED = Attribute(
    "admitted", edges=["2020-01-01", "2021-01-01"], outside="open", missing="category"
)
GROUPS = {"diabetes": ["E10-E14"], "heart": ["I20-I25", "I50"]}


def test_dates_go_back_and_forth():
    domain = Domain([ADMITTED])
    days = domain.decode([[0], [1], [2], [3]], numeric="midpoint")
    assert domain.encode(days).ravel().tolist() == [0, 1, 2, 3]
    assert ADMITTED.labels[1] == "[2020-01-01, 2021-01-01)"
    assert Domain.from_dict(domain.to_dict()) == domain


@pytest.mark.parametrize("value", ["yesterday", 5, True])
def test_what_is_no_date_is_refused_without_its_value(value):
    with pytest.raises(DomainError, match="dates are expected") as caught:
        Domain([ADMITTED]).encode({"admitted": [value]})
    assert str(value) not in str(caught.value).replace("attribute", "")
    assert caught.value.values == (value,)


def test_codes_fall_into_groups_by_prefix():
    domain = Domain([Attribute("code", groups=GROUPS, unknown="other", missing="category")])
    records = {"code": ["E10", "E14.9", "E15", "I50.1", "I25", "heart", "", None]}
    assert domain.encode(records).ravel().tolist() == [0, 0, 2, 1, 1, 1, 3, 3]
    assert Domain.from_dict(json.loads(json.dumps(domain.to_dict()))) == domain
    of_its_own = Domain([Attribute("code", groups={"a": ["99-1"]}, unknown="other")])
    assert of_its_own.encode({"code": ["99-1", "99-2"]}).ravel().tolist() == [0, 1]
    strict = Domain([Attribute("code", groups=GROUPS)])
    with pytest.raises(DomainError, match="in none of the groups"):
        strict.encode({"code": ["J45"]})


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ({"a": ["E10-E14"], "b": ["E12"]}, "one group only"),
        ({"a": []}, "expects labels"),
        ("E10", "expects labels"),
        ({"a": ["E1"], "b": [3]}, "expects labels"),
        ({"heart": 3}, "groups expects"),
        *(({"a": [one]}, "no range of codes; expected two ends of one length")
          for one in ("1-99", "E14-E10", "E9-E10", "E14-E9")),
    ],
)  # fmt: skip
def test_bad_groups_are_refused(groups, message):
    with pytest.raises(DomainError, match=message):
        Attribute("code", groups=groups)


def test_declared_marks_are_missing():
    age = Attribute("age", edges=[0, 50, 100], missing="category", missing_values=[999, "unknown"])
    smoker = Attribute("smoker", categories=["yes", "no"], missing="category", missing_values=[9])
    domain = Domain([age, smoker])
    codes = domain.encode({"age": [20, 999, None, 70], "smoker": ["yes", 9, "no", None]})
    assert codes.tolist() == [[0, 0], [2, 2], [2, 1], [1, 2]]
    assert domain.encode({"age": ["unknown", 3], "smoker": ["no", "no"]})[:, 0].tolist() == [2, 0]
    assert Domain.from_dict(domain.to_dict()) == domain
    with pytest.raises(DomainError, match="missing='category'"):
        Attribute("age", size=3, missing_values=[9])


BAD = [
    {"boolean": False},
    {"boolean": True, "size": 3},
    {"range": [3, 1]},
    {"range": [0.5, 2]},
    {"range": [0, 1], "step": 0},
    {"range": ["2020-01-31", "2021-01-01"], "step": "month"},
    {"range": ["2020-01-01", "2021-01-01"]},
    {"step": 3, "size": 3},
    {"vocabulary": "planets"},
    {"range": [0, 1e9], "step": 1e-9},
]


@pytest.mark.parametrize("short", BAD, ids=str)
def test_bad_short_forms_are_refused(short):
    with pytest.raises(DomainError, match="attribute 0"):
        Domain.from_dict({"attributes": [{"name": "x", **short}]})


def test_a_domain_is_taken_by_its_path(tmp_path):
    domain = Domain.from_sizes([2, 3], n_classes=2)
    domain.save(tmp_path / "domain.json")
    for path in (tmp_path / "domain.json", str(tmp_path / "domain.json")):
        assert as_domain(path) == domain == required_domain(path)
    assert as_domain("from_data") == "from_data"
