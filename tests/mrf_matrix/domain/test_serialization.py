"""Domains through JSON, and files that nobody vouches for."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrf_matrix.domain import Attribute, Domain, DomainError, serialization

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


def test_sizes_are_capped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "domain.json"
    Domain.from_sizes([2, 3]).save(path)
    assert Domain.load(path).sizes == (2, 3)
    with monkeypatch.context() as patch:
        patch.setattr(serialization, "MAX_BYTES", 20)
        with pytest.raises(DomainError, match="more than 20 bytes"):
            Domain.load(path)
    with monkeypatch.context() as patch:
        patch.setattr(serialization, "MAX_ATTRIBUTES", 1)
        with pytest.raises(DomainError, match="at most 1"):
            Domain.load(path)


def test_a_missing_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Domain.load(tmp_path / "none.json")


def test_numpy_input_is_saved_as_plain_numbers(tmp_path: Path) -> None:
    domain = Domain([Attribute("a", edges=np.linspace(0, 1, 4)), Attribute("b", size=np.int64(3))])  # type: ignore[arg-type]
    domain.save(tmp_path / "d.json")
    assert Domain.load(tmp_path / "d.json") == domain
