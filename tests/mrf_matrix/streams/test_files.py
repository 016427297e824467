"""Files and folders are read in parts, alike by every reader."""

import gzip
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest

from mrf_matrix import Attribute, Domain
from mrf_matrix.domain import DomainError
from mrf_matrix.mechanisms import count_cells
from mrf_matrix.streams import count_stream, data_files, files
from mrf_matrix.streams import files as csv_files

DOMAIN = Domain(
    [
        Attribute("age", edges=[0, 40, 100], missing="category"),
        Attribute("work", categories=["Private", "State-gov", "NA"], unknown="other"),
        Attribute("level", categories=[1, 2, 3]),
        Attribute("flag", categories=[False, True]),
        Attribute("doors", categories=["2", "3", "5more"]),
    ],
    target=Attribute("income", categories=["<=50K", ">50K"]),
)
TEXT = '''note, age, work, level, flag, doors, income
,39, State-gov, 1, true, 2, <=50K
a,50.5,Private,2.0,False,5more,>50K

b,?,"Never,
""ever""", 3, TRUE, 3, <=50K
c,17, NA, 1, false, 2 , >50K
d,1_7, NA, 1, false, 2 , >50K
'''
CODES = np.array(
    [[0, 1, 0, 1, 0], [1, 0, 1, 0, 2], [2, 3, 2, 1, 1], [0, 2, 0, 0, 0], [0, 2, 0, 0, 0]]
)
EXPECTED = count_cells(CODES.astype(np.int32), np.array([0, 1, 0, 1, 1]), DOMAIN.sizes, 2)
READERS = ["pyarrow", "polars", "python"]


def assert_expected(counts, times=1):
    np.testing.assert_array_equal(counts.codes, EXPECTED.codes)
    np.testing.assert_array_equal(counts.counts, times * EXPECTED.counts)


@pytest.fixture(params=READERS)
def reader(request, monkeypatch):
    for module in (csv_files, files):
        monkeypatch.setattr(module, "find_spec", lambda name: name == request.param)
    return request.param


@pytest.mark.parametrize("quoted", ['b,?,"Never', 'b,?, "Never'])
def test_a_csv_counts_alike_by_every_reader(reader, quoted, tmp_path):
    path = tmp_path / "x.csv"
    path.write_text(TEXT.replace('b,?,"Never', quoted), encoding="utf-8-sig")
    assert csv_files.quoting(path) == ("after blanks" if ' "' in quoted else "fields")
    assert_expected(count_stream(path, DOMAIN))


def test_a_compressed_csv(reader, tmp_path):
    path = tmp_path / "x.csv.gz"
    path.write_bytes(gzip.compress(TEXT.encode()))
    assert_expected(count_stream(str(path), DOMAIN))


def test_small_parts_make_no_difference(reader, tmp_path, monkeypatch):
    path = tmp_path / "x.csv"
    path.write_text(TEXT.replace(TEXT.splitlines()[0] + "\n", "") * 1)
    path.write_text(TEXT.splitlines()[0] + "\n" + "a,50.5,Private,2.0,False,5more,>50K\n" * 500)
    monkeypatch.setattr(csv_files, "PART_BYTES", 256)
    monkeypatch.setattr(csv_files, "PART_RECORDS", 7)
    told = []
    counts = count_stream(path, DOMAIN, progress=lambda *now: told.append(now))
    assert counts.counts.tolist() == [[0, 500]]
    assert told[-1] == (500, None)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (TEXT.replace(",17,", ",elderly,"), "'age' holds text where numbers"),
        (TEXT.replace("c,17, NA", "c,17"), "fields"),
        (TEXT.replace("note", "income"), "has the columns 'income' more than once"),
        (TEXT.replace("income", "wage"), "lacks the columns.*'income'"),
        (TEXT.replace("5more", "5\N{LATIN SMALL LETTER E WITH ACUTE}").encode("latin-1"), "UTF-8"),
        ("", "first line of column names"),
    ],
)
def test_what_is_no_csv_of_the_domain_is_refused(reader, text, words, tmp_path):
    path = tmp_path / "x.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(DomainError, match=words) as caught:
        count_stream(path, DOMAIN)
    for private in ("State-gov", "elderly", "wage", " 1 ", "39"):
        assert private not in str(caught.value).replace(str(path), "")


@pytest.mark.parametrize("reader", ["pyarrow", "polars"], indirect=True)
def test_what_is_no_parquet_is_refused_without_its_words(reader, tmp_path):
    path = tmp_path / "x.parquet"
    path.write_text(TEXT)
    for given in (path, iter([path])):
        with pytest.raises(DomainError, match=f"no Parquet file that {reader} can read"):
            count_stream(given, DOMAIN)


def test_a_torn_compressed_csv_is_refused(reader, tmp_path):
    path = tmp_path / "x.csv.gz"
    path.write_bytes(gzip.compress(TEXT.encode())[:60])
    with pytest.raises(DomainError, match="not a CSV file in UTF-8"):
        count_stream(path, DOMAIN)


FRAME = pl.DataFrame(
    {
        "income": ["<=50K", ">50K", "<=50K", ">50K", ">50K"],
        "age": [39.0, 50.5, None, 17.0, 17.0],
        "work": ["State-gov", "Private", "Never", "NA", "NA"],
        "level": [1, 2, 3, 1, 1],
        "flag": [True, False, True, False, False],
        "doors": ["2", "5more", "3", "2", "2"],
        "note": [None] * 5,
    }
)


@pytest.mark.parametrize("reader", ["pyarrow", "polars"], indirect=True)
def test_parquet_in_row_groups(reader, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "PART", 2)
    path = tmp_path / "x.parquet"
    pq.write_table(FRAME.to_arrow(), path, row_group_size=3)
    told = []
    assert_expected(count_stream(path, DOMAIN, progress=lambda *now: told.append(now)))
    assert told[-1] == (5, 5)
    FRAME.drop("age").write_parquet(path)
    with pytest.raises(DomainError, match=r"lacks the columns.*'age'"):
        count_stream(path, DOMAIN)


def test_parquet_without_a_reader(tmp_path, monkeypatch):
    FRAME.write_parquet(tmp_path / "x.parquet")
    monkeypatch.setattr(files, "find_spec", lambda name: None)
    with pytest.raises(DomainError, match="needs pyarrow or polars"):
        count_stream(tmp_path / "x.parquet", DOMAIN)


def test_a_folder_is_all_its_files(tmp_path):
    (tmp_path / "more").mkdir()
    (tmp_path / "_temporary").mkdir()
    FRAME.write_parquet(tmp_path / "a.parquet")
    FRAME.write_parquet(tmp_path / "_temporary" / "b.parquet")
    (tmp_path / "more" / "c.csv").write_text(TEXT)
    (tmp_path / "_SUCCESS").touch()
    found = [Path(one).name for one in data_files(tmp_path)]
    assert found == ["a.parquet", "c.csv"]
    assert_expected(count_stream(tmp_path, DOMAIN), times=2)
    assert_expected(count_stream([tmp_path, FRAME.drop("note")], DOMAIN), times=3)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DomainError, match="found none"):
        count_stream(tmp_path / "empty", DOMAIN)
