"""Classifiers that are fitted, asked, copied and saved in any order, before an accountant."""

import copy
import pickle
import warnings
from fractions import Fraction

import numpy as np
from claims_accountant import INFINITE, Account, Watch
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from mrf_matrix import Domain, load_model, save_model
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
