"""One vocabulary of kinds for all doors, and values that no call can take."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import run
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import strategies
from mrf_matrix import (
    ZCDP,
    Attribute,
    Domain,
    Forest,
    MatrixForestClassifier,
    MultinomialForestClassifier,
    PureDP,
    RandomTrees,
    compare,
    estimators,
    expected_error,
    measure,
    path_matrix,
    path_matrix_from_codes,
    plan,
    query_matrix,
    reconstruct,
    tune,
)
from mrf_matrix.base.kinds import KINDS, TYPED
from mrf_matrix.base.kinds import KINDS as WORDS
from mrf_matrix.compilation import leaf_counts
from mrf_matrix.mechanisms import calibrate, count_cells
from mrf_matrix.planning.plans.plan_kind import KINDS as PLANNED
from mrf_matrix.study import reliability
from strategies.operators import Identity

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
    quick = {"epsilon": 1, "n_records": 500, "objective_options": {"n_targets": 2, "n_queries": 8}}
    _, *others = tune(DOMAIN, space=space, **quick).trials
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
    made = plan(DOMAIN, epsilon=1, forest=forest, time_limit=0.1)
    assert made.to_dict()["kind"] == "matrix"
    assert plan(domain=forest, epsilon=1, strategy="identity").to_dict()["kind"] == "matrix"
    assert plan(DOMAIN, None, epsilon=1, n_blocks=2).to_dict()["kind"] == "tables"
    with pytest.raises(ValueError, match="n_trees"):
        plan(DOMAIN, "auto", epsilon=1, n_trees=4)


# What is planned is what is released --------------------------------------------------------------


SIZES = (2, 3, 2)
THREE = Domain.from_sizes(SIZES, n_classes=2)
CODES = np.array([[0, 0, 1], [1, 2, 0], [1, 1, 1], [0, 2, 1], [1, 2, 0]], dtype=np.int32)
LABELS = np.array([0, 1, 1, 0, 1])
BUDGETS = [{}, {"epsilon": 0.7}, {"rho": 0.2}, {"epsilon": 3}]
SHARED_WRONG = [
    {"epsilon": -1}, {"epsilon": "much"}, {"rho": 0}, {"epsilon": 1, "rho": 1},
    {"neighboring": "bounded"}, {"random_state": -3}, {"random_state": "seed"},
]  # fmt: skip
TREES_WRONG = [
    {"n_trees": 0}, {"max_depth": 9}, {"max_depth": -1}, {"splits": "ternary"},
    {"n_ensembles": 0}, {"max_features": 7}, {"feature_subsets": "ab"}, {"forest": 3},
    {"strategy": "no_such_family"}, {"strategy": np.eye(5)}, {"strategy": ["identity"] * 5},
    {"budget_shares": [1, 2, 3, 4]}, {"budget_shares": "half"}, {"budget_shares": [-1]},
    {"time_limit": 0}, {"time_limit": "long"}, {"time_limit": None},
]  # fmt: skip
WORDS_WRONG = [{"voting": "loud"}, {"allocation": "everywhere"}]
BLOCKS_WRONG = [
    {"n_blocks": 0}, {"n_blocks": 99}, {"blocks": "01"}, {"blocks": [[0], [0, 1]]},
    {"n_blocks": 2, "blocks": [[0]]}, {"n_records": 0}, {"n_records": "many"},
]  # fmt: skip

MEASURED = [kind for kind in PLANNED if not kind.is_sequence]
"""Kinds of one release; sequences are compared in tests/mrf_matrix/residual."""

CHEAP = ["identity", "workload_itself"]
CELLS = [*CHEAP, *CHEAP, "marginals"]  # the last for tables of cells, and seldom: it is searched

tried = settings(derandomize=True, max_examples=max(settings.default.max_examples // 2, 1))


@st.composite
def arguments(draw, kind, *, wrong=False):
    """Draw arguments that a kind's classifier and `plan` both take."""
    drawn = dict(draw(st.sampled_from(BUDGETS)))
    drawn["random_state"] = draw(st.integers(0, 5))
    drawn["neighboring"] = draw(st.sampled_from(["add_remove", "replace_one"]))
    faults = list(SHARED_WRONG)
    if kind.grows_trees:
        drawn |= {
            "n_trees": draw(st.integers(3, 5)),
            "max_depth": draw(st.integers(0, 2)),
            "splits": draw(st.sampled_from(["multiway", "binary"])),
            "n_ensembles": draw(st.integers(1, 2)),
            "max_features": draw(st.sampled_from([None, 2])),
            "strategy": draw(st.sampled_from(CHEAP if kind.is_disjoint else CELLS)),
            "time_limit": 0.05,
        }
        faults += TREES_WRONG
        if drawn["n_ensembles"] == 2 and draw(st.booleans()):
            drawn["budget_shares"] = [1, 3]
        if "voting" in kind.parameters:
            drawn |= {"voting": draw(st.sampled_from(kind.votings)), "allocation": kind.allocation}
            faults += WORDS_WRONG
    elif kind.chooses_blocks:
        drawn["n_records"] = draw(st.sampled_from([None, 50]))
        drawn |= draw(st.sampled_from([{}, {"n_blocks": 2}, {"blocks": [[0, 2], [1]]}]))
        faults += BLOCKS_WRONG
    else:
        del drawn["random_state"]  # nothing of it is random
        faults = [one for one in faults if "random_state" not in one]
    return drawn | (draw(st.sampled_from(faults)) if wrong else {})


