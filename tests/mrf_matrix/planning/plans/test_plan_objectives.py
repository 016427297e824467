"""Objectives, weights, groups, targets, shares and laws of a plan: from paper and dense twins."""

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrf_matrix import BatchPredictionClassifier, Domain, MatrixForestClassifier
from mrf_matrix.estimators import from_design
from mrf_matrix.mechanisms import BudgetError, CellCounts, DiscreteLaplace, PureDP
from mrf_matrix.planning import plan, tune
from strategies import evaluate, select

DOMAIN = Domain.from_sizes([3, 2, 2], n_classes=2)
SMALL = {"n_trees": 3, "max_depth": 2, "random_state": 0, "time_limit": 0.05}
TWO = {**SMALL, "n_ensembles": 2, "feature_subsets": [[0, 1], [0, 1, 2]]}


@dataclass(frozen=True)
class Twice(DiscreteLaplace):
    """Discrete Laplace noise of twice the scale: a law that nobody here has proved."""

    name: ClassVar[str] = "twice discrete Laplace"

    @classmethod
    def calibrated(cls, column_sum, squared_factor, amount):
        return cls(2 * DiscreteLaplace.calibrated(column_sum, squared_factor, amount).scale)


@pytest.mark.parametrize("budget", [{"epsilon": 1}, {"rho": 0.5}])
@pytest.mark.parametrize("kind", ["matrix", "batch", "subsample"])
def test_the_worst_answer_is_the_objective_and_keeps_its_bound(kind, budget):
    even = plan(DOMAIN, kind, objective="max", **SMALL, **budget)
    assert even.objective == "max"
    assert even.error == pytest.approx(2 * even.row_variances.max())
    assert even.lower_bound <= even.error * (1 + 1e-9)
    assert even.certified_ratio == pytest.approx(even.error / even.lower_bound)
    assert even.strategy is not None
    assert even.strategy.objective == "max"
    total = plan(DOMAIN, kind, **SMALL, **budget)
    assert even.error <= 2 * total.row_variances.max() * (1 + 1e-6)
    assert even.lower_bound <= 2 * total.row_variances.max() * (1 + 1e-9)


def test_weights_and_groups_are_those_of_select():
    usual = plan(DOMAIN, epsilon=1, **SMALL)
    rows = len(usual.row_variances)
    weights, groups = np.arange(rows) + 1.0, np.arange(rows) % 3
    made = plan(DOMAIN, epsilon=1, objective="max", weights=weights, groups=groups, **SMALL)
    sums = np.bincount(groups, weights * made.row_variances)
    assert made.error == pytest.approx(2 * sums.max())
    found = select(
        made.parts[0].workload, "l1", objective="max", weights=weights, groups=groups,
        time_limit=0.05,
    )  # fmt: skip
    assert made.strategy.loss <= found.loss * 1.2


def test_leaves_of_several_ensembles_are_weighed_in_their_order():
    rows = len(plan(DOMAIN, epsilon=1, **TWO).row_variances)
    weights = np.random.default_rng(0).uniform(0.5, 2, rows)
    made = plan(DOMAIN, epsilon=1, weights=weights, **TWO)
    assert made.error == pytest.approx(2 * weights @ made.row_variances)
    assert made.error == pytest.approx(2 * sum(part.error for part in made.parts))
    assert made.lower_bound <= made.error * (1 + 1e-9)
    with pytest.raises(ValueError, match="weights has 2 entries"):
        plan(DOMAIN, epsilon=1, weights=[1, 1], **TWO)


CELLS = np.array([[0, 0, 0], [1, 0, 1], [2, 1, 0], [0, 1, 1]])
STUMPS = {"n_trees": 3, "max_depth": 1, "random_state": 0, "strategy": "identity"}


@given(st.lists(st.integers(0, 3), min_size=1, max_size=9), st.data())
def test_equal_queries_count_as_often_as_they_are_given(which, data):
    weights = data.draw(st.lists(st.floats(0.1, 5), min_size=len(which), max_size=len(which)))
    found = {}
    for name, told in {
        "total": {"objective": "total"},
        "max": {"objective": "max"},
        "groups": {"objective": "max", "groups": which},
    }.items():
        made = plan(
            DOMAIN, "batch", epsilon=1, queries=CELLS[which], weights=weights, **told, **STUMPS
        )
        place = [made.queries.tolist().index(CELLS[one].tolist()) for one in which]
        each = 2 * np.array(weights) * made.row_variances[place]
        found[name] = made.error, each
    total, largest, groups = found.values()
    assert total[0] == pytest.approx(total[1].sum())
    assert largest[0] == pytest.approx(largest[1].max())
    assert groups[0] == pytest.approx(np.bincount(which, groups[1]).max())


