"""From a file of records to a model file to predictions, and a ledger beside them."""

import csv
import io
import json
import shlex
from fractions import Fraction

import numpy as np
import pytest
from click.testing import CliRunner

from mrf_matrix import MatrixForestClassifier, PrivacyLedger, load_dataset, load_model
from mrf_matrix.cli import options
from mrf_matrix.cli.main import main
from mrf_matrix.mechanisms import LedgerError
from mrf_matrix.voting.voting import NOISE_AWARE_VOTINGS, SHRINKAGES

QUICK = ["--n-trees", "4", "--max-depth", "2", "--strategy", "identity", "--random-state", "0"]
DATA = load_dataset("monks_1")
TARGET = DATA.domain.target.name


def run(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture
def files(tmp_path):
    """Write records and domain; return the folder."""
    columns = {**DATA.columns, TARGET: DATA.y, "comment": ["=1+1"] * len(DATA.y)}
    with (tmp_path / "records.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    DATA.domain.save(tmp_path / "domain.json")
    return tmp_path


def fit(folder, *more, data="records.csv"):
    return run(
        "fit", folder / data, "--domain", folder / "domain.json", *QUICK,
        "--output", folder / "model.mrf", *more,
    )  # fmt: skip


def test_files_and_folders_are_read_in_batches_and_give_the_same_model(
    files, monkeypatch, numbers_told
):
    parts, text = files / "parts", (files / "records.csv").read_text().splitlines(keepends=True)
    parts.mkdir()
    (parts / "a.csv").write_text("".join(text[:200]))
    (parts / "b.csv").write_text("".join([text[0], *text[200:]]))
    told = []
    for data in ("records.csv", "parts"):
        monkeypatch.setattr(
            MatrixForestClassifier, "_fit", recorded(told, MatrixForestClassifier._fit)
        )
        done = fit(files, "--overwrite", data=data)
        assert done.exit_code == 0, done.output
        assert str(len(DATA.y)) not in numbers_told(done.output)
        monkeypatch.undo()
    counted = [data.tables([tuple(range(6))]).cells(tuple(range(6))).counts for data in told]
    assert counted[0].sum() == len(DATA.y)
    assert np.array_equal(*counted)


def recorded(told, fit):
    """Return a fit that keeps what it was given."""

    def kept(self, bring):
        told.append(bring())
        return fit(self, lambda: told[-1])

    return kept


def rows(text):
    return list(csv.reader(io.StringIO(text)))


def test_fit_writes_a_model_and_prints_its_privacy_report(files, numbers_told):
    done = fit(files, "--epsilon", "1/3")
    assert done.exit_code == 0, done.output
    for words in ("Private release", "PureDP(epsilon=1/3)", "add_remove", "exact", "model.mrf"):
        assert words in done.output
    # how many records there are is private
    assert str(len(DATA.y)) not in numbers_told(done.output)
    model = load_model(files / "model.mrf")
    assert sum(one.forest.n_trees for one in model.ensembles_) == 4
    assert model.privacy_report_.noise == "exact"


def test_the_report_as_json_and_other_options(files):
    done = fit(
        files, "--rho", "0.5", "--neighboring", "replace_one", "--voting", "weight",
        "--n-ensembles", 2, "--max-features", 3, "--splits", "binary", "--json",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    record = json.loads(done.stdout)
    assert record["report"]["budget"] == "ZCDP(rho=0.5)"
    assert record["report"]["neighboring"] == "replace_one"
    assert record["ledger"] is None
    model = load_model(files / "model.mrf")
    assert (len(model.ensembles_), model.plan_.voting) == (2, "weight")


def test_the_default_budget_is_epsilon_one(files):
    assert "PureDP(epsilon=1)" in fit(files).output


def test_predictions_are_those_of_the_model(files):
    fit(files)
    model = load_model(files / "model.mrf")
    done = run("predict", files / "model.mrf", files / "records.csv", "--proba")
    assert done.exit_code == 0, done.output
    header, *body = rows(done.stdout)
    classes = model.classes_.tolist()
    assert header == [TARGET, *(f"{TARGET}={label}" for label in classes)]
    assert [row[0] for row in body] == [str(label) for label in model.predict(DATA.X).tolist()]
    shares = np.array([row[1:] for row in body], dtype=float)
    assert np.array_equal(shares, model.predict_proba(DATA.X))


def test_predictions_go_to_a_file_and_need_no_target_column(files):
    fit(files)
    with (files / "new.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        names = list(reversed(DATA.domain.names))
        writer.writerow(names)
        writer.writerows(list(zip(*(DATA.columns[name] for name in names), strict=True))[:5])
    done = run("predict", files / "model.mrf", files / "new.csv", "--output", files / "out.csv")
    assert done.exit_code == 0, done.output
    assert "5 predictions" in done.output
    found = rows((files / "out.csv").read_text())
    expected = load_model(files / "model.mrf").predict(DATA.X)[:5]
    assert found == [[TARGET], *([str(label)] for label in expected.tolist())]


def test_parquet_and_data_sets_by_name(files):
    polars = pytest.importorskip("polars")
    polars.DataFrame({**DATA.columns, TARGET: DATA.y}).write_parquet(files / "records.parquet")
    assert fit(files, data="records.parquet").exit_code == 0
    by_file = run("predict", files / "model.mrf", files / "records.parquet").stdout
    assert by_file == run("predict", files / "model.mrf", "monks_1").stdout
    done = run("fit", "monks_1", *QUICK, "--output", files / "other.mrf")
    assert done.exit_code == 0, done.output


def test_voting_can_be_changed_when_predicting(files):
    fit(files)
    model = load_model(files / "model.mrf").voted_by("weight")
    done = run("predict", files / "model.mrf", "monks_1", "--voting", "weight")
    assert [row[0] for row in rows(done.stdout)[1:]] == [
        str(label) for label in model.predict(DATA.X).tolist()
    ]


def test_by_default_the_forest_of_the_rules_is_fitted_saved_and_predicts(files, numbers_told):
    done = run(
        "fit", files / "records.csv", "--domain", files / "domain.json", "--n-records", 500,
        "--random-state", 0, "--output", files / "model.mrf",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "of the rules" in " ".join(done.output.split())
    assert str(len(DATA.y)) not in numbers_told(done.output)
    model = load_model(files / "model.mrf")
    assert model.released_by == "PrivateForestClassifier"
    done = run("predict", files / "model.mrf", files / "records.csv", "--proba")
    shares = np.array([row[1:] for row in rows(done.stdout)[1:]], dtype=float)
    assert np.array_equal(shares, model.predict_proba(DATA.X))


def test_a_posterior_forest_is_fitted_saved_and_predicts(files, numbers_told):
    done = run(
        "fit", files / "records.csv", "--domain", files / "domain.json", "--kind", "tables",
        "--n-records", 500, "--n-blocks", 3, "--rho", "0.5", "--random-state", 0, "--output",
        files / "model.mrf",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "tables of 3 blocks" in done.output
    assert "blocks of all attributes were" in " ".join(done.output.split())
    assert str(len(DATA.y)) not in numbers_told(done.output)
    model = load_model(files / "model.mrf")
    done = run("predict", files / "model.mrf", files / "records.csv", "--proba")
    assert done.exit_code == 0, done.output
    _, *body = rows(done.stdout)
    assert [row[0] for row in body] == [str(label) for label in model.predict(DATA.X).tolist()]
    shares = np.array([row[1:] for row in body], dtype=float)
    assert np.array_equal(shares, model.predict_proba(DATA.X))
    done = run("predict", files / "model.mrf", "monks_1", "--voting", "weight")
    assert done.exit_code == 1
    assert "one rule only" in done.output
    output = ["--abstain", "0.9", "--output", files / "labels.csv"]
    done = run("predict", files / "model.mrf", "monks_1", *output)
    _, *body = rows((files / "labels.csv").read_text())
    kept = model.predict_or_abstain(DATA.X, 0.9)
    assert [row[0] == "" for row in body] == np.ma.getmaskarray(kept).tolist()
    assert f"{kept.mask.sum()} of them empty" in done.output


def test_a_strategy_too_large_for_a_file_is_refused_before_it_is_paid_for(files, monkeypatch):
    assert fit(files).exit_code == 0
    done = run("predict", files / "model.mrf", "monks_1", "--abstain", "0.9")
    assert done.exit_code == 0, done.output  # the file holds the release
    monkeypatch.setattr("mrf_matrix.files.models.model_file.MOST_BYTES", 0)
    monkeypatch.setattr("mrf_matrix.estimators.shared.spending.Bill.charge", lambda bill: 1 / 0)
    (files / "model.mrf").unlink()
    done = fit(files)
    assert done.exit_code == 1
    assert "save_release" in done.output


@pytest.mark.parametrize("voting", ["product", "shares", "posterior"])
def test_noise_aware_votings_are_fitted_saved_and_predict(files, voting):
    done = fit(files, "--voting", voting, "--shrinkage", "leaves")
    assert done.exit_code == 0, done.output
    model = load_model(files / "model.mrf")
    assert (model.plan_.voting, model.plan_.shrinkage) == (voting, "leaves")
    done = run("predict", files / "model.mrf", "monks_1", "--proba")
    shares = np.array([row[1:] for row in rows(done.stdout)[1:]], dtype=float)
    assert np.array_equal(shares, model.predict_proba(DATA.X))
    other = run("predict", files / "model.mrf", "monks_1", "--voting", "hard")
    assert [row[0] for row in rows(other.stdout)[1:]] == [
        str(label) for label in model.voted_by("hard").predict(DATA.X).tolist()
    ]


def test_the_command_line_knows_every_rule():
    assert options.VOTINGS == NOISE_AWARE_VOTINGS
    assert options.SHRINKAGES == SHRINKAGES


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--kind", "matrix", "--n-blocks", "2"], "--n-blocks: no option of --kind matrix"),
        (["--max-depth", "deep"], "expected a whole number"),
        (["--kind", "tables", "--max-depth", "2"], "--max-depth: no option of --kind tab"),
        (["--voting", "loudest"], "loudest"),
    ],
)
def test_options_that_a_method_has_no_use_for_are_refused(files, arguments, message):
    done = run("fit", "monks_1", "--output", files / "model.mrf", *arguments)
    assert done.exit_code != 0
    assert message in done.output
    assert not (files / "model.mrf").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--kind", "tables", "--n-trees", "8"], "--n-trees: no option of --kind tables"),
        (["--kind", "tables", "--time-limit", "8"], "--time-limit"),
        (["--kind", "tables", "--n-blocks", "0"], "0"),
        (["--kind", "tables", "--n-records", "-1"], "-1"),
        (["--kind", "magic"], "magic"),
    ],
)
def test_options_of_another_method_are_refused(files, arguments, message):
    done = run("fit", "monks_1", "--output", files / "model.mrf", *arguments)
    assert done.exit_code != 0
    assert message in done.output
    assert not (files / "model.mrf").exists()


def test_the_target_may_be_named_on_the_command_line(files):
    record = DATA.domain.to_dict()
    record["attributes"].append(record["target"])
    record["target"] = None
    (files / "domain.json").write_text(json.dumps(record))
    assert "no target" in fit(files).output
    done = fit(files, "--target", TARGET)
    assert done.exit_code == 0, done.output
    assert load_model(files / "model.mrf").domain_.target.name == TARGET


def test_a_ledger_file_is_charged_and_refuses_an_overdraft(files):
    path = files / "ledger.json"
    assert run("ledger", path, "--epsilon", "1").exit_code == 0
    assert fit(files, "--epsilon", "0.7", "--ledger", path).exit_code == 0
    done = fit(files, "--epsilon", "0.4", "--ledger", path, "--overwrite")
    assert done.exit_code == 1
    assert "epsilon=0.3 remains" in done.output
    assert PrivacyLedger.open(path).spent == Fraction(7, 10)
    shown = run("ledger", path, "--delta", "1e-6").output
    assert "epsilon=0.7" in shown
    assert "MatrixForestClassifier.fit" in shown
    assert "(ε = 0.7, δ = 1e-06)" in shown
    assert json.loads(run("ledger", path, "--json").stdout)["remaining"] == "3/10"


def test_a_ledger_of_epsilon_and_delta_pays_for_gaussian_noise(files):
    path = files / "ledger.json"
    started = run("ledger", path, "--epsilon", "3", "--delta", "1e-6").output
    assert "Nothing is spent of (epsilon=3, delta=1e-06)" in " ".join(started.split())
    arguments = ["--delta", "1e-6", "--ledger", path, "--overwrite"]
    done = fit(files, "--epsilon", "1", *arguments)
    assert done.exit_code == 0, done.output
    assert len(PrivacyLedger.open(path).charges) == 1
    done = fit(files, "--epsilon", "3", *arguments)
    assert done.exit_code == 1
    assert "remains" in done.output
    record = json.loads(run("ledger", path, "--epsilon", "3", "--delta", "1e-6", "--json").stdout)
    assert record["budget"] == {"epsilon": "3", "delta": "1/1000000"}
    assert "Spent so far" in run("ledger", path, "--delta", "1e-6").output
    assert "keeps its terms" in run("ledger", path, "--epsilon", "3").output
    assert run("ledger", path, "--html", files / "page.html").exit_code == 0


def test_delta_beside_rho_shows_and_starts_a_ledger_of_rho(files):
    shown = run("ledger", files / "l.json", "--rho", "0.1", "--delta", "1e-6").output
    assert "Spent so far, together: (ε = 0" in shown
    assert PrivacyLedger.open(files / "l.json", rho=0.1).spent == 0


def test_a_model_that_is_paid_for_is_not_lost_with_a_word_of_the_ledger(files, monkeypatch):
    def refuse(ledger, number, **words):
        raise LedgerError("the disk is full")

    run("ledger", files / "ledger.json", "--epsilon", "1")
    monkeypatch.setattr(PrivacyLedger, "describe", refuse)
    done = fit(files, "--ledger", files / "ledger.json")
    assert done.exit_code == 0, done.output
    assert "the disk is full" in done.stderr
    assert load_model(files / "model.mrf").privacy_report_.noise == "exact"
    page = run("ledger", files / "ledger.json", "--html", files / "l.html", "--json")
    assert page.exit_code == 1
    assert not (files / "l.html").exists()


def test_an_overdraft_is_refused_before_the_records_are_read(files):
    run("ledger", files / "ledger.json", "--epsilon", "1")
    done = fit(files, "--epsilon", "2", "--ledger", files / "ledger.json", data="not_there.csv")
    assert "remains" in done.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--epsilon", "0"], "positive"),
        (["--epsilon", "inf"], "finite"),
        (["--epsilon", "1/0"], "expected a finite number"),
        (["--epsilon", "much"], "expected a finite number"),
        (["--epsilon", "1", "--rho", "1"], "exactly one"),
        (["--target", "nothing"], "nothing"),
        (["--strategy", "magic"], "magic"),
        (["--ledger", "missing.json"], "does not exist"),
        (["--max-depth", "-1"], "depth"),
    ],
)
def test_bad_input_is_one_clear_line_and_spends_nothing(files, arguments, message):
    run("ledger", files / "ledger.json", "--epsilon", "5")
    given = [] if "--ledger" in arguments else ["--ledger", files / "ledger.json"]
    done = fit(files, *given, *arguments)
    assert done.exit_code != 0
    assert message in done.output
    assert "Traceback" not in done.output
    assert not (files / "model.mrf").exists()
    assert PrivacyLedger.open(files / "ledger.json").spent == 0


