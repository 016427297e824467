"""CSV and Parquet with a domain file, OpenML, and what is refused."""

import csv
import gzip
import json
import math
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn import datasets as scikit

from mrf_matrix.datasets import Dataset, files, list_datasets, load_dataset
from mrf_matrix.domain import Attribute, Domain, DomainError, PrivacyLeakWarning

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
TEXT = """age, work, level, flag, doors, income
39, State-gov, 1, true, 2, <=50K
50.5,Private,2.0,False,5more,>50K

?, "Never, ever", 3, TRUE, 3, <=50K
17, NA, 1, false, 2 , >50K
"""
CODES = [[0, 1, 0, 1, 0], [1, 0, 1, 0, 2], [2, 3, 2, 1, 1], [0, 2, 0, 0, 0]]


@pytest.fixture
def csv_file(tmp_path: Path) -> Path:
    path = tmp_path / "adult.csv"
    path.write_text(TEXT, encoding="utf-8")
    return path


def test_a_csv_with_a_domain_file(csv_file: Path, tmp_path: Path) -> None:
    DOMAIN.save(tmp_path / "adult.json")
    for domain in (DOMAIN, tmp_path / "adult.json", str(tmp_path / "adult.json")):
        data = load_dataset(csv_file, domain=domain)
        assert data.codes.tolist() == CODES
        assert data.labels.tolist() == [0, 1, 0, 1]
        assert data.y.tolist() == ["<=50K", ">50K", "<=50K", ">50K"]
        assert (data.name, data.source) == ("adult", "File adult.csv")
    assert load_dataset(str(csv_file), domain=DOMAIN).columns["level"].tolist() == [1, 2, 3, 1]


