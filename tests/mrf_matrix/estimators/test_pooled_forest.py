"""The pooled forest: what both parts share, claim and keep together, and what it says."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm
from sklearn.exceptions import NotFittedError

from mrf_matrix import Domain, PrivacyLedger, PrivateForestClassifier
from mrf_matrix.estimators import (
    LabelTreeClassifier,
    PooledForestClassifier,
    PosteriorForestClassifier,
    plan_fit,
    record_source,
)
from mrf_matrix.kinds import labels, tables
from mrf_matrix.kinds.model import Model
from mrf_matrix.labels import questions
from mrf_matrix.mechanisms import BudgetError, PureDP, measure
from mrf_matrix.mechanisms.budget import total_budget
from mrf_matrix.planning.auto import pooled_plan
from mrf_matrix.planning.auto.pooled_plan import PooledPlan
from mrf_matrix.planning.plans.signal_to_noise import NOTE, verdict_of
from mrf_matrix.posterior import PooledPosterior, ResidualPosterior
from mrf_matrix.posterior.label_posterior import WEIGHTS_BESIDE_TABLES
from mrf_matrix.release import curator as curators
from mrf_matrix.release.curator import flat_steps
from mrf_matrix.reports.privacy_report import stated_budget
from mrf_matrix.residual import ResidualPlan, learning
from mrf_matrix.study import effect, explained, importance

INFINITE = float("inf")
SIZES = (3, 2, 4, 2, 3)
DOMAIN = Domain.from_sizes(SIZES, n_classes=2)
GENERATOR = np.random.default_rng(0)
N = 600
X = GENERATOR.integers(0, SIZES, size=(N, 5))
Y = (GENERATOR.random(N) < np.where(X[:, 0] + X[:, 1] > 1, 0.8, 0.3)).astype(int)


def pooled(domain=DOMAIN, **changes):
    return PooledForestClassifier(domain, **{"n_records": N, "random_state": 0} | changes)


def research(domain=DOMAIN, **changes):
    return pooled(domain, **{"noise": "research", "noise_state": 0} | changes)


# The budget ----------------------------------------------------------------------------------

BUDGETS = [
    {},
    {"epsilon": Fraction(1, 3)},
    {"epsilon": 5, "neighboring": "replace_one"},  # the tree has less than half
    {"rho": Fraction(22, 7)},
    {"epsilon": 1, "delta": 1e-6},
    {"rho": 0.1, "neighboring": "replace_one"},
    {"n_records": None},
    *(
        {"beside": "additive"} | one
        for one in ({}, {"epsilon": 8}, {"rho": 0.5}, {"epsilon": 2, "delta": 1e-6})
    ),
    {"beside": "additive", "epsilon": 2, "neighboring": "replace_one"},
]


@pytest.mark.parametrize("changes", BUDGETS, ids=str)
def test_both_parts_spend_the_whole_and_the_ledger_pays_once(changes):
    model = pooled(**changes)
    announced = model.plan()
    whole = announced.budget.exact
    kind = {"epsilon" if isinstance(announced.budget, PureDP) else "rho": whole}
    ledger = model.ledger = PrivacyLedger(**kind, neighboring=model.neighboring)
    model.fit(X, Y)
    plan, report = model.plan_, model.privacy_report_
    assert [charge.budget.exact for charge in ledger.charges] == [whole] == [ledger.spent]
    assert announced.budget == plan.budget
    assert plan.tree.budget.exact + plan.tables.budget.exact == whole
    assert sum(step.budget.exact for step in plan.tree.steps) == plan.tree.budget.exact
    assert sum(step.budget.exact for step in plan.tables.steps) == plan.tables.budget.exact
    assert [one.measured for one in report.measurements] == [
        step.measured for step in flat_steps(plan)
    ]
    assert plan.tree.neighboring == plan.tables.neighboring == model.neighboring
    stated = [stated_budget(one.budget) for one in report.measurements]
    assert total_budget(stated) == stated_budget(report.budget) == plan.budget
    with pytest.raises(BudgetError):
        model.fit(X, Y)
    assert ledger.spent == whole
    assert len(ledger.charges) == 1


# Refusals ------------------------------------------------------------------------------------


BEFORE = {
    "the tree's plan": (pooled_plan, "label_plan"),
    "the tables' plan": (pooled_plan, "tables_plan"),
    "whether both fit": (plan_fit, "check_before_release"),
    "the records": (record_source, "hold_data"),
    "the tree's counts": (questions, "joint_counts"),
    "the tree's weights": (questions, "check_private_allocation"),
}


@pytest.mark.parametrize("what", BEFORE)
def test_nothing_is_paid_or_drawn_where_either_part_fails_beforehand(what, monkeypatch):
    def fails(*args, **keywords):
        raise MemoryError

    def never(*args):
        raise AssertionError("a tree was drawn")

    ledger = PrivacyLedger(epsilon=1)
    model = pooled(ledger=ledger)
    with monkeypatch.context() as patched:
        patched.setattr(*BEFORE[what], fails)
        patched.setattr(questions, "draw_tree", never)
        with pytest.raises(MemoryError):
            model.fit(X, Y)
    assert not ledger.charges
    assert not hasattr(model, "failed_")
    model.fit(X, Y)  # the control: the budget is there
    assert ledger.spent == 1


def the_tables(mechanism, *args, **keywords):
    """Measure, but not the tables."""
    if mechanism.budget == pooled().plan().tables.budget:
        raise KeyboardInterrupt
    return measure(mechanism, *args, **keywords)


LOST = {
    "the tree's weights": (questions, "weights", 0, False),
    "the draw": (questions, "draw_tree", 0, False),
    "counts of its cells": (questions.TreeCells, "counts", 1, True),
    "what the tree tells": (labels, "label_posterior", 2, True),
    "noise of the tables": (curators, "measure", 2, False),
    "what tables tell": (tables, "product_posterior", 3, True),
    "the pool": (PooledPosterior, "of", 3, True),
    "before residuals": (learning, "_measure_totals", 2, True),
    "a pass of residuals": (learning, "_with_first_pass", 3 + len(SIZES), True),
}
"""Where it is interrupted, what has been released by then, and whether a draw was not lost."""


@pytest.mark.parametrize("what", LOST)
def test_what_was_released_is_kept_whatever_interrupts_the_rest(what, monkeypatch):
    def interrupted(*args, **keywords):
        raise KeyboardInterrupt

    ledger = PrivacyLedger(epsilon=2)
    place, name, kept, can_go_on = LOST[what]
    beside = "additive" if place is learning else "tables"
    model = pooled(ledger=ledger, beside=beside).fit(X, Y)
    before = model.transcript_.outcomes
    with monkeypatch.context() as patched:
        patched.setattr(place, name, the_tables if name == "measure" else interrupted)
        with pytest.raises(KeyboardInterrupt) as caught:
            model.fit(X, Y)
    assert len(ledger.charges) == 2
    assert ledger.spent == 2
    note = "\n".join(caught.value.__notes__)
    assert "budget is spent" in note
    assert "transcript_" in note
    assert ("go_on" in note) == can_go_on
    for gone in ("model_", "posterior_", "privacy_report_", "tree_"):
        assert not hasattr(model, gone), "nothing of the fit before is left"
    with pytest.raises(NotFittedError):
        model.predict(X)
    told = model.transcript_
    assert len(told.outcomes) == kept
    assert not any(one is other for one in told.outcomes for other in before)
    assert all(one.is_private for one in told.releases)
    (spent,) = told.provenance.spendings
    assert (spent.budget, model.failed_.can_go_on) == (PureDP(1), can_go_on), (
        "it is charged as the whole"
    )
    if can_go_on:
        model.go_on(X, Y)
        assert model.transcript_.outcomes[:kept] == told.outcomes
        assert model.privacy_report_.is_private
    else:
        with pytest.raises(ValueError, match="no paid fit was left"):
            model.go_on(X, Y)
    assert len(ledger.charges) == 2


# Noise ---------------------------------------------------------------------------------------


def answers(model):
    return model.transcript_.releases[-1].answers


def test_each_part_has_research_noise_of_its_own():
    one = research().fit(X, Y)
    half = {"domain": DOMAIN, "epsilon": one.plan_.tree.budget.exact, "n_records": N}
    half |= {"noise": "research", "noise_state": 0, "random_state": 0}
    tree = LabelTreeClassifier(**half).fit(X, Y).tree_
    assert tree.cuts == one.tree_.cuts, "the tree comes first"
    assert_array_equal(tree.counts, one.tree_.counts)
    half["epsilon"] = one.plan_.tables.budget.exact
    tables = PosteriorForestClassifier(**half).fit(X, Y)
    assert tables.plan_.parts[0].blocks == one.plan_.tables.parts[0].blocks
    assert not np.array_equal(tables.release_.answers, answers(one)), "its noise is not drawn anew"


# What is claimed -----------------------------------------------------------------------------


def test_the_report_is_that_of_both_parts():
    model = pooled().fit(X, Y)
    report, told, plan = model.privacy_report_, model.transcript_, model.plan_
    of_tree, of_tables = (
        Model(kind, part, replace(told, outcomes=outcomes), None).report
        for kind, part, outcomes in (
            (labels.LABELS, plan.tree, told.outcomes[:2]),
            (tables.TABLES, plan.tables, told.outcomes[2:]),
        )
    )
    assert report.measurements == of_tree.measurements + of_tables.measurements
    assert [one.is_choice for one in report.measurements] == [True, False, False]
    assert "PureDP(epsilon=1) under add_remove neighbours in all" in report.statement
    assert report.statement.startswith("Private release")
    assert (report.budget, report.noise) == ("PureDP(epsilon=1)", "exact")
    renamed = {
        "the structure of the tables" if "forest" in one else one for one in of_tables.public
    }
    assert {*of_tree.public, *renamed} == set(report.public), "the tree's was chosen"
    assert len(set(report.notes)) == len(report.notes)
    for part in (of_tree, of_tables):
        assert part.budget == report.budget, "a part of one charge claims the whole"
        own = {note for note in part.notes if not note.startswith(NOTE)}
        assert own <= set(report.notes)
    assert f"{NOTE}{verdict_of(model.plan_)}" in report.notes, "the verdict is on the whole"
    assert of_tree.measurements[0].budget != of_tree.budget


# What it is ----------------------------------------------------------------------------------


def test_the_structure_follows_the_random_state():
    """Blocks are drawn: of one seed always the same, whether planned or fitted."""
    wide, codes = Domain.from_sizes([4] * 12, n_classes=2), GENERATOR.integers(0, 4, (N, 12))
    found = []
    for seed in (0, 1):
        model = pooled(wide, random_state=seed).fit(codes, Y)
        plans = [one.tables.parts[0].blocks for one in (model.plan(), model.plan(), model.plan_)]
        assert len(set(plans)) == 1
        found.append(plans[0])
    assert found[0] != found[1]


# What it says --------------------------------------------------------------------------------


def test_probabilities_are_those_of_the_pool():
    model = research().fit(X, Y)
    shares, codes = model.predict_proba(X), X.astype(np.int32)
    assert_allclose(shares, model.posterior_.probabilities(codes))
    assert_allclose(shares.sum(axis=1), 1)
    assert_array_equal(model.predict(X), shares.argmax(axis=1))
    assert_allclose(model.decision_function(X), np.log(shares[:, 1] / shares[:, 0]))
    posterior = model.posterior_
    parts = [part.probabilities(codes) for part in (posterior.tree, posterior.tables)]
    base = posterior.tables.totals.shares
    pool = base * (parts[0] / base) ** 0.7 * (parts[1] / base) ** 0.7
    assert_allclose(shares, pool / pool.sum(axis=1, keepdims=True))
    assert len(np.unique(shares[:, 0])) > len(np.unique(parts[0][:, 0]))


def test_intervals_are_of_the_pools_log_odds():
    model = research().fit(X, Y)
    codes, posterior = X.astype(np.int32), model.posterior_
    shares = model.predict_proba(X)
    first, second = shares.argmax(axis=1), shares.argmin(axis=1)
    rows, odds = np.arange(N), posterior.log_odds(codes)
    ahead = odds[rows, first] - odds[rows, second]
    widths = posterior.margin_widths(codes, first, second, 0.9)
    margins, below, above = model.vote_intervals(X, level=0.9)
    assert_allclose(margins, np.maximum(ahead, 0))
    assert_allclose([below, above], widths + np.maximum(-ahead, 0))
    assert np.abs(below / above - 1).max() > 0.1
    labels = model.predict_or_abstain(X, level=0.9)
    assert_array_equal(labels.mask, margins <= below)
    assert_array_equal(labels.data, model.predict(X))
    assert 0 < labels.mask.mean() < 1
    assert (below < model.vote_intervals(X, level=0.99)[1]).all()


def test_the_tree_is_drawn_once_it_is_there():
    model = research()
    with pytest.raises(NotFittedError):
        model.export_text()
    model.fit(X, Y)
    assert model.export_text() == labels.tree_text(model.posterior_.tree, model.domain_)
    assert "├──" in model.export_text()


@pytest.mark.parametrize("known", [None, 1, 60])
@pytest.mark.parametrize(("sizes", "k"), [((6,), 2), ((2, 1, 3), 2), ((4, 3, 2), 5)])
def test_every_budget_gives_probabilities(sizes, k, known):
    codes = GENERATOR.integers(0, sizes, size=(60, len(sizes)))
    labels = GENERATOR.integers(0, k - 1 or 1, size=60)
    for epsilon in (1e-6, INFINITE) if known == 1 else (0.01, 100):
        model = pooled(Domain.from_sizes(sizes, n_classes=k), epsilon=epsilon, n_records=known)
        shares = model.fit(codes, labels).predict_proba(codes)
        assert shares.shape == (60, k)
        assert_allclose(shares.sum(axis=1), 1)
        assert_array_equal(model.classes_[shares.argmax(axis=1)], model.predict(codes))
        assert np.isfinite(model.vote_intervals(codes)).all()


@pytest.mark.parametrize("kind", [PooledForestClassifier, LabelTreeClassifier])
def test_a_domain_that_suits_no_labels_is_refused_before_records_are_read(kind):
    def batches():
        raise AssertionError("a batch was read")
        yield

    domain = Domain.from_sizes([1, 1], n_classes=2)
    model = kind(domain, epsilon=1, n_records=100)
    with pytest.raises(ValueError, match="no attribute that can be cut"):
        model.fit_stream(batches())


# A cell that holds one class ---------------------------------------------------------------------


OF_PURE = (4, 3, 5, 2)
DRAWN = np.random.default_rng(0)
PURE_X = DRAWN.integers(0, OF_PURE, size=(400, 4))
MIXED = PURE_X[:, 3] == 0
PURE_Y = ((PURE_X[:, 0] > 1) ^ (DRAWN.random(400) < np.where(MIXED, 0.45, 0.0))).astype(int)


def fitted():
    return PooledForestClassifier(
        Domain.from_sizes(OF_PURE, n_classes=2), epsilon=1, n_records=400, random_state=0,
        noise="research", noise_state=0,
    ).fit(PURE_X, PURE_Y)  # fmt: skip


def variances_of_both(model):
    """Return the variance of each record's log odds, of draws below and above alike."""
    posterior, classes = model.posterior_, np.zeros(len(PURE_X), dtype=np.int64)
    evidence = posterior.tree.evidence
    of_tree = np.array([evidence[v].deviation(0, 1) for v in posterior.tree.cells_at(PURE_X)]) ** 2
    return WEIGHTS_BESIDE_TABLES[0] ** 2 * (
        of_tree + posterior.tables.margin_variances(PURE_X, classes, 1 - classes)
    )


