"""From records to a model file and its ledger, and from a model file to labels."""

import csv
import io
import json
from fractions import Fraction

import numpy as np
import pytest
from command_line import run, told

from mrf_matrix import (
    Domain,
    MatrixForestClassifier,
    PrivacyLedger,
    PrivateNaiveBayesClassifier,
    load_dataset,
    load_model,
    save_model,
)
from mrf_matrix.estimators import LabelTreeClassifier, PosteriorForestClassifier
from mrf_matrix.mechanisms import LedgerError
from mrf_matrix.study import evaluate

QUICK = "--n-trees 4 --max-depth 2 --strategy identity"
DATA = load_dataset("monks_1")
TARGET = DATA.domain.target.name
KINDS = {  # options, the class of what is read again, and words of its report
    QUICK: ("MatrixForestClassifier", "cells of the domain by strategy"),
    "--n-records 500": ("PrivateForestClassifier", "table of rules"),
    "--kind tables --n-blocks 3 --n-records 500": ("PosteriorForestClassifier", "tables of 3 blo"),
    "--kind additive --n-records 500": ("ResidualForestClassifier", "pass 1: residuals"),
    "--kind labels --n-records 500": ("LabelTreeClassifier", "a tree of 8 cells and their labels"),
    "--kind pool --n-records 500": ("PooledForestClassifier", "tables of"),
    "--kind pool --beside additive --n-records 500": ("PooledForestClassifier", "pass 1"),
    "--kind naive_bayes --alpha 0.5": ("PrivateNaiveBayesClassifier", "every leaf"),
}


def fit(monks, output, *more, data="records.csv"):
    return run("fit", monks / data, "--domain", monks / "domain.json", "--output", output, *more)


def fitted(monks, output, *more, **given):
    done = fit(monks, output, *more, **given)
    assert done.exit_code == 0, done.output
    return done


@pytest.mark.parametrize("options", KINDS)
def test_a_kind_is_fitted_saved_and_predicts(monks, tmp_path, numbers_told, options):
    kind, words = KINDS[options]
    seed = [] if "naive_bayes" in options else ["--random-state", "1"]  # 432 answers are no count
    done = fitted(monks, tmp_path / "m", *options.split(), "--epsilon", "1/3", *seed)
    for one in (words, "Private release", "epsilon=1/3", "add_remove", "exact"):
        assert one in told(done)
    assert str(len(DATA.y)) not in numbers_told(done.output), "how many there are is private"
    model = load_model(tmp_path / "m")
    assert model.released_by == kind
    assert model.spent.exact == Fraction(1, 3)
    answers = run("predict", tmp_path / "m", monks / "records.csv", "--proba").stdout.splitlines()
    header, *body = (one.split(",") for one in answers)
    assert header == [TARGET, *(f"{TARGET}={label}" for label in model.classes_.tolist())]
    assert [row[0] for row in body] == [str(one) for one in model.predict(DATA.X).tolist()]
    shares = np.array([row[1:] for row in body], dtype=float)
    assert np.array_equal(shares, model.predict_proba(DATA.X))
    assert run("report", tmp_path / "m").exit_code == 0


@pytest.mark.parametrize("options", KINDS)
def test_other_budgets_and_the_report_as_json(tmp_path, options):
    claim = ("--rho", "1/5", "--neighboring", "replace_one", "--json")
    done = run("fit", "monks_1", *options.split(), *claim, "--output", tmp_path / "m")
    assert done.exit_code == 0, done.output
    record = json.loads(done.stdout)
    assert record["report"]["neighboring"] == "replace_one"
    assert record["report"]["budget"] == "ZCDP(rho=0.2)"
    assert record["ledger"] is None
    assert record["signal_to_noise"]  # the published number of records


@pytest.mark.parametrize(
    ("options", "method"),
    [("--beside tables", "Pooled"), ("--alpha 2", "NaiveBayes"), (QUICK, "MatrixForest")],
)
def test_an_option_of_one_method_asks_for_it(tmp_path, options, method):
    done = run("fit", "monks_1", *options.split(), "--output", tmp_path / "m")
    assert done.exit_code == 0, done.output
    assert "epsilon=1" in done.output, "the default budget"
    assert method in load_model(tmp_path / "m").released_by


