"""A record is read alike wherever it stands, and decides nothing about another."""

import csv
import datetime as dt
import decimal
import fractions
import io

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import VotingClassifier

from mrf_matrix import Attribute, Domain, PrivateNaiveBayesClassifier, count_stream, load_dataset
from mrf_matrix.datasets import files
from mrf_matrix.domain import DomainError
from mrf_matrix.mechanisms import count_cells
from mrf_matrix.streams import count_dask
from mrf_matrix.streams import files as csv_files

TEXTS = ["0", "1", "2", "1.0", "2.00", "-3", "99", "99.0", "1e1", ".5", "7.", "inf", "nan", "NaN",
         "nan(3)", "NA", "", "?", ".", "null", "low", " low ", "high", "true", "TRUE", "False",
         "2020-01-02",
         "2020-01-02T03:00", "2020-01-01T23:30+02:00", "01", "NA12", "E10", "E14.9", "5more",
         "x y", "0.4", "0.7", "17 ", "+1"]  # fmt: skip
MARKS = st.lists(st.sampled_from([99, "99", ".", -3, "low", 0.5]), max_size=2, unique_by=str)


@st.composite
def attributes(draw, name):
    kind = draw(
        st.sampled_from(["size", "numbers", "texts", "mixed", "twice", "edges", "dates", "groups"])
    )
    missing = draw(st.sampled_from(["error", "category"]))
    more = {"missing": missing}
    if missing == "category":
        more["missing_values"] = draw(MARKS)
    if kind == "edges":
        more["outside"] = draw(st.sampled_from(["error", "open"]))
        edges = draw(st.sampled_from([[0, 1, 50, 100], [0, 0.4, 0.7, 0.8], [-5, 2]]))
        return Attribute(name, edges=edges, **more)
    if kind == "dates":
        return Attribute(name, edges=["2020-01-01", "2020-01-02", "2020-01-03"], **more)
    more["unknown"] = draw(st.sampled_from(["error", "other"]))
    if kind == "groups":
        return Attribute(name, groups={"e": ["E10-E14"], "n": ["NA", "9"]}, **more)
    if kind == "size":
        return Attribute(name, size=3, **more)
    known = {
        "numbers": [0, 1, 2, 0.5, 10],
        "texts": ["low", "high", "1", "NA", "01"],
        "mixed": ["5more", 2, 3, True, "false", "99"],
        "twice": [1, "1", 0.5, ".5", 2],
    }[kind]
    return Attribute(name, categories=known, **more)


def codes_of(read):
    """Return codes, or that they are refused."""
    try:
        return read().tolist()
    except DomainError:
        return "refused"


def written(names, rows):
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows([names, *rows])
    return file.getvalue()


def readers(domain, rows):
    """Return every way to hand over records of text."""
    names = domain.names
    columns = {name: [row[i] for row in rows] for i, name in enumerate(names)}
    frame = pd.DataFrame(columns, dtype=object)
    return {
        "columns": columns,
        "rows": [list(row) for row in rows],
        "objects": np.array(rows, dtype=object),
        "fixed text": np.array(rows, dtype=str),
        "masked": np.ma.masked_array(np.array(rows, dtype=object), mask=False),
        "structured": np.array(rows, dtype=[(name, object) for name in names]),
        "pandas objects": frame,
        "pandas text": frame.astype("string"),
        "pandas categories": frame.astype("category"),
        "polars": pl.DataFrame(columns, schema=dict.fromkeys(names, pl.String)),
        "polars categories": pl.DataFrame(columns, schema=dict.fromkeys(names, pl.Categorical)),
        "arrow": pa.table({name: pa.array(one, pa.string()) for name, one in columns.items()}),
    }


DOMAINS = st.tuples(attributes("a"), attributes("b"))
ROWS = st.lists(st.tuples(st.sampled_from(TEXTS), st.sampled_from(TEXTS)), min_size=1, max_size=4)


@given(DOMAINS, ROWS)
def test_records_of_text_are_read_alike_by_all(parts, rows):
    domain = Domain(list(parts))
    truth = codes_of(lambda: domain.encode(readers(domain, rows)["columns"]))
    for name, records in readers(domain, rows).items():
        assert codes_of(lambda records=records: domain.encode(records)) == truth, name
    alone = [codes_of(lambda row=row: domain.encode([list(row)])) for row in rows]
    assert ("refused" if "refused" in alone else [one for (one,) in alone]) == truth