def test_a_pure_cell_of_a_tree_is_answered_where_tables_agree():
    model = fitted()
    given = ~model.predict_or_abstain(PURE_X).mask
    parts = model.posterior_.tree, model.posterior_.tables
    of_tree, of_tables = (one.probabilities(PURE_X).argmax(axis=1) for one in parts)
    agreed = ~MIXED & (of_tree == of_tables)
    assert agreed.mean() > 0.3
    assert given[agreed].mean() > 0.9
    assert (model.predict(PURE_X) == PURE_Y)[given & ~MIXED].mean() > 0.975
    margins, below, above = model.vote_intervals(PURE_X)
    assert (above > 1.5 * below)[agreed].mean() > 0.5, "far above, hardly below"
    # the negative control: as wide below as above, most of the same labels are withheld
    alike = norm.ppf(0.975) * np.sqrt(variances_of_both(model))
    assert (margins > alike)[agreed].mean() < 0.2


# Of residuals -------------------------------------------------------------------------------------


def of_residuals(domain=DOMAIN, **changes):
    usual = {"n_records": N, "random_state": 0, "beside": "additive"}
    return PooledForestClassifier(domain, **usual | changes)


def seeded_residuals(**changes):
    return of_residuals(**{"noise": "research", "noise_state": 0} | changes)


def test_what_is_beside_the_tree_is_the_residual_forest_of_its_share():
    model = seeded_residuals(epsilon=6).fit(X, Y)
    assert isinstance(model.posterior_.tables, ResidualPosterior)
    share = {"domain": DOMAIN, "epsilon": model.plan_.tree.budget.exact, "n_records": N}
    share |= {"noise": "research", "noise_state": 0, "random_state": 0}
    tree = LabelTreeClassifier(**share).fit(X, Y).tree_
    assert tree.cuts == model.tree_.cuts, "the tree comes first"
    tables = seeded_residuals(epsilon=6, beside="tables").fit(X, Y)
    assert tables.tree_.cuts == model.tree_.cuts
    assert not np.array_equal(model.predict_proba(X), tables.predict_proba(X))


def test_it_learns_and_explains_itself():
    model = seeded_residuals(epsilon=20).fit(X, Y)
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
