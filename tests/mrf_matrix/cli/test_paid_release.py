"""A paid release is never lost, and no output takes the place of a file unasked or by half."""

import errno
import json
import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import click
import pytest
from command_line import run

from mrf_matrix import (
    MatrixForestClassifier,
    PrivacyLedger,
    load_dataset,
    load_model,
    load_release,
)

FIT = ["fit", "monks_1", "--n-trees", "4", "--max-depth", "2", "--strategy", "identity"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return the folder of outputs, apart from the ledger's, the caller's and the home."""
    for name in ("out", "ledgers", "here", "home"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "home"))
    return tmp_path / "out"


@pytest.fixture
def ledger(tmp_path, folder):
    path = tmp_path / "ledgers" / "ledger.json"
    PrivacyLedger.open(path, epsilon=2)
    return path


def fill(monkeypatch, *folders):
    """Let no file take its place in some folders: their disk is full."""
    replace = os.replace

    def refused(source, target):
        if Path(target).parent in folders and "ledger.json" not in str(target):
            raise OSError(errno.ENOSPC, "No space left on device")
        replace(source, target)

    monkeypatch.setattr(os, "replace", refused)


def test_a_release_without_room_is_written_beside_the_ledger(folder, ledger, monkeypatch):
    fill(monkeypatch, folder)
    done = run(*FIT, "--epsilon", "1/2", "--ledger", ledger, "--output", folder / "m.mrf")
    assert done.exit_code == 1
    (kept,) = ledger.parent.glob("m-*.mrf")
    for words in (
        f"{folder / 'm.mrf'} could not be written",
        "No space left on device",
        "PureDP(epsilon=0.5) is spent",
        str(ledger),
        str(kept),
        "Do not pay again",
    ):
        assert words in done.output
    monks = load_dataset("monks_1")
    assert len(load_model(kept).predict(monks.X)) == len(monks.y)
    assert os.listdir(folder) == []


@pytest.mark.parametrize("kept", ["here", "home"])
def test_the_next_folder_with_room_takes_it(folder, ledger, tmp_path, monkeypatch, kept):
    full = [folder, ledger.parent, *([tmp_path / "here"] if kept == "home" else [])]
    fill(monkeypatch, *full)
    done = run(*FIT, "--ledger", ledger, "--output", folder / "m.mrf")
    (file,) = (tmp_path / kept).glob("m-*.mrf")
    assert str(file) in done.output
    load_model(file)


def test_where_no_folder_takes_it_the_error_says_what_is_spent_and_lost(
    folder, ledger, tmp_path, monkeypatch
):
    fill(monkeypatch, folder, ledger.parent, tmp_path / "here", tmp_path / "home")
    done = run(*FIT, "--ledger", ledger, "--output", folder / "m.mrf")
    assert "PureDP(epsilon=1) is spent" in done.output
    assert "is lost" in done.output


def test_a_model_that_is_there_survives_a_full_disk(folder, ledger, monkeypatch):
    run(*FIT, "--output", folder / "m.mrf")
    before = (folder / "m.mrf").read_bytes()
    fill(monkeypatch, folder)
    assert run(*FIT, "--output", folder / "m.mrf", "--overwrite").exit_code == 1
    assert (folder / "m.mrf").read_bytes() == before


LIMITED = """
import resource, sys
from mrf_matrix.cli.main import main
resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))
main(sys.argv[1:])
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there are no limits on files")
def test_where_files_have_no_room_nothing_is_spent(folder, ledger):
    arguments = [*FIT, "--ledger", str(ledger), "--output", str(folder / "m.mrf")]
    done = subprocess.run([sys.executable, "-c", LIMITED, *arguments], capture_output=True)
    assert done.returncode == 1
    assert b"m.mrf" in done.stderr
    assert b"Traceback" not in done.stderr
    assert os.listdir(folder) == []
    assert PrivacyLedger.open(ledger).spent == 0


@pytest.mark.parametrize("arguments", [FIT, [*FIT, "--strategy", "nope"]])
def test_fit_leaves_the_users_part_file_alone(folder, arguments):
    (folder / "m.mrf.part").write_text("precious")
    run(*arguments, "--output", folder / "m.mrf")
    assert (folder / "m.mrf.part").read_text() == "precious"


@pytest.fixture
def model(folder):
    assert run(*FIT, "--output", folder / "m.mrf").exit_code == 0
    return folder / "m.mrf"


def test_predictions_are_not_overwritten_unless_asked(folder, model):
    out = folder / "out.csv"
    out.write_text("old")
    done = run("predict", model, "monks_1", "--output", out)
    assert done.exit_code == 1
    assert "--overwrite" in done.output
    assert out.read_text() == "old"
    assert run("predict", model, "monks_1", "--output", out, "--overwrite").exit_code == 0
    assert out.read_text() == run("predict", model, "monks_1").stdout