def test_equal_queries_of_two_groups_are_refused():
    queries = np.array([[0, 0, 0], [1, 0, 0], [0, 0, 0]])
    words = {"objective": "max", "queries": queries, **SMALL}
    with pytest.raises(ValueError, match="groups tells equal queries apart"):
        plan(DOMAIN, "batch", epsilon=1, groups=[0, 1, 2], **words)
    made = plan(DOMAIN, "batch", epsilon=1, groups=[0, 1, 0], **words)
    doubled = np.array([2.0, 1.0]) * made.row_variances
    assert made.error == pytest.approx(2 * doubled.max())


@pytest.mark.parametrize("kind", ["matrix", "batch", "subsample"])
@pytest.mark.parametrize("budget", [{}, {"rho": "auto"}])
def test_targets_hold_at_the_budget_and_not_below_it(kind, budget):
    made = plan(DOMAIN, kind, target_rms=7.0, **TWO, **budget)
    assert (made.row_rms <= 7.0).all()
    spent = made.budget.exact
    less = spent - spent / 10**5
    below = made.at(**{made.budget.parameter: less})
    assert (below.row_rms > 7.0).any()
    assert made.budget_bound <= float(spent) * 1.01  # integers have a little less noise
    assert made.budget.parameter == ("rho" if budget else "epsilon")
    assert made.to_dict(bound=True)["budget_bound"] == pytest.approx(made.budget_bound)


def test_a_summary_says_the_least_and_the_largest_target():
    rows = len(plan(DOMAIN, epsilon=1, **SMALL).row_variances)
    made = plan(DOMAIN, target_rms=np.linspace(7, 9, rows), **SMALL)
    assert made.to_dict()["target_rms"] == [7.0, 9.0]


@pytest.mark.parametrize("given", [["identity"] * 3, [np.eye(3)]], ids=["names", "matrix"])
def test_every_ensemble_has_one_strategy(given):
    with pytest.raises(ValueError, match=f"strategy holds {len(given)} for 2 ensembles"):
        plan(DOMAIN, epsilon=1, **TWO, strategy=given)


def test_a_strategy_found_for_another_objective_is_judged_by_this_one():
    workload = plan(DOMAIN, epsilon=1, **SMALL).parts[0].workload
    for objective in ("total", "max"):
        found = select(workload, "l1", objective=objective, time_limit=0.05)
        made = plan(DOMAIN, epsilon=1, **{**SMALL, "strategy": found}).strategy
        assert made.objective == "total"
        assert made.loss == pytest.approx(evaluate(workload, found.matrix, "l1").loss)
        assert (made is found) == (objective == "total")


def test_the_bound_of_a_budget_is_that_of_one_cell():
    one = Domain.from_sizes([2], n_classes=2)
    made = plan(one, target_rms=10.0, n_trees=1, max_depth=1, neighboring="replace_one")
    assert made.budget_bound == pytest.approx(2 * np.sqrt(2) / 10)
    assert float(made.budget.exact) == pytest.approx(made.budget_bound, rel=0.01)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"target_rms": 1, "epsilon": 1}, "target_rms, which says what the budget is for"),
        ({"target_rms": 0}, "target_rms: expected positive"),
        ({"target_rms": 1, "objective": "max"}, "objective with target_rms"),
        ({"target_rms": [1, 2]}, "target_rms has shape"),
        ({"objective": "worst"}, "objective='worst'"),
        ({"groups": [0]}, "objective='max'"),
        ({"optimise_for": "trees"}, "optimise_for='trees'"),
        ({"optimise_for": "votes", "allocation": "per_tree"}, "where strategies are chosen"),
        ({"optimise_for": "votes", "weights": [1]}, "weights with optimise_for='votes'"),
        ({"budget_shares": "even"}, "budget_shares='even'"),
        ({"kind": "tables", "objective": "max"}, "objective with kind='tables'"),
        ({"kind": "tables", "target_rms": 1}, "target_rms with kind='tables'"),
        ({"kind": "tables", "law": Twice}, "law with kind='tables'"),
        ({"epsilon": 1, "law": int}, "law="),
        ({"rho": 1, "law": Twice}, "is for PureDP"),
    ],
)
def test_nonsense_is_refused_by_name(words, message):
    trees = {} if words.get("kind") == "tables" else {"n_trees": 2, "max_depth": 1}
    with pytest.raises((ValueError, TypeError, BudgetError), match=message):
        plan(DOMAIN, **{**trees, **words})