@given(DOMAINS, ROWS, st.sampled_from(["pyarrow", "python", "load"]))
def test_files_are_read_as_columns_are(tmp_path_factory, parts, rows, engine):
    domain = Domain(list(parts), target=Attribute("y", size=1))
    codes = codes_of(lambda: domain.encode(readers(domain, rows)["columns"]))
    path = tmp_path_factory.mktemp("one") / "x.csv"
    path.write_text(written(["a", "b", "y"], [(*row, 0) for row in rows]))
    if engine == "load":
        assert codes_of(lambda: domain.encode(load_dataset(path, domain).X)) == codes
        return
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(csv_files, "find_spec", lambda name: name == engine)
        try:
            found = count_stream(path, domain)
        except DomainError:
            assert codes == "refused"
            return
    truth = count_cells(np.array(codes, np.int32), np.zeros(len(rows), int), domain.sizes, 1)
    np.testing.assert_array_equal(found.codes, truth.codes)
    np.testing.assert_array_equal(found.counts, truth.counts)


def test_a_number_that_is_listed_as_text_too_is_read_alike_by_all(tmp_path):
    domain = Domain([Attribute("a", categories=[5, "5", 7])], target=Attribute("y", size=1))
    rows = [("+5",), ("5.0",), ("5",), ("7",)]
    for name, records in readers(domain, rows).items():
        assert domain.encode(records).ravel().tolist() == [1, 1, 1, 2], name
    for values in ([5, 5.0, 7], np.array([5, 5, 7]), np.array([5.0, 5.0, 7.0])):
        assert domain.encode({"a": values}).ravel().tolist() == [1, 1, 2]
    path = tmp_path / "x.csv"
    path.write_text(written(["a", "y"], [(*row, 0) for row in rows]))
    assert load_dataset(path, domain).codes.ravel().tolist() == [1, 1, 1, 2]
    assert count_stream(path, domain).codes.ravel().tolist() == [1, 2]


@pytest.mark.parametrize("text", ["\0", "low\0", "NA\0"])
def test_a_text_that_ends_in_nul_is_named_by_every_reader(text, tmp_path):
    domain = Domain(
        [Attribute("a", categories=["low", "high"], missing="category")],
        target=Attribute("y", categories=["n", "p"]),
    )
    columns = {"a": ["low", text, "high"], "y": ["n", "p", "n"]}
    pq.write_table(pa.table(columns), tmp_path / "x.parquet")
    (tmp_path / "x.csv").write_text(written(["a", "y"], zip(*columns.values(), strict=True)))
    frames = pd.DataFrame(columns), pl.DataFrame(columns), pa.table(columns)
    given = [columns, *frames, tmp_path / "x.csv", tmp_path / "x.parquet"]
    readings = [lambda one=one: load_dataset(one, domain) for one in given]
    readings += [lambda one=one: count_stream(one, domain) for one in given[-2:]]
    readings += [lambda one=one: domain.encode(one, extra="ignore") for one in given[:4]]
    for read in readings:
        with pytest.raises(DomainError) as refusal:
            read()
        assert refusal.value.values == (text,)


NUMBERS = st.lists(st.sampled_from([0, 1, 2, 99, -3, 10]), min_size=1, max_size=5)


@given(attributes("a"), NUMBERS)
def test_numbers_are_read_as_their_texts_are(attribute, values):
    if attribute.is_date:
        return
    domain = Domain([attribute])
    truth = codes_of(lambda: domain.encode({"a": [str(one) for one in values]}))
    for kind in (int, np.int8, float, np.float32, object):
        held = np.array(values).astype(kind)
        assert codes_of(lambda held=held: domain.encode(held[:, None])) == truth, kind
        masked = np.ma.masked_array(held, mask=False)[:, None]
        assert codes_of(lambda masked=masked: domain.encode(masked)) == truth, kind
        fields = np.array([(one,) for one in held], dtype=[("a", kind)])
        assert codes_of(lambda fields=fields: domain.encode(fields)) == truth, kind
    for kind in ("Int64", "Float64", "category", "Sparse[float32]", "Sparse[int64]"):
        frame = pd.DataFrame({"a": pd.Series(values).astype(kind)})
        assert codes_of(lambda frame=frame: domain.encode(frame)) == truth, kind


@given(attributes("a"), NUMBERS, st.lists(st.booleans(), min_size=5, max_size=5))
def test_what_is_masked_is_missing(attribute, values, hidden):
    if attribute.is_date:
        return
    domain, mask = Domain([attribute]), np.array(hidden[: len(values)])
    texts = [None if gone else str(one) for one, gone in zip(values, mask, strict=True)]
    truth = codes_of(lambda: domain.encode({"a": texts}))
    for kind in (int, float, np.float32, object):
        held = np.ma.masked_array(np.array(values).astype(kind), mask=mask)
        for records in (held[:, None], {"a": held}):
            assert codes_of(lambda records=records: domain.encode(records)) == truth, kind


