"""The data sets on which we meet our rivals, as integer codes over public domains.

Discretisations are the published ones where there are any; ordered codes stay in their order, so
that threshold splits mean something to a rival that takes codes for numbers.
"""

import csv
import json
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from mrf_matrix import Attribute, Domain, load_dataset

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "data"
needs_csv_files = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="needs the CSV files of ../shared/data"
)
SMALL = ("car", "balance_scale", "iris", "heart", "tic_tac_toe")
LARGE = ("chess_krvskp", "mushroom", "nursery", "adult", "a9a")
NAMES = SMALL + LARGE
GENERATED = ("car", "balance_scale", "nursery", "tic_tac_toe", "iris")
ORDERED_SETS = ("car", "balance_scale", "nursery", "iris")
ORDERED_CATEGORIES = {"slope", "ca", "ring_number"}


class RivalData(NamedTuple):
    """A data set as codes: name, codes (N, d), labels (N,), domain, and which codes are ordered."""

    name: str
    codes: np.ndarray
    labels: np.ndarray
    domain: Domain
    ordered: np.ndarray


def coded_attribute(name: str, size: int, *, ordered: bool) -> Attribute:
    """Return an attribute whose values are codes; falling numbers stand for those in no order."""
    if ordered:
        return Attribute(name, size=size)
    return Attribute(name, categories=[*range(size)][::-1])


def available(name: str) -> bool:
    """Say whether the data set can be had here: generated, or beside this checkout."""
    return name in GENERATED or FOLDER.is_dir()


@cache
def load(name: str) -> RivalData:
    """Return one data set."""
    if name in GENERATED:
        data = load_dataset(name)
        ordered = [name in ORDERED_SETS] * data.domain.n_attributes
        return _checked(name, data.codes, data.labels, data.domain, ordered)
    readers = {
        "heart": _heart,
        "mushroom": _mushroom,
        "chess_krvskp": _chess,
        "adult": _adult,
        "a9a": _a9a,
    }
    if name not in readers:
        raise ValueError(f"name={name!r}: expected one of {', '.join(NAMES)}.")
    return readers[name]()


def split(data: RivalData, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the records of the seed's split: four fifths to train on, one fifth to test."""
    n_records = len(data.labels)
    order = np.random.default_rng(seed).permutation(n_records)
    return order[n_records // 5 :], order[: n_records // 5]


def _heart() -> RivalData:
    header, rows = _table("heart_mrf")
    return _by_schema("heart", header[:-1], rows, "heart_schema")


def _mushroom() -> RivalData:
    header, rows = _table("mushroom")
    return _by_schema("mushroom", header[:-1], rows, "mushroom")


def _adult() -> RivalData:
    """Adult under the published schema, which leaves out fnlwgt and education_num."""
    header, rows = _table("adult")
    left_out = ("fnlwgt", "education_num")
    keep = [i for i, column in enumerate(header) if column not in left_out]
    rows = [[row[i] for i in keep] for row in rows]
    return _by_schema("adult", [header[i] for i in keep[:-1]], rows, "adult_schema")


def _chess() -> RivalData:
    header, rows = _table("chess_krvskp")
    values = {"dwipd": ["g", "l"], "katri": ["b", "n", "w"], "wtoeg": ["n", "t"]}
    attributes = [Attribute(c, categories=values.get(c, ["f", "t"])) for c in header[:-1]]
    domain = Domain(attributes, target=Attribute("class", categories=["nowin", "won"]))
    columns = [[a.categories.index(row[j]) for row in rows] for j, a in enumerate(attributes)]
    labels = [int(row[-1] == "won") for row in rows]
    return _checked(
        "chess_krvskp", np.column_stack(columns), labels, domain, [False] * len(attributes)
    )


def _a9a() -> RivalData:
    """Adult as 123 binary features: one a category or bin, none where the value is unknown."""
    header, rows = _table("adult")
    rule = json.loads((FOLDER / "a9a_rule.json").read_text())
    codes = np.zeros((len(rows), 123), dtype=np.int32)
    for column, (first, edges) in rule["bins_1based_start_and_upper_edges"].items():
        numbers = [float(row[header.index(column)]) for row in rows]
        codes[np.arange(len(rows)), first - 1 + np.searchsorted(edges, numbers)] = 1
    for column, feature in rule["categories_in_feature_order_by_column"].items():
        values = np.array([row[header.index(column)] for row in rows])
        for i, value in enumerate(feature["values"]):
            codes[:, feature["first_feature"] - 1 + i] = values == value
    domain = Domain.from_sizes([2] * 123, n_classes=2)
    labels = [int(row[-1] == ">50K") for row in rows]
    return _checked("a9a", codes, labels, domain, [True] * 123)


def _by_schema(name: str, header: list[str], rows: list[list[str]], schema: str) -> RivalData:
    published = json.loads((FOLDER / "schemas" / f"{schema}.json").read_text())["attributes"]
    attributes, columns, ordered = [], [], []
    for j, (column, entry) in enumerate(zip([*header, "class"], published, strict=True)):
        attribute, codes = _coded(column, entry, [row[j] for row in rows])
        attributes.append(attribute)
        columns.append(codes)
        ordered.append("cutoffs" in entry or column in ORDERED_CATEGORIES)
    domain = Domain(attributes[:-1], target=attributes[-1])
    return _checked(name, np.column_stack(columns[:-1]), columns[-1], domain, ordered[:-1])


def _coded(column: str, entry: dict, values: list[str]) -> tuple[Attribute, list[int]]:
    """Return the published attribute and the values' codes; unknown values get a code of theirs."""
    if "cutoffs" in entry:
        edges = entry["cutoffs"]
        return (
            Attribute(column, size=len(edges) + 1),
            np.searchsorted(edges, [float(value) for value in values], side="right").tolist(),
        )
    groups = entry["categories"]
    if not isinstance(groups, dict):
        groups = {str(value): [str(value)] for value in groups}
    lookup = {member: code for code, members in enumerate(groups.values()) for member in members}
    names = list(groups)
    if column in ("workclass", "occupation", "native_country"):  # Adult's published unknowns
        names.append("?")
        lookup["?"] = len(groups)
    return Attribute(column, categories=names), [lookup[value] for value in values]


def _table(name: str) -> tuple[list[str], list[list[str]]]:
    with (FOLDER / f"{name}.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    return header, rows


def _checked(name: str, codes: np.ndarray, labels: list, domain: Domain, ordered) -> RivalData:
    codes, labels = np.asarray(codes, dtype=np.int32), np.asarray(labels, dtype=np.int32)
    sizes = np.array(domain.sizes)
    if not ((codes >= 0) & (codes < sizes)).all():
        raise ValueError(f"codes of {name} lie outside its domain: the file is not the usual one.")
    return RivalData(name, codes, labels, domain, np.asarray(ordered, dtype=bool) | (sizes <= 2))
