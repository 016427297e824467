"""A file in another dialect, with its option, is the plain file; headers are as spreadsheets write.

Nothing of a dialect is guessed from records: what is not declared is refused, with a hint.
"""

import csv
import gzip
import io
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrf_matrix import (
    Attribute,
    Domain,
    FileFormat,
    PrivacyLedger,
    PrivateNaiveBayesClassifier,
    count_stream,
    load_dataset,
)
from mrf_matrix.datasets import files
from mrf_matrix.domain import DomainError
from mrf_matrix.mechanisms import count_cells
from mrf_matrix.streams import count_dask
from mrf_matrix.streams import files as csv_files

ENGINES = ["pyarrow", "python", "load"]
ATTRIBUTES = (
    Attribute("n", edges=[0, 0.5, 2, 1000], missing="category", missing_values=["9.9", "-"]),
    Attribute("n", edges=[-5, 2.25], missing="category", unreadable="missing"),
    Attribute("n", categories=[0, 0.5, 1, 2.25]),
    Attribute("n", categories=["0.5", "2", "high", "Größe"], unknown="other"),
    Attribute("n", categories=["1,5", "2", "é"], unknown="other"),
    Attribute("n", size=3, unknown="other"),
    Attribute("n", groups={"e": ["E10-E14"], "n": ["0.5", "2"]}, unknown="other"),
    Attribute("n", edges=["2020-01-01", "2020-01-02", "2020-01-03"]),
)
TEXTS = ["0", "0.5", ".5", "2.", "2.25", "-1.5e2", "1", "9.9", "-", "", "high", "Größe", "é",
         "E14.9", "2020-01-02", "1;5", "a|b", "x\ty", '5"', "nan", "2.2.5"]  # fmt: skip
FORMATS = st.builds(
    FileFormat, st.sampled_from([None, ";", "\t", "|"]), st.sampled_from([".", ","]),
    st.sampled_from(["utf-8", "utf-8-sig", "latin-1", "cp1252", "utf-16", "utf-16-le"]),
)  # fmt: skip


def is_number(text):
    try:
        return bool(float(text)) or True
    except ValueError:
        return False


def written(path, rows, file_format, header=("n", "note", "y")):
    """Write rows of text; decimals by the format's mark."""
    file = io.StringIO()
    delimiter = file_format.separator or ("\t" if path.name.endswith(".tsv") else ",")
    writer = csv.writer(file, delimiter=delimiter, lineterminator="\r\n")
    writer.writerow(header)
    for row in rows:
        swap = file_format.decimal == ","
        writer.writerow([t.replace(".", ",") if swap and is_number(t) else t for t in row])
    path.write_bytes(file.getvalue().encode(file_format.encoding))
    return path


def read(engine, path, domain, **options):
    """Return counts by a reader, or that it refuses."""
    try:
        if engine == "load":
            data = load_dataset(path, domain, extra="ignore", **options)
            return count_cells(data.codes, data.labels, domain.sizes, domain.n_classes)
        with pytest.MonkeyPatch.context() as patched:
            for module in (csv_files, files):
                patched.setattr(module, "find_spec", lambda name: name == engine)
            return count_stream(path, domain, **options)
    except DomainError:
        return None


def same(one, other):
    if one is None or other is None:
        return one is other
    return np.array_equal(one.codes, other.codes) and np.array_equal(one.counts, other.counts)


@pytest.mark.parametrize("engine", ENGINES)
@given(
    st.sampled_from(ATTRIBUTES), st.lists(st.sampled_from(TEXTS), min_size=1, max_size=4), FORMATS
)
def test_a_dialect_with_its_option_is_the_plain_file(tmp_path_factory, engine, known, texts, told):
    folder, domain = tmp_path_factory.mktemp("one"), Domain([known], Attribute("y", size=2))
    rows = [[text, "a note", str(i % 2)] for i, text in enumerate(texts)]
    plain = read(engine, written(folder / "x.csv", rows, FileFormat()), domain)
    other = written(folder / "z.csv", rows, told)
    assert same(read(engine, other, domain, file_format=told), plain)
    alone = [
        read(engine, written(folder / "w.csv", [row], told), domain, file_format=told)
        for row in rows
    ]
    assert (plain is None) == any(one is None for one in alone)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_comma_leaves_points_no_meaning(engine, tmp_path):
    told = FileFormat(separator=";", decimal=",")
    target = Attribute("y", size=1)
    for attribute in (
        Attribute("a", edges=[0, 2, 2000]), Attribute("a", categories=[1.5, 1000]),
        Attribute("a", size=3),
    ):  # fmt: skip
        for text in ("1.5", "1.000", "1.000,5", "1.0"):
            (tmp_path / "x.csv").write_text(f"a;y\n{text};0\n")
            assert (
                read(engine, tmp_path / "x.csv", Domain([attribute], target), file_format=told)
                is None
            )
    lenient = Attribute("a", edges=[0, 2], missing="category", unreadable="missing")
    found = read(engine, tmp_path / "x.csv", Domain([lenient], target), file_format=told)
    assert found.codes.tolist() == [[1]]


