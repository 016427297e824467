"""What a search is made of: kinds that are tried, keys of values, the order of designs, clocks."""

import json
from fractions import Fraction
from itertools import count
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy import sparse

from mrf_matrix import Domain
from mrf_matrix.estimators import ResidualForestClassifier, from_design
from mrf_matrix.mechanisms import DiscreteLaplace
from mrf_matrix.planning import ExpectedLoss, Trial, default_space, tune
from mrf_matrix.planning.plain_values import key_of, plain
from mrf_matrix.planning.search.design_search import DesignTrials, Stopwatch
from mrf_matrix.planning.search.tuning import AUTO, auto_kinds, rank_trials
from mrf_matrix.residual.step import RESIDUAL_SIGNAL
from strategies import select
from strategies.operators import Dense, Identity


class OwnLaw(DiscreteLaplace):
    """A law that nobody here has proved."""

    name: ClassVar[str] = "discrete Laplace of one's own"


DOMAIN = Domain.from_sizes([3] * 4, n_classes=2)
QUICK = {"objective_options": {"n_targets": 4, "n_queries": 32}, "time_limit": 0.02}
ENOUGH = RESIDUAL_SIGNAL["l1"] * DOMAIN.n_attributes  # records at ε = 1


def modes(sizes, n_classes, n_records, **claim):
    domain = Domain.from_sizes(sizes, n_classes=n_classes)
    asked = {"epsilon": None, "delta": 0, "rho": None} | claim
    return auto_kinds(domain, n_records=n_records, **asked)


@pytest.mark.parametrize(
    ("sizes", "n_classes", "n_records", "claim", "residual"),
    [
        ([5] * 8, 2, 20_000, {"epsilon": 1}, True),
        ([5] * 8, 2, 20_000, {"epsilon": 1, "delta": 1e-6}, True),
        ([3] * 4, 2, ENOUGH, {"epsilon": 1}, True),
        ([3] * 4, 2, ENOUGH - 1, {"epsilon": 1}, False),
        ([5] * 8, 2, None, {"epsilon": 1}, False),  # N is not public
        ([5] * 8, 3, 20_000, {"epsilon": 1}, False),  # several classes under Laplace noise
        ([5] * 8, 3, 20_000, {"rho": 0.5}, True),
        ([2001] * 2, 2, 10**7, {"epsilon": 1}, False),  # too many codes
        ([5] * 8, None, 20_000, {"epsilon": 1}, False),  # no classes are known
    ],
)
def test_residual_forests_are_tried_where_they_suit(sizes, n_classes, n_records, claim, residual):
    found = modes(sizes, n_classes, n_records, **claim)
    assert ("additive" in found) == residual
    assert set(AUTO) <= set(found)


def tried(**changes):
    """Return the modes that a search tries, without the time to judge random trees."""
    asked = {"epsilon": 1, "n_records": 3000, **QUICK} | changes
    found = tune(DOMAIN, **asked)
    return {trial.design["kind"] for trial in found.trials}, found


@pytest.fixture(scope="module")
def few_trees():
    """Let the default space hold few random trees."""
    with pytest.MonkeyPatch.context() as patch:
        place = "mrf_matrix.planning.search.tuning.default_space"
        few = {"max_depth": [1], "n_trees": [4], "strategy": ["identity"]}
        patch.setattr(
            place, lambda domain, kind: few if kind == "matrix" else default_space(domain, kind)
        )
        yield


@pytest.mark.usefixtures("few_trees")
def test_auto_tries_them_beside_the_others_and_makes_the_best():
    kinds, found = tried()
    assert kinds == {"tables", "additive", "matrix"}
    losses = {trial.design["kind"]: trial.value for trial in found.trials}
    alone = tune(DOMAIN, epsilon=1, n_records=3000, kind="additive", **QUICK)
    assert losses["additive"] == alone.best.value
    (residual,) = (t for t in found.trials if t.design["kind"] == "additive")
    model = from_design(found, residual)
    assert isinstance(model, ResidualForestClassifier)
    assert model.n_records == 3000
    both, of_laws = tried(delta=1e-6)
    assert both == kinds  # one design of it, for it compares the laws itself
    assert sum(trial.design["kind"] == "additive" for trial in of_laws.trials) == 1


@pytest.mark.usefixtures("few_trees")
@pytest.mark.parametrize(
    "changes",
    [
        {"n_records": 300},
        {"objective": "flip", "objective_options": None},
        {"objective": lambda plan: plan.total, "objective_options": None},
        {"law": OwnLaw},
    ],
)
def test_auto_leaves_them_out_where_they_cannot_be_judged(changes):
    kinds, _ = tried(**changes)
    assert kinds == set(AUTO)


@pytest.mark.usefixtures("few_trees")
@pytest.mark.parametrize("bound", ["max_bytes", "max_release_seconds"])
def test_bounds_on_memory_and_time_are_asked_of_them_too(bound):
    for limit, refused in ((10**9, False), (10**-9 if "seconds" in bound else 1000, True)):
        kinds, found = tried(**{bound: limit})
        (trial,) = (t for t in found.trials if t.design["kind"] == "additive")
        assert "additive" in kinds
        assert (f"above {bound}" in trial.note) == refused == np.isinf(trial.value)