REPEATED = {
    "unused": ["a", "y", "z", "z"],
    "used": ["a", "a", "y"],
    "target": ["a", "y", "y"],
}


@pytest.mark.parametrize("names", REPEATED.values(), ids=REPEATED)
@pytest.mark.parametrize("library", ["pyarrow", "polars"])
def test_repeated_names_are_read_or_refused_alike_in_files_of_both_kinds(
    names, library, tmp_path, monkeypatch
):
    domain = Domain([Attribute("a", size=3)], target=Attribute("y", size=3))
    columns = [[place % 3, 2] for place in range(len(names))]
    (tmp_path / "x.csv").write_text(written(names, zip(*columns, strict=True)))
    table = pa.Table.from_arrays([pa.array(one) for one in columns], names=names)
    pq.write_table(table, tmp_path / "x.parquet")
    if library == "polars":  # alone it reads no repeated names
        monkeypatch.setattr(files, "find_spec", lambda name: name == library)

    def read(ending, strict):
        path = tmp_path / f"x.{ending}"
        found = load_dataset(path, domain, extra="error" if strict else "ignore")
        return domain.encode(found.X)

    for strict in (False, True):
        truth, codes = (codes_of(lambda e=e, s=strict: read(e, s)) for e in ("csv", "parquet"))
        assert codes == ("refused" if library == "polars" else truth)
    for path in (tmp_path / "x.csv", tmp_path / "x.parquet"):
        if "z" not in names:
            with pytest.raises(DomainError, match="more than once"):
                count_stream(path, domain)
            with pytest.raises(DomainError, match="more than once"):
                load_dataset(path, domain)
        else:
            assert count_stream(path, domain).counts.sum() == 2


@pytest.mark.parametrize("kind", ["float32", "category", "float32 category", "object", "array"])
def test_dask_reads_as_the_frame_of_its_parts(kind):
    dask, frames = pytest.importorskip("dask"), pytest.importorskip("dask.dataframe")
    values = np.array([0.1, 0.4, 0.7, 0.7, 0.1], np.float32 if "32" in kind else float)
    domain = Domain([Attribute("a", edges=[0, 0.4, 0.7, 0.8])], target=Attribute("y", size=2))
    frame = pd.DataFrame({"a": values, "y": [0, 1, 1, 0, 0]})
    if "category" in kind or kind == "object":
        frame["a"] = frame["a"].astype(kind.rpartition(" ")[2])
    with dask.config.set(scheduler="synchronous"):
        parts = frames.from_pandas(frame, npartitions=2)
        if kind == "array":
            found = count_dask((parts[["a"]].to_dask_array(lengths=True), parts["y"]), domain)
        else:
            found = count_dask(parts, domain)
    truth = count_stream([frame], domain)
    assert found.codes.tolist() == truth.codes.tolist() == [[0], [1], [2]]
    assert found.counts.tolist() == truth.counts.tolist()


def test_a_mark_that_is_a_number_is_that_number_whatever_lies_beside(tmp_path):
    bins = Attribute(
        "a", edges=range(0, 101, 20), missing="category", missing_values=["99", "."]
    )  # fmt: skip
    domain = Domain([bins], target=Attribute("y", categories=["n", "p"]))
    path = tmp_path / "x.csv"
    for last in ("", ".,n\n"):
        path.write_text("a,y\n" + "99,n\n" * 1000 + last)
        found = count_stream(path, domain)
        assert found.codes.tolist() == [[5]]
        assert found.counts.tolist() == [[1000 + bool(last), 0]]
    for marked in (99, 99.0, "99", "99.0", np.float32(99), ".", " . ", None, "NA"):
        assert domain.encode({"a": np.array([marked], dtype=object)}).tolist() == [[5]]