DOMAIN = Domain(
    [Attribute("age", edges=[0, 40, 100]), Attribute("sex", categories=["F", "M"])],
    target=Attribute("y", categories=["no", "yes"]),
)
ROWS = "39,F,no\n50.5,M,yes\n"
TRUTH = count_cells(np.array([[0, 0], [1, 1]], np.int32), np.array([0, 1]), DOMAIN.sizes, 2)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("header", "before", "after"),
    [
        ("age,sex,y", "", ""),
        ("\ufeffage,sex,y", "", ""),
        (" age , sex,y ", "", ""),
        ('"age","sex","y"', "", ""),
        ('\ufeff"age","sex","y"', "", ""),
        ('" age ","sex"," y"', "", ""),
        ('"","age","sex","y"', "1,", ""),
        (",age,sex,y,", "1,", ","),
        ("x,age,sex,y,x", "1,", ",2"),
        (",age,sex,y,,", "1,", ",,"),
        ('"a\nnote",age,sex,y', "1,", ""),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_headers_of_spreadsheets(engine, header, before, after, end, tmp_path):
    path = tmp_path / "x.csv"
    lines = [before + one + after for one in ROWS.splitlines()]
    for last in (end, ""):
        path.write_bytes((end.join([header, *lines]) + last).encode())
        assert same(read(engine, path, DOMAIN), TRUTH)


FIELDS = Domain(
    [
        Attribute("a", edges=[0, 1, 5], missing="category"),
        Attribute("b", categories=["x", "z"], unknown="other", missing="category"),
    ],
    Attribute("y", size=2),
)
PLAIN = "a,b,y\n1,x,0\n2,z,1\n"
LINES = {
    "carriage returns": PLAIN.replace("\n", "\r"), "both": PLAIN.replace("\n", "\r\n"),
    "empty lines": PLAIN.replace("\n", "\r\n\r\n"), "no last end": PLAIN[:-1],
    "a return in quotes": PLAIN.replace("x", '"x\r"'), "blanks": PLAIN.replace(",", " , "),
}  # fmt: skip
ODD_RECORDS = ["   ", ",,", "1,x,", "1", "1,x,0,9", '1,"x,0']


@pytest.mark.parametrize("engine", ENGINES)
def test_lines_end_and_lie_empty_alike_for_every_reader(engine, tmp_path):
    path = tmp_path / "x.csv"
    path.write_text(PLAIN)
    truth = read(engine, path, FIELDS)
    assert truth.counts.tolist() == [[1, 0], [0, 1]]
    for name, text in LINES.items():
        path.write_bytes(text.encode())
        assert same(read(engine, path, FIELDS), truth), name
    for record in ODD_RECORDS:  # each is one, of a class or fields that there are not
        path.write_text(PLAIN + record + "\n")
        assert read(engine, path, FIELDS) is None, record


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("header", ["age,sex,y,age", "age, age ,y,sex", '"age",sex,y,age'])
def test_a_repeated_name_that_is_used_is_named(engine, header, tmp_path, monkeypatch):
    path = tmp_path / "x.csv"
    path.write_text(f"{header}\n1,F,no,2\n")
    for module in (csv_files, files):
        monkeypatch.setattr(module, "find_spec", lambda name: name == engine)
    for call in (load_dataset, count_stream):
        with pytest.raises(DomainError, match="has the columns 'age' more than once"):
            call(path, DOMAIN)


def repeated(library, names, columns):
    if library == "arrow":
        return pa.table([pa.array(one) for one in columns], names=list(names))
    frame = pd.DataFrame(dict(enumerate(columns)))
    frame.columns = list(names)
    return frame


@pytest.mark.parametrize("library", ["pandas", "arrow"])
def test_frames_with_repeated_names(library):
    columns = [["x", "x"], [39, 50.5], ["F", "M"], ["no", "yes"], ["z", "z"]]
    frame = repeated(library, ("id", "age", "sex", "y", "id"), columns)
    assert DOMAIN.encode(frame, extra="ignore").tolist() == [[0, 0], [1, 1]]
    assert same(count_stream(frame, DOMAIN, extra="ignore"), TRUTH)
    assert same(count_stream([frame], DOMAIN, extra="ignore"), TRUTH)
    assert load_dataset(frame, DOMAIN, extra="ignore").codes.tolist() == [[0, 0], [1, 1]]
    for call in (DOMAIN.encode, lambda one: count_stream(one, DOMAIN)):
        with pytest.raises(DomainError, match="not in the domain"):
            call(frame)
    used = repeated(library, ("sex", "age", "sex", "y", "id"), columns)
    for call in (
        lambda one: DOMAIN.encode(one, extra="ignore"),
        lambda one: count_stream(one, DOMAIN, extra="ignore"),
        lambda one: load_dataset(one, DOMAIN, extra="ignore"),
    ):
        with pytest.raises(DomainError, match="have the columns 'sex' more than once"):
            call(used)


HINTS = [
    ("age;sex;y\n39;F;no\n", {}, r"separator=';' in file_format=FileFormat\(...\)"),
    ("age\tsex\ty\n39\tF\tno\n", {}, r"separator='\\t'"),
    ('"age";"sex";"y"\n39;F;no\n', {}, "separator=';'"),
    ("age;sex;y, of it\n39;F;no\n", {}, "separator=';'"),
    (ROWS.join(["age,sex,y\n", ""]), {"separator": ";"}, "separator=','"),
    ("age;sex;y\n39,5;F;no\n", {"separator": ";"}, "decimal=','"),
    ("age,sex,y\n39,é,no\n".encode("latin-1"), {}, "encoding='latin-1'"),
    ("age,sex,y\n39,F,no\n".encode("utf-16"), {}, "'utf-16'"),
    ("age,sex,y\n39,é,no\n".encode(), {"encoding": "utf-16"}, "not a CSV file in utf-16"),
]  # fmt: skip


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("content", "options", "words"), HINTS)
def test_what_is_not_declared_is_refused_with_a_hint_and_nothing_is_spent(
    engine, content, options, words, tmp_path, monkeypatch
):
    path, told = tmp_path / "x.csv", FileFormat(**options)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    for module in (csv_files, files):
        monkeypatch.setattr(module, "find_spec", lambda name: name == engine)
    ledger = PrivacyLedger(epsilon=1)
    model = PrivateNaiveBayesClassifier(DOMAIN, epsilon=1, ledger=ledger)
    for call in (
        lambda: load_dataset(path, DOMAIN, file_format=told).codes,
        lambda: count_stream(path, DOMAIN, file_format=told),
        lambda: model.fit_stream(path, file_format=told),
    ):
        with pytest.raises(DomainError, match=words) as caught:
            call()
        said = str(caught.value).replace(str(path), "")  # the folder may be called 39
        assert not any(one in said for one in ("39", "é"))
    assert not ledger.charges


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"separator": ";;"}, "separator=';;'"), ({"separator": ""}, "separator=''"),
        ({"separator": "a"}, "separator"), ({"separator": '"'}, "separator"),
        ({"separator": " "}, "separator"), ({"separator": "\n"}, "separator"),
        ({"separator": b";"}, "separator"), ({"decimal": ";"}, "decimal=';'"),
        ({"encoding": "latin"}, None), ({"encoding": "utf8"}, None),
        ({"encoding": "klingon"}, "encoding='klingon'"), ({"encoding": "hex"}, "encoding='hex'"),
        ({"encoding": None}, "encoding=None"), ({"encoding": 8}, "encoding=8"),
    ],
)  # fmt: skip
def test_a_format_is_checked_when_it_is_made(options, words):
    if words is None:
        FileFormat(**options)
        return
    with pytest.raises(ValueError, match=words):
        FileFormat(**options)


