"""What a new user gets wrong: every private classifier names it, and nothing is spent."""

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from mrf_matrix import (
    Attribute,
    BatchPredictionClassifier,
    Domain,
    MatrixForestClassifier,
    PrivacyLedger,
    SubsampleAggregateClassifier,
)
from mrf_matrix.estimators import (
    LabelTreeClassifier,
    MultinomialForestClassifier,
    MultinomialMatrixForestClassifier,
    PooledForestClassifier,
    PosteriorForestClassifier,
    PrivateForestClassifier,
    PrivateNaiveBayesClassifier,
    ResidualForestClassifier,
)

TARGET = Attribute("income", categories=["<=50K", ">50K"])
ATTRIBUTES = [
    Attribute("age", edges=[25, 40, 60], outside="open"),
    Attribute("sex", categories=["F", "M"]),
]
DOMAIN = Domain(ATTRIBUTES, target=TARGET)
RNG = np.random.default_rng(0)
X = pd.DataFrame({"age": RNG.uniform(18, 80, 60), "sex": RNG.choice(["F", "M"], 60)})
Y = pd.Series(RNG.choice(["<=50K", ">50K"], 60))
SMALL = {"n_trees": 2, "max_depth": 1}

CLASSIFIERS = {
    "matrix": (MatrixForestClassifier, SMALL | {"strategy": "identity"}),
    "batch prediction": (BatchPredictionClassifier, SMALL | {"strategy": "identity"}),
    "subsample": (SubsampleAggregateClassifier, SMALL | {"strategy": "identity"}),
    "tables": (PosteriorForestClassifier, {}),
    "additive": (ResidualForestClassifier, {}),
    "auto": (PrivateForestClassifier, {}),
    "labels": (LabelTreeClassifier, {}),
    "pool": (PooledForestClassifier, {}),
    "naive Bayes": (PrivateNaiveBayesClassifier, {}),
    "multinomial": (MultinomialForestClassifier, SMALL | {"epsilon": 1}),
    "two stages": (MultinomialMatrixForestClassifier, SMALL | {"strategy": "identity"}),
}
RECORDS = {
    "a missing value": (X.assign(age=X["age"].where(X.index != 3)), "'age' has missing values"),
    "an unknown category": (X.assign(sex="X"), "'sex'.* not in the categories 'F', 'M'"),
    "numbers as words": (X.assign(age="old"), "numbers are expected"),
    "booleans": (X.assign(sex=X["sex"] == "F"), "booleans differ"),
    "a column less": (X[["age"]], "lack the columns 'sex'"),
    "a column more": (X.assign(zip=1), "not in the domain"),
    "nothing": (None, "type NoneType"),
    "a text": ("hello", "type str"),
    "a number": (5, "type int"),
    "one dimension": (np.arange(60), "1 dimensions.*reshape"),
    "three dimensions": (np.zeros((60, 2, 1)), "3 dimensions"),
}
LABELS = {
    "too few": (Y[:5], "X and y differ in length"),
    "unknown": (Y.replace("<=50K", "less"), "not in the categories '<=50K', '>50K'"),
    "missing": (Y.where(Y != ">50K"), "missing values"),
    "none": (None, "y"),
    "two columns": (np.stack([Y, Y], axis=1), "'income': 2 dimensions; expected one"),
}
# parameter -> values that every classifier that has it refuses by its name, on fit
PARAMETERS = {
    "epsilon": ["1", -1, 0, float("nan"), True, 10**400],
    "rho": [1, "1"],
    "n_records": ["1", 0, 1.5, True, 2**63, 10**400],
    "beside": ["residual", None, ["tables"]],
    "delta": ["0", -1, 1, float("nan"), True, None],
    "neighboring": ["twins", None, 1],
    "noise": ["loud", None, ["exact"]],
    "noise_state": [3],
    "random_state": ["seed", -1],
    "domain": ["x", None, [3, 4], Domain(ATTRIBUTES)],
    "ledger": [3, "ledger.json", PrivacyLedger(epsilon=0.5), PrivacyLedger(rho=0.001)],
    "n_trees": ["4", 0, 1.5],
    "max_depth": ["deep", -1, 2.5],
    "voting": ["loud", ["hard"], None],
    "strategy": ["best"],
    "forest": [3, "trees"],
    "allocation": ["x", ["matrix"]],
    "n_batches": [0, "1"],
    "splits": ["ternary"],
    "n_blocks": [0, -1, 1.5, "many", True, None, 99],
    "n_ensembles": [0, True],
    "max_features": [0, 9],
    "feature_subsets": ["sex", []],
    "budget_shares": ["even", [1, 0]],
    "structure_score": ["odd"],
    "label_score": ["odd"],
    "structure_share": [2],
    "parts": ["half"],
    "alpha": [0, "1", True, float("inf")],
}


def made(name, **changes):
    make, settings = CLASSIFIERS[name]
    return make(**({"domain": DOMAIN} | settings | changes))


@pytest.fixture
def ledger():
    """Return a ledger of which nothing may be spent."""
    book = PrivacyLedger(epsilon=5)
    yield book
    assert book.spent == 0


@pytest.fixture(scope="module")
def fitted():
    return {name: made(name).fit(X, Y) for name in CLASSIFIERS}


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_wrong_records_are_named_by_fit_and_predict(fitted, ledger, name):
    for records, message in RECORDS.values():
        with pytest.raises(ValueError, match=rf"(?s){message}"):
            made(name, ledger=ledger).fit(records, Y)
        with pytest.raises(ValueError, match=rf"(?s){message}"):
            fitted[name].predict(records)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_wrong_labels_are_named(ledger, name):
    for labels, message in LABELS.values():
        with pytest.raises(ValueError, match=message):
            made(name, ledger=ledger).fit(X, labels)
    with pytest.raises(ValueError, match="X has no records"):
        made(name, ledger=ledger).fit(X[:0], Y[:0])


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_wrong_parameters_are_named_before_anything_is_spent(ledger, name):
    known = made(name).get_params(deep=False)
    for parameter, values in PARAMETERS.items():
        for value in values:
            if parameter not in known:
                continue
            changes = {"ledger": ledger} | {parameter: value}
            with pytest.raises((ValueError, TypeError), match=parameter):
                made(name, **changes).fit(X, Y)
    with pytest.raises((ValueError, TypeError), match="noise_state"):
        made(name, ledger=ledger, noise="research", noise_state="a").fit(X, Y)


@pytest.mark.parametrize("name", ["matrix", "batch prediction", "subsample", "two stages"])
@pytest.mark.parametrize("matrix", [np.eye(3), None, np.full((8, 8), np.nan), 7])
def test_a_strategy_that_is_no_matrix_over_the_cells_is_named(ledger, name, matrix):
    with pytest.raises((ValueError, TypeError), match="strategy"):
        made(name, ledger=ledger, strategy=matrix).fit(X, Y).predict(X)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_predicting_before_fitting_says_so(name):
    with pytest.raises(NotFittedError, match="fit"):
        made(name).predict(X)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_one_class_of_records_and_mappings_are_no_mistake(name):
    model = made(name, ledger=PrivacyLedger(epsilon=5)).fit(
        {"age": X["age"].to_numpy(), "sex": X["sex"].to_numpy()}, np.full(60, ">50K")
    )
    assert list(model.feature_names_in_) == ["age", "sex"]
    assert model.n_features_in_ == 2
    assert list(model.classes_) == ["<=50K", ">50K"]
    one = {"age": np.array([30.0]), "sex": np.array(["F"])}
    assert model.predict(one).shape == (1,)
    assert model.predict(X[:0]).shape == (0,)