def promised(kind, given):
    queries = {"queries": CODES} if kind.answers_queries else {}
    return plan(THREE, kind.name, **queries, **given)


def released(kind, given, *, fitted=True):
    """Return the plan of what the classifier measures."""
    model = getattr(estimators, WORDS[kind.name].estimator)(
        THREE, noise="research", noise_state=0, **given
    )
    if not kind.answers_queries:
        return model.fit(CODES, LABELS).plan_
    return (model.fit(CODES, LABELS) if fitted else model).plan(CODES)


def assert_same(one, other):
    assert one.kind == other.kind
    assert one.budget == other.budget
    assert one.n_records == other.n_records
    np.testing.assert_array_equal(one.queries, other.queries)
    np.testing.assert_array_equal(one.multiplicity, other.multiplicity)
    for mine, theirs in zip(one.parts, other.parts, strict=True):
        assert mine.forest == theirs.forest
        assert mine.ensemble.features == theirs.ensemble.features
        assert mine.method == theirs.method
        assert mine.mechanism.law == theirs.mechanism.law
        assert mine.mechanism.budget == theirs.mechanism.budget
        assert mine.mechanism.squared_factor == theirs.mechanism.squared_factor
        np.testing.assert_array_equal(
            mine.mechanism.rounded.matrix.to_dense(), theirs.mechanism.rounded.matrix.to_dense()
        )
    np.testing.assert_array_equal(one.row_variances, other.row_variances)
    assert repr(one) == repr(other)


def outcome(make):
    try:
        return make()
    except (ValueError, TypeError) as error:
        return type(error), str(error)


@pytest.mark.parametrize("kind", MEASURED, ids=lambda kind: f"{kind.name}-{kind.allocation}")
@tried
@given(data=st.data())
def test_what_is_planned_is_what_is_released(kind, data):
    drawn = data.draw(arguments(kind))
    made = promised(kind, drawn)
    assert_same(made, released(kind, drawn))
    if kind.answers_queries:
        assert_same(made, released(kind, drawn, fitted=False))


@pytest.mark.parametrize("kind", MEASURED, ids=lambda kind: f"{kind.name}-{kind.allocation}")
@tried
@given(data=st.data())
def test_what_cannot_be_is_refused_alike(kind, data):
    drawn = data.draw(arguments(kind, wrong=True))
    one, other = (outcome(lambda f=f: f(kind, drawn)) for f in (promised, released))
    if not isinstance(one, tuple):  # a fault that other arguments make harmless
        assert_same(one, other)
    else:
        assert one == other


