"""What is paid for is kept, whatever disk or reader does; evaluations, pages and ledgers."""

import errno
import json
import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import click
import pytest
from command_line import run, told

from mrf_matrix import (
    MatrixForestClassifier,
    PrivacyLedger,
    load_dataset,
    load_model,
    load_release,
    save_model,
)
from mrf_matrix.estimators import PosteriorForestClassifier
from mrf_matrix.study import evaluate

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


# Evaluations and reports --------------------------------------------------------------------------


DATA = load_dataset("monks_1")

# Evaluations --------------------------------------------------------------------------------------


@pytest.fixture
def account(tmp_path):
    PrivacyLedger.open(tmp_path / "tests.json", epsilon=2)
    return tmp_path / "tests.json"


def test_figures_are_shown_kept_and_charged_once(tables_file, account, tmp_path, numbers_told):
    kept = tmp_path / "evaluation.json"
    done = run(
        "evaluate", tables_file, "monks_1", "--epsilon", "1", "--ledger", account, "--output", kept
    )
    assert done.exit_code == 0, done.output
    for words in ("Private release", "balanced accuracy", "AUC", "sampling ±", "remains"):
        assert words in done.output
    assert str(len(DATA.y)) not in numbers_told(done.output)
    record = json.loads(kept.read_text())
    assert record["is_private"]
    assert record["figures"]["accuracy"]["low"] <= record["figures"]["accuracy"]["high"]
    (charge,) = PrivacyLedger.open(account).charges
    assert "evaluation" in charge.what


def test_the_record_goes_to_standard_output(tables_file):
    done = run("evaluate", tables_file, "monks_1", "--rho", "1/2", "--json", "--threshold", "0.4")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["threshold"] == 0.4


def test_delta_is_claimed_and_charged(tables_file, account):
    asked = ("--epsilon", "1", "--delta", "1e-6", "--ledger", account)
    done = run("evaluate", tables_file, "monks_1", *asked)
    assert done.exit_code == 0, done.output
    assert "(epsilon=1, delta=1e-06)-DP via" in told(done)
    assert PrivacyLedger.open(account).spent == 1


def test_a_ledger_of_epsilon_and_delta_pays_for_an_evaluation(tables_file, tmp_path):
    path = tmp_path / "approximate.json"
    assert run("ledger", path, "--epsilon", "1", "--delta", "1e-6").exit_code == 0
    asked = ("--epsilon", "1", "--delta", "1e-6", "--ledger", path)
    done = run("evaluate", tables_file, "monks_1", *asked)
    assert done.exit_code == 0, done.output
    assert sum(PrivacyLedger.open(path).shares) == 1
    assert "nothing remains" in told(run("evaluate", tables_file, "monks_1", *asked))


def test_what_the_disk_refuses_is_kept_as_a_release(tables_file, tmp_path, monkeypatch):
    def full(text, path):
        raise OSError("No space left on device")

    monkeypatch.setattr("mrf_matrix.cli.evaluate.write_text", full)
    kept = tmp_path / "evaluation.json"
    done = run("evaluate", tables_file, "monks_1", "--epsilon", "1", "--output", kept)
    assert done.exit_code != 0
    assert "is spent; what was drawn is kept in" in done.output
    assert "Do not pay again" in done.output
    (release,) = tmp_path.glob("evaluation-release-1-*.release")
    assert load_release(release).is_private


# Pages --------------------------------------------------------------------------------------------


@pytest.fixture
def place(tmp_path):
    account = PrivacyLedger.open(tmp_path / "ledger.json", epsilon=2)
    fitted = PosteriorForestClassifier(DATA.domain, epsilon=1, ledger=account).fit(DATA.X, DATA.y)
    save_model(fitted, tmp_path / "model.mrf")
    found = evaluate(fitted, DATA.X, DATA.y, epsilon=1)
    (tmp_path / "evaluation.json").write_text(json.dumps(found.to_dict()))
    return tmp_path


def test_the_page_holds_ledger_evaluation_and_hash(place):
    page = place / "page.html"
    more = ["--ledger", place / "ledger.json", "--evaluation", place / "evaluation.json"]
    done = run("report", place / "model.mrf", "--html", page, *more)
    assert done.exit_code == 0, done.output
    text = page.read_text("utf-8")
    for words in (
        "Private release", "PosteriorForestClassifier.fit", "balanced accuracy",
        "share that it came true", sha256((place / "model.mrf").read_bytes()).hexdigest(),
    ):  # fmt: skip
        assert words in text
    again = run("report", place / "model.mrf", "--html", page)
    assert again.exit_code == 1
    assert "--overwrite" in again.output
    assert run("report", place / "model.mrf", "--html", page, "--overwrite").exit_code == 0


