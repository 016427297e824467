"""Whatever is done to classifiers, in whatever order: no report claims less than was lost.

The machine that does it stands in `claims_machine`, the accountant in `claims_accountant`.
"""

from dataclasses import replace
from fractions import Fraction
from itertools import cycle, repeat

import pytest
from claims_accountant import Account, Watch
from claims_machine import (
    FOUR,
    KINDS,
    ON_WIDE,
    OVER_WIDE,
    POOLED,
    SCREENED,
    Sequences,
    made,
    records_of,
)
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from sklearn.base import BaseEstimator

from mrf_matrix import estimators
from mrf_matrix.estimators import (
    BatchPredictionClassifier,
    LabelTreeClassifier,
    MultinomialForestClassifier,
    PooledForestClassifier,
    PosteriorForestClassifier,
    PrivateForestClassifier,
    PrivateNaiveBayesClassifier,
    SubsampleAggregateClassifier,
)
from mrf_matrix.labels import label_plan, questions
from mrf_matrix.labels.draw import weights
from mrf_matrix.mechanisms.budget import ZCDP
from mrf_matrix.planning.auto import auto_plan, pooled_plan, rules
from mrf_matrix.planning.plans import plan_kind
from mrf_matrix.release import curator
from mrf_matrix.release.curator import PlanError


