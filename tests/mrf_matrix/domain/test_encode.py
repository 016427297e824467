"""Encoding against a value-by-value oracle, over every kind of records."""

import datetime as dt
import math
import pickle
import re
import traceback
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrf_matrix.domain import Attribute, Domain, DomainError

ATTRIBUTES = {
    "text": Attribute("c", categories=["low", "med", "hïgh", ""], unknown="other"),
    "text, missing": Attribute("c", categories=["b", "a"], unknown="other", missing="category"),
    "size": Attribute("c", size=5, unknown="other", missing="category"),
    "shifted": Attribute("c", categories=range(-2, 3), unknown="other", missing="category"),
    "integers": Attribute("c", categories=[7, -1, 3], unknown="other", missing="category"),
    "far integers": Attribute("c", categories=[2**53, 0], unknown="other", missing="category"),
    "floats": Attribute("c", categories=[0.5, 1, 2.25], unknown="other", missing="category"),
    "bools": Attribute("c", categories=[True, False], missing="category"),
    "bins": Attribute("c", edges=[-1, 0, 0.5, 3], outside="open", missing="category"),
    "many bins": Attribute("c", edges=np.linspace(-4, 4, 50), outside="open", missing="category"),
}
numbers = st.one_of(st.integers(-3, 8), st.sampled_from([-1.0, 0.5, 2.25, 2.5, 4.0, 1e300]))
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "text": st.sampled_from(["low", "med", "hïgh", "", "LOW", "a much longer text"]),
    "text, missing": st.sampled_from(["a", "b", "c", None]),
    "size": st.one_of(st.integers(-2, 7), st.none()),
    "shifted": st.one_of(st.integers(-4, 4), st.none()),
    "integers": st.one_of(st.sampled_from([7, -1, 3, 4, 100_000]), st.none()),
    "far integers": st.one_of(st.sampled_from([0, 2**53, 2**53 - 1]), st.none()),
    "floats": st.one_of(numbers, st.none()),
    "bools": st.one_of(st.booleans(), st.none()),
    "bins": st.one_of(numbers, st.none()),
    "many bins": st.one_of(numbers, st.none()),
}


