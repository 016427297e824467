"""Whatever is done to classifiers, in whatever order: no report claims less than was lost.

The accountant who judges them stands in `claims_accountant`.
"""

import copy
import pickle
import warnings
from dataclasses import replace
from fractions import Fraction
from itertools import cycle, product, repeat

import numpy as np
import pytest
from claims_accountant import INFINITE, Account, Watch
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError

from mrf_matrix import Domain, estimators, load_model, save_model
from mrf_matrix.domain import PrivacyLeakWarning
from mrf_matrix.estimators import (
    BatchPredictionClassifier,
    LabelTreeClassifier,
    MatrixForestClassifier,
    MultinomialForestClassifier,
    MultinomialMatrixForestClassifier,
    PooledForestClassifier,
    PosteriorForestClassifier,
    PrivateForestClassifier,
    PrivateNaiveBayesClassifier,
    ReleasedClassifier,
    ResidualForestClassifier,
    SubsampleAggregateClassifier,
)
from mrf_matrix.estimators.plan_fit import FitsByPlan
from mrf_matrix.kinds import labels
from mrf_matrix.labels import label_plan
from mrf_matrix.labels.draw import weights
from mrf_matrix.mechanisms.budget import epsilon_from_rho
from mrf_matrix.planning.auto import auto_plan, forest_plan, rules
from mrf_matrix.planning.plans import plan_kind
from mrf_matrix.release import curator
from mrf_matrix.release.plan import PlanError

DOMAIN = Domain.from_sizes([2, 2], n_classes=2)
CELLS = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
X = np.tile(CELLS, (3, 1))
Y = np.array([0, 1, 1, 0, 0, 1, 0, 0, 1, 1, 1, 0])
WIDE = Domain.from_sizes([2] * 9, n_classes=2)
WIDE_X = np.tile(np.stack(np.unravel_index(np.arange(0, 512, 42), [2] * 9), axis=1), (2, 1))
WIDE_Y = WIDE_X[:, :2].sum(axis=1) // 2
TREES = {"n_trees": 2, "max_depth": 1, "random_state": 0}
IDENTITY = TREES | {"strategy": "identity"}
POOLED = 400
"""A public number of records of which a tree of labels and tables of `WIDE` are asked at ε = 1."""
FOUR, SCREENED = Domain.from_sizes([2] * 9, n_classes=4), 310
"""Of four classes attributes are screened, of so many records at ε = 1."""

KINDS = {
    BatchPredictionClassifier: IDENTITY,
    SubsampleAggregateClassifier: IDENTITY,
    MatrixForestClassifier: IDENTITY,
    PosteriorForestClassifier: {"random_state": 0},
    PrivateNaiveBayesClassifier: {},
    MultinomialForestClassifier: TREES | {"epsilon": 1},
    MultinomialMatrixForestClassifier: IDENTITY,
    ResidualForestClassifier: {"random_state": 0},
    PrivateForestClassifier: {"random_state": 0, "n_records": POOLED},
    LabelTreeClassifier: {"random_state": 0, "n_records": 100},
    PooledForestClassifier: {"random_state": 0, "n_records": 100},
}
OVER_WIDE = (ResidualForestClassifier, PrivateForestClassifier)
ON_WIDE = (*OVER_WIDE, LabelTreeClassifier, PooledForestClassifier)
"""Those that choose among attributes, over a domain that has some."""