def test_chunks_make_no_difference(csv_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = load_dataset(csv_file, domain=DOMAIN)
    for size in (1, 2, 3):
        monkeypatch.setattr(files, "CHUNK", size)
        data = load_dataset(csv_file, domain=DOMAIN)
        np.testing.assert_array_equal(data.codes, whole.codes)
        assert data.X.equals(whole.X)


def test_compressed_and_marked_files(tmp_path: Path) -> None:
    packed = tmp_path / "adult.csv.gz"
    packed.write_bytes(gzip.compress(TEXT.encode("utf-8-sig"), mtime=0))
    data = load_dataset(packed, domain=DOMAIN)
    assert data.codes.tolist() == CODES
    assert data.name == "adult"


def test_frames_in_every_library(csv_file: Path) -> None:
    data = load_dataset(csv_file, domain=DOMAIN)
    assert isinstance(data.X, pd.DataFrame)
    assert isinstance(data.frame("polars"), pl.DataFrame)
    assert isinstance(data.frame("pyarrow"), pa.Table)
    for native in ("pandas", "polars", "pyarrow"):
        np.testing.assert_array_equal(DOMAIN.encode(data.frame(native)), data.codes)  # type: ignore[arg-type]
    np.testing.assert_array_equal(DOMAIN.encode(data.array()), data.codes)


def test_an_array_where_no_frame_library_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_for = "mrf_matrix.datasets.dataset.find_spec"
    monkeypatch.setattr(looked_for, lambda name: None)
    assert isinstance(load_dataset("car").X, np.ndarray)
    monkeypatch.setattr(looked_for, lambda name: name == "polars")
    assert isinstance(load_dataset("car").X, pl.DataFrame)


@pytest.mark.parametrize("ending", ["parquet", "pq"])
def test_parquet(ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / f"x.{ending}"
    frame = pl.DataFrame({"a": ["u", "v", None], "b": [0.5, 1.5, 1.0], "class": [0, 1, 1]})
    frame.write_parquet(path)
    domain = Domain(
        [
            Attribute("a", categories=["u", "v"], missing="category"),
            Attribute("b", edges=[0, 1, 2]),
        ],
        Attribute("class", size=2),
    )
    assert load_dataset(path, domain=domain).codes.tolist() == [[0, 0], [1, 1], [2, 1]]
    monkeypatch.setattr(files, "find_spec", lambda name: name == "pyarrow")
    assert load_dataset(path, domain=domain).codes.tolist() == [[0, 0], [1, 1], [2, 1]]
    monkeypatch.setattr(files, "find_spec", lambda name: None)
    with pytest.raises(DomainError, match="pip install polars"):
        load_dataset(path, domain=domain)


def test_records_with_missing_values_can_be_dropped(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a,b,c,class\n1,?,u,0\n?,2,u,1\n1,2,,1\n2,2,v,?\n3,2,v,1\n")
    domain = Domain(
        [
            Attribute("a", edges=[0, 5]),
            Attribute("b", edges=[0, 5], missing="category"),
            Attribute("c", categories=["u", "v"]),
        ],
        Attribute("class", size=2),
    )
    with pytest.raises(DomainError, match="'a' has missing values"):
        load_dataset(path, domain=domain)
    data = load_dataset(path, domain=domain, drop_missing=True)
    assert data.codes.tolist() == [[0, 1, 0], [0, 0, 1]]
    assert data.labels.tolist() == [0, 1]


def test_a_domain_from_data_warns(csv_file: Path) -> None:
    with pytest.warns(PrivacyLeakWarning):
        data = load_dataset(csv_file, domain="from_data")
    assert data.domain.target is not None
    assert (data.domain.target.name, data.domain.classes) == ("income", ("<=50K", ">50K"))
    assert data.domain.sizes == (4, 4, 3, 4, 3)
    with pytest.warns(PrivacyLeakWarning):
        data = load_dataset(csv_file, domain="from_data", target="level")
    assert data.domain.names == ("age", "work", "flag", "doors", "income")
    assert data.domain.classes == (1, 2, 3)
    with pytest.warns(PrivacyLeakWarning):
        assert load_dataset("iris", domain="from_data").domain.sizes == (8, 8, 8, 8)


def test_a_built_in_set_under_another_domain() -> None:
    iris = load_dataset("iris").domain
    coarse = Domain([Attribute("petal_width", edges=[1], outside="open")], iris.target)
    data = load_dataset("iris", domain=coarse, extra="ignore")
    assert data.codes.shape == (150, 1)
    with pytest.raises(DomainError, match=r"iris has columns.*extra='ignore'"):
        load_dataset("iris", domain=coarse)


BAD_FILES: dict[str, tuple[Any, str]] = {
    "empty": ("", "first line of column names"),
    "repeated": (TEXT.replace("work", "age"), "has the columns 'age' more than once"),
    "short record": (TEXT + "1,2\n", "more or fewer fields than the 6"),
    "columns": ("age,work\n1,2\n", "lacks the columns 'level', 'flag', 'doors', 'income'"),
    "extra": ("age,work,level,flag,doors,income,id\n", "not in the domain"),
    "not a number": (TEXT.replace("39,", "old,"), "'age' holds text where numbers"),
    "unknown": (TEXT.replace("5more", "6"), "'doors'.*not in"),
    "label": (TEXT.replace(">50K", ">50K."), "'income'.*not in"),
    "latin": ("é,b\n".encode("latin-1"), "UTF-8"),
    "quote": (TEXT + '"1,2\n', "not a CSV file"),
    "no header": ("secret,secret\n", "lacks the columns"),
}


def test_short_floats_of_a_file_are_the_decimals_that_they_are_written_as(tmp_path: Path) -> None:
    """The float32 0.7 stands at the edge 0.7, in the frame of a data set too."""
    domain = Domain(
        [Attribute("a", edges=[0.1, 0.25, 0.7, 0.9]), Attribute("b", categories=["0.1", "0.7"])],
        target=Attribute("y", categories=["n", "p"]),
    )
    short = np.array([0.1, 0.7, 0.25], np.float32)
    coded = pa.array(np.array([0.1, 0.7, 0.1], np.float32)).dictionary_encode()
    path = tmp_path / "short.parquet"
    pl.from_arrow(pa.table({"a": short, "b": coded, "y": ["n", "p", "n"]})).write_parquet(path)
    data = load_dataset(path, domain)
    expected = [[0, 0], [2, 1], [1, 0]]
    assert data.codes.tolist() == expected
    for records in (data.X, data.array(), data.frame("polars"), data.frame("pyarrow")):
        assert domain.encode(records).tolist() == expected


@pytest.mark.parametrize("name", ["x.parquet", "x.csv.gz"])
@pytest.mark.parametrize(
    "content", [b"", b"secret", b"PAR1secretPAR1", gzip.compress(b"a", mtime=0)[:-9]]
)
def test_a_broken_file_ends_in_one_line_without_its_bytes(
    name: str, content: bytes, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DomainError) as caught:
        load_dataset(path, domain=DOMAIN)
    assert str(path) in str(caught.value)
    assert "secret" not in str(caught.value).replace(str(path), "")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_files_are_refused(case: str, tmp_path: Path) -> None:
    content, words = BAD_FILES[case]
    path = tmp_path / "x.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DomainError, match=words):
        load_dataset(path, domain=DOMAIN)


BAD_CALLS: dict[str, tuple[Any, dict[str, Any], str]] = {
    "unknown": ("cars", {}, "Did you mean 'car'.*openml:NAME"),
    "far off": ("xyzzy", {}, "Known are car, nursery"),
    "spelling": ("Breast Cancer", {}, "Did you mean 'breast_cancer'"),
    "number": (3, {}, "name=3"),
    "no domain": ("x.csv", {}, "needs a public domain.*from_data"),
    "no domain, OpenML": ("openml:adult", {}, "needs a public domain"),
    "bad domain": ("x.csv", {"domain": 3}, "domain is of type int"),
    "no name": ("openml:", {"domain": "from_data"}, "openml:mushroom"),
    "bad version": ("openml:adult@x", {"domain": "from_data"}, "version 'x'"),
    "target": ("car", {"target": "safety"}, "comes with its own"),
    "other target": ("car", {"target": "safety", "domain": DOMAIN}, "the domain's target is"),
    "bad extra": ("iris", {"domain": DOMAIN, "extra": "drop"}, "extra='drop'"),
    "no target": ("iris", {"domain": Domain.from_sizes([2])}, "no target"),
    "no such target": ("iris", {"domain": "from_data", "target": "x"}, "target='x'"),
}


@pytest.mark.parametrize("case", BAD_CALLS)
def test_bad_calls_are_refused(case: str) -> None:
    name, options, words = BAD_CALLS[case]
    with pytest.raises(DomainError, match=words):
        load_dataset(name, **options)


def test_a_missing_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load_dataset(tmp_path / "none.csv", domain=DOMAIN)


@pytest.fixture
def openml(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Stand in for the network: record the calls, answer with a small set."""
    calls: list[dict[str, Any]] = []
    frame = pd.DataFrame({"odor": pd.Categorical(["a", "n"]), "class": ["e", "p"]})

    def fetch(**arguments: Any) -> SimpleNamespace:
        calls.append(arguments)
        as_frame = arguments["as_frame"]
        return SimpleNamespace(
            data=frame[["odor"]] if as_frame else frame[["odor"]].to_numpy(),
            target=frame["class"],
            frame=frame if as_frame else None,
            feature_names=["odor"],
            target_names=["class"],
            details={"id": "24", "licence": "Public"},
            url="https://www.openml.org/d/24",
        )

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)
    return calls


MUSHROOM = Domain(
    [Attribute("odor", categories=["n", "a"])], Attribute("class", categories=["e", "p"])
)


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("openml:mushroom", {"name": "mushroom", "version": "active"}),
        ("openml:mushroom@2", {"name": "mushroom", "version": 2}),
        ("openml:24", {"data_id": 24}),
    ],
)
def test_openml(openml: list[dict[str, Any]], name: str, asked: dict[str, Any]) -> None:
    data = load_dataset(name, domain=MUSHROOM)
    assert asked.items() <= openml[0].items()
    assert data.codes.tolist() == [[1], [0]]
    assert data.y.tolist() == ["e", "p"]
    assert data.licence == "Public"
    assert "OpenML 24" in data.source


def test_openml_without_pandas(
    openml: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mrf_matrix.datasets.tables.find_spec", lambda name: None)
    assert load_dataset("openml:24", domain=MUSHROOM).codes.tolist() == [[1], [0]]
    assert openml[0]["as_frame"] is False


def test_openml_from_data_warns(openml: list[dict[str, Any]]) -> None:
    with pytest.warns(PrivacyLeakWarning):
        data = load_dataset("openml:24", domain="from_data")
    assert data.domain.classes == ("e", "p")


def test_a_dataset_shows_its_sizes_not_its_records() -> None:
    data = load_dataset("monks_1")
    assert repr(data) == "Dataset('monks_1': 432 records, 6 attributes, 2 classes, 432 cells)"
    assert isinstance(data, Dataset)
    with pytest.raises(TypeError):
        data.columns["a1"] = np.zeros(1)  # type: ignore[index]


# Built-in sets ------------------------------------------------------------------------------------

COUNTS = {
    "car": {"unacc": 1210, "acc": 384, "good": 69, "vgood": 65},
    "nursery": {
        "not_recom": 4320, "recommend": 2, "very_recom": 328, "priority": 4266, "spec_prior": 4044,
    },
    "balance_scale": {"L": 288, "B": 49, "R": 288},
    "tic_tac_toe": {"negative": 332, "positive": 626},
    "monks_1": {0: 216, 1: 216},
    "monks_2": {0: 290, 1: 142},
    "monks_3": {0: 204, 1: 228},
}  # fmt: skip
FILES = {name: f"{name}.csv" for name in ("car", "nursery", "balance_scale", "tic_tac_toe")}
FILES["monks_3"] = "monks3.csv"
SAME_ORDER = ("car", "nursery", "balance_scale")


@pytest.mark.parametrize("name", COUNTS)
def test_class_counts(name: str) -> None:
    data = load_dataset(name)
    counts = np.bincount(data.labels, minlength=data.domain.n_classes)
    assert dict(zip(data.domain.classes, counts.tolist(), strict=True)) == COUNTS[name]
    assert sum(COUNTS[name].values()) == data.n_records == len(data.y)


@pytest.mark.parametrize("name", COUNTS)
def test_records_are_distinct_cells(name: str) -> None:
    data = load_dataset(name)
    cells = np.ravel_multi_index(tuple(data.codes.T), data.domain.sizes)
    assert len(np.unique(cells)) == data.n_records
    if name != "tic_tac_toe":
        assert data.n_records == data.domain.size
        assert (np.diff(cells) == 1).all()


def published_rows(path: Path) -> list[tuple[str, ...]]:
    with path.open(newline="", encoding="utf-8") as file:
        return [tuple(row) for row in csv.reader(file)]


@pytest.mark.parametrize("name", FILES)
def test_published_files_row_for_row(name: str, shared_dir: Path) -> None:
    header, *published = published_rows(shared_dir / "data" / FILES[name])
    data = load_dataset(name)
    generated = [
        (*map(str, record), str(label)) for record, label in zip(data.array(), data.y, strict=True)
    ]
    assert tuple(header) == (*data.domain.names, "class")
    if name in SAME_ORDER:
        assert generated == published
    else:
        assert sorted(generated) == sorted(published)


@pytest.mark.parametrize("name", FILES)
def test_the_file_route_agrees_with_the_rule(name: str, shared_dir: Path) -> None:
    rule = load_dataset(name)
    read = load_dataset(shared_dir / "data" / FILES[name], domain=rule.domain)
    assert read.X.equals(read.domain.decode(read.codes, native="pandas"))
    order = [np.lexsort(np.column_stack([d.codes, d.labels]).T) for d in (rule, read)]
    np.testing.assert_array_equal(rule.codes[order[0]], read.codes[order[1]])
    np.testing.assert_array_equal(rule.labels[order[0]], read.labels[order[1]])


def test_end_boards_by_playing_every_game() -> None:
    """All end states are found by play: another route than the counting in the package."""
    lines = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]
    found: dict[str, str] = {}
    seen: set[str] = set()

    def play(board: str, player: str) -> None:
        if board in seen:
            return
        seen.add(board)
        winners = {board[a] for a, b, c in lines if board[a] == board[b] == board[c] != "b"}
        if winners or "b" not in board:
            found[board] = "positive" if "x" in winners else "negative"
            return
        for square in range(9):
            if board[square] == "b":
                play(board[:square] + player + board[square + 1 :], "o" if player == "x" else "x")

    play("b" * 9, "x")
    data = load_dataset("tic_tac_toe")
    generated = {"".join(record): label for record, label in zip(data.array(), data.y, strict=True)}
    assert generated == found
    assert data.domain.names == ("tl", "tm", "tr", "ml", "mm", "mr", "bl", "bm", "br")


def test_better_cars_are_never_worse() -> None:
    """The models are monotone: a better value never lowers the class (but "more" persons may)."""
    for name, sign in (("car", 1), ("nursery", -1)):
        data = load_dataset(name)
        rank = {"not_recom": 0, "spec_prior": 1, "priority": 2, "very_recom": 3, "recommend": 4}
        labels = data.labels if name == "car" else np.array([rank[label] for label in data.y])
        grid = labels.reshape(data.domain.sizes)
        for axis in range(grid.ndim):
            if data.domain.names[axis] == "persons":
                continue
            assert (sign * np.diff(grid, axis=axis) >= 0).all()


def test_every_listed_set_loads_as_it_is_listed() -> None:
    rows = list_datasets()
    assert [row.name for row in rows] == [*COUNTS, "iris", "wine", "breast_cancer"]
    for row in rows:
        data = load_dataset(row.name)
        assert data.info == row
        assert row.to_dict()["n_cells"] == data.domain.size
        assert data.codes.dtype == data.labels.dtype == np.int32
        assert row.source
        assert row.licence


# Scikit-learn's sets -----------------------------------------------------------------------------


NAMES = ["iris", "wine", "breast_cancer"]


@pytest.mark.parametrize("name", NAMES)
def test_values_and_classes_are_scikit_learns(name: str) -> None:
    data = load_dataset(name)
    bunch = getattr(scikit, f"load_{name}")()
    np.testing.assert_array_equal(np.column_stack(list(data.columns.values())), bunch.data)
    np.testing.assert_array_equal(data.labels, bunch.target)
    assert list(data.domain.classes) == list(bunch.target_names)
    if name != "iris":
        assert list(data.domain.names) == list(bunch.feature_names)


@pytest.mark.parametrize("name", NAMES)
def test_every_bin_is_used(name: str) -> None:
    """Edges in the wrong unit, or swapped between attributes, would leave bins empty."""
    data = load_dataset(name)
    for i, size in enumerate(data.domain.sizes):
        counts = np.bincount(data.codes[:, i], minlength=size)
        # the published cut-offs of iris have a bin, 2 to 3 cm, between two species
        assert counts.min() > 0 or name == "iris", data.domain.names[i]
        assert counts.max() < 0.9 * data.n_records, data.domain.names[i]


@pytest.mark.parametrize("name", ["wine", "breast_cancer"])
def test_edges_lie_within_the_published_range(name: str) -> None:
    """The published range stands in the set's description; no data is needed to choose edges."""
    description = getattr(scikit, f"load_{name}")().DESCR
    data = load_dataset(name)
    table = re.findall(r"^(\S.*?): +([\d.]+) +([\d.]+)", description, flags=re.M)
    ranges = [(float(low), float(high)) for _, low, high in table]
    assert len(ranges) == data.domain.n_attributes
    for attribute, (low, high) in zip(data.domain.attributes, ranges, strict=True):
        edges = attribute.edges or ()
        assert low <= edges[0] < edges[-1] <= high, attribute
        assert attribute.bins[0][0] == -math.inf


def test_iris_has_the_published_cutoffs(shared_dir: Path) -> None:
    schema = json.loads((shared_dir / "data/schemas/iris_schema.json").read_text())
    domain = load_dataset("iris").domain
    assert domain.size == 360
    for attribute, published in zip(domain.attributes, schema["attributes"], strict=False):
        assert attribute.name == published["name"]
        assert attribute.edges == tuple(published["cutoffs"])
        assert attribute.size == len(published["categories"])