def test_a_format_is_a_format():
    for call in (load_dataset, count_stream):
        with pytest.raises(TypeError, match="expected a FileFormat"):
            call("x.csv", DOMAIN, file_format=";")


def test_every_reader_of_paths_takes_the_format(tmp_path):
    told = FileFormat(separator=";", decimal=",", encoding="latin-1")
    text = "age;größe;sex;y\n39,0;ü;F;no\n50,5;ü;M;yes\n"
    (tmp_path / "x.csv").write_bytes(text.encode("latin-1"))
    (tmp_path / "z.csv.gz").write_bytes(gzip.compress(text.encode("latin-1"), mtime=0))
    frame = pd.DataFrame({"age": [39, 50.5], "sex": ["F", "M"], "y": ["no", "yes"]})
    frame.to_parquet(tmp_path / "p.parquet")
    double = count_stream(tmp_path, DOMAIN, file_format=told)
    assert (double.counts == 3 * TRUTH.counts).all()
    paths = [tmp_path / "x.csv", tmp_path / "z.csv.gz", tmp_path / "p.parquet"]
    assert same(count_dask(paths, DOMAIN, file_format=told), double)
    model = PrivateNaiveBayesClassifier(DOMAIN, epsilon=float("inf"))
    streamed = model.fit_stream(tmp_path, file_format=told).predict_proba(frame[["age", "sex"]])
    held = model.fit(frame[["age", "sex"]], frame["y"]).predict_proba(frame[["age", "sex"]])
    np.testing.assert_allclose(streamed, held, atol=0.2)
    with pytest.warns(UserWarning, match="domain"):
        guessed = load_dataset(tmp_path / "x.csv", "from_data", file_format=told)
    assert guessed.domain.attributes[0].is_numeric


def test_reading_in_another_encoding_is_in_parts(tmp_path, monkeypatch):
    told = FileFormat(separator=";", encoding="utf-16")
    path = tmp_path / "x.csv"
    path.write_bytes(("age;sex;y;note\n" + "39;F;no;é\n" * 5000).encode("utf-16"))
    monkeypatch.setattr(csv_files, "PART_BYTES", 4096)
    seen = []
    found = count_stream(path, DOMAIN, file_format=told, progress=lambda n, _: seen.append(n))
    assert found.counts.tolist() == [[5000, 0]]
    assert len(seen) > 5
    assert Path(path).stat().st_size > 5 * 4096