def test_files_without_a_domain_and_outputs_in_the_way_are_refused_before_spending(files):
    done = run("fit", files / "records.csv", "--output", files / "model.mrf")
    assert "domain" in done.output
    assert run("fit", "monks_1", "--output", files / "no" / "model.mrf").exit_code != 0
    fit(files)
    before = (files / "model.mrf").read_bytes()
    assert "--overwrite" in fit(files).output
    assert (files / "model.mrf").read_bytes() == before
    assert fit(files, "--overwrite").exit_code == 0
    assert "--target" in run("fit", "monks_1", "--target", "x", "--output", files / "a").output


@pytest.mark.parametrize("content", [b"", b"PK\x05\x06" + bytes(18), b"\x80\x04K\x01."])
def test_files_that_are_no_models_are_refused_in_one_line(files, content):
    (files / "bad.mrf").write_bytes(content)
    done = run("predict", files / "bad.mrf", files / "records.csv")
    assert done.exit_code == 1
    assert done.output.startswith("Error: ")
    assert "bad.mrf" in done.output
    assert done.output.count("\n") == 1


def test_records_without_a_column_are_refused(files):
    fit(files)
    (files / "short.csv").write_text(f"{DATA.domain.names[0]}\n1\n")
    done = run("predict", files / "model.mrf", files / "short.csv")
    assert done.exit_code == 1
    assert DATA.domain.names[1] in done.output


