"""`mrf-matrix evaluate` and `report`: figures at one charge, and pages from files."""

import json
from hashlib import sha256

import pytest
from command_line import run, told

from mrf_matrix import PrivacyLedger, load_dataset, load_release, save_model
from mrf_matrix.estimators import PosteriorForestClassifier
from mrf_matrix.study import evaluate

DATA = load_dataset("monks_1")

# Evaluations --------------------------------------------------------------------------------------


@pytest.fixture
def ledger(tmp_path):
    PrivacyLedger.open(tmp_path / "tests.json", epsilon=2)
    return tmp_path / "tests.json"


def test_figures_are_shown_kept_and_charged_once(tables_file, ledger, tmp_path, numbers_told):
    kept = tmp_path / "evaluation.json"
    done = run(
        "evaluate", tables_file, "monks_1", "--epsilon", "1", "--ledger", ledger, "--output", kept
    )
    assert done.exit_code == 0, done.output
    for words in ("Private release", "balanced accuracy", "AUC", "sampling ±", "remains"):
        assert words in done.output
    assert str(len(DATA.y)) not in numbers_told(done.output)
    record = json.loads(kept.read_text())
    assert record["is_private"]
    assert record["figures"]["accuracy"]["low"] <= record["figures"]["accuracy"]["high"]
    (charge,) = PrivacyLedger.open(ledger).charges
    assert "evaluation" in charge.what


def test_the_record_goes_to_standard_output(tables_file):
    done = run("evaluate", tables_file, "monks_1", "--rho", "1/2", "--json", "--threshold", "0.4")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["threshold"] == 0.4


def test_delta_is_claimed_and_charged(tables_file, ledger):
    asked = ("--epsilon", "1", "--delta", "1e-6", "--ledger", ledger)
    done = run("evaluate", tables_file, "monks_1", *asked)
    assert done.exit_code == 0, done.output
    assert "(epsilon=1, delta=1e-06)-DP via" in told(done)
    assert PrivacyLedger.open(ledger).spent == 1


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
def folder(tmp_path):
    ledger = PrivacyLedger.open(tmp_path / "ledger.json", epsilon=2)
    fitted = PosteriorForestClassifier(DATA.domain, epsilon=1, ledger=ledger).fit(DATA.X, DATA.y)
    save_model(fitted, tmp_path / "model.mrf")
    found = evaluate(fitted, DATA.X, DATA.y, epsilon=1)
    (tmp_path / "evaluation.json").write_text(json.dumps(found.to_dict()))
    return tmp_path


def test_the_page_holds_ledger_evaluation_and_hash(folder):
    page = folder / "page.html"
    more = ["--ledger", folder / "ledger.json", "--evaluation", folder / "evaluation.json"]
    done = run("report", folder / "model.mrf", "--html", page, *more)
    assert done.exit_code == 0, done.output
    text = page.read_text("utf-8")
    for words in (
        "Private release", "PosteriorForestClassifier.fit", "balanced accuracy",
        "share that it came true", sha256((folder / "model.mrf").read_bytes()).hexdigest(),
    ):  # fmt: skip
        assert words in text
    again = run("report", folder / "model.mrf", "--html", page)
    assert again.exit_code == 1
    assert "--overwrite" in again.output
    assert run("report", folder / "model.mrf", "--html", page, "--overwrite").exit_code == 0


def test_a_ledger_that_never_paid_is_warned_of(folder):
    PrivacyLedger.open(folder / "other.json", epsilon=3)
    page = folder / "page.html"
    said = "has no charge for what this model rests on"
    for more in ([], ["--json"], ["--html", page]):
        done = run("report", folder / "model.mrf", "--ledger", folder / "other.json", *more)
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
        (ledger,) = (one for one in page["sections"] if one["title"].startswith("Ledger"))
        assert ledger["words"][-1].endswith(f"under number {number}.")


def test_without_a_file_the_text_is_printed(folder, numbers_told):
    done = run("report", folder / "model.mrf")
    assert done.exit_code == 0, done.output
    assert "What is guaranteed" in done.output
    assert str(len(DATA.y)) not in numbers_told(done.output)


@pytest.fixture
def evaluated(folder):
    """A second model of the same records, and an evaluation of the first by the command."""
    second = PosteriorForestClassifier(DATA.domain, epsilon=1).fit(DATA.X, DATA.y)
    save_model(second, folder / "second.mrf")
    kept = folder / "kept.json"
    done = run("evaluate", folder / "model.mrf", "monks_1", "--epsilon", 1, "--output", kept)
    assert done.exit_code == 0, done.output
    return folder


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
def test_another_file_is_no_evaluation(folder, record):
    (folder / "evaluation.json").write_text(record)
    more = ["--evaluation", folder / "evaluation.json"]
    done = run("report", folder / "model.mrf", *more)
    assert done.exit_code == 1
    assert "Error" in done.output
    assert "Traceback" not in done.output


def test_a_ledger_becomes_a_page(folder):
    done = run("ledger", folder / "ledger.json", "--html", folder / "ledger.html")
    assert done.exit_code == 0, done.output
    text = (folder / "ledger.html").read_text("utf-8")
    assert "PosteriorForestClassifier.fit" in text
    assert "50 %  left" in text
    refused = run("ledger", folder / "ledger.json", "--html", folder / "ledger.html")
    assert "--overwrite" in refused.output