@pytest.mark.parametrize("engine", ["pyarrow", "python"])
@pytest.mark.parametrize(
    "stray", ['1,1,"5 inch\n', '1,1,5 inch"\n1,1,"x\n', '1,1,"5 inch\n2,1,7"\n', '"1,1,x\n']
)
def test_a_stray_quote_swallows_no_record(stray, engine, tmp_path, monkeypatch):
    monkeypatch.setattr(csv_files, "find_spec", lambda name: name == engine)
    domain = Domain([Attribute("a", size=3)], target=Attribute("y", size=2))
    path = tmp_path / "x.csv"
    good = "a,y,comment\n" + "0,0,fine\n" * 9
    for text in (good + stray + "2,1,fine\n" * 9, good + stray):
        path.write_text(text)
        for read in (lambda: count_stream(path, domain), lambda: load_dataset(path, domain)):
            with pytest.raises(DomainError, match="not a CSV file"):
                read()
    long = "x" * 200_000
    path.write_text(good + f'1,1,"a, ""quoted""\nfield"\n1,1,5" and 6"\n1,1,{long}\n')
    assert count_stream(path, domain).counts.sum() == 12
    assert len(load_dataset(path, domain, extra="ignore").X) == 12


def containers(values):
    """Return one column in every container that holds short floats or decimals."""
    array = pa.array(values)
    series = pd.Series(values)
    return {
        "array": np.asarray(values), "objects": np.array([*values, None], dtype=object)[:-1],
        "list": list(values), "pandas": series, "index": pd.Index(series),
        "categories": series.astype("category"), "arrow": array,
        "dictionary": array.dictionary_encode(), "chunks": pa.chunked_array([array[:1], array[1:]]),
        "table": pa.table({"a": array}), "polars": pl.Series(values),
    }  # fmt: skip


@pytest.mark.parametrize(
    "values",
    [np.array([0.4, 0.7], np.float32), [decimal.Decimal("0.4"), decimal.Decimal("0.7")]],
    ids=["float32", "decimal"],
)
@pytest.mark.parametrize(
    "attribute",
    [
        Attribute("a", edges=[0, 0.4, 0.7, 0.8]),
        Attribute("a", categories=[0.1, 0.4, 0.7]),
        Attribute("a", categories=["0.1", "0.4", "0.7"]),
        Attribute("a", edges=[0, 0.4, 0.7, 0.8], missing="category", unreadable="missing"),
    ],
    ids=repr,
)
def test_short_floats_and_decimals_are_read_alike_in_every_container(attribute, values):
    domain = Domain([attribute])
    known = Domain([Attribute("b", size=1)], target=attribute)
    for name, held in containers(values).items():
        records = held if name == "table" else {"a": held}
        assert domain.encode(records).ravel().tolist() == [1, 2], name
        assert known.encode_target(held).tolist() == [1, 2], name


def test_whole_numbers_of_128_bits_are_numbers():
    domain = Domain([Attribute("a", edges=[0, 10], outside="open")])
    frame = pl.DataFrame({"a": [10**30, 1]}, schema={"a": pl.Int128})
    assert domain.encode(frame).ravel().tolist() == [2, 1]


def test_missing_decimals_are_missing():
    domain = Domain([Attribute("a", edges=[0, 10], missing="category")])
    held = [decimal.Decimal("nan"), decimal.Decimal(3)]
    assert domain.encode({"a": held}).ravel().tolist() == [1, 0]


@pytest.mark.parametrize("sign", [1, -1])
def test_a_number_that_no_float_holds_is_read_as_its_text_is(sign):
    huge = sign * 10**400
    for known in ({"edges": [0, 1], "outside": "open"}, {"size": 3, "unknown": "other"}):
        domain = Domain([Attribute("a", **known)])
        held = [f"{sign}{'0' * 400}", huge, fractions.Fraction(huge), decimal.Decimal(huge)]
        assert len(set(domain.encode({"a": held}).ravel())) == 1


def test_what_is_no_number_is_not_spelled_none():
    domain = Domain([Attribute("a", categories=["None", "low"], unknown="other")])
    assert domain.encode({"a": ["None", "low", b"low", dt.timedelta(1)]}).ravel().tolist() == [
        0, 1, 2, 2,
    ]  # fmt: skip


def test_classes_come_in_every_container():
    domain = Domain([Attribute("a", size=3)], target=Attribute("y", categories=["no", "yes"]))
    y = ["no", "yes", "no"]
    series = pd.Series(y)
    for held in (
        y, tuple(y), series, series.values, series.array, pd.Index(y), pd.Categorical(y),
        series.to_frame(), pa.array(y), pa.chunked_array([y]), pa.table({"y": y}),
        pa.array(y).dictionary_encode(), pl.Series(y), pl.DataFrame({"y": y}), np.array(y),
        np.array(y, dtype=object)[:, None],
    ):  # fmt: skip
        assert domain.encode_target(held).tolist() == [0, 1, 0], type(held)
    with pytest.raises(DomainError, match="frame of 2 columns; expected one"):
        domain.encode_target(pd.DataFrame({"y": y, "z": y}))