@pytest.mark.slow
def test_no_sequence_of_calls_yields_a_claim_below_the_loss(monkeypatch, tmp_path):
    Sequences.watch, Sequences.folder = Watch(monkeypatch), str(tmp_path)
    run_state_machine_as_test(
        Sequences,
        settings=settings(
            stateful_step_count=20,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.fixture
def machine(monkeypatch, tmp_path):
    Sequences.watch, Sequences.folder = Watch(monkeypatch), str(tmp_path)
    return Sequences()


def put(machine, kind, **changes):
    """Put a fitted classifier on the shelf."""
    model = made(kind)
    known = model.get_params(deep=False)
    machine.put(model.set_params(**{k: v for k, v in changes.items() if k in known}), Account())
    machine.fit(-1)
    return model


def check_refused(machine, kind, **changes):
    """Shares beyond the whole are refused before anything is drawn."""
    machine.watch.now = account = Account()
    model = made(kind).set_params(**changes)
    with pytest.raises(PlanError, match="exactly"):
        model.fit(*records_of(model))
    assert account == Account()


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_the_accountant_finds_all_that_an_honest_report_claims(kind, relation, machine):
    put(machine, kind, n_batches=2, neighboring=relation, label_rule="count")
    for first in (0, 2):
        machine.ask(0, "predict", first, 2)
    machine.no_claim_is_less_than_the_loss()
    lost = machine.at(0)[1].loss(relation)
    assert lost[0] == "PureDP"
    assert 0.99 <= lost[1] <= 1


@pytest.mark.parametrize(
    "relation", ["add_remove", pytest.param("replace_one", marks=pytest.mark.slow)]
)
def test_the_accountant_finds_the_choice_of_how_rare_a_class_is(relation, machine):
    model = put(machine, PrivateForestClassifier, n_records=2000, neighboring=relation)
    machine.no_claim_is_less_than_the_loss()
    account = machine.at(0)[1]
    assert model.plan_.even_records is not None, "the case is one with that choice"
    assert account.choices
    assert 0.99 <= account.loss(relation)[1] <= 1
    account.choices += account.choices[:1]
    with pytest.raises(AssertionError, match="refutes"):
        machine.no_claim_is_less_than_the_loss()


APPROXIMATE_KINDS = [k for k in KINDS if k not in ON_WIDE]
"""Those that compose under zCDP where a δ is given and there is something to compose."""


TAKE_EITHER_NOISE = (PosteriorForestClassifier, PrivateNaiveBayesClassifier)


@pytest.mark.parametrize("kind", APPROXIMATE_KINDS)
def test_the_accountant_finds_all_that_an_approximate_claim_allows(kind, machine):
    trees = 20 if kind is MultinomialForestClassifier else 2
    delta = (
        0.3 if kind in TAKE_EITHER_NOISE else 1e-6
    )  # of few tables, where Gaussian noise is less
    put(machine, kind, n_batches=2, delta=delta, n_trees=trees)
    for first in (0, 2):
        machine.ask(0, "predict", first, 2)
    machine.no_claim_is_less_than_the_loss()
    model, account = machine.at(0)
    kind_of_loss, lost = account.loss("add_remove", "ZCDP")
    assert kind_of_loss == "ZCDP"
    assert 0.99 <= ZCDP(lost).epsilon(delta) <= 1
    stronger = model.privacy_report_.statement.replace("epsilon=1,", "epsilon=0.98,")
    assert "implies more" in account.refutes(stronger)


def test_the_accountant_catches_noise_that_is_halved(machine, monkeypatch):
    monkeypatch.setattr(plan_kind, "with_hard_votes", lambda mechanism: mechanism)
    put(machine, SubsampleAggregateClassifier, voting="hard")
    machine.ask(0, "predict", 0, 4)
    with pytest.raises(AssertionError, match="loss 2 under add_remove"):
        machine.no_claim_is_less_than_the_loss()


def test_the_accountant_catches_a_batch_that_is_not_reported(machine, monkeypatch):
    model = put(machine, BatchPredictionClassifier, n_batches=2)
    machine.ask(0, "predict", 0, 1)
    first = {name: getattr(model._fitted, name)[:1] for name in ("batches", "charges")}
    machine.ask(0, "predict", 1, 1)
    for name, known in first.items():
        monkeypatch.setattr(model._fitted, name, known)
    with pytest.raises(AssertionError, match="loss 1 under add_remove"):
        machine.no_claim_is_less_than_the_loss()


def test_the_accountant_catches_seeded_coins_and_a_domain_read_off(machine):
    for change in ({"noise": "research", "noise_state": 0}, {"domain": "from_data"}):
        put(machine, SubsampleAggregateClassifier, **change)
        assert machine.at(-1)[1].refutes("PureDP(epsilon=99) under add_remove neighbours")


def test_every_classifier_that_spends_is_among_them():
    named = [getattr(estimators, name) for name in estimators.__all__]
    spend = {
        one
        for one in named
        if isinstance(one, type) and issubclass(one, BaseEstimator) and hasattr(one, "epsilon")
    }
    assert spend == set(KINDS)


TOO_DEAR = [
    ({"n_records": POOLED}, "PureDP", "pool"),
    ({"n_records": 100, "delta": 0.1}, "ZCDP", "screened"),
    ({"n_records": 60, "rho": 8, "epsilon": None}, "ZCDP", "neither"),
]


@pytest.mark.parametrize(("changes", "noise", "chosen"), TOO_DEAR, ids=str)
@pytest.mark.parametrize("kind", OVER_WIDE, ids=lambda kind: kind.__name__)
def test_the_accountant_catches_a_step_that_is_too_dear(kind, changes, noise, chosen, machine):
    put(machine, kind, **{"epsilon": 1} | changes)
    machine.no_claim_is_less_than_the_loss()
    model, account = machine.at(0)
    if kind is PrivateForestClassifier:
        taken = model.plan_
        assert (taken.screening is not None) == (chosen == "screened"), "the case is as it says"
        assert (taken.measured == "pool") == (chosen == "pool")
        assert bool(account.choices) == (chosen != "neither")
    assert account.loss("add_remove")[0] == noise
    drawn = account.choices if account.choices else account.measured
    drawn += drawn[:1] * 40
    with pytest.raises(AssertionError, match="refutes"):
        machine.no_claim_is_less_than_the_loss()
    assert model.privacy_report_.statement.startswith("Private release")


def test_the_accountant_catches_screening_that_is_too_dear_under_pure_privacy(machine, monkeypatch):
    monkeypatch.setattr(rules, "labels_up_to", lambda *public: 0)  # labels would take its place
    model = put(machine, PrivateForestClassifier, domain=FOUR, n_records=SCREENED, epsilon=1)
    machine.no_claim_is_less_than_the_loss()
    account, screening = machine.at(0)[1], model.plan_.screening
    assert len(account.choices) == len(screening.steps) > 1
    assert 0.99 <= account.loss("add_remove")[1] <= 1
    account.choices += account.choices[:1]
    with pytest.raises(AssertionError, match="refutes"):
        machine.no_claim_is_less_than_the_loss()


BUDGETS_OF_POOLS = [
    {"epsilon": 1}, {"epsilon": 4}, {"epsilon": None, "rho": 0.5}, {"epsilon": 1, "delta": 0.1}
]  # fmt: skip


@pytest.mark.parametrize(
    ("beside", "changes", "relation"),
    [
        *zip(repeat("tables"), BUDGETS_OF_POOLS, cycle(["add_remove", "replace_one"])),
        ("additive", {"epsilon": None, "rho": 0.5}, "add_remove"),
        ("additive", {"epsilon": 1}, "replace_one"),
    ],
    ids=str,
)
def test_the_accountant_catches_a_part_of_a_pool_that_takes_the_whole(
    beside, changes, relation, machine, monkeypatch
):
    changes = {"beside": beside} | changes
    put(machine, PooledForestClassifier, neighboring=relation, **changes)
    machine.no_claim_is_less_than_the_loss()
    shared, shelf = pooled_plan.split_budget, machine.shelf
    for which in range(2):  # the tree, the tables

        def dearer(budget, *known, which=which):
            parts = list(shared(budget, *known))
            parts[which] = budget
            return tuple(parts)

        monkeypatch.setattr(pooled_plan, "split_budget", dearer)
        check_refused(machine, PooledForestClassifier, neighboring=relation, **changes)
        with monkeypatch.context() as patched:
            patched.setattr(curator, "check_shares", lambda plan: None)
            put(machine, PooledForestClassifier, neighboring=relation, **changes)
        with pytest.raises(AssertionError, match="refutes"):
            machine.no_claim_is_less_than_the_loss()
        machine.shelf = shelf


LABELLED = [
    (LabelTreeClassifier, {"epsilon": 0.5}, 0),
    (LabelTreeClassifier, {"epsilon": 2}, 1),
    (LabelTreeClassifier, {"epsilon": None, "rho": 0.5}, 1),
    (LabelTreeClassifier, {"epsilon": 4, "neighboring": "replace_one"}, 1),
    (LabelTreeClassifier, {"epsilon": None, "rho": 0.1, "neighboring": "replace_one"}, 0),
    (PrivateForestClassifier, {"epsilon": 1, "n_records": 50}, 0),
    (PrivateForestClassifier, {"epsilon": 2, "n_records": 100}, 1),
    (PrivateForestClassifier, {"epsilon": None, "n_records": 8, "rho": 0.5}, 0),
    (PrivateForestClassifier, {"epsilon": 1, "n_records": 8, "delta": 0.1}, 0),
    (PrivateForestClassifier, {"epsilon": 1, "n_records": POOLED}, 2),
    (PrivateForestClassifier, {"epsilon": 1, "n_records": POOLED, "delta": 1e-6}, 2),
    (PooledForestClassifier, {"epsilon": 1}, 1),
    (PooledForestClassifier, {"epsilon": 4}, 2),
    (PooledForestClassifier, {"epsilon": None, "rho": 0.1}, 1),
    (PooledForestClassifier, {"epsilon": 4, "neighboring": "replace_one"}, 2),
]
"""With how many releases of noisy counts beside the labels: those of cells, and tables."""


@pytest.mark.parametrize("times", [1, Fraction(101, 100)], ids=str)
@pytest.mark.parametrize(("kind", "changes", "tables"), LABELLED, ids=str)
def test_the_accountant_catches_labels_that_are_too_dear(
    kind, changes, tables, times, machine, monkeypatch
):
    def dearer(rate, largest):
        return weights(times * rate, largest)

    monkeypatch.setattr(questions, "weights", dearer)
    model = put(machine, kind, **changes)
    _, drawn = machine.at(0)
    assert len(drawn.choices) == 1, "a tree with its labels is one choice"
    assert len(drawn.measured) == tables
    if times == 1:
        machine.no_claim_is_less_than_the_loss()
        loss = drawn.loss(model.neighboring, type(model.plan_.budget).__name__)[1]
        assert 0.99 <= loss / model.plan_.budget.exact <= 1
    else:
        with pytest.raises(AssertionError, match="refutes"):
            machine.no_claim_is_less_than_the_loss()


@pytest.mark.parametrize("times", [1, Fraction(101, 100), 4], ids=str)
@pytest.mark.parametrize("changes", [changes for *_, changes, counted in LABELLED[:4] if counted])
def test_the_accountant_catches_counts_of_cells_that_are_too_dear(
    changes, times, machine, monkeypatch
):
    """Four times their share is the whole budget."""

    def dearer(*args, **keywords):
        plan = label_plan(*args, **keywords)
        budget = plan.counts.budget
        return replace(plan, counts=replace(plan.counts, budget=budget * times))

    monkeypatch.setitem(auto_plan.__globals__, "label_plan", dearer)
    if times == 1:
        put(machine, LabelTreeClassifier, **changes)
        machine.no_claim_is_less_than_the_loss()
    else:
        check_refused(machine, LabelTreeClassifier, **changes)
        monkeypatch.setattr(curator, "check_shares", lambda plan: None)
        put(machine, LabelTreeClassifier, **changes)
        with pytest.raises(AssertionError, match="refutes"):
            machine.no_claim_is_less_than_the_loss()
