"""The domain as a value: sizes, decoding, selection, display."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrf_matrix.domain import Attribute, Domain, DomainError

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
        ([[0]], "expected .records, 8"),
        ([0] * 8, "1 dimensions"),
        ([[0.0] * 8], "float64"),
        ([[0, 3, 0, 0, 0, 0, 0, 0]], "'size' are out of range; expected 0 .. 2"),
        ([[-1, 0, 0, 0, 0, 0, 0, 0]], "'text' are out of range"),
    ],
)
def test_bad_codes_are_refused(codes: list[Any], words: str) -> None:
    with pytest.raises(DomainError, match=words):
        RICH.decode(codes)


def test_bad_options_of_decode() -> None:
    with pytest.raises(DomainError, match="numeric='mean'"):
        RICH.decode(np.zeros((1, 8), dtype=int), numeric="mean")  # type: ignore[arg-type]
    with pytest.raises(DomainError, match=r"expected 0 \.\. 1"):
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