def oracle(attribute: Attribute, value: Any) -> int:
    """Return one code by the definition."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        assert attribute.missing_code is not None
        return attribute.missing_code
    if attribute.is_numeric:
        bins = attribute.bins
        for code, (low, high) in enumerate(bins):
            last = code == len(bins) - 1
            if low <= value < high or (last and value == high):
                return code
        raise AssertionError("outside")
    for code, known in enumerate(attribute.categories or ()):
        if known == value and isinstance(known, bool) == isinstance(value, bool):
            return code
    assert attribute.other_code is not None
    return attribute.other_code


def forms(values: list[Any]) -> dict[str, Any]:
    """Return the same column in every form that can hold it."""
    plain = [
        float(v) if type(v) is int and any(type(u) is float for u in values) else v for v in values
    ]
    objects = np.empty((len(values), 1), dtype=object)
    objects[:, 0] = values
    with np.errstate(invalid="ignore"):  # pandas 2 casts 1e300 to see whether it is an integer
        nullable = pd.DataFrame({"c": plain}).convert_dtypes()
    found: dict[str, Any] = {
        "list of rows": [[v] for v in values],
        "objects": objects,
        "mapping": {"c": values},
        "pandas objects": pd.DataFrame({"c": pd.Series(values, dtype=object)}),
        "pandas": pd.DataFrame({"c": plain}),
        "pandas nullable": nullable,
        "polars": pl.DataFrame({"c": plain}),
        "polars series": {"c": pl.Series(plain)},
        "arrow": pa.table({"c": plain}),
        "arrow chunks": pa.table(
            {"c": pa.chunked_array([plain[:2], plain[2:]], type=pa.array(plain).type)}
        ),
    }
    if all(isinstance(v, str | None) for v in values):
        found["pandas categorical"] = pd.DataFrame({"c": pd.Categorical(values)})
        found["polars categorical"] = found["polars"].with_columns(pl.col("c").cast(pl.Categorical))
        found["arrow dictionary"] = pa.table(
            {"c": pa.array(values, pa.string()).dictionary_encode()}
        )
        chunks = [
            pa.array(part, pa.string()).dictionary_encode() for part in (values[:2], values[2:])
        ]
        found["arrow dictionaries"] = pa.table({"c": pa.chunked_array(chunks)})
    if None not in values:
        array = np.array(plain).reshape(-1, 1)
        found["array"] = array
        found["fortran array"] = np.asfortranarray(np.hstack([array, array]))[:, :1]
        found["structured"] = np.array([(v,) for v in plain], dtype=[("c", array.dtype)])
    elif all(isinstance(v, int | float | None) and not isinstance(v, bool) for v in values):
        found["NaN array"] = np.array([math.nan if v is None else v for v in values]).reshape(-1, 1)
        mask = [[v is None] for v in values]
        filled = np.array([[0 if v is None else v] for v in values])
        found["masked array"] = np.ma.MaskedArray(filled, mask)
    return found


@pytest.mark.parametrize("kind", ATTRIBUTES)
@given(data=st.data())
def test_every_form_of_records_matches_the_oracle(kind: str, data: st.DataObject) -> None:
    attribute = ATTRIBUTES[kind]
    values = data.draw(st.lists(VALUES[kind], min_size=1, max_size=12))
    expected = [[oracle(attribute, value)] for value in values]
    for form, records in forms(values).items():
        codes = Domain([attribute]).encode(records)
        assert codes.dtype == np.int32
        assert codes.flags.c_contiguous
        assert codes.tolist() == expected, form


def test_the_oracle_notices_a_wrong_code() -> None:
    attribute = ATTRIBUTES["bins"]
    codes = Domain([attribute]).encode(np.array([[0.5]]))
    assert codes[0, 0] == oracle(attribute, 0.5) != oracle(attribute, 0.49)


def test_the_last_bin_is_closed_and_the_others_are_not() -> None:
    domain = Domain([Attribute("c", edges=[0, 1, 2])])
    assert domain.encode([[0], [1], [2]]).ravel().tolist() == [0, 1, 1]


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u8", "f2", "f4", "f8", ">i4", ">f8"])
def test_number_types_do_not_wrap(dtype: str) -> None:
    values = np.array([[0], [100], [101]], dtype=dtype)
    for attribute in (
        Attribute("c", categories=range(-100, 101), unknown="other"),
        Attribute("c", categories=[100, 0, -100, 2**40], unknown="other"),
        Attribute("c", edges=[-1000, 50, 100.5], outside="open"),
    ):
        expected = [[oracle(attribute, value)] for value in (0, 100, 101)]
        assert Domain([attribute]).encode(values).tolist() == expected


def test_infinities_are_outside_or_in_the_open_bins() -> None:
    values = np.array([[-math.inf], [math.inf]])
    assert Domain([Attribute("c", edges=[0, 1], outside="open")]).encode(values).tolist() == [
        [0],
        [2],
    ]
    with pytest.raises(DomainError, match=r"values outside \[0, 1\]"):
        Domain([Attribute("c", edges=[0, 1])]).encode(values)


TWO = Domain(
    [Attribute("age", edges=[0, 50, 100]), Attribute("sex", categories=["F", "M"])],
    target=Attribute("income", categories=["low", "high"]),
)
GOOD = {"age": [20.0, 70.0], "sex": ["M", "F"]}


def test_frames_match_by_name_arrays_by_position() -> None:
    expected = [[0, 1], [1, 0]]
    swapped = {"sex": GOOD["sex"], "age": GOOD["age"]}
    for make in (dict, pd.DataFrame, pl.DataFrame, pa.table):
        assert TWO.encode(make(swapped)).tolist() == expected
        assert TWO.encode(make(swapped | {"id": [1, 2]}), extra="ignore").tolist() == expected
    assert TWO.encode(np.array([[20, "M"], [70, "F"]], dtype=object)).tolist() == expected


BAD_RECORDS: dict[str, tuple[Any, str]] = {
    "absent": ({"age": [1]}, "lack the columns 'sex'.*rename"),
    "unwanted": (GOOD | {"id": [1, 2]}, "not in the domain.*extra='ignore'"),
    "unwanted frame": (pl.DataFrame(GOOD | {"id": [1, 2]}), "not in the domain"),
    "integer names": (pd.DataFrame([[1, "M"]]), "NumPy array"),
    "repeated": (
        pd.DataFrame([[1, "M", 2]], columns=["age", "sex", "age"]),
        "'age' more than once",
    ),
    "too wide": (np.zeros((3, 3)), "3 columns; expected 2.*'age', 'sex'"),
    "one record": (np.zeros(2), "reshape"),
    "three dimensions": (np.zeros((1, 2, 1)), "3 dimensions; expected two"),
    "lazy": (pl.DataFrame(GOOD).lazy(), "Collect lazy"),
    "text": ("age", "type str"),
    "number": (3, "type int"),
    "None": (None, "NoneType"),
    "empty list": ([], "empty list"),
    "ragged": ([[1, "M"], [2]], "one length"),
    "flat list": ([1, 2], "one length"),
    "flat text": (["ab", "cd"], "one length"),
    "lengths": ({"age": [1, 2], "sex": ["M"]}, "differ in length"),
    "scalar column": ({"age": 3, "sex": ["M"]}, "'age'.*array, series or list"),
    "deep column": (
        {"age": np.zeros((2, 2)), "sex": ["M", "F"]},
        "'age': 2 dimensions; expected one",
    ),
    "unknown": (GOOD | {"sex": ["X", "x"]}, "'sex'.*not in.*'F', 'M'.*unknown='other'"),
    "outside": (GOOD | {"age": [20, 101]}, r"'age' .object. holds values outside \[0, 100\]"),
    "NaN": (GOOD | {"age": [math.nan, 1]}, "'age' has missing values"),
    "None in text": (GOOD | {"sex": ["M", None]}, "'sex' has missing.*missing='category'"),
    "null": (pa.table({"age": [1, None], "sex": ["M", "F"]}), "'age' has missing"),
    "all null": (pl.DataFrame({"age": [None], "sex": ["M"]}), "'age' has missing"),
    "text for numbers": (GOOD | {"age": ["20", "old"]}, "'age'.*numbers"),
    "text array for numbers": (np.array([["old", "M"]]), "'age'.*numbers"),
    "text frame for numbers": (pl.DataFrame(GOOD | {"age": ["20", "old"]}), "'age'.*numbers"),
    "booleans for numbers": (GOOD | {"age": np.array([True, False])}, "'age' .bool.*numbers"),
    "a boolean among numbers": (GOOD | {"age": [20, True]}, "'age'.*numbers"),
    "numbers for text": (
        GOOD | {"sex": np.array([0, 1])},
        r"'sex'.*int64\) holds values that are not in",
    ),
    "a mixture": (GOOD | {"sex": ["M", 1]}, "'sex'.*not in"),
    "lists in a column": (GOOD | {"sex": ["M", ["F"]]}, "'sex'.*not scalars"),
    "objects for numbers": (GOOD | {"age": [20, {"a": 1}]}, "'age'.*numbers"),
    "dates": (
        pl.DataFrame(GOOD | {"age": [1, 2]}).with_columns(pl.col("age").cast(pl.Date)),
        "'age'.*numbers",
    ),
    "complex": (GOOD | {"age": np.array([1j, 2])}, "'age' .complex128.*numbers"),
    "bytes": (GOOD | {"sex": np.array([b"M", b"F"])}, "'sex'.*not in"),
}


@pytest.mark.parametrize("case", BAD_RECORDS)
def test_bad_records_are_refused_by_column(case: str) -> None:
    records, words = BAD_RECORDS[case]
    with pytest.raises(DomainError, match=words):
        TWO.encode(records)


def test_sparse_records_are_refused() -> None:
    from scipy.sparse import csr_array

    with pytest.raises(DomainError, match="densify"):
        TWO.encode(csr_array(np.eye(2)))


def test_a_bad_extra_option() -> None:
    with pytest.raises(DomainError, match="extra='drop'"):
        TWO.encode(GOOD, extra="drop")  # type: ignore[arg-type]


def test_values_are_for_their_owner_and_in_no_message_or_pickle() -> None:
    domain = Domain([Attribute("c", categories=["a"])])
    with pytest.raises(DomainError) as caught:
        domain.encode({"c": [f"secret{i}" for i in range(1000)] + ["secret0"]})
    error = caught.value
    assert error.values == ("secret0", "secret1", "secret2", "secret3", "secret4")
    shown = "".join(traceback.format_exception_only(error)) + repr(error)
    assert "secret" not in shown
    assert not {"1000", "1001", "995", "996"} & set(re.findall(r"\d+", shown))
    assert b"secret" not in pickle.dumps(error)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.values) == (DomainError, str(error), ())


def test_booleans_and_integers_never_meet() -> None:
    flags = Domain([Attribute("c", categories=[False, True])])
    ints = Domain([Attribute("c", categories=[0, 1])])
    for column in (np.array([True, False]), [True, False], pd.Series([True, False])):
        assert flags.encode({"c": column}).tolist() == [[1], [0]]
        with pytest.raises(DomainError, match="not in the categories 0, 1"):
            ints.encode({"c": column})
    for column in (np.array([1, 0]), [1, 0], pl.Series([1, 0])):
        assert ints.encode({"c": column}).tolist() == [[1], [0]]
        with pytest.raises(DomainError, match="not in the categories False, True"):
            flags.encode({"c": column})


def test_missing_values_of_every_library() -> None:
    text = Domain([Attribute("c", categories=["a"], missing="category")])
    number = Domain([Attribute("c", edges=[0, 1], missing="category")])
    for nothing in (None, math.nan, np.float32("nan"), pd.NA, pd.NaT):
        assert text.encode({"c": ["a", nothing]}).tolist() == [[0], [1]]
        assert number.encode({"c": [0.5, nothing]}).tolist() == [[0], [1]]


def test_a_number_is_itself_whatever_holds_it() -> None:
    """Long floats in a list as in an array; of a complex number no part is dropped."""
    texts = Domain([Attribute("a", categories=["1", "2.5"], unknown="other")])
    numbers = Domain([Attribute("a", edges=[0, 2, 3])])
    for domain in (texts, numbers):
        values = np.array([1, 2.5], dtype=np.longdouble)
        assert domain.encode({"a": list(values)}).tolist() == [[0], [1]]
        assert domain.encode({"a": values}).tolist() == [[0], [1]]
    for wrong in ([np.complex128(1 + 2j)], [1 + 0j], np.array([1 + 0j])):
        with pytest.raises(DomainError):
            numbers.encode({"a": wrong})


def test_no_records_give_no_codes() -> None:
    empty = {"age": np.zeros(0), "sex": np.zeros(0, dtype="U1")}
    for records in (
        empty,
        pd.DataFrame(empty),
        pl.DataFrame(empty),
        pa.table(empty),
        np.zeros((0, 2)),
    ):
        assert TWO.encode(records).shape == (0, 2)


def test_hash_collisions_of_text_are_still_exact() -> None:
    # a polynomial hash collides where a*p + b == c*p + d modulo 2**64; force it with one character
    domain = Domain([Attribute("c", categories=["b", "a"], unknown="other")])
    texts = np.array([["a"], ["b"], ["c"], ["aa"], ["a\x01"]])
    assert domain.encode(texts).ravel().tolist() == [1, 0, 2, 2, 2]


def test_targets_are_of_the_domain() -> None:
    with pytest.raises(DomainError, match=r"'income'.*not in"):
        TWO.encode_target(["high?"])
    with pytest.raises(DomainError, match="no target"):
        Domain.from_sizes([2]).encode_target([0])


def test_narwhals_frames_pass() -> None:
    assert TWO.encode(nw.from_native(pl.DataFrame(GOOD))).tolist() == [[0, 1], [1, 0]]


def test_factorised_numbers_are_binned_by_the_levels_that_records_have():
    domain = Domain(
        [Attribute("a", edges=[0, 10, 20, 30], missing="category", missing_values=["?"])]
    )
    column = pd.Series(pd.Categorical([5, None, 25, "?", 30], categories=[25, 5, 30, "?", "never"]))
    assert domain.encode({"a": column})[:, 0].tolist() == [0, 3, 2, 3, 2]
    with pytest.raises(DomainError, match="numbers are expected"):
        domain.encode({"a": pd.Series(pd.Categorical([5, "never"]))})


# Dates and times ----------------------------------------------------------------------------------


def test_dates_are_those_on_the_wall_with_and_without_zones():
    domain = Domain([Attribute("t", edges=["2020-01-01", "2020-01-02", "2020-01-03"])])
    texts = ["2020-01-01T00:30+02:00", "2020-01-02T23:30+02:00", "2020-01-02"]
    times = [dt.datetime.fromisoformat(one) for one in texts[:2]]
    aware = pd.Series(pd.to_datetime(pd.Series(texts[:2])))
    assert domain.encode({"t": texts}).ravel().tolist() == [0, 1, 1]
    for held in (times, aware, aware.dt.tz_localize(None), pl.Series(aware), pa.array(aware)):
        assert domain.encode({"t": held}).ravel().tolist() == [0, 1]


@pytest.mark.parametrize("mark", ["1900-01-01", "19000101", 19000101])
def test_a_mark_that_is_a_date_is_that_date_in_every_form(mark):
    edges = ["2020-01-01", "2020-01-02"]
    attribute = Attribute(
        "t", edges=edges, outside="open", missing="category", missing_values=[mark, 99]
    )
    domain, day = Domain([attribute]), dt.date(1900, 1, 1)
    for held in (
        ["1900-01-01", "19000101", " 1900-01-01T00:00 ", "99"], [19000101, 19000101.0, 99],
        np.array([19000101, 99]), np.array([19000101.0, np.nan]), [day, dt.datetime(1900, 1, 1)],
        np.array([day, None], "M8[D]"), pd.to_datetime(pd.Series([day])), pl.Series([day, None]),
        pa.array([day]), pa.array([day]).dictionary_encode(),
    ):  # fmt: skip
        assert set(domain.encode({"t": held}).ravel()) == {attribute.missing_code}, held
    assert domain.encode({"t": [20200101, 19000102]}).ravel().tolist() == [1, 0]


def test_dates_that_are_numbers_may_be_missing():
    edges = ["2020-01-01", "2020-01-02"]
    domain = Domain([Attribute("t", edges=edges, missing="category")])
    for values in ([20200101, None], [None, None]):
        truth = [0 if one else 1 for one in values]
        for held in (
            pd.Series(values, dtype=float), pd.Series(values, dtype="Int64"),
            pl.Series(values, dtype=pl.Int64), pa.array(values, pa.int32()),
            np.ma.masked_array([20200101, 5], mask=[one is None for one in values]), values,
        ):  # fmt: skip
            assert domain.encode({"t": held}).ravel().tolist() == truth


def test_the_last_moment_of_a_day_lies_on_it():
    domain = Domain([Attribute("t", edges=["2020-01-01", "2020-01-02", "2020-01-03"])])
    text = "2020-01-01T23:59:59.999999999"
    for held in ([text], np.array([text], "M8[ns]"), pd.Series([pd.Timestamp(text)])):
        assert domain.encode({"t": held}).tolist() == [[0]]


TIMES = [np.array([3], "M8[ns]"), np.array([3], "m8[ns]"), pd.Series([dt.timedelta(3)])]


@pytest.mark.parametrize("values", [*TIMES, pl.Series([[1]], dtype=pl.Array(pl.Int64, 1))])
@pytest.mark.parametrize("known", [{"size": 9}, {"edges": [0, 9]}], ids=["size", "edges"])
def test_times_and_lists_are_no_numbers(values, known):
    with pytest.raises(DomainError):
        Domain([Attribute("a", **known)]).encode({"a": values})


def test_one_moment_in_two_zones_is_two_times_on_the_wall():
    domain = Domain([Attribute("t", edges=["2019-12-31", "2020-01-01", "2020-01-02"])])
    texts = ["2020-01-01T00:30+02:00", "2019-12-31T22:30+00:00"]
    times = [dt.datetime.fromisoformat(one) for one in texts]
    assert times[0] == times[1]
    for held in (texts, times, times[::-1], np.array(times, dtype=object)):
        alone = [domain.encode({"t": [one]}).item() for one in held]
        assert sorted(alone) == [0, 1]
        assert domain.encode({"t": held}).ravel().tolist() == alone
