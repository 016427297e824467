"""Rule-generated sets: counts that anybody can check, and the published files row for row."""

import csv
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from sklearn import datasets as scikit

from mrf_matrix.datasets import list_datasets, load_dataset

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
