"""A model file is evaluated on private records: figures, files, and one charge."""

import json

import pytest
from click.testing import CliRunner

from mrf_matrix import PrivacyLedger, load_dataset, load_release, save_model
from mrf_matrix.cli import evaluate as command_file
from mrf_matrix.cli.main import main
from mrf_matrix.estimators import PosteriorForestClassifier

DATA = load_dataset("monks_1")


def run(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture
def model(tmp_path):
    fitted = PosteriorForestClassifier(DATA.domain, epsilon=2).fit(DATA.X, DATA.y)
    save_model(fitted, tmp_path / "model.mrf")
    return tmp_path / "model.mrf"


@pytest.fixture
def ledger(tmp_path):
    PrivacyLedger.open(tmp_path / "tests.json", epsilon=2)
    return tmp_path / "tests.json"


def test_figures_are_shown_kept_and_charged_once(model, ledger, numbers_told):
    kept = model.parent / "evaluation.json"
    done = run("evaluate", model, "monks_1", "--epsilon", "1", "--ledger", ledger, "--output", kept)
    assert done.exit_code == 0, done.output
    for words in ("Private release", "balanced accuracy", "AUC", "sampling ±", "remains"):
        assert words in done.output
    assert str(len(DATA.y)) not in numbers_told(done.output)
    record = json.loads(kept.read_text())
    assert record["is_private"]
    assert record["figures"]["accuracy"]["low"] <= record["figures"]["accuracy"]["high"]
    (charge,) = PrivacyLedger.open(ledger).charges
    assert "evaluation" in charge.what


def test_json_goes_to_standard_output(model):
    done = run("evaluate", model, "monks_1", "--rho", "1/2", "--json", "--threshold", "0.4")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["threshold"] == 0.4


def test_delta_is_claimed_and_charged(model, ledger):
    asked = ("--epsilon", "1", "--delta", "1e-6", "--ledger", ledger)
    done = run("evaluate", model, "monks_1", *asked)
    assert done.exit_code == 0, done.output
    assert "(epsilon=1, delta=1e-06)-DP via" in " ".join(done.output.split())
    assert PrivacyLedger.open(ledger).spent == 1


def test_a_ledger_of_epsilon_and_delta_pays_for_an_evaluation(model, tmp_path):
    path = tmp_path / "approximate.json"
    assert run("ledger", path, "--epsilon", "1", "--delta", "1e-6").exit_code == 0
    asked = ("--epsilon", "1", "--delta", "1e-6", "--ledger", path)
    done = run("evaluate", model, "monks_1", *asked)
    assert done.exit_code == 0, done.output
    assert sum(PrivacyLedger.open(path).shares) == 1
    assert "nothing remains" in " ".join(run("evaluate", model, "monks_1", *asked).output.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no budget"),
        (["--delta", "1e-6"], "no budget"),
        (["--epsilon", "inf"], "finite"),
        (["--epsilon", "3"], "remains"),
        (["--epsilon", "1", "--neighboring", "replace_one"], "add_remove"),
        (["--epsilon", "1", "--threshold", "2"], "threshold=2"),
        (["--epsilon", "1", "--n-bins", "0"], "n_bins=0"),
        (["--epsilon", "1", "--output", "here/is/nothing.json"], "no folder"),
    ],
)
def test_what_is_refused_spends_nothing(model, ledger, arguments, message):
    done = run("evaluate", model, "monks_1", "--ledger", ledger, *arguments)
    assert done.exit_code != 0
    assert message in done.output
    assert not PrivacyLedger.open(ledger).charges


def test_what_the_disk_refuses_is_kept_as_a_release(model, monkeypatch):
    def full(path):
        raise OSError("No space left on device")

    monkeypatch.setattr(command_file, "whole_file", full)
    kept = model.parent / "evaluation.json"
    done = run("evaluate", model, "monks_1", "--epsilon", "1", "--output", kept)
    assert done.exit_code != 0
    assert "is spent; what was drawn is kept in" in done.output
    assert "Do not pay again" in done.output
    (release,) = model.parent.glob("evaluation-release-1-*.release")
    assert load_release(release).is_private