@pytest.mark.parametrize("budget", [{"epsilon": Fraction(1, 3)}, {"rho": Fraction(1, 3)}])
@pytest.mark.parametrize("allocation", ["matrix", "per_tree"])
def test_shares_by_a_rule_are_the_best_of_all_shares(budget, allocation):
    words = {"allocation": allocation, "strategy": "identity", **budget, **TWO}
    if allocation == "per_tree":
        words["strategy"] = "auto"
    equal = plan(DOMAIN, budget_shares="equal", **words)
    assert [part.mechanism.budget for part in equal.parts] == [
        part.mechanism.budget for part in plan(DOMAIN, **words).parts
    ]
    total, even = (plan(DOMAIN, budget_shares=rule, **words) for rule in ("total", "max"))
    assert total.budget == even.budget == equal.budget
    worst = [max(part.error for part in made.parts) for made in (equal, total, even)]
    for share in np.linspace(0.05, 0.95, 19):
        other = plan(DOMAIN, budget_shares=[share, 1 - share], **words)
        assert total.total <= other.total * 1.001
        assert worst[2] <= max(part.error for part in other.parts) * 1.001
    assert total.total < equal.total
    assert worst[2] < worst[0]


def test_votes_of_all_cells_are_what_their_strategy_makes_small():
    leaves, votes = (
        plan(DOMAIN, epsilon=1, optimise_for=what, **SMALL) for what in ("leaves", "votes")
    )
    assert votes.objective == "votes"
    T = votes.parts[0].workload.to_dense()
    inverse = np.linalg.pinv(votes.strategy.matrix.to_dense())
    loss = votes.strategy.sensitivity**2 * ((T.T @ T @ inverse) ** 2).sum()
    assert votes.strategy.loss == pytest.approx(loss)
    assert votes.lower_bound <= votes.error * (1 + 1e-9)
    rival = np.linalg.pinv(leaves.strategy.matrix.to_dense())
    assert loss <= leaves.strategy.sensitivity**2 * ((T.T @ T @ rival) ** 2).sum() * (1 + 1e-9)
    assert votes.row_variances == pytest.approx(
        votes.parts[0].variances_of(votes.parts[0].workload)
    )


def test_no_strategy_beats_the_paths_at_votes_under_gaussian_noise():
    """What a plan takes under ρ unless told, against the optimum of leaves, at every cell."""
    usual, leaves = (
        plan(DOMAIN, rho=0.1, optimise_for=what, **SMALL) for what in ("auto", "leaves")
    )
    assert usual.strategy.method == "workload_itself"
    assert leaves.error < usual.error
    T = usual.parts[0].workload.to_dense()
    votes = []
    for made in (usual, leaves):
        inverse = np.linalg.pinv(made.strategy.matrix.to_dense())
        votes.append(made.strategy.sensitivity**2 * ((T.T @ T @ inverse) ** 2).sum(axis=1))
    assert votes[0].sum() < votes[1].sum()
    assert votes[0].max() < votes[1].max()
    told = plan(DOMAIN, rho=0.1, strategy="identity", **SMALL)
    assert told.strategy.method == "identity"
    same = (plan(DOMAIN, epsilon=1, optimise_for=what, **SMALL) for what in ("auto", "leaves"))
    assert len({made.error for made in same}) == 1


@pytest.mark.parametrize("kind", ["matrix", "batch", "subsample"])
def test_a_law_of_ones_own_is_followed_or_refused_by_name(kind):
    words = {"epsilon": 1, "strategy": "identity", **SMALL}
    made, usual = plan(DOMAIN, kind, law=Twice, **words), plan(DOMAIN, kind, **words)
    assert isinstance(made.parts[0].mechanism.law, Twice)
    assert made.noise_scale == pytest.approx(2 * usual.noise_scale)
    law = made.parts[0].mechanism.law
    assert made.row_variances == pytest.approx(law.variance * made.parts[0].row_squares)
    assert (made.row_rms > 1.5 * usual.row_rms).all()
    flips, fewer = (one.flip_probabilities(3.0, rows=[0]) for one in (made, usual))
    assert flips[0] > fewer[0]
    assert isinstance(made.at(epsilon=2).parts[0].mechanism.law, Twice)
    with pytest.raises(ValueError, match="law=Twice: no bound"):
        _ = made.lower_bound
    assert "lower_bound" not in made.to_dict(bound=True)


