"""A pooled forest whose tables are of residuals: what both parts share, take and keep."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from mrf_matrix import Domain, PrivacyLedger, PrivateForestClassifier, privacy_ledger
from mrf_matrix.estimators import LabelTreeClassifier, PooledForestClassifier
from mrf_matrix.kinds import labels
from mrf_matrix.mechanisms import BudgetError, PureDP
from mrf_matrix.mechanisms.budget import total_budget
from mrf_matrix.planning.private.forest_plan import PooledPlan
from mrf_matrix.posterior import PooledPosterior, ResidualPosterior
from mrf_matrix.release.plan import flat_steps
from mrf_matrix.reports.privacy_report import stated_budget
from mrf_matrix.residual import ResidualPlan, learning
from mrf_matrix.study import effect, explained, importance

SIZES = (3, 2, 4, 2, 3)
DOMAIN = Domain.from_sizes(SIZES, n_classes=2)
GENERATOR = np.random.default_rng(0)
N = 600
X = GENERATOR.integers(0, SIZES, size=(N, 5))
Y = (GENERATOR.random(N) < np.where(X[:, 0] + X[:, 1] > 1, 0.8, 0.3)).astype(int)
BUDGETS = [
    {},
    {"epsilon": 8},  # the tree has less than half
    {"rho": 0.5},
    {"epsilon": 2, "delta": 1e-6},
    {"epsilon": 2, "neighboring": "replace_one"},
]


def pooled(domain=DOMAIN, **changes):
    usual = {"n_records": N, "random_state": 0, "beside": "additive"}
    return PooledForestClassifier(domain, **usual | changes)


def research(**changes):
    return pooled(**{"noise": "research", "noise_state": 0} | changes)


@pytest.mark.parametrize("changes", BUDGETS, ids=str)
def test_every_step_of_both_parts_adds_up_and_the_ledger_pays_once(changes):
    model = pooled(**changes)
    announced = model.plan()
    whole = announced.budget.exact
    kind = {"epsilon" if isinstance(announced.budget, PureDP) else "rho": whole}
    ledger = model.ledger = PrivacyLedger(**kind, neighboring=model.neighboring)
    model.fit(X, Y)
    plan, report = model.plan_, model.privacy_report_
    assert [charge.budget.exact for charge in ledger.charges] == [whole]
    assert announced.tree == plan.tree
    assert announced.tables == plan.tables
    assert repr(announced) == repr(plan)
    steps = (*plan.tree.steps, *plan.tables.steps)
    assert sum(step.budget.exact for step in steps) == whole
    assert [one.measured for one in report.measurements] == [step.measured for step in steps]
    stated = [stated_budget(one.budget) for one in report.measurements]
    assert total_budget(stated) == stated_budget(report.budget) == plan.budget
    assert report.statement.startswith("Private release")
    assert f"{len(steps)} releases with exact" in report.statement
    with pytest.raises(BudgetError):
        model.fit(X, Y)
    assert ledger.spent == whole


def test_what_is_beside_the_tree_is_the_residual_forest_of_its_share():
    model = research(epsilon=6).fit(X, Y)
    assert isinstance(model.posterior_.tables, ResidualPosterior)
    share = {"domain": DOMAIN, "epsilon": model.plan_.tree.budget.exact, "n_records": N}
    share |= {"noise": "research", "noise_state": 0, "random_state": 0}
    tree = LabelTreeClassifier(**share).fit(X, Y).tree_
    assert tree.cuts == model.tree_.cuts, "the tree comes first"
    again = research(epsilon=6).fit(X, Y)
    assert_array_equal(model.predict_proba(X), again.predict_proba(X))
    other = research(epsilon=6, noise_state=1).fit(X, Y)
    assert not np.array_equal(model.predict_proba(X), other.predict_proba(X))
    tables = research(epsilon=6, beside="tables").fit(X, Y)
    assert tables.tree_.cuts == model.tree_.cuts
    assert not np.array_equal(model.predict_proba(X), tables.predict_proba(X))


def test_it_learns_and_explains_itself():
    model = research(epsilon=20).fit(X, Y)
    odds = model.predict_log_proba(X)[:, 1] - model.predict_log_proba(X)[:, 0]
    assert model.score(X, Y) > 0.74, "the rule is right on three of four"
    strengths = importance(model)
    single = {key: size for key, size in strengths.items() if isinstance(key, str)}
    assert max(single, key=single.get) in {DOMAIN.names[0], DOMAIN.names[1]}
    shown = effect(model, DOMAIN.names[0])
    assert shown.log_odds.shape == (SIZES[0],)
    names, added = explained(model, X)
    assert names[0] == "constant"
    np.testing.assert_allclose(added.sum(axis=1), odds, atol=1e-9)
    margins, below, above = model.vote_intervals(X, level=0.9)
    assert min(below.min(), above.min()) > 0
    assert np.ptp(margins) > 0
    assert "├" in model.export_text()
    assert "residuals" in str(model.report_)


LOST = {
    "the draw": (labels, "draw_tree", 0, False),
    "after the tree": (learning, "_started", 2, True),
    "a later step": (learning, "_with_first_pass", 3 + len(SIZES), True),
    "the pool": (PooledPosterior, "of", None, True),
}
"""Where it is interrupted, what has been released by then, and whether a draw was not lost."""


@pytest.mark.parametrize("what", LOST)
def test_what_was_released_is_kept_whatever_interrupts_the_rest(what, monkeypatch):
    """Of residuals: the releases that were made before the step that failed."""
    place, name, kept, can_go_on = LOST[what]

    def interrupted(*args, **keywords):
        raise KeyboardInterrupt

    ledger = PrivacyLedger(epsilon=1)
    model = pooled(ledger=ledger)
    steps = len(list(flat_steps(model.plan())))
    with monkeypatch.context() as patched:
        patched.setattr(place, name, interrupted)
        with pytest.raises(KeyboardInterrupt) as caught:
            model.fit(X, Y)
    assert len(ledger.charges) == 1
    assert "budget is spent" in "\n".join(caught.value.__notes__)
    assert not hasattr(model, "posterior_")
    told = model.transcript_.outcomes
    assert len(told) == (steps if kept is None else kept)
    assert model.failed_.can_go_on == can_go_on
    if can_go_on:
        model.go_on(X, Y)
        assert model.transcript_.outcomes[: len(told)] == told
        assert len(model.transcript_.outcomes) == steps
    assert len(ledger.charges) == 1


# Where it is taken ---------------------------------------------------------------------------

WIDE = Domain.from_sizes([4] * 12, n_classes=2)
CODES = GENERATOR.integers(0, 4, size=(4000, 12))
CLASSES = (GENERATOR.random(4000) < np.where(CODES[:, 0] + CODES[:, 1] > 2, 0.8, 0.2)).astype(int)


def test_the_private_forest_takes_it_and_says_why():
    common = {"epsilon": 1, "n_records": 4000, "noise": "research", "random_state": 0}
    model = PrivateForestClassifier(WIDE, noise_state=0, **common).fit(CODES, CLASSES)
    assert model.plan_.measured == "additive pool"
    assert "tree beside residuals" in model.plan_.reason
    assert isinstance(model.forest_plan_, PooledPlan)
    assert isinstance(model.forest_plan_.tables, ResidualPlan)
    asked = model.plan_.announced.balance
    assert asked.budget.exact + model.forest_plan_.budget.exact == 1
    assert model.score(CODES, CLASSES) > 0.77
    streamed = PrivateForestClassifier(WIDE, noise_state=0, **common)
    streamed.fit_stream([(CODES, CLASSES)])
    assert_array_equal(streamed.predict(CODES), model.predict(CODES))


@pytest.mark.parametrize(("n", "measured"), [(2000, "pool"), (4000, "additive pool")])
def test_so_does_the_ledger_of_a_private_forest(n, measured):
    wide, own = Domain.from_sizes([4] * 12, n_classes=2), PrivacyLedger(epsilon=1)
    codes, labels = GENERATOR.integers(0, 4, (n, 12)), GENERATOR.integers(0, 2, n)
    model = PrivateForestClassifier(wide, epsilon=1, n_records=n, ledger=own, random_state=0)
    assert model.plan().measured == measured
    assert model.plan().balance is not None, "the pool waits while that is asked"
    with privacy_ledger(epsilon=0.1) as around:
        model.fit(codes, labels)
    assert [one.budget.exact for one in own.charges] == [1]
    assert not around.charges


def test_a_plan_is_told_in_a_line():
    assert len(repr(pooled().plan())) < 400
