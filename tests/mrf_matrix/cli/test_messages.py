"""Errors of the command line that name the remedy."""

import pytest
from click.testing import CliRunner

from mrf_matrix import Domain, load_dataset, save_model
from mrf_matrix.cli.main import main
from mrf_matrix.estimators import PosteriorForestClassifier

DATA = load_dataset("monks_1")


def run(*arguments):
    done = CliRunner().invoke(main, [str(argument) for argument in arguments])
    return done.exit_code, " ".join(done.output.split())


@pytest.fixture
def model(tmp_path):
    fitted = PosteriorForestClassifier(DATA.domain, epsilon=1).fit(DATA.X, DATA.y)
    save_model(fitted, tmp_path / "model.mrf")
    return tmp_path / "model.mrf"


def test_a_ledger_that_is_not_there_says_how_to_make_one(model, tmp_path):
    new = tmp_path / "new.json"
    for words in (
        ("fit", "monks_1", "--epsilon", 1, "--output", tmp_path / "m.mrf"),
        ("evaluate", model, "monks_1", "--epsilon", 1),
        ("report", model),
    ):
        code, said = run(*words, "--ledger", new)
        assert code == 2
        assert f"mrf-matrix ledger {new} --epsilon E" in said
    assert not new.exists()


def test_a_file_of_the_wrong_kind_is_not_said_to_be_missing(model, tmp_path):
    Domain.from_sizes([2], n_classes=2).save(tmp_path / "six.json")
    code, said = run("predict", model, tmp_path / "six.json")
    assert code == 1
    assert "is there, but of no kind that records are read from" in said
    assert "No data set" not in said
    code, said = run("predict", model, tmp_path / "seven.json")  # negative control
    assert code == 1
    assert "No data set" in said


def test_a_data_file_beside_its_domain_is_planned_for_and_not_opened(tmp_path):
    Domain.from_sizes([2, 3], n_classes=2).save(tmp_path / "two.json")
    more = ["--n-trees", 2, "--max-depth", 1, "--no-pictures", "--output", tmp_path / "results"]
    absent = tmp_path / "absent.csv"
    code, said = run("plan", absent, "--domain", tmp_path / "two.json", *more)
    assert code == 0, said
    assert "Plan for two" in said
    code, said = run("plan", absent, *more)
    assert code == 1
    assert "planning reads no records" in said
