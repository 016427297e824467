"""Counts of batches add: any form, any partition, any order, empty parts included."""

import gzip
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from mrf_matrix import (
    Attribute,
    BatchPredictionClassifier,
    Domain,
    MatrixForestClassifier,
    RandomTrees,
    load_dataset,
)
from mrf_matrix.compilation import leaf_counts
from mrf_matrix.domain import DomainError
from mrf_matrix.estimators import PosteriorForestClassifier, PrivateNaiveBayesClassifier
from mrf_matrix.forests import BlockTrees
from mrf_matrix.mechanisms import (
    CellTally,
    PrivateDataError,
    PureDP,
    count_cells,
    measure,
    merge_counts,
)
from mrf_matrix.streams import (
    count_leaves,
    count_stream,
    count_tables,
    data_files,
    files,
    partial_counts,
)
from mrf_matrix.streams import files as csv_files
from strategies.operators import Identity

CAR = load_dataset("car")
TALLY = "mrf_matrix.mechanisms.tally"
TARGET = CAR.domain.required_target().name
COLUMNS = {**CAR.columns, TARGET: CAR.y}
FRAME = pl.DataFrame({name: values.tolist() for name, values in COLUMNS.items()})
WHOLE = count_cells(CAR.codes, CAR.labels, CAR.domain.sizes, 4)


def assert_same(found, expected):
    assert found.codes.dtype == expected.codes.dtype
    assert found.counts.dtype == expected.counts.dtype
    np.testing.assert_array_equal(found.codes, expected.codes)
    np.testing.assert_array_equal(found.counts, expected.counts)