def test_the_comparison_catches_another_strategy():
    drawn = {"n_trees": 4, "max_depth": 2, "strategy": "identity", "random_state": 0}
    made = promised(PLANNED[0], drawn)
    with pytest.raises(AssertionError):
        assert_same(made, released(PLANNED[0], drawn | {"strategy": Identity(12)}))
    with pytest.raises(AssertionError):
        assert_same(made, released(PLANNED[0], drawn | {"epsilon": 2}))


# Values that no call can take ---------------------------------------------------------------------


PLAIN = Domain.from_sizes([2, 3], n_classes=2)
FOUR_CODES, FOUR = np.array([[0, 1], [1, 2], [0, 0], [1, 1]]), np.array([0, 1, 0, 1])
FOREST = RandomTrees(n_trees=2, max_depth=1).grow(PLAIN, random_state=0)
COUNTS = count_cells(FOUR_CODES, FOUR, (2, 3), 2)
EYE = np.eye(6)


def masked(values: Any) -> np.ma.MaskedArray[Any, Any]:
    """Return values of which every second one is masked."""
    return np.ma.masked_array(values, mask=np.arange(np.size(values)).reshape(np.shape(values)) % 2)


def beyond() -> sparse.csr_array:
    """Return a matrix that points outside of its shape."""
    matrix = sparse.csr_array(np.tri(6))
    matrix.indices[0] = 99
    return matrix


def a_release() -> Any:
    return measure(EYE, COUNTS, PureDP(1), noise="research", random_state=0)


def fitted(**parameters: Any) -> MatrixForestClassifier:
    return MatrixForestClassifier(
        PLAIN, epsilon=1, n_trees=2, max_depth=1, noise="research", noise_state=0, **parameters
    )


DOORS: dict[str, Callable[[], object]] = {
    "count_cells": lambda: count_cells(masked(FOUR_CODES), FOUR, (2, 3), 2),
    "count_cells, labels": lambda: count_cells(FOUR_CODES, masked(FOUR), (2, 3), 2),
    "path_matrix_from_codes": lambda: path_matrix_from_codes(masked(FOUR_CODES), (2, 3)),
    "path_matrix, trees": lambda: path_matrix_from_codes(FOUR_CODES, (2, 3), masked(FOUR)),
    "query_matrix": lambda: query_matrix(masked(FOUR_CODES), PLAIN),
    "apply": lambda: FOREST.apply(masked(FOUR_CODES)),
    "decode": lambda: PLAIN.decode(masked(FOUR_CODES)),
    "leaf_counts": lambda: leaf_counts(FOREST, FOUR_CODES, masked(FOUR), 2),
    "Forest": lambda: Forest(
        PLAIN, masked(FOREST.roots), FOREST.attribute, FOREST.first_child, FOREST.pattern,
        FOREST.branches,
    ),
    "plan, queries": lambda: plan(PLAIN, "batch", n_trees=2, queries=masked(FOUR_CODES)),
    "plan, weights": lambda: plan(PLAIN, "matrix", n_trees=1, weights=masked(np.ones(2))),
    "plan, strategy": lambda: plan(PLAIN, "matrix", n_trees=2, strategy=masked(EYE)),
    "measure": lambda: measure(masked(EYE), COUNTS, PureDP(1), noise="research"),
    "measure, sparse": lambda: measure(beyond(), COUNTS, PureDP(1), noise="research"),
    "measure, workload": lambda: measure(EYE, COUNTS, PureDP(1), workload=beyond()),
    "reconstruct": lambda: reconstruct(a_release(), masked(EYE)),
    "expected_error": lambda: expected_error(EYE, beyond(), epsilon=1),
    "score": lambda: fitted().fit(FOUR_CODES, FOUR).score(FOUR_CODES, masked(FOUR)),
    "from_data, X": lambda: MultinomialForestClassifier("from_data").fit(masked(FOUR_CODES), FOUR),
    "from_data, y": lambda: MultinomialForestClassifier("from_data").fit(FOUR_CODES, masked(FOUR)),
}  # fmt: skip


