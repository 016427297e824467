"""Rule-generated sets: counts that anybody can check, and the published files row for row."""

import csv
from pathlib import Path

import numpy as np
import pytest

from mrf_matrix.datasets import list_datasets, load_dataset
from mrf_matrix.datasets.built_in import SQUARES

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
    assert data.domain.names == SQUARES


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