def test_predictions_are_whole_or_not_at_all(folder, model, monkeypatch):
    out = folder / "out.csv"
    out.write_text("old")
    fill(monkeypatch, folder)
    done = run("predict", model, "monks_1", "--output", out, "--overwrite")
    assert done.exit_code == 1
    assert f"No space left on device: '{out}'" in done.output
    assert out.read_text() == "old"
    assert sorted(os.listdir(folder)) == ["m.mrf", "out.csv"]


def test_no_command_replaces_what_it_reads(folder, model, ledger):
    before = model.read_bytes()
    done = run("predict", model, "monks_1", "--output", model, "--overwrite")
    assert "that this command reads" in done.output
    assert model.read_bytes() == before
    done = run(*FIT, "--ledger", ledger, "--output", ledger, "--overwrite")
    assert "that this command reads" in done.output
    assert PrivacyLedger.open(ledger).spent == 0
    assert json.loads(ledger.read_text())["charges"] == []


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="pipes are others there")
def test_a_reader_that_goes_away_loses_nothing(folder, ledger):
    arguments = [*FIT, "--ledger", str(ledger), "--output", str(folder / "m.mrf")]
    reads, writes = os.pipe()
    os.close(reads)
    command = [sys.executable, "-c", "from mrf_matrix.cli.main import main; main()", *arguments]
    done = subprocess.run(command, stdout=writes, stderr=subprocess.PIPE)
    os.close(writes)
    assert done.returncode == 1
    (line,) = done.stderr.decode().splitlines()
    for words in ("nobody reads standard output", "PureDP(epsilon=1) is spent", "m.mrf"):
        assert words in line
    load_model(folder / "m.mrf")


def test_nothing_is_drawn_to_be_printed_where_nobody_reads(folder, monkeypatch):
    monkeypatch.setattr("mrf_matrix.cli.paid_release.check_stdout", _nobody)
    done = run(
        "federate", "simulate", "monks_1", "--by", "a6", "--n-trees", "2", "--max-depth", "1",
        "--strategy", "identity",
    )  # fmt: skip
    assert done.exit_code == 1
    assert done.output == "Error: nobody reads standard output: give --output FILE.\n"


def _nobody():
    raise click.ClickException("nobody reads standard output: give --output FILE.")


def test_a_second_fit_of_one_name_replaces_nothing(folder, ledger, monkeypatch):
    output, fit = folder / "m.mrf", MatrixForestClassifier.fit

    def meanwhile(self, *arguments, **settings):
        output.write_bytes(b"another's")
        return fit(self, *arguments, **settings)

    monkeypatch.setattr(MatrixForestClassifier, "fit", meanwhile)
    done = run(*FIT, "--ledger", ledger, "--output", output)
    assert done.exit_code == 1
    assert f"could not be written ([Errno 17] File exists: '{output}')" in done.output
    assert output.read_bytes() == b"another's"
    (kept,) = folder.glob("m-*.mrf")
    assert load_model(kept).privacy_report_.is_private
    (charge,) = PrivacyLedger.open(ledger).charges
    assert charge.model == sha256(kept.read_bytes()).hexdigest()


def test_an_evaluation_is_written_before_it_is_shown(tables_file, ledger, tmp_path, monkeypatch):
    def broken(*args, **keywords):
        raise BrokenPipeError

    monkeypatch.setattr("mrf_matrix.cli.evaluate.console", broken)
    asked = ("evaluate", tables_file, "monks_1", "--epsilon", "1")
    run(*asked, "--output", tmp_path / "e.json")
    assert (tmp_path / "e.json").read_text().startswith("{")
    done = run(*asked, "--ledger", ledger)
    (kept,) = (tmp_path / "here").glob("evaluation-*.json")
    assert f"the evaluation is written: {kept}. Do not pay again." in done.output


def test_a_fit_that_fails_after_its_noise_leaves_its_releases(folder, ledger, monkeypatch):
    monkeypatch.setattr("mrf_matrix.kinds.tables.product_posterior", lambda *args: 1 / 0)
    asked = ("--kind", "tables", "--ledger", ledger, "--output", folder / "m.mrf")
    done = run("fit", "monks_1", *asked)
    assert done.exit_code == 1
    assert "is spent" in done.output
    (kept,) = folder.glob("m-release-1-*.release")
    assert load_release(kept).is_private
    assert PrivacyLedger.open(ledger).spent == 1


def test_folders_that_are_gone_do_not_end_the_search(folder, ledger, tmp_path, monkeypatch):
    def gone(*args):
        raise FileNotFoundError

    fill(monkeypatch, folder, ledger.parent)
    monkeypatch.setattr(Path, "home", gone)
    monkeypatch.setattr(Path, "cwd", gone)
    done = run(*FIT, "--ledger", ledger, "--output", folder / "m.mrf")
    (kept,) = (tmp_path / "home").glob("m-*.mrf")
    assert str(kept) in done.output
