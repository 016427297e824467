"""The command line's door: one line, no private value without --debug, and bugs stay bugs."""

import csv
import re

import click
import narwhals
import polars
import pyarrow
import pytest
from click.testing import CliRunner

from mrf_matrix import Attribute, Domain
from mrf_matrix.cli.errors import user_errors
from mrf_matrix.cli.main import main
from mrf_matrix.domain import DomainError

N, SECRET = 137, "sekret"
DOMAIN = Domain(
    [Attribute("age", edges=[0, 50, 100]), Attribute("sex", categories=["F", "M"])],
    Attribute("income", categories=["low", "high"]),
)
FIT = ["--n-trees", "2", "--max-depth", "1", "--strategy", "identity"]


def run(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def write(path, header=("age", "sex", "income"), row=("30", "F", "low"), last=None):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerows([header, *[row] * (N - 1), last or row])
    return path


@pytest.fixture
def folder(tmp_path):
    DOMAIN.save(tmp_path / "domain.json")
    write(tmp_path / "good.csv")
    done = run(
        "fit", tmp_path / "good.csv", "--domain", tmp_path / "domain.json", *FIT,
        "--output", tmp_path / "good.mrf",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    return tmp_path


FILES = {
    "category": {"last": ("30", SECRET, "low")},
    "number": {"last": (SECRET, "F", "low")},
    "fields": {"last": ("30", "F", "low", SECRET)},
    "no header": {"header": (SECRET, "F", "low")},
}


@pytest.mark.parametrize("case", FILES)
def test_values_are_shown_with_debug_only(case, folder):
    bad = write(folder / "bad.csv", **FILES[case])
    commands = [
        ["fit", bad, "--domain", folder / "domain.json", *FIT, "--output", folder / "m.mrf"],
        ["predict", folder / "good.mrf", bad],
    ]
    for command in commands:
        done = run(*command)
        assert done.exit_code == 1
        words = done.output.replace(str(folder), "")
        assert words.startswith("Error: ")
        assert words.count("\n") == 1
        assert SECRET not in words
        assert str(N) not in re.findall(r"\d+", words)
        debugged = run(*command, "--debug")
        assert debugged.exit_code == 1
        assert case == "no header" or f"'{SECRET}'" in debugged.output
        assert "--debug: what follows may show private values" in debugged.output
        assert "Traceback" in debugged.output
        assert debugged.output.endswith(done.output)
    assert not (folder / "m.mrf").exists()


def test_a_corrupt_parquet_file_is_one_line(folder):
    (folder / "bad.parquet").write_bytes(b"PAR1" + SECRET.encode() * 40 + b"PAR1")
    done = run(
        "fit", folder / "bad.parquet", "--domain", folder / "domain.json", *FIT,
        "--output", folder / "m.mrf",
    )  # fmt: skip
    assert done.exit_code == 1
    assert done.output.count("\n") == 1
    assert "is no Parquet file" in done.output
    assert SECRET not in done.output


ERRORS = {
    "ours": (DomainError("say this"), "say this"),
    "polars": (polars.exceptions.ComputeError(SECRET), "polars cannot read the data"),
    "narwhals": (narwhals.exceptions.DuplicateError(SECRET), "narwhals cannot read the data"),
    "pyarrow": (pyarrow.lib.ArrowInvalid(SECRET), "pyarrow cannot read the data"),
    "overflow": (OverflowError(SECRET), "too large"),
    "memory": (MemoryError(), "Out of memory"),
    "file": (FileNotFoundError(2, "No such file", "x.csv"), "x.csv"),
    "words of another library": (ValueError(SECRET), "cannot be used"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_whatever_readers_raise_is_one_line(case, monkeypatch):
    error, words = ERRORS[case]

    @click.command()
    @user_errors
    def command():
        raise error

    if case == "ours":
        monkeypatch.setattr("mrf_matrix.cli.errors.is_ours", lambda error: True)
    done = CliRunner().invoke(command, [])
    assert done.exit_code == 1
    assert words in done.output
    assert done.output.count("\n") == 1
    assert SECRET not in done.output
    debugged = CliRunner().invoke(command, ["--debug"])
    assert "Traceback" in debugged.output


@pytest.mark.parametrize("bug", [KeyError("x"), AttributeError("x"), IndexError("x")])
def test_bugs_are_not_hidden(bug):
    @click.command()
    @user_errors
    def command():
        raise bug

    assert CliRunner().invoke(command, []).exception is bug


def test_blocks_beyond_the_attributes_are_refused(folder):
    done = run(
        "fit", folder / "good.csv", "--domain", folder / "domain.json", "--kind", "tables",
        "--n-blocks", "99", "--output", folder / "m.mrf",
    )  # fmt: skip
    assert done.exit_code == 1
    assert "n_blocks=99: expected at most 2" in done.output
