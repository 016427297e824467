"""One vocabulary of kinds: Python, the command line and the documentation have the same words."""

import json
from pathlib import Path

import numpy as np
import pytest
from command_line import run

from mrf_matrix import Domain, RandomTrees, compare, estimators, plan, tune
from mrf_matrix.base.kinds import KINDS, TYPED

DOMAIN = Domain.from_sizes([3, 3, 2, 4], n_classes=2)
QUERIES = np.zeros((3, 4), dtype=np.int32)
GIVEN = {
    "epsilon": 1, "n_records": 500, "random_state": 0, "n_trees": 4, "max_depth": 2,
    "strategy": "identity",
}  # fmt: skip


@pytest.mark.parametrize("word", KINDS)
def test_a_kind_is_planned_as_its_classifier_plans(word):
    model = getattr(estimators, KINDS[word].estimator)(DOMAIN)
    given = {name: value for name, value in GIVEN.items() if name in model.get_params()}
    asked = (QUERIES,) if KINDS[word].answers_queries else ()
    released = model.set_params(**given).plan(*asked)
    made = plan(DOMAIN, word, **given, **({"queries": QUERIES} if asked else {}))
    if word == "auto":
        assert str(made) == str(released)
    else:
        assert repr(made.steps) == repr(released.steps)


@pytest.mark.parametrize("word", TYPED)
def test_the_command_line_plans_every_kind(tmp_path, word):
    DOMAIN.save(tmp_path / "domain.json")
    trees = ["--n-trees", "4", "--strategy", "identity"] * ("n_trees" in KINDS[word].options)
    asked = [str(tmp_path / "domain.json"), "--kind", word, *trees, "--n-records", "500", "--json"]
    done = run("plan", *asked, "--no-pictures", "--output", str(tmp_path))
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["kind"] == word


@pytest.mark.parametrize("word", ["posterior", "training", "private", 3, ["tables"]])
def test_other_words_are_refused_by_name(word):
    for call in (plan, tune):
        with pytest.raises(ValueError, match=r"kind=.*: expected one of 'auto', 'tables'"):
            call(DOMAIN, kind=word, epsilon=1, n_records=500)
    if isinstance(word, str):
        with pytest.raises(ValueError, match=r"kind=.*: expected a Method"):
            compare("monks_1", kind=word)


@pytest.mark.parametrize("word", ["labels", "pool", "two_stage"])
def test_designs_that_are_not_compared_are_refused(word):
    with pytest.raises(ValueError, match=f"kind='{word}': its designs are not compared"):
        tune(DOMAIN, kind=word, epsilon=1, n_records=500)
    space = [{"kind": [word, "auto"]}, {"kind": ["tables"]}]
    _, *others = tune(DOMAIN, space=space, epsilon=1, n_records=500).trials
    assert all("are not compared" in trial.note for trial in others)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["plan", "car", "--kind", "two_stage"], "'two_stage' is not one of"),
        (["compare", "car", "--kind", "matrix,two_stage"], "in Python"),
        (["fit", "car", "--kind", "batch"], "or BatchPredictionClassifier in Python"),
        (["fit", "car", "--kind", "subsample", "--n-trees", "4"], "no model file holds"),
        (
            ["plan", "car", "--kind", "pool", "--parties", "3"],
            "--parties: no option of --kind pool",
        ),
    ],
)
def test_words_that_a_command_has_no_use_for_are_refused(tmp_path, arguments, message):
    done = run(*arguments, "--output", str(tmp_path / "out"))
    assert done.exit_code != 0
    assert message in done.output


def test_the_page_lists_every_word_with_its_class():
    page = (Path(__file__).parents[2] / "docs" / "command_line.md").read_text()
    for word in TYPED:
        assert f"| `{word}` | " in page
        assert f"`{KINDS[word].estimator}`" in page


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({}, "auto"),
        ({"n_records": 500}, "auto"),
        ({"n_trees": 4}, "matrix"),
        ({"strategy": "identity", "max_depth": 1}, "matrix"),
        ({"max_depth": 4}, "matrix"),  # as if it had been left alone
        ({"n_ensembles": 1}, "matrix"),
        ({"time_limit": 0.5}, "matrix"),
        ({"allocation": "per_tree"}, "matrix"),
        ({"n_blocks": 2}, "tables"),
        ({"parties": 3}, "matrix"),
    ],
)
def test_without_a_word_python_and_the_command_line_plan_the_same_kind(tmp_path, given, word):
    """What no argument asks for is "auto"; an argument of one kind only asks for that kind."""
    assert plan(DOMAIN, epsilon=1, random_state=0, **given).to_dict()["kind"] == word
    DOMAIN.save(tmp_path / "domain.json")
    options = [part for name, one in given.items() for part in (f"--{name}".replace("_", "-"), one)]
    asked = (tmp_path / "domain.json", *map(str, options), "--json", "--no-pictures")
    done = run("plan", *asked, "--output", tmp_path)
    assert json.loads(done.stdout)["kind"] == word


def test_a_forest_is_planned_over_a_strategy():
    forest = RandomTrees(2, 1).grow(DOMAIN, random_state=0)
    assert plan(forest, epsilon=1, strategy="identity").to_dict()["kind"] == "matrix"
    assert plan(DOMAIN, epsilon=1, forest=forest).to_dict()["kind"] == "matrix"
    assert plan(domain=forest, epsilon=1, strategy="identity").to_dict()["kind"] == "matrix"
    assert plan(DOMAIN, None, epsilon=1, n_blocks=2).to_dict()["kind"] == "tables"
    with pytest.raises(ValueError, match="n_trees"):
        plan(DOMAIN, "auto", epsilon=1, n_trees=4)