def test_options_of_forests_reach_the_plan(monks, tmp_path):
    ensembles = "--voting weight --n-ensembles 2 --max-features 3 --splits binary"
    fitted(monks, tmp_path / "m", *QUICK.split(), *ensembles.split())
    model = load_model(tmp_path / "m")
    assert (len(model.ensembles_), model.plan_.voting) == (2, "weight")
    assert sum(one.forest.n_trees for one in model.ensembles_) == 4


def test_folders_are_read_in_batches_and_count_the_same(monks, tmp_path, monkeypatch):
    counted, original = [], MatrixForestClassifier._fit

    def kept(self, bring):
        held = bring()
        counted.append(held.tables([tuple(range(6))]).cells(tuple(range(6))).counts)
        return original(self, lambda: held)

    monkeypatch.setattr(MatrixForestClassifier, "_fit", kept)
    for data in ("records.csv", "parts"):
        fitted(monks, tmp_path / data, *QUICK.split(), data=data)
    assert counted[0].sum() == len(DATA.y)
    assert np.array_equal(*counted)
    monkeypatch.undo()
    fitted(monks, tmp_path / "m", "--kind", "additive", data="parts")


def test_parquet_and_data_sets_by_name(monks, tmp_path):
    polars = pytest.importorskip("polars")
    polars.DataFrame({**DATA.columns, TARGET: DATA.y}).write_parquet(tmp_path / "records.parquet")
    fitted(monks, tmp_path / "m", *QUICK.split(), data=tmp_path / "records.parquet")
    by_file = run("predict", tmp_path / "m", tmp_path / "records.parquet").stdout
    assert by_file == run("predict", tmp_path / "m", "monks_1").stdout


def test_the_target_may_be_named_on_the_command_line(monks, tmp_path):
    record = DATA.domain.to_dict()
    record["attributes"].append(record["target"])
    record["target"] = None
    (tmp_path / "domain.json").write_text(json.dumps(record))
    asked = ("--domain", tmp_path / "domain.json", *QUICK.split())
    assert "no target" in fit(monks, tmp_path / "m", *asked).output
    fitted(monks, tmp_path / "m", *asked, "--target", TARGET)
    assert load_model(tmp_path / "m").domain_.target.name == TARGET


def test_outputs_in_the_way_are_refused_before_spending(monks, tmp_path):
    asked = ("--kind", "tables")
    fitted(monks, tmp_path / "m", *asked)
    before = (tmp_path / "m").read_bytes()
    assert "--overwrite" in fit(monks, tmp_path / "m", *asked).output
    assert (tmp_path / "m").read_bytes() == before
    fitted(monks, tmp_path / "m", *asked, "--overwrite")


def test_a_strategy_too_large_for_a_file_is_refused_before_it_is_paid_for(
    monks, tmp_path, monkeypatch
):
    monkeypatch.setattr("mrf_matrix.files.model_file.MAX_BYTES", 0)
    run("ledger", tmp_path / "ledger.json", "--epsilon", "1")
    asked = (*QUICK.split(), "--ledger", tmp_path / "ledger.json")
    done = fit(monks, tmp_path / "m", *asked)
    assert done.exit_code == 1
    assert "a --strategy that follows from parameters" in " ".join(done.output.split())
    assert not PrivacyLedger.open(tmp_path / "ledger.json").charges


