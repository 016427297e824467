"""Every private classifier that a user may name: fitted, written, read again, and reported."""

import csv
import io
import json
from itertools import cycle

import numpy as np
import pytest
from click.testing import CliRunner

from mrf_matrix import PrivacyLedger, load_dataset, load_model
from mrf_matrix.cli.main import main

DATA = load_dataset("monks_1")
TARGET = DATA.domain.target.name
LINE_OF = {  # options, the class of what is read again, and words of its report
    "additive": ([], "ResidualForestClassifier", "pass 1: residuals"),
    "labels": ([], "LabelTreeClassifier", "a tree of 8 cells and their labels"),
    "pool": ([], "PooledForestClassifier", "tables of"),
    "pool beside additive": (["--beside", "additive"], "PooledForestClassifier", "pass 1"),
    "naive_bayes": (["--alpha", "0.5"], "PrivateNaiveBayesClassifier", "every leaf"),
}


def run(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Write records, in one file and in two, and their domain; return the folder."""
    folder = tmp_path_factory.mktemp("files")
    (folder / "parts").mkdir()
    columns = {**DATA.columns, TARGET: DATA.y, "patient": np.arange(len(DATA.y))}
    rows = list(zip(*columns.values(), strict=True))
    for name, part in (("records", rows), ("parts/a", rows[:200]), ("parts/b", rows[200:])):
        with (folder / f"{name}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(columns)
            writer.writerows(part)
    DATA.domain.save(folder / "domain.json")
    return folder


def fit(files, output, *more, data="records.csv"):
    return run("fit", files / data, "--domain", files / "domain.json", "--output", output, *more)


@pytest.mark.parametrize(("name", "data"), list(zip(LINE_OF, cycle(["records.csv", "parts"]))))
def test_a_named_method_is_fitted_saved_and_predicts(files, tmp_path, numbers_told, name, data):
    options, kind, words = LINE_OF[name]
    seed = [] if name == "naive_bayes" else ["--random-state", 0]
    claim = ["--kind", name.split()[0], "--epsilon", "1", "--n-records", 500, *options, *seed]
    done = fit(files, tmp_path / "m", *claim, data=data)
    assert done.exit_code == 0, done.output
    assert words in " ".join(done.output.split())
    assert str(len(DATA.y)) not in numbers_told(done.output)
    model = load_model(tmp_path / "m")
    assert model.released_by == kind
    assert model.spent.exact == 1
    told = run("predict", tmp_path / "m", files / "records.csv", "--proba")
    assert told.exit_code == 0, told.output
    _, *body = csv.reader(io.StringIO(told.stdout))
    assert [row[0] for row in body] == [str(one) for one in model.predict(DATA.X).tolist()]
    shares = np.array([row[1:] for row in body], dtype=float)
    assert np.array_equal(shares, model.predict_proba(DATA.X))
    assert run("report", tmp_path / "m").exit_code == 0
    refused = run("predict", tmp_path / "m", "monks_1", "--voting", "weight")
    assert refused.exit_code == 1
    assert "one rule only" in refused.output


@pytest.mark.parametrize("name", LINE_OF)
def test_other_budgets_and_the_report_as_json(tmp_path, name):
    options, _, _ = LINE_OF[name]
    run("ledger", tmp_path / "ledger.json", "--rho", "1")
    done = run(
        "fit", "monks_1", "--kind", name.split()[0], *options, "--rho", "1/5", "--neighboring",
        "replace_one", "--output", tmp_path / "m", "--json",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    record = json.loads(done.stdout)
    assert record["report"]["neighboring"] == "replace_one"
    assert record["report"]["budget"] == "ZCDP(rho=0.2)"
    assert record["signal_to_noise"]  # the published number of records


@pytest.mark.parametrize(
    ("options", "method"),
    [(["--beside", "tables"], "Pooled"), (["--alpha", "2"], "NaiveBayes")],
)
def test_an_option_of_one_method_asks_for_it(tmp_path, options, method):
    done = run("fit", "monks_1", *options, "--output", tmp_path / "m")
    assert done.exit_code == 0, done.output
    assert method in load_model(tmp_path / "m").released_by


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--kind", "additive", "--n-trees", "8"], "--n-trees: no option of --kind additive"),
        (["--kind", "additive", "--beside", "tables"], "--beside: no option"),
        (["--kind", "labels", "--n-blocks", "2"], "--n-blocks: no option of --kind labels"),
        (["--kind", "labels", "--alpha", "2"], "--alpha: no option of --kind labels"),
        (["--kind", "pool", "--strategy", "auto"], "--strategy: no option"),
        (["--kind", "pool", "--beside", "trees"], "trees"),
        (["--kind", "naive_bayes", "--random-state", "1"], "--random-state: no option"),
        (["--kind", "naive_bayes", "--alpha", "0"], "alpha=0"),
        (["--kind", "naive_bayes", "--voting", "hard"], "--voting: no option"),
        (["--kind", "tables", "--beside", "additive"], "--beside: no option"),
        (["--kind", "auto", "--alpha", "1"], "--alpha: no option of --kind auto"),
        (["--kind", "additive", "--epsilon", "0.001", "--strict"], "do not deploy"),
        (["--kind", "labels", "--epsilon", "0.001", "--strict"], "do not deploy"),
        (["--kind", "naive_bayes", "--epsilon", "0.001", "--strict"], "do not deploy"),
    ],
)
def test_bad_input_is_one_clear_line_and_spends_nothing(tmp_path, arguments, message):
    run("ledger", tmp_path / "ledger.json", "--epsilon", "5")
    given = ["--ledger", tmp_path / "ledger.json", "--output", tmp_path / "m"]
    done = run("fit", "monks_1", *given, *arguments)
    assert done.exit_code != 0
    assert message in done.output
    assert "Traceback" not in done.output
    assert not (tmp_path / "m").exists()
    assert PrivacyLedger.open(tmp_path / "ledger.json").spent == 0


@pytest.mark.parametrize("name", LINE_OF)
@pytest.mark.parametrize("delta", [[], ["--delta", "1e-6"]])
def test_an_overdraft_is_refused_before_the_records_are_read(files, tmp_path, name, delta):
    options, _, _ = LINE_OF[name]
    run("ledger", tmp_path / "ledger.json", "--epsilon", "1", *delta)
    asked = ["--kind", name.split()[0], *options, "--epsilon", "2", *delta]
    ledger = ["--ledger", tmp_path / "ledger.json"]
    done = fit(files, tmp_path / "m", *asked, *ledger, data="not_there.csv")
    assert done.exit_code == 1
    assert "no such file" not in done.output
    assert "ledger" in done.output


def test_a_folder_of_no_records_is_named(files, tmp_path):
    (tmp_path / "empty").mkdir()
    done = fit(files, tmp_path / "m", "--kind", "additive", data=tmp_path / "empty")
    assert done.exit_code == 1
    assert "found none" in done.output