@pytest.mark.usefixtures("few_trees")
def test_one_that_takes_longer_than_there_is_time_is_refused_with_a_note(tmp_path):
    given = {"n_records": 10**9, "resume": tmp_path / "trials.json"}
    _, found = tried(max_seconds=1000, **given)
    (trial,) = (t for t in found.trials if t.design["kind"] == "additive")
    assert np.isinf(trial.value)
    assert "max_seconds=1000 is too short to judge it" in trial.note
    assert "kind='additive'" in trial.note
    assert not found.stopped
    assert found.kind != "additive"


@pytest.mark.usefixtures("few_trees")
def test_more_time_judges_one_that_was_refused_for_time(tmp_path):
    from mrf_matrix.planning.search import design_search

    file = tmp_path / "trials.json"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(design_search, "imagined_seconds", lambda plan: 1e9)
        _, first = tried(max_seconds=1000, resume=file)
    _, again = tried(max_seconds=1000, resume=file)
    for found, judged in ((first, False), (again, True)):
        (trial,) = (t for t in found.trials if t.design["kind"] == "additive")
        assert np.isfinite(trial.value) == judged


# Values as JSON, and their keys -------------------------------------------------------------------


LARGE = np.zeros((64, 64))
CHANGED = LARGE.copy()
CHANGED[30, 30] = 1.0


def first(plan):
    return plan.total


def second(plan):
    return plan.total + 1


DIFFERENT = {
    "arrays": (LARGE, CHANGED),
    "types": (np.zeros(3), np.zeros(3, dtype=np.int64)),
    "shapes": (np.zeros((2, 3)), np.zeros((3, 2))),
    "operators": (Dense(LARGE), Dense(CHANGED)),
    "sparse": (sparse.csr_array(LARGE + np.eye(64)), sparse.csr_array(CHANGED + np.eye(64))),
    "strategies": (select(np.eye(3), norm="l1"), select(np.eye(3), norm="l2")),
    "functions": (first, second),
    "infinity": (float("inf"), None),
    "lists": ([LARGE, 1], [CHANGED, 1]),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_different_values_have_different_keys(name):
    one, other = DIFFERENT[name]
    assert key_of({"a": one}) != key_of({"a": other})
    assert key_of({"a": one}) == key_of({"a": one})


def test_equal_values_have_equal_keys():
    assert key_of(LARGE) == key_of(LARGE.copy())
    assert key_of(np.int64(3)) == key_of(3)
    assert key_of(sparse.csr_array(CHANGED)) == key_of(sparse.csc_array(CHANGED))
    assert key_of(Identity(4)) == key_of(Identity(4))


def test_everything_is_json():
    value = {
        "nan": np.nan, "inf": [float("inf")], "budget": Fraction(1, 2), "array": LARGE,
        "number": np.float64(0.5), "whole": np.int32(2), "operator": Dense(LARGE), "f": first,
        "range": range(3),
    }  # fmt: skip
    found = json.loads(json.dumps(plain(value), allow_nan=False))
    assert found["nan"] is None
    assert found["inf"] == [None]
    assert (found["budget"], found["number"], found["whole"]) == ("1/2", 0.5, 2)
    assert found["range"] == [0, 1, 2]
    assert "first" in found["f"]
    assert "0x" not in str(found)


# Order and clocks ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tolerance", "first"), [(0.0, "fine"), (0.005, "fine"), (0.01, "coarse"), (9.0, "coarsest")]
)
def test_of_designs_that_are_as_good_the_simplest_comes_first(tolerance, first):
    made = [
        Trial({"name": name}, value, 1.0, measurements, leaves, 1, 0.1)
        for name, value, measurements, leaves in (
            ("coarse", 0.308, 50, 90), ("fine", 0.3, 900, 20), ("coarsest", 0.5, 2, 2),
            ("refused", float("inf"), 0, 0),
        )
    ]  # fmt: skip
    found = rank_trials(made, tolerance)
    assert found[0].design["name"] == first
    rest = [trial.value for trial in found[1:]]
    assert rest == sorted(rest)
    assert len(found) == 4
    assert rank_trials(made[3:], tolerance)[0].design["name"] == "refused"


FEW = Domain.from_sizes([2, 3, 2], n_classes=2)


def test_a_design_that_takes_twice_the_limit_is_given_up(monkeypatch: Any) -> None:
    """By a clock of its own, that ticks at every look."""
    ticks = count()
    clock = "mrf_matrix.planning.search.design_search.monotonic"
    monkeypatch.setattr(clock, lambda: float(next(ticks)))
    fixed = {
        "epsilon": 1, "delta": 0.0, "rho": None, "neighboring": "add_remove", "n_records": 50,
        "random_state": 0, "kind": "tables",
    }  # fmt: skip
    group: list[dict[str, Any]] = [{"kind": "tables", "n_blocks": 2}]

    def found(limit: float | None) -> list[Any]:
        clock = Stopwatch(limit, lambda: 0.0)  # which is not over when the design is begun
        goal = ExpectedLoss(n_targets=8, n_queries=4)
        return DesignTrials(FEW, fixed, goal, 1, None, None, clock).run(group)

    assert found(2.0) == []
    assert len(found(None)) == 1  # control