def test_a_ledger_needs_a_total_to_start_and_keeps_its_terms(files):
    assert "--epsilon or --rho" in run("ledger", files / "l.json").output
    assert not (files / "l.json.lock").exists()
    assert run("ledger", files / "l.json", "--rho", "0.1").exit_code == 0
    assert "keeps its terms" in run("ledger", files / "l.json", "--rho", "0.2").output
    (files / "bad.json").write_text("{}")
    assert "bad.json" in run("ledger", files / "bad.json").output


def test_help_shows_a_domain_file_that_is_one(files):
    text = run("fit", "--help").output
    start, end = text.index("{\n"), text.rindex("}") + 1
    (files / "domain.json").write_text(text[start:end])
    from mrf_matrix import Domain

    assert Domain.load(files / "domain.json").target.name == "income"


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("matrix", ["--n-trees", "4", "--max-depth", "1"]),
        ("tables", ["--n-blocks", "2"]),
        ("additive", ["--kind", "additive"]),
    ],
)
def test_the_line_that_tune_prints_trains_its_choice(files, method, options):
    found = run(
        "tune", files / "domain.json", "--n-records", "432", "--epsilon", "1/2", *options,
        "--no-pictures", "--output", files,
    )  # fmt: skip
    (line,) = (row for row in found.output.splitlines() if "mrf-matrix fit" in row)
    assert f"--kind {method}" in line
    _, *words, _ = shlex.split(line)
    words[words.index("RECORDS.csv")] = files / "records.csv"
    done = run(*words, files / "model.mrf")
    assert done.exit_code == 0, done.output
    assert "epsilon=0.5" in done.output
    assert load_model(files / "model.mrf").domain_ == DATA.domain


def test_a_set_by_name_has_its_published_number_and_a_folder_of_that_name_has_not(
    files, monkeypatch
):
    monkeypatch.chdir(files)
    named = run("fit", "monks_1", "--epsilon", "0.05", "--output", "named.mrf", "--json")
    assert named.exit_code == 0, named.output
    assert f"public number of {len(DATA.y)}" in named.output or "tree of labels" in named.output
    (files / "monks_1").mkdir()
    (files / "records.csv").rename(files / "monks_1" / "records.csv")
    words = ("fit", "monks_1", "--domain", "domain.json", "--epsilon", "0.05", "--json")
    folder = run(*words, "--output", "folder.mrf")
    assert folder.exit_code == 0, folder.output
    assert "need a public n_records" in folder.output