def test_a_ledger_that_never_paid_is_warned_of(place):
    PrivacyLedger.open(place / "other.json", epsilon=3)
    page = place / "page.html"
    said = "has no charge for what this model rests on"
    for more in ([], ["--json"], ["--html", page]):
        done = run("report", place / "model.mrf", "--ledger", place / "other.json", *more)
        assert done.exit_code == 0, done.output
        assert said in done.output
    assert said in page.read_text("utf-8")


def test_a_fit_and_its_ledger_know_each_other(tmp_path):
    run("ledger", tmp_path / "ledger.json", "--epsilon", 2)
    given = ["--kind", "tables", "--epsilon", 1, "--ledger", tmp_path / "ledger.json"]
    for name in ("model.mrf", "second.mrf"):
        done = run("fit", "monks_1", *given, "--output", tmp_path / name)
        assert done.exit_code == 0, done.output
    for number, name in enumerate(("model.mrf", "second.mrf"), 1):
        done = run("report", tmp_path / name, "--ledger", tmp_path / "ledger.json", "--json")
        page = json.loads(done.stdout)
        assert page["warnings"] == []
        (account,) = (one for one in page["sections"] if one["title"].startswith("Ledger"))
        assert account["words"][-1].endswith(f"under number {number}.")


def test_without_a_file_the_text_is_printed(place, numbers_told):
    done = run("report", place / "model.mrf")
    assert done.exit_code == 0, done.output
    assert "What is guaranteed" in done.output
    assert str(len(DATA.y)) not in numbers_told(done.output)


@pytest.fixture
def evaluated(place):
    """A second model of the same records, and an evaluation of the first by the command."""
    second = PosteriorForestClassifier(DATA.domain, epsilon=1).fit(DATA.X, DATA.y)
    save_model(second, place / "second.mrf")
    kept = place / "kept.json"
    done = run("evaluate", place / "model.mrf", "monks_1", "--epsilon", 1, "--output", kept)
    assert done.exit_code == 0, done.output
    return place


def test_an_evaluation_is_shown_beside_its_own_model_only(evaluated):
    own = run("report", evaluated / "model.mrf", "--evaluation", evaluated / "kept.json")
    assert own.exit_code == 0, own.output
    assert "It is of this model's file, by its SHA-256." in own.output
    page = evaluated / "page.html"
    more = ["--evaluation", evaluated / "kept.json", "--html", page]
    refused = run("report", evaluated / "second.mrf", *more)
    assert refused.exit_code == 1
    for name in ("model.mrf", "second.mrf"):
        assert sha256((evaluated / name).read_bytes()).hexdigest() in refused.output
    assert "accuracy" not in refused.output
    assert not page.exists()


def test_an_evaluation_of_other_classes_is_refused_and_one_of_no_model_is_said_to_be(evaluated):
    kept = evaluated / "kept.json"
    record = json.loads(kept.read_text())
    del record["model"]  # as files were written before
    kept.write_text(json.dumps(record))
    old = run("report", evaluated / "second.mrf", "--evaluation", kept)
    assert old.exit_code == 0, old.output
    assert "It names no model" in old.output
    kept.write_text(json.dumps(record | {"classes": ["a", "b", "c"]}))
    refused = run("report", evaluated / "second.mrf", "--evaluation", kept)
    assert refused.exit_code == 1
    assert "its classes are not those of this model" in told(refused)


@pytest.mark.parametrize("record", ["{}", "[]", "nonsense", '{"figures": 1}'])
def test_another_file_is_no_evaluation(place, record):
    (place / "evaluation.json").write_text(record)
    more = ["--evaluation", place / "evaluation.json"]
    done = run("report", place / "model.mrf", *more)
    assert done.exit_code == 1
    assert "Error" in done.output
    assert "Traceback" not in done.output


def test_a_ledger_becomes_a_page(place):
    done = run("ledger", place / "ledger.json", "--html", place / "ledger.html")
    assert done.exit_code == 0, done.output
    text = (place / "ledger.html").read_text("utf-8")
    assert "PosteriorForestClassifier.fit" in text
    assert "50 %  left" in text
    refused = run("ledger", place / "ledger.json", "--html", place / "ledger.html")
    assert "--overwrite" in refused.output
