"""What is planned is what is released: `plan(...)` and the estimators' plans are one thing.

Random arguments of every kind, one of them perhaps impossible: strategy, mechanism, expected error
and whatever is raised must be equal, the errors in type and text.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mrf_matrix import Domain, estimators
from mrf_matrix.base.kinds import KINDS as WORDS
from mrf_matrix.planning import plan
from mrf_matrix.planning.plans.kind import KINDS
from strategies.operators import Identity

SIZES = (2, 3, 2)
DOMAIN = Domain.from_sizes(SIZES, n_classes=2)
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

MEASURED = [kind for kind in KINDS if not kind.is_sequence]
"""Kinds of one release; sequences are compared in tests/mrf_matrix/residual."""

CHEAP = ["identity", "workload_itself"]
CELLS = [*CHEAP, *CHEAP, "marginals"]  # the last for tables of cells, and seldom: it is searched

tried = settings(derandomize=True)


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
    return plan(DOMAIN, kind.name, **queries, **given)


def released(kind, given, *, fitted=True):
    """Return the plan of what the classifier measures."""
    model = getattr(estimators, WORDS[kind.name].estimator)(
        DOMAIN, noise="research", noise_state=0, **given
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


@pytest.mark.parametrize("kind", MEASURED, ids=lambda kind: kind.__name__)
@tried
@given(data=st.data())
def test_what_is_planned_is_what_is_released(kind, data):
    drawn = data.draw(arguments(kind))
    made = promised(kind, drawn)
    assert_same(made, released(kind, drawn))
    if kind.answers_queries:
        assert_same(made, released(kind, drawn, fitted=False))


@pytest.mark.parametrize("kind", MEASURED, ids=lambda kind: kind.__name__)
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
    made = promised(KINDS[0], drawn)
    with pytest.raises(AssertionError):
        assert_same(made, released(KINDS[0], drawn | {"strategy": Identity(12)}))
    with pytest.raises(AssertionError):
        assert_same(made, released(KINDS[0], drawn | {"epsilon": 2}))