def test_a_set_by_name_has_its_published_number_and_a_folder_of_that_name_has_not(
    monks, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    named = run("fit", "monks_1", "--epsilon", "0.05", "--output", "named.mrf", "--json")
    assert named.exit_code == 0, named.output
    assert f"public number of {len(DATA.y)}" in named.output or "tree of labels" in named.output
    (tmp_path / "monks_1").mkdir()
    (tmp_path / "monks_1" / "records.csv").write_bytes((monks / "records.csv").read_bytes())
    words = ("fit", "monks_1", "--domain", monks / "domain.json", "--epsilon", "0.05", "--json")
    folder = run(*words, "--output", "folder.mrf")
    assert folder.exit_code == 0, folder.output
    assert "need a public n_records" in folder.output


def test_help_shows_a_domain_file_that_is_one(tmp_path):
    text = run("fit", "--help").output
    start, end = text.index("{\n"), text.rindex("}") + 1
    (tmp_path / "domain.json").write_text(text[start:end])
    assert Domain.load(tmp_path / "domain.json").target.name == "income"


# Ledgers ------------------------------------------------------------------------------------------


def test_a_ledger_file_is_charged_and_refuses_an_overdraft(monks, tmp_path):
    path = tmp_path / "ledger.json"
    assert run("ledger", path, "--epsilon", "1").exit_code == 0
    asked = ("--kind", "tables", "--ledger", path, "--overwrite")
    fitted(monks, tmp_path / "m", *asked, "--epsilon", "0.7")
    done = fit(monks, tmp_path / "m", *asked, "--epsilon", "0.4")
    assert done.exit_code == 1
    assert "epsilon=0.3 remains" in done.output
    assert PrivacyLedger.open(path).spent == Fraction(7, 10)
    shown = run("ledger", path, "--delta", "1e-6").output
    assert "epsilon=0.7" in shown
    assert "PosteriorForestClassifier.fit" in shown
    assert "(ε = 0.7, δ = 1e-06)" in shown
    assert json.loads(run("ledger", path, "--json").stdout)["remaining"] == "3/10"


def test_a_ledger_of_epsilon_and_delta_pays_for_gaussian_noise(monks, tmp_path):
    path = tmp_path / "ledger.json"
    started = told(run("ledger", path, "--epsilon", "3", "--delta", "1e-6"))
    assert "Nothing is spent of (epsilon=3, delta=1e-06)" in started
    asked = ("--kind", "tables", "--delta", "1e-6", "--ledger", path, "--overwrite")
    fitted(monks, tmp_path / "m", *asked, "--epsilon", "1")
    assert len(PrivacyLedger.open(path).charges) == 1
    done = fit(monks, tmp_path / "m", *asked, "--epsilon", "3")
    assert done.exit_code == 1
    assert "remains" in done.output
    record = json.loads(run("ledger", path, "--epsilon", "3", "--delta", "1e-6", "--json").stdout)
    assert record["budget"] == {"epsilon": "3", "delta": "1/1000000"}
    assert "Spent so far" in run("ledger", path, "--delta", "1e-6").output
    assert "keeps its terms" in run("ledger", path, "--epsilon", "3").output
    assert run("ledger", path, "--html", tmp_path / "page.html").exit_code == 0


def test_a_ledger_of_rho_keeps_its_terms_and_leaves_no_lock(tmp_path):
    path = tmp_path / "l.json"
    shown = run("ledger", path, "--rho", "0.1", "--delta", "1e-6").output
    assert "Spent so far, together: (ε = 0" in shown
    assert PrivacyLedger.open(path, rho=0.1).spent == 0
    assert "keeps its terms" in run("ledger", path, "--rho", "0.2").output
    assert "--epsilon or --rho" in run("ledger", tmp_path / "new.json").output
    assert not (tmp_path / "new.json.lock").exists()


def test_a_model_that_is_paid_for_is_not_lost_with_a_word_of_the_ledger(
    monks, tmp_path, monkeypatch
):
    def refuse(ledger, number, **words):
        raise LedgerError("the disk is full")

    run("ledger", tmp_path / "ledger.json", "--epsilon", "1")
    monkeypatch.setattr(PrivacyLedger, "describe", refuse)
    done = fitted(monks, tmp_path / "m", "--kind", "tables", "--ledger", tmp_path / "ledger.json")
    assert "the disk is full" in done.stderr
    assert load_model(tmp_path / "m").privacy_report_.noise == "exact"
    page = run("ledger", tmp_path / "ledger.json", "--html", tmp_path / "l.html", "--json")
    assert page.exit_code == 1
    assert not (tmp_path / "l.html").exists()


# Labels from model files --------------------------------------------------------------------------


SMALL = {"n_trees": 4, "max_depth": 2, "strategy": "identity", "epsilon": 2}
MODELS = {
    "tables": lambda: PosteriorForestClassifier(DATA.domain, epsilon=2),
    "labels": lambda: LabelTreeClassifier(DATA.domain, epsilon=2, n_records=432),
    "naive Bayes": lambda: PrivateNaiveBayesClassifier(DATA.domain, epsilon=2),
    "votes": lambda: MatrixForestClassifier(DATA.domain, **SMALL),
}


def rows(text):
    return list(csv.reader(io.StringIO(text)))


def labels(done):
    return [row[0] for row in rows(done.stdout)[1:]]


def strings(values):
    return list(map(str, values.tolist()))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    for name, make in MODELS.items():
        save_model(make().fit(DATA.X, DATA.y), folder / name)
    return folder


@pytest.fixture(params=MODELS)
def model(request, files):
    return files / request.param


def test_predictions_go_to_a_file_and_need_no_target_column(files, tmp_path):
    with (tmp_path / "new.csv").open("w", newline="") as file:
        names = list(reversed(DATA.domain.names))
        few = list(zip(*(DATA.columns[name] for name in names), strict=True))[:5]
        csv.writer(file).writerows([names, *few])
    done = run("predict", files / "tables", tmp_path / "new.csv", "--output", tmp_path / "out.csv")
    assert done.exit_code == 0, done.output
    assert "5 predictions" in done.output
    expected = strings(load_model(files / "tables").predict(DATA.X)[:5])
    assert rows((tmp_path / "out.csv").read_text()) == [[TARGET], *([one] for one in expected)]


@pytest.mark.parametrize("name", ["tables", "labels"])
def test_unsure_labels_are_left_empty(files, tmp_path, name):
    output = ("--abstain", "0.9", "--output", tmp_path / "labels.csv")
    done = run("predict", files / name, "monks_1", *output)
    assert done.exit_code == 0, done.output
    _, *body = rows((tmp_path / "labels.csv").read_text())
    kept = load_model(files / name).predict_or_abstain(DATA.X, 0.9)
    assert [row[0] == "" for row in body] == np.ma.getmaskarray(kept).tolist()
    assert f"{np.ma.getmaskarray(kept).sum()} of them empty" in done.output
    drawn = run("predict", files / "votes", "monks_1", "--abstain", "0.9")
    assert drawn.exit_code == 0, "the file holds the release, whose noise is drawn anew"
    refused = run("predict", files / "naive Bayes", "monks_1", "--abstain", "0.9")
    assert "'naive_bayes' has no intervals" in refused.output


@pytest.mark.parametrize("voting", ["weight", "product", "shares", "posterior"])
def test_voting_can_be_changed_when_predicting(files, voting):
    voted = load_model(files / "votes").voted_by(voting)
    words = ("predict", files / "votes", "monks_1", "--voting", voting)
    assert labels(run(*words)) == strings(voted.predict(DATA.X))
    shares = np.array([row[1:] for row in rows(run(*words, "--proba").stdout)[1:]], dtype=float)
    assert np.array_equal(shares, voted.predict_proba(DATA.X))
    cut = voted.classes_[(voted.predict_proba(DATA.X)[:, 1] > 0.4).astype(int)]
    assert labels(run(*words, "--threshold", "0.4")) == strings(cut)


@pytest.mark.parametrize("voting", ["product", "shares", "posterior"])
def test_noise_aware_votings_are_fitted(tmp_path, voting):
    """So the command line knows every rule."""
    options = "--n-trees 4 --max-depth 2 --strategy identity --shrinkage leaves --voting"
    done = run("fit", "monks_1", *options.split(), voting, "--output", tmp_path / "m")
    assert done.exit_code == 0, done.output
    plan = load_model(tmp_path / "m").plan_
    assert (plan.voting, plan.shrinkage) == (voting, "leaves")


@pytest.mark.parametrize("threshold", [0.2, 0.5, 0.8])
def test_what_is_evaluated_is_what_is_predicted(model, threshold):
    forest = load_model(model)
    said = labels(run("predict", model, "monks_1", "--threshold", threshold))
    codes = (forest.predict_proba(DATA.X)[:, 1] > threshold).astype(int)
    assert said == strings(forest.classes_[codes])
    study = {"epsilon": float("inf"), "threshold": threshold}
    found = evaluate(forest, DATA.X, DATA.y, **study).figures["accuracy"]
    assert found.value == pytest.approx(np.mean(forest.classes_[codes] == DATA.y))


def test_probabilities_stand_beside_labels(model):
    plain = rows(run("predict", model, "monks_1", "--proba").stdout)[1:]
    done = rows(run("predict", model, "monks_1", "--proba", "--threshold", "0.9").stdout)[1:]
    assert [row[1:] for row in done] == [row[1:] for row in plain]
    second = str(load_model(model).classes_.tolist()[1])
    assert [row[0] == second for row in done] == [float(row[2]) > 0.9 for row in done]


@pytest.mark.parametrize("name", ["tables", "labels", "naive Bayes"])
def test_a_kind_of_one_rule_has_no_other_voting(files, name):
    refused = run("predict", files / name, "monks_1", "--voting", "weight")
    assert refused.exit_code == 1
    assert "one rule only" in told(refused)
