"""Data and noise meet in a curator's verbs alone: watched, with controls that must fail."""

import ast
from pathlib import Path

import pytest
from curator_plans import DEFERRED, DOMAIN, HALF, Largest, Plan, Records, cells, live, measuring

import mrf_matrix
from mrf_matrix import (
    BatchPredictionClassifier,
    MultinomialForestClassifier,
    PrivateNaiveBayesClassifier,
    SubsampleAggregateClassifier,
    plan,
)
from mrf_matrix.estimators import MultinomialMatrixForestClassifier
from mrf_matrix.estimators.record_source import EncodedRecords
from mrf_matrix.forests import PrivateMultinomialTrees
from mrf_matrix.kinds import multinomial
from mrf_matrix.mechanisms import CellCounts, PureDP, measure
from mrf_matrix.release import curator as curators
from mrf_matrix.study import evaluate
from strategies.operators import Identity


def unread(data):
    raise AssertionError("nothing was read")


class Guarded(Records):
    """Records that open only while a verb of `Live` is at work."""

    inside = ()

    def cells(self, features):
        assert self.inside, "data were read outside of a curator's verb"
        return super().cells(features)


def test_data_are_read_within_the_verbs_alone(guarded):
    records = Guarded()
    records.inside = guarded
    curator, _ = live(DEFERRED, records)
    with curator:
        (place,) = curator.choose(DEFERRED.steps[0], Largest())
        follows = Plan((measuring(attribute=place),), HALF)
        part = curator.part(DEFERRED.steps[1], lambda: follows, unread)
        part.measure(follows.steps[0], cells(place))
    with pytest.raises(AssertionError, match="outside"):  # the control
        cells().counts(records)


GROWN = {
    "multinomial": (MultinomialForestClassifier, {"epsilon": 1}),
    "two stages, coins": (MultinomialMatrixForestClassifier, {"strategy": "identity"}),
    "two stages, all": (
        MultinomialMatrixForestClassifier,
        {"strategy": "identity", "parts": "all"},
    ),
}


@pytest.mark.parametrize("name", GROWN)
def test_trees_see_records_and_noise_within_the_verbs_alone(name, guarded, monkeypatch):
    make, given = GROWN[name]
    looked = []

    def watched(real):
        def spied(*args, **keywords):
            assert guarded, "records or noise outside of a curator's verb"
            looked.append(1)
            return real(*args, **keywords)

        return spied

    monkeypatch.setattr(PrivateMultinomialTrees, "grow", watched(PrivateMultinomialTrees.grow))
    monkeypatch.setattr(multinomial, "private_labels", watched(multinomial.private_labels))
    for verb in ("cells", "deal"):
        monkeypatch.setattr(EncodedRecords, verb, watched(getattr(EncodedRecords, verb)))
    monkeypatch.setattr(curators, "measure", watched(curators.measure))
    records = Records()
    make(DOMAIN, n_trees=2, max_depth=1, **given).fit(records.codes, records.labels)
    assert looked
    with pytest.raises(AssertionError, match="outside"):  # the control
        PrivateMultinomialTrees(1).grow(DOMAIN, records.codes, records.labels)


def asked_by(make, **given):
    """Return what fits a classifier that answers queries, and asks it."""

    def ask(records):
        model = make(DOMAIN, n_trees=2, max_depth=1, strategy="identity", **given)
        model.fit(records.codes, records.labels).predict(records.codes[:5])

    return ask


def evaluated(records):
    model = PrivateNaiveBayesClassifier(DOMAIN).fit(records.codes, records.labels)
    evaluate(model, records.codes, records.labels, epsilon=1)


def measured_by_hand(records):
    plan(DOMAIN, epsilon=1, n_trees=2, max_depth=1).release([records.cells((0, 1))], noise="exact")


ANSWERS = {
    "batch": asked_by(BatchPredictionClassifier),
    "subsample": asked_by(SubsampleAggregateClassifier, voting="hard"),
    "evaluation": evaluated,
    "plan": measured_by_hand,
}


@pytest.mark.parametrize("name", ANSWERS)
def test_exact_answers_and_noise_meet_within_the_verbs_alone(name, guarded, monkeypatch):
    looked = []

    def answers(counts, operator, real=CellCounts.answers):
        assert guarded, "exact answers outside of a curator's verb"
        looked.append(1)
        return real(counts, operator)

    monkeypatch.setattr(CellCounts, "answers", answers)
    ANSWERS[name](Records())
    assert looked
    with pytest.raises(AssertionError, match="outside"):  # the control
        measure(Identity(6), Records().cells((0, 1)), PureDP(1))


ROOT = Path(mrf_matrix.__file__).parent
MEASURE = {
    "release/curator.py",
    "federated/noisy_answers.py",  # a party's share of noise, in a verb of its own curator
    "planning/search/expected_accuracy.py",  # counts that are imagined: no record is in them
}
"""Files beside `mechanisms` that may measure, or draw from a law of exact noise."""


def measuring_files():
    """Return the files that import `measure`, or call an exact sampler."""
    found = set()
    for path in ROOT.rglob("*.py"):
        if path.name == "__init__.py" or "mechanisms" in path.relative_to(ROOT).parts:
            continue
        text = path.read_text()
        if "measure" not in text and "law.exact" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            names = [one.name for one in getattr(node, "names", []) if isinstance(one, ast.alias)]
            called = isinstance(node, ast.Call) and ast.unparse(node.func).endswith(
                ("law.exact", "mechanisms.measure")
            )
            if "measure" in names or called:
                found.add(path.relative_to(ROOT).as_posix())
    return found


def test_nobody_but_a_curator_measures():
    assert measuring_files() == MEASURE