FORMS = {
    "polars": FRAME,
    "pandas": FRAME.to_pandas(),
    "pandas with an index": FRAME.to_pandas().set_axis(range(5, 1733)),
    "arrow": FRAME.to_arrow(),
    "record batches": FRAME.to_arrow().to_batches(max_chunksize=100),
    "one record batch": FRAME.to_arrow().combine_chunks().to_batches()[0],
    "reader": pa.RecordBatchReader.from_batches(
        FRAME.to_arrow().schema, FRAME.to_arrow().to_batches(max_chunksize=500)
    ),
    "mapping": COLUMNS,
    "structured": FRAME.to_pandas().to_records(index=False),
    "array": FRAME.to_numpy(),
    "pairs": [(CAR.X[:700], CAR.y[:700]), (CAR.X[700:], CAR.y[700:, None])],
    "one pair": (CAR.X, CAR.y),
    "one pair of series": (FRAME.drop(TARGET), FRAME[TARGET]),
    "two frames": (FRAME[:900], FRAME[900:]),
    "two structured arrays": (
        FRAME[:900].to_pandas().to_records(index=False),
        FRAME[900:].to_pandas().to_records(index=False),
    ),
    "mixed": [FRAME[1000:], FRAME[:10].to_pandas(), [], FRAME[10:1000].to_arrow(), FRAME[:0]],
    "generator": (FRAME[i : i + 97] for i in range(0, 1728, 97)),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_counts_alike(form, monkeypatch):
    monkeypatch.setattr("mrf_matrix.streams.counting.BLOCK", 251)
    counts = count_stream(FORMS[form], CAR.domain)
    assert_same(counts, WHOLE)
    assert counts.domain == CAR.domain


@st.composite
def divided_records(draw):
    """Draw a domain, records, and where they are cut; cuts may coincide."""
    sizes = draw(st.lists(st.sampled_from([1, 2, 3, 2**31 - 1]), min_size=1, max_size=5))
    k, n = draw(st.integers(1, 3)), draw(st.integers(0, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    codes = np.stack([rng.integers(0, min(s, 3), n) * (s - 1) // 2 for s in sizes], axis=1)
    cuts = sorted(draw(st.lists(st.integers(0, n), max_size=5)))
    return sizes, k, codes, rng.integers(0, k, n), cuts, rng


@given(divided_records(), st.booleans())
def test_any_partition_and_order_counts_as_the_whole(divided, dense):
    sizes, k, codes, labels, cuts, rng = divided
    expected = count_cells(codes.astype(np.int32), labels, sizes, k)
    domain = Domain.from_sizes(sizes, k)
    parts = list(zip(np.split(codes, cuts), np.split(labels, cuts), strict=True))
    order = rng.permutation(len(parts))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"{TALLY}.DENSE_ENTRIES", 2**24 if dense else 0)
        patch.setattr(f"{TALLY}.PENDING_KEYS", 4)
        found = count_stream([parts[i] for i in order], domain)
    assert_same(found, expected)
    merged = merge_counts(partial_counts(*parts[i], domain) for i in order)
    assert_same(merged, expected)
    assert merged.domain == domain


def test_tables_of_some_attributes_in_one_pass():
    sets = [(0, 3), (5,), tuple(range(6)), (4, 1)]
    for features, found in zip(sets, count_tables(FRAME, CAR.domain, sets), strict=True):
        sizes = [CAR.domain.sizes[i] for i in features]
        expected = count_cells(CAR.codes[:, features], CAR.labels, sizes, 4)
        assert_same(found, expected)
        assert_same(WHOLE.marginal(features), expected)
        assert found.domain.names == tuple(CAR.domain.names[i] for i in features)


def test_leaves_of_a_public_forest_are_counted_directly():
    forest = RandomTrees(n_trees=7, max_depth=3).grow(CAR.domain, random_state=1)
    expected = leaf_counts(forest, CAR.codes, CAR.labels, 4)
    found = count_leaves([FRAME[:5], FRAME[5:5], FRAME[5:]], forest)
    np.testing.assert_array_equal(found.counts, expected)
    halves = count_leaves(FRAME[:900], forest) + count_leaves(FRAME[900:], forest)
    np.testing.assert_array_equal(halves.counts, expected)
    np.testing.assert_array_equal(found.answers(found.paths), WHOLE.answers(found.paths))
    other = RandomTrees(n_trees=7, max_depth=3).grow(CAR.domain, random_state=2)
    with pytest.raises(ValueError, match="different forests"):
        found + count_leaves(FRAME, other)
    with pytest.raises(ValueError, match="measures something else"):
        measure(Identity(CAR.domain.size, CAR.domain.sizes), found, PureDP(1))


def test_progress_is_told_in_records():
    told = []
    count_stream([FRAME[:700], FRAME[700:]], CAR.domain, progress=lambda *now: told.append(now))
    assert told == [(700, None), (1728, None)]


def test_counts_are_not_pickled_and_print_nothing():
    counting = CellTally((2,), 2)
    leaves = count_leaves(FRAME, RandomTrees(n_trees=1, max_depth=1).grow(CAR.domain))
    for private in (counting, leaves, count_stream(FRAME, CAR.domain)):
        with pytest.raises(PrivateDataError):
            pickle.dumps(private)
        assert "private" in repr(private)
        assert "1728" not in repr(private)


OTHER = replace(CAR.domain, target=replace(CAR.domain.required_target(), name="label"))


@pytest.mark.parametrize(
    ("batches", "words"),
    [
        ([FRAME[:9], FRAME[9:].rename({"safety": "x"})], "Batch 1.*'safety'"),
        ([FRAME[:9], FRAME[9:].with_columns(pl.lit("~").alias("safety"))], "Batch 1: .*'safety'"),
        ([FRAME.to_numpy()[:, 1:]], r"\(N, 7\), the classes in the last"),
        ([(CAR.X, CAR.y[1:])], "Batch 0: X and y differ in length"),
        (FRAME.lazy(), "LazyFrame"),
        (7, "batches is of type int"),
        ([FRAME.with_columns(pl.lit(1).alias("extra"))], "Batch 0: .*not in the domain"),
        ("records.txt", "expected a file .csv"),
        ("nowhere.csv", "no such file"),
    ],
)
def test_batches_that_do_not_fit_are_named(batches, words):
    with pytest.raises(DomainError, match=words) as caught:
        count_stream(batches, CAR.domain)
    for private in ("1728", "1727", "1719", "'~'", "'extra'"):
        assert private not in str(caught.value)


def test_the_owner_finds_the_values_at_fault():
    with pytest.raises(DomainError) as caught:
        count_stream([FRAME.with_columns(pl.lit("~").alias("safety"))], CAR.domain)
    assert caught.value.values == ("~",)


def test_extra_columns_are_ignored_where_asked_for():
    more = FRAME.with_columns(pl.lit(1).alias("extra"))
    assert_same(count_stream([more], CAR.domain, extra="ignore"), WHOLE)


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ([], "at least one"),
        ([WHOLE, 3], "parts.1. is of type int"),
        ([WHOLE, count_stream(FRAME, CAR.domain)], "another domain"),
        ([WHOLE, WHOLE.marginal([0])], "another domain"),
    ],
)
def test_counts_of_different_domains_do_not_add(parts, words):
    with pytest.raises((ValueError, TypeError), match=words):
        merge_counts(parts)


def test_a_domain_with_classes_is_needed():
    with pytest.raises(TypeError, match="never taken from the records"):
        count_stream(FRAME, "from_data")
    with pytest.raises(DomainError, match="no target"):
        count_stream(FRAME, Domain([Attribute("a", size=2)]))
    with pytest.raises(ValueError, match="those that were counted"):
        replace(WHOLE.marginal([0]), domain=CAR.domain)
    renamed = FRAME.rename({TARGET: "label"})
    assert count_stream(renamed, OTHER).domain != count_stream(FRAME, CAR.domain).domain


def test_no_record_at_all_is_a_data_set():
    for none in ([], [FRAME[:0]], FRAME[:0], [FRAME[:0].to_pandas()], np.empty((0, 7))):
        counts = count_stream(none, CAR.domain)
        assert counts.counts.shape == (0, 4)
    empty = pd.DataFrame({name: pd.Series(dtype=object) for name in COLUMNS})
    assert count_stream([empty, FRAME], CAR.domain).counts.sum() == 1728


# Fits from streams -------------------------------------------------------------------------------


DATA = load_dataset("monks_1")
DOMAIN = DATA.domain
CLASS = DOMAIN.required_target().name
MONKS_FRAME = DATA.frame("polars").with_columns(**{CLASS: DATA.y})
STUDY = {"noise": "research", "noise_state": 3}
SMALL = {"n_trees": 4, "max_depth": 2, "strategy": "identity", "random_state": 0}
MEASURING = {
    "matrix": MatrixForestClassifier(DOMAIN, **SMALL, **STUDY),
    "ensembles": MatrixForestClassifier(DOMAIN, n_ensembles=2, max_features=3, **SMALL, **STUDY),
    "per tree": MatrixForestClassifier(DOMAIN, allocation="per_tree", **SMALL, **STUDY),
    "tables": PosteriorForestClassifier(DOMAIN, random_state=0, **STUDY),
    "bayes": PrivateNaiveBayesClassifier(DOMAIN, **STUDY),
    "batch": BatchPredictionClassifier(DOMAIN, n_ensembles=2, max_features=4, **SMALL, **STUDY),
}


@pytest.mark.parametrize("name", ["ensembles", "per tree", "tables", "bayes", "matrix"])
def test_streams_over_large_domains_count_what_is_measured(name, monkeypatch):
    model = MEASURING[name]
    expected = clone(model).fit(DATA.X, DATA.y).predict_proba(DATA.X)
    given = "mrf_matrix.estimators.count_source"
    monkeypatch.setattr(f"{given}.DENSE_ENTRIES", 0)
    monkeypatch.setattr(f"{TALLY}.DENSE_ENTRIES", 0)
    if name in ("per tree", "tables", "bayes"):  # leaves are all that they measure
        monkeypatch.setattr(f"{given}.count_tables", None)
    fitted = clone(model).fit_stream([MONKS_FRAME[:100], MONKS_FRAME[100:]])
    np.testing.assert_array_equal(fitted.predict_proba(DATA.X), expected)


def test_leaf_counts_serve_a_domain_without_cells():
    domain = Domain.from_sizes([10] * 14, n_classes=2)  # 10**14 cells
    codes = np.random.default_rng(0).integers(0, 10, (300, 14))
    labels = (codes[:, 0] > 5).astype(int)
    blocks = [[i] for i in range(14)]
    forest = BlockTrees(blocks).grow(domain)
    leaves = count_leaves([(codes[:90], labels[:90]), (codes[90:], labels[90:])], forest)
    model = PosteriorForestClassifier(domain, blocks=blocks, epsilon=float("inf"))
    expected = clone(model).fit(codes, labels)
    found = clone(model).fit_counts(leaves)
    np.testing.assert_array_equal(found.release_.answers, expected.release_.answers)
    with pytest.raises(ValueError, match="measures something else"):
        PosteriorForestClassifier(domain, blocks=blocks[:2]).fit_counts(leaves)


def test_a_stream_without_records_or_a_public_domain_is_refused():
    with pytest.raises(ValueError, match="hold no record"):
        PosteriorForestClassifier(DOMAIN).fit_stream([MONKS_FRAME[:0]])
    with pytest.raises(ValueError, match="public before any record is read"):
        PosteriorForestClassifier("from_data").fit_stream([MONKS_FRAME])


# Files and folders in parts -----------------------------------------------------------------------

FILE_DOMAIN = Domain(
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
EXPECTED = count_cells(CODES.astype(np.int32), np.array([0, 1, 0, 1, 1]), FILE_DOMAIN.sizes, 2)
READERS = ["pyarrow", "python"]


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
    assert csv_files.find_quotes(path) == ("after blanks" if ' "' in quoted else "fields")
    assert_expected(count_stream(path, FILE_DOMAIN))


def test_a_compressed_csv(reader, tmp_path):
    path = tmp_path / "x.csv.gz"
    path.write_bytes(gzip.compress(TEXT.encode()))
    assert_expected(count_stream(str(path), FILE_DOMAIN))


def test_small_parts_make_no_difference(reader, tmp_path, monkeypatch):
    path = tmp_path / "x.csv"
    path.write_text(TEXT.splitlines()[0] + "\n" + "a,50.5,Private,2.0,False,5more,>50K\n" * 500)
    monkeypatch.setattr(csv_files, "PART_BYTES", 256)
    told = []
    counts = count_stream(path, FILE_DOMAIN, progress=lambda *now: told.append(now))
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
        count_stream(path, FILE_DOMAIN)
    for private in ("State-gov", "elderly", "wage", " 1 ", "39"):
        assert private not in str(caught.value).replace(str(path), "")


@pytest.mark.parametrize("reader", ["pyarrow", "polars"], indirect=True)
def test_what_is_no_parquet_is_refused_without_its_words(reader, tmp_path):
    path = tmp_path / "x.parquet"
    path.write_text(TEXT)
    for source in (path, iter([path])):
        with pytest.raises(DomainError, match=f"no Parquet file that {reader} can read"):
            count_stream(source, FILE_DOMAIN)


def test_a_torn_compressed_csv_is_refused(reader, tmp_path):
    path = tmp_path / "x.csv.gz"
    path.write_bytes(gzip.compress(TEXT.encode())[:60])
    with pytest.raises(DomainError, match="not a CSV file in UTF-8"):
        count_stream(path, FILE_DOMAIN)


FILE_FRAME = pl.DataFrame(
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
    pq.write_table(FILE_FRAME.to_arrow(), path, row_group_size=3)
    told = []
    assert_expected(count_stream(path, FILE_DOMAIN, progress=lambda *now: told.append(now)))
    assert told[-1] == (5, 5)
    FILE_FRAME.drop("age").write_parquet(path)
    with pytest.raises(DomainError, match=r"lacks the columns.*'age'"):
        count_stream(path, FILE_DOMAIN)


def test_parquet_without_a_reader(tmp_path, monkeypatch):
    FILE_FRAME.write_parquet(tmp_path / "x.parquet")
    monkeypatch.setattr(files, "find_spec", lambda name: None)
    with pytest.raises(DomainError, match="needs pyarrow or polars"):
        count_stream(tmp_path / "x.parquet", FILE_DOMAIN)


def test_a_folder_is_all_its_files(tmp_path):
    (tmp_path / "more").mkdir()
    (tmp_path / "_temporary").mkdir()
    FILE_FRAME.write_parquet(tmp_path / "a.parquet")
    FILE_FRAME.write_parquet(tmp_path / "_temporary" / "b.parquet")
    (tmp_path / "more" / "c.csv").write_text(TEXT)
    (tmp_path / "_SUCCESS").touch()
    found = [Path(one).name for one in data_files(tmp_path)]
    assert found == ["a.parquet", "c.csv"]
    assert_expected(count_stream(tmp_path, FILE_DOMAIN), times=2)
    assert_expected(count_stream([tmp_path, FILE_FRAME.drop("note")], FILE_DOMAIN), times=3)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DomainError, match="found none"):
        count_stream(tmp_path / "empty", FILE_DOMAIN)
