"""An empirical audit of every kind: what an attacker who sees the releases can prove.

The attacker knows two neighbouring data sets and everything public, has each released many times
with exact noise, and guesses which it was by the likelihood ratio of the noisy answers. If E is an
event of probability p on one data set and q on the other, ε-DP implies ``log(p/q) <= ε``; Clopper
and Pearson's intervals for p and q give a lower bound on the true ε that is wrong once in a
thousand times. Everything an estimator publishes is computed from the answers audited here.
"""

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy import stats

from mrf_matrix import (
    BatchPredictionClassifier,
    Domain,
    MatrixForestClassifier,
    RandomTrees,
    SubsampleAggregateClassifier,
)
from mrf_matrix.estimators import prediction
from mrf_matrix.estimators.record_source import EncodedRecords
from mrf_matrix.mechanisms import measure
from mrf_matrix.mechanisms.measurement import mechanism

RUNS = 500
FAILURE = 1e-3
EPSILON = 1.0
DOMAIN = Domain.from_sizes([2, 2], n_classes=2)
FOREST = RandomTrees(2, 1).grow(DOMAIN, random_state=0)
CELLS = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], dtype=np.int32)
CODES = CELLS[[2, 3, 3, 3, 2, 0, 1]]  # chosen such that the last record turns a leaf's vote
LABELS = np.array([1, 0, 1, 0, 0, 1, 1])
PUBLIC = {"forest": FOREST, "random_state": 1, "strategy": "identity"}


def train(codes, labels, **privacy):
    """Return what is measured: pairs of a calibrated mechanism and the private table."""
    model = MatrixForestClassifier(DOMAIN, **PUBLIC, **privacy)
    made = model.fit(codes, labels).plan_
    coins, records = np.random.default_rng(1), EncodedRecords(DOMAIN, codes, labels)
    tables = [made.kind.table(one.ensemble, records, coins) for one in made.parts]
    return [(one.mechanism, t) for one, t in zip(made.parts, tables, strict=True)]


def answer(kind, codes, labels, *, asked=CELLS, **privacy):
    model = kind(DOMAIN, **PUBLIC, **privacy).fit(codes, labels)
    parts = model.plan(asked).parts
    return [(one.mechanism, t) for one, t in zip(parts, model._fitted.tables, strict=True)]


MODES = {
    "matrix": train,
    "batch": partial(answer, BatchPredictionClassifier),
    "subsample, weight": partial(answer, SubsampleAggregateClassifier),
    "subsample, hard": partial(answer, partial(SubsampleAggregateClassifier, voting="hard")),
    "subsample, one query at a time": partial(
        answer, partial(SubsampleAggregateClassifier, allocation="per_query"), asked=CELLS[-1:]
    ),
}


def neighbours(relation):
    """Yield every neighbour of the data that ends in another record, or in none."""
    if relation == "add_remove":
        yield CODES[:-1], LABELS[:-1]
        return
    for cell in CELLS:
        for label in (0, 1):
            yield np.vstack([CODES[:-1], cell]), np.append(LABELS[:-1], label)


def exact_answers(pairs):
    return np.concatenate([table.answers(made.rounded.matrix).ravel() for made, table in pairs])


def noisy_answers(pairs):
    """Return the answers of many releases, (RUNS, answers): columns of classes have own noise."""
    found = []
    for made, table in pairs:
        many = replace(table, counts=np.tile(table.counts, RUNS))
        answers = measure(made, many).answers
        columns = answers.reshape(len(answers), RUNS, -1)
        found.append(np.moveaxis(columns, 1, 0).reshape(RUNS, -1))
    return np.concatenate(found, axis=1)


def audited(kind, relation):
    """Return a lower confidence bound on ε, and the exact ε of the neighbours audited.

    The attacker chooses the neighbour that moves the answers most.
    """
    measured = partial(MODES[kind], epsilon=EPSILON, neighboring=relation)
    pairs = [measured(CODES, LABELS)]
    exact = [exact_answers(pairs[0])]
    others = [measured(*data) for data in neighbours(relation)]
    pairs.append(max(others, key=lambda other: np.abs(exact_answers(other) - exact[0]).sum()))
    exact.append(exact_answers(pairs[1]))
    scale = float(pairs[0][0][0].law.scale)

    def evidence(noisy):
        """Log-likelihood ratios of released answers, in favour of the first data set."""
        away = [np.abs(noisy - one).sum(axis=1) for one in exact]
        return (away[1] - away[0]) / scale

    most = np.abs(exact[1] - exact[0]).sum() / scale
    seen = [(evidence(noisy_answers(one)) >= most / 2).sum() for one in pairs]
    return math.log(lower(seen[0], RUNS) / upper(seen[1], RUNS)), most


def lower(count, runs):
    return stats.beta.ppf(FAILURE / 2, count, runs - count + 1) if count else 1e-12


def upper(count, runs):
    return stats.beta.ppf(1 - FAILURE / 2, count + 1, runs - count) if count < runs else 1.0


@pytest.fixture(autouse=True)
def coins_thrown_alike(monkeypatch):
    """Audit given the coins: they are independent of the records, so the claim holds for each."""
    monkeypatch.setattr(
        prediction, "record_coins", lambda noise, budget, seed: np.random.default_rng(seed)
    )


CASES = [(kind, "add_remove") for kind in MODES] + [
    (kind, "replace_one") for kind in ("batch", "subsample, weight")
]


@pytest.mark.parametrize(("kind", "relation"), [*CASES, ("subsample, hard", "replace_one")])
def test_no_more_is_learned_than_claimed(kind, relation):
    bound, most = audited(kind, relation)
    assert most <= EPSILON * (1 + 1e-9)  # the exact likelihood ratio of these neighbours
    assert bound < EPSILON


@pytest.mark.parametrize(("kind", "relation"), CASES)
def test_noise_halved_on_purpose_is_caught(kind, relation, monkeypatch):
    """Negative control: with half the noise the same audit proves more than the claimed ε."""
    right = mechanism.noise_for

    def halved(sensitivity, squared, budget, law=None):
        return right(sensitivity, squared, budget * 2, law)

    monkeypatch.setattr(mechanism, "noise_for", halved)
    bound, most = audited(kind, relation)
    assert most > EPSILON
    assert bound > EPSILON