@pytest.mark.parametrize("door", DOORS)
def test_every_door_refuses_what_is_under_a_mask(door: str) -> None:
    with pytest.raises((ValueError, TypeError), match=r"is a masked array|outside of its shape"):
        DOORS[door]()


def test_records_under_a_mask_are_missing() -> None:
    able = Domain([Attribute("a", size=2, missing="category"), Attribute("b", size=3)])
    column = np.ma.masked_array([0, 1, 1], mask=[False, True, False])
    assert able.encode({"a": column, "b": [0, 1, 2]})[:, 0].tolist() == [0, 2, 1]
    with pytest.raises(ValueError, match="missing values"):
        fitted().fit(masked(FOUR_CODES), FOUR)
    with pytest.raises(ValueError, match="missing values"):
        fitted().fit(FOUR_CODES, masked(FOUR))


# Limits and absurd numbers ------------------------------------------------------------------------


SMALL = Domain.from_sizes([2, 3, 2], n_classes=2)
WIDE = Domain.from_sizes([2] * 1100, n_classes=2)  # more cells than a float counts
HUGE = 10**30

REFUSED: dict[str, tuple[str, Callable[[], object]]] = {
    "n_ensembles": ("n_ensembles=1000000000: .* at most", lambda: plan(SMALL, n_ensembles=10**9)),
    "queries": ("queries=1000000000: .* at most", lambda: plan(SMALL, "subsample", queries=10**9)),
    "parties": ("parties=1.* to 2147483647", lambda: plan(SMALL, n_trees=2, parties=HUGE)),
    "n_bins": ("n_bins=1.* at most", lambda: reliability([0, 1], [[1, 0], [0, 1]], HUGE)),
    "n_splits": ("n_splits=1000000000: .* at most", lambda: compare("monks_1", n_splits=10**9)),
    "n_draws": ("n_draws=1000000000: .* at most", lambda: compare("monks_1", n_draws=10**9)),
    "epsilon": (r"epsilon=1e-300.*2\*\*55", lambda: calibrate(np.eye(2), PureDP(1e-300))),
    "rho": (r"rho=1e-300.*2\*\*55", lambda: calibrate(np.eye(2), ZCDP(1e-300))),
    "cells": ("1100 attributes.*max_features", lambda: plan(WIDE, n_trees=2, max_depth=1)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_absurd_numbers_are_refused_by_name(name: str) -> None:
    message, call = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        call()


def test_numbers_at_the_edge_are_taken() -> None:
    assert calibrate(np.eye(2), PureDP(1e-16)).law.scale > 1e15
    made = plan(WIDE, "subsample", n_trees=2, max_depth=1, queries=2)  # votes, not cells
    assert made.n_classes == 2


def test_a_family_that_a_time_limit_does_not_cover_is_not_begun() -> None:
    domain = Domain.from_sizes([4] * 20, n_classes=2)
    paths = path_matrix(RandomTrees(n_trees=4, max_depth=2).grow(domain, random_state=0))
    short, long = (
        {one.family: one for one in strategies.select(paths, time_limit=limit).candidates}
        for limit in (1e-5, 0.2)
    )
    assert "takes about" in short["marginals"].note
    assert np.isfinite(long["marginals"].loss)  # control: what a longer limit covers


def test_a_trial_that_a_time_limit_does_not_cover_is_not_begun() -> None:
    domain = Domain.from_sizes([2] * 11, n_classes=2)
    paths = path_matrix(RandomTrees(n_trees=12, max_depth=9).grow(domain, random_state=0))
    short, long = (
        {one.family: one for one in strategies.select(paths, time_limit=limit).candidates}
        for limit in (0.05, 2.0)
    )
    assert "takes about" in short["marginals"].note
    assert np.isfinite(long["marginals"].loss)