VALUES = {
    "domain": [DOMAIN, "from_data", Domain.from_sizes([2, 3], n_classes=2)],
    "epsilon": [1, 4, Fraction(1, 2), INFINITE, None],
    "rho": [None, None, Fraction(1, 2), 2],
    "delta": [0, 0, 1e-6, 0.1],
    "neighboring": ["add_remove", "replace_one"],
    "noise": ["exact", "exact", "research"],
    "noise_state": [None, None, 0],
    "allocation": ["matrix", "per_query", "per_tree", "disjoint"],
    "n_ensembles": [1, 2],
    "budget_shares": [None, [1, 3]],
    "n_batches": [1, 2, 3],
    "voting": ["weight", "hard"],
    "keep_records_in_pickle": [True, False],
    "disjoint": [True, False],
    "beside": ["tables", "additive"],
    "label_rule": ["count", "smooth"],
    "parts": ["coins", "all"],
    "structure_share": [0.5, 0.25],
    "max_depth": [1, 2],
    "n_records": [None, 100, SCREENED, POOLED],
}
DOMAINS = {True: [WIDE, FOUR, "from_data"], False: VALUES["domain"]}
OFTEN = [*KINDS, *OVER_WIDE, *[BatchPredictionClassifier, SubsampleAggregateClassifier] * 3]
"""Those that spend after fit, more often."""

REFUSALS = (ValueError, TypeError, NotFittedError)
"""What may be said to a wrong call; anything else is a fault."""


def made(kind):
    """Return a classifier over its domain, not yet fitted."""
    return kind(WIDE if kind in ON_WIDE else DOMAIN, **KINDS[kind])


def is_wide(model):
    """Whether it is over `WIDE`, as a released one may be too."""
    released = isinstance(model, ReleasedClassifier)
    return isinstance(model, ON_WIDE) or (released and model.n_features_in_ > 2)


def records_of(model):
    return (WIDE_X, WIDE_Y) if is_wide(model) else (X, Y)


def fitted_from(model, how):
    """Fit from records, from their counts, or from batches."""
    x, y = records_of(model)
    if how == "fit" or not hasattr(model, "partial_counts"):
        model.fit(x, y)
    elif how == "fit_counts":
        model.fit_counts(model.partial_counts(x, y))
    else:
        model.fit_stream([(x[:5], y[:5]), (x[5:], y[5:])])


