"""Labels, probabilities and abstentions from model files, at no budget."""

import csv
import io

import numpy as np
import pytest
from command_line import run, told

from mrf_matrix import (
    MatrixForestClassifier,
    PrivateNaiveBayesClassifier,
    load_dataset,
    load_model,
    save_model,
)
from mrf_matrix.estimators import LabelTreeClassifier, PosteriorForestClassifier
from mrf_matrix.study import evaluate

DATA = load_dataset("monks_1")
TARGET = DATA.domain.target.name
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
