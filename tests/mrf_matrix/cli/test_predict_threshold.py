"""Labels by a threshold: those that an evaluation by the same threshold counts, at no budget."""

import csv
import io

import numpy as np
import pytest
from click.testing import CliRunner

from mrf_matrix import (
    MatrixForestClassifier,
    PrivateNaiveBayesClassifier,
    load_dataset,
    load_model,
    save_model,
)
from mrf_matrix.cli.main import main
from mrf_matrix.estimators import LabelTreeClassifier, PosteriorForestClassifier
from mrf_matrix.study import evaluate

DATA = load_dataset("monks_1")
MODELS = {
    "tables": lambda: PosteriorForestClassifier(DATA.domain, epsilon=2),
    "labels": lambda: LabelTreeClassifier(DATA.domain, epsilon=2, n_records=432),
    "naive Bayes": lambda: PrivateNaiveBayesClassifier(DATA.domain, epsilon=2),
    "votes": lambda: MatrixForestClassifier(
        DATA.domain, epsilon=2, n_trees=4, max_depth=2, strategy="identity"
    ),
}


def run(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def rows(text):
    return list(csv.reader(io.StringIO(text)))[1:]


@pytest.fixture(scope="module", params=MODELS)
def model(request, tmp_path_factory):
    file = tmp_path_factory.mktemp("models") / "model.mrf"
    save_model(MODELS[request.param]().fit(DATA.X, DATA.y), file)
    return file


@pytest.mark.parametrize("threshold", [0.2, 0.5, 0.8])
def test_what_is_evaluated_is_what_is_predicted(model, threshold):
    done = run("predict", model, "monks_1", "--threshold", threshold)
    assert done.exit_code == 0, done.output
    forest = load_model(model)
    classes = [str(one) for one in forest.classes_.tolist()]
    said = np.array([classes.index(label) for (label,) in rows(done.stdout)])
    shares = forest.predict_proba(DATA.X)
    assert np.array_equal(said, shares[:, 1] > threshold)
    study = {"epsilon": float("inf"), "threshold": threshold}
    found = evaluate(forest, DATA.X, DATA.y, **study).figures["accuracy"]
    right = np.mean(forest.classes_[said] == DATA.y)
    assert found.value == pytest.approx(right)


def test_probabilities_stand_beside_labels(model):
    plain = rows(run("predict", model, "monks_1", "--proba").stdout)
    done = rows(run("predict", model, "monks_1", "--proba", "--threshold", "0.9").stdout)
    assert [row[1:] for row in done] == [row[1:] for row in plain]
    second = str(load_model(model).classes_.tolist()[1])
    assert [row[0] == second for row in done] == [float(row[2]) > 0.9 for row in done]


def test_another_voting_is_cut_by_its_own_shares(tmp_path):
    save_model(MODELS["votes"]().fit(DATA.X, DATA.y), tmp_path / "m")
    words = ("predict", tmp_path / "m", "monks_1", "--voting", "weight", "--threshold", "0.4")
    forest = load_model(tmp_path / "m").voted_by("weight")
    said = forest.classes_[(forest.predict_proba(DATA.X)[:, 1] > 0.4).astype(int)]
    assert [label for (label,) in rows(run(*words).stdout)] == list(map(str, said.tolist()))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--threshold", "0"], "threshold=0.0: expected a number between 0 and 1"),
        (["--threshold", "1"], "threshold=1.0: expected a number between 0 and 1"),
        (["--threshold", "nan"], "expected a finite number such as 0.5"),
        (["--threshold", "half"], "half"),
        (["--threshold", "0.3", "--abstain", "0.9"], "--threshold 0.3 beside --abstain 0.9"),
    ],
)
def test_bad_thresholds_are_one_line_and_write_nothing(model, tmp_path, arguments, message):
    output = tmp_path / "labels.csv"
    done = run("predict", model, "monks_1", "--output", output, *arguments)
    assert done.exit_code != 0
    assert message in done.output
    assert "Traceback" not in done.output
    assert not output.exists()


def test_a_threshold_is_of_two_classes(tmp_path):
    car = load_dataset("car")
    forest = PrivateNaiveBayesClassifier(car.domain, epsilon=1).fit(car.X, car.y)
    save_model(forest, tmp_path / "m")
    done = run("predict", tmp_path / "m", "car", "--threshold", "0.5")
    assert done.exit_code == 1
    assert "a threshold is of two classes" in done.output