ODD = ["n/k", True, [1], {"a": 1}, dt.timedelta(1), b"7"]


@pytest.mark.parametrize("odd", ODD, ids=str)
def test_what_cannot_be_read_has_a_code_where_that_is_declared(odd):
    options = {"missing": "category", "unreadable": "missing"}
    bins = Attribute("a", edges=[0, 5, 9], **options)
    days = Attribute("a", edges=["2020-01-01", "2020-01-02"], **options)
    known = Attribute("a", categories=["low"], unknown="other", unreadable="other")
    for attribute, good in ((bins, 7), (days, "2020-01-01"), (known, "low")):
        domain = Domain([attribute])
        records = {"a": [good, odd]}
        codes = domain.encode(records).ravel()
        assert codes.tolist() == [domain.encode({"a": [good]}).item(), attribute.size - 1]
        assert Domain.from_dict(domain.to_dict()) == domain
    for strict in (Attribute("a", edges=[0, 5, 9]), Attribute("a", categories=["low"])):
        with pytest.raises(DomainError):
            Domain([strict]).encode({"a": [odd]})


def test_codes_of_what_cannot_be_read_are_declared():
    with pytest.raises(DomainError, match="add missing='category'"):
        Attribute("a", edges=[0, 1], unreadable="missing")
    with pytest.raises(DomainError, match="add unknown='other'"):
        Attribute("a", edges=[0, 1], unreadable="other")
    with pytest.raises(DomainError, match="unreadable"):
        Attribute("a", size=2, unreadable="no")


NEXT_YEAR = {"day": ["2020-06-01", "2021-02-03", "2019-01-01"], "a": [-1.0, 50.0, 99.0]}


def test_queries_beyond_the_edges_take_the_nearest_bin_or_are_missing():
    days = ["2020-01-01", "2020-07-01", "2021-01-01"]
    domain = Domain(
        [Attribute("day", edges=days, missing="category"), Attribute("a", edges=[0, 10, 60])],
        target=Attribute("y", categories=["no", "yes"]),
    )
    with pytest.raises(DomainError) as caught:
        domain.encode(NEXT_YEAR)
    assert all(name in str(caught.value) for name in ("'day'", "'a'", "outside='clip'"))
    clipped = [[0, 0], [1, 1], [0, 1]]
    assert domain.encode(NEXT_YEAR, outside="clip").tolist() == clipped
    with pytest.raises(DomainError, match="'a'"):
        domain.encode(NEXT_YEAR, outside="missing")
    only = {"day": NEXT_YEAR["day"], "a": [1, 50, 60]}
    assert domain.encode(only, outside="missing")[:, 0].tolist() == [0, 2, 2]
    with pytest.raises(DomainError, match="expected one of"):
        domain.encode(only, outside="error")
    X = {"day": ["2020-02-01", "2020-08-01"] * 20, "a": [1, 20] * 20}
    model = PrivateNaiveBayesClassifier(domain, epsilon=9).fit(X, ["no", "yes"] * 20)
    inside = domain.within(NEXT_YEAR, "clip")
    assert domain.encode(inside).tolist() == clipped
    np.testing.assert_array_equal(model.predict(NEXT_YEAR, outside="clip"), model.predict(inside))
    shares = model.predict_proba(NEXT_YEAR, outside="clip")
    np.testing.assert_array_equal(shares, model.predict_proba(inside))
    with pytest.raises(DomainError, match="'day'"):
        model.predict(NEXT_YEAR)


def test_positions_in_place_of_classes_of_text_are_refused_with_the_remedy():
    domain = Domain([Attribute("a", size=3)], target=Attribute("y", categories=["yes", "no"]))
    told, words = set(), r"VotingClassifier.*Attribute\('y', size=2\)"
    for labels in ([0, 1, 1], [0, 7], [5, 5, 5]):  # which numbers there are is private
        with pytest.raises(DomainError, match=words) as caught:
            domain.encode_target(np.array(labels))
        told.add(str(caught.value))
    assert len(told) == 1
    coded = Domain(domain.attributes, target=Attribute("y", size=2))
    X, y = np.array([[0], [2]] * 30), np.array(["yes", "no"] * 30)
    model = PrivateNaiveBayesClassifier(coded, epsilon=9)
    voting = VotingClassifier([("one", model)], voting="soft")
    found = voting.fit(X, domain.encode_target(y)).predict(X)
    np.testing.assert_array_equal(domain.decode_target(found), y)