@pytest.mark.parametrize(
    "allocation",
    ["per_tree", "disjoint", "uniform_levels", "geometric_levels", "optimal_levels"],
)
def test_baselines_keep_a_law_of_ones_own(allocation):
    made = plan(DOMAIN, epsilon=1, law=Twice, allocation=allocation, **SMALL)
    usual = plan(DOMAIN, epsilon=1, allocation=allocation, **SMALL)
    for one, other in zip(made.parts, usual.parts, strict=True):
        assert isinstance(one.mechanism.law, Twice)
        assert one.row_squares == pytest.approx(other.row_squares)
    assert made.noise_scale == pytest.approx(2 * usual.noise_scale)
    assert (made.row_rms > 1.5 * usual.row_rms).all()


def test_a_release_under_a_law_of_ones_own_says_whose_claim_it_is():
    made = plan(DOMAIN, epsilon=1, law=Twice, strategy="identity", **SMALL)
    codes = np.array([[0, 0, 0], [2, 1, 1]])
    counts = CellCounts(codes, np.array([[3, 1], [0, 2]]), DOMAIN.sizes)
    (release,) = made.release([counts], noise="exact")
    assert "Claim by twice discrete Laplace, unverified" in release.statement
    assert made.budget == PureDP(1)
    ours = plan(DOMAIN, epsilon=1, strategy="identity", **SMALL)
    for told in (repr, str, lambda one: one.to_text(verbose=True), lambda one: one.to_latex()):
        assert "claimed by twice discrete Laplace, unverified" in told(made)
        assert "unverified" not in told(ours)


@pytest.mark.parametrize("words", [{"objective": "max"}, {"optimise_for": "votes"}])
def test_classifiers_plan_the_same_objective(words):
    common = {"epsilon": 1, **SMALL, **words}
    planned = plan(DOMAIN, **common)
    model = MatrixForestClassifier(DOMAIN, noise="research", **common)
    model.fit(np.array([[0, 0, 0], [2, 1, 1]]), np.array([0, 1]))
    assert model.plan_.error == planned.error
    assert model.plan_.objective == planned.objective
    again = from_design(planned)
    assert {name: getattr(again, name) for name in words} == words


def test_classifiers_share_by_a_rule_and_change_the_objective_of_batches():
    model = BatchPredictionClassifier(
        DOMAIN, epsilon=1, noise="research", n_batches=2, budget_shares="total",
        **{**TWO, "strategy": "identity"},
    )  # fmt: skip
    model.fit(np.array([[0, 0, 0], [2, 1, 1]]), np.array([0, 1]))
    queries = np.array([[0, 0, 0], [1, 0, 1], [2, 1, 1]])
    made = model.plan(queries)
    first, second = (part.mechanism.budget.exact for part in made.parts)
    assert first != second
    assert made.objective == "total"
    assert model.set_params(objective="max").plan(queries).objective == "max"


def test_strategies_of_weighed_leaves_are_used_as_matrices():
    rows = len(plan(DOMAIN, epsilon=1, **SMALL).row_variances)
    made = plan(DOMAIN, epsilon=1, weights=np.linspace(1, 9, rows), **SMALL)
    model = from_design(made, noise="research")
    model.fit(np.array([[0, 0, 0], [2, 1, 1]]), np.array([0, 1]))
    assert model.plan_.row_variances == pytest.approx(made.row_variances)
    assert model.plan_.total == pytest.approx(made.total)
    assert model.plan_.error == pytest.approx(model.plan_.total)


def test_no_classifier_measures_under_a_law_of_ones_own():
    with pytest.raises(ValueError, match="law=Twice: classifiers measure under proved laws only"):
        from_design(plan(DOMAIN, epsilon=1, law=Twice, strategy="identity", **SMALL))
    with pytest.raises(TypeError, match="'law'"):
        from_design(plan(DOMAIN, epsilon=1, strategy="identity", **SMALL), law=Twice)


def test_a_search_follows_the_law():
    words = {"epsilon": 1, "n_records": 200, "objective": "error"}
    space = {"max_depth": [1], "n_trees": [3], "strategy": ["identity"]}
    usual, own = (tune(DOMAIN, space=space, law=law, **words) for law in (None, Twice))
    assert own.best.value > 1.5 * usual.best.value
    with pytest.raises(ValueError, match="law=Twice"):
        from_design(own)