class Sequences(RuleBasedStateMachine):
    """A shelf of classifiers, each with the account of what it drew."""

    watch: Watch
    folder: str

    def __init__(self):
        super().__init__()
        self.shelf = []

    @rule(kind=st.sampled_from(OFTEN), data=st.data())
    def make(self, kind, data):
        self.put(made(kind), Account())
        for _ in range(data.draw(st.integers(0, 2), label="changes before fit")):
            self.change(-1, data, by_hand=False)
        self.fit(-1)

    def put(self, model, account):
        self.shelf = [*self.shelf[-3:], (model, account)]

    def models(self):
        """Return all that a released classifier could pass off as its own."""
        held = (vars(model).get("model_") for model, _ in self.shelf)
        return [one for one in held if one is not None]

    def at(self, place):
        return self.shelf[place % len(self.shelf)]

    @precondition(lambda self: self.shelf)
    @rule(place=st.integers(0, 3), data=st.data(), by_hand=st.booleans())
    def change(self, place, data, by_hand):
        model, _ = self.at(place)
        about = VALUES | {"domain": DOMAINS[is_wide(model)], "model": self.models()}
        names = [name for name in about if name in model.get_params(deep=False)]
        name = data.draw(st.sampled_from(names), label="name")
        values = about[name]
        value = data.draw(st.sampled_from(values), label="value")
        if by_hand:
            setattr(model, name, value)
        else:
            model.set_params(**{name: value})

    @precondition(lambda self: self.shelf)
    @rule(place=st.integers(0, 3), data=st.data(), first=st.integers(0, 3))
    def change_and_ask(self, place, data, first):
        for _ in range(data.draw(st.integers(1, 2), label="changes")):
            self.change(place, data, by_hand=False)
        self.ask(place, "predict", first, 2)

    @precondition(lambda self: self.shelf)
    @rule(place=st.integers(0, 3), how=st.sampled_from(["fit", "fit", "fit_counts", "fit_stream"]))
    def fit(self, place, how="fit"):
        place %= len(self.shelf)
        model, _ = self.shelf[place]
        self.watch.now = account = Account(
            read_off=isinstance(getattr(model, "domain", None), str),
            parallel_stages=getattr(model, "parts", None) == "coins",
        )
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", PrivacyLeakWarning)
                fitted_from(model, how)
        except REFUSALS:
            return
        self.shelf[place] = model, account

    @precondition(lambda self: self.shelf)
    @rule(
        place=st.integers(0, 3),
        what=st.sampled_from(["predict", "predict_proba", "vote_intervals", "plan"]),
        first=st.integers(0, 3),
        count=st.integers(1, 4),
    )
    def ask(self, place, what, first, count):
        model, self.watch.now = self.at(place)
        if hasattr(model, what):
            try:
                about = records_of(model)[0][first : first + count]
                nothing = what == "plan" and isinstance(model, FitsByPlan)
                getattr(model, what)(*(() if nothing else (about,)))
            except REFUSALS:
                return

    @precondition(lambda self: self.shelf)
    @rule(place=st.integers(0, 3), how=st.sampled_from(["clone", "pickle", "copy", "deepcopy"]))
    def duplicate(self, place, how):
        model, account = self.at(place)
        if how == "copy":  # shares what is answered, and so the account
            self.put(copy.copy(model), account)
            return
        try:
            if how == "clone":
                self.put(clone(model), Account())
            elif how == "pickle":
                self.put(pickle.loads(pickle.dumps(model)), account.copy())
            else:
                self.put(copy.deepcopy(model), account.copy())
        except REFUSALS:
            return

    @precondition(lambda self: self.shelf)
    @rule(place=st.integers(0, 3), allowed=st.booleans())
    def keep(self, place, allowed):
        model, account = self.at(place)
        path = f"{self.folder}/model"
        try:
            save_model(model, path, allow_nonprivate=allowed)
        except REFUSALS:
            return
        assert allowed or account.loss("add_remove")[1] < INFINITE
        self.put(load_model(path), account.copy())

    @invariant()
    def no_claim_is_less_than_the_loss(self):
        for model, account in self.shelf:
            try:
                report = getattr(model, "privacy_report_", None)
                statement = (
                    getattr(model, "statement_", None) if report is None else report.statement
                )
            except REFUSALS:
                continue
            if statement is not None:
                assert account.refutes(statement, getattr(report, "budget", None)) is None


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
    assert 0.99 <= epsilon_from_rho(lost, delta) <= 1
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


@pytest.mark.parametrize("which", [0, 1], ids=["the tree", "the tables"])
@pytest.mark.parametrize(
    ("beside", "changes", "relation"),
    [
        *zip(repeat("tables"), BUDGETS_OF_POOLS, cycle(["add_remove", "replace_one"])),
        *product(["additive"], BUDGETS_OF_POOLS[1:], ["add_remove"]),
        ("additive", {"epsilon": 1}, "replace_one"),
    ],
    ids=str,
)
def test_the_accountant_catches_a_part_of_a_pool_that_takes_the_whole(
    which, beside, changes, relation, machine, monkeypatch
):
    changes = {"beside": beside} | changes
    put(machine, PooledForestClassifier, neighboring=relation, **changes)
    machine.no_claim_is_less_than_the_loss()

    def dearer(budget, *known):
        parts = list(shared(budget, *known))
        parts[which] = budget
        return tuple(parts)

    shared = forest_plan.split_budget
    monkeypatch.setattr(forest_plan, "split_budget", dearer)
    check_refused(machine, PooledForestClassifier, neighboring=relation, **changes)
    monkeypatch.setattr(curator, "check_shares", lambda plan: None)
    put(machine, PooledForestClassifier, neighboring=relation, **changes)
    with pytest.raises(AssertionError, match="refutes"):
        machine.no_claim_is_less_than_the_loss()


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

    monkeypatch.setattr(labels, "weights", dearer)
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
