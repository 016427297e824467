"""What the tests of the command line share."""

import csv
import re

import numpy as np
import pytest

from mrf_matrix import load_dataset, save_model
from mrf_matrix.estimators import PosteriorForestClassifier


@pytest.fixture
def numbers_told(tmp_path):
    """Return a function: the whole numbers in a text, those of the test's own folder apart."""
    folder = r"\s*".join(map(re.escape, str(tmp_path)))  # a long path is broken over lines

    def numbers(text):
        return re.findall(r"(?<![\d.])\d+(?!\d|\.\d)", re.sub(folder, "", text))

    return numbers


@pytest.fixture
def no_records(monkeypatch):
    """Close every way to records: what reads one cannot pass."""

    def refuse(*anything, **named):
        raise AssertionError("records were read")

    for reader in ("built_in.BuiltIn.load", "files.read_file"):
        monkeypatch.setattr(f"mrf_matrix.datasets.{reader}", refuse)


@pytest.fixture(scope="session")
def monks(tmp_path_factory):
    """Return a folder of "monks_1": records, in one file and in two, and their domain."""
    folder, data = tmp_path_factory.mktemp("monks"), load_dataset("monks_1")
    n = len(data.y)
    more = {"patient": np.arange(n), "comment": ["=1+1"] * n}
    columns = {**data.columns, data.domain.target.name: data.y, **more}
    rows = list(zip(*columns.values(), strict=True))
    (folder / "parts").mkdir()
    for name, part in (("records", rows), ("parts/a", rows[:200]), ("parts/b", rows[200:])):
        with (folder / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([columns, *part])
    data.domain.save(folder / "domain.json")
    return folder


@pytest.fixture(scope="session")
def tables_file(tmp_path_factory):
    """Return the file of a posterior forest of "monks_1"."""
    data = load_dataset("monks_1")
    file = tmp_path_factory.mktemp("models") / "tables.mrf"
    save_model(PosteriorForestClassifier(data.domain, epsilon=2).fit(data.X, data.y), file)
    return file
