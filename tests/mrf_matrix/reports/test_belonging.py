"""Whose are the ledger and the evaluation beside a model: told by name, or warned of."""

from fractions import Fraction
from hashlib import sha256

import numpy as np
import pytest

from mrf_matrix import (
    ZCDP,
    BatchPredictionClassifier,
    Domain,
    MatrixForestClassifier,
    MultinomialForestClassifier,
    PosteriorForestClassifier,
    PrivacyLedger,
    PrivateForestClassifier,
    PrivateNaiveBayesClassifier,
    PureDP,
    ResidualForestClassifier,
)
from mrf_matrix.estimators import LabelTreeClassifier, PooledForestClassifier
from mrf_matrix.reports import model_report
from mrf_matrix.reports.belonging import NO_CHARGE, ledger_warnings
from mrf_matrix.study import evaluate

RNG = np.random.default_rng(0)
X = RNG.integers(0, 3, (400, 4))
Y = (X[:, 0] + X[:, 1] > 2).astype(int)
DOMAIN = Domain.from_sizes([3] * 4, n_classes=2)
HASH, OTHER = sha256(b"this").hexdigest(), sha256(b"other").hexdigest()
SMALL = {"n_trees": 2, "max_depth": 1}
KINDS = {
    "matrix": lambda **by: MatrixForestClassifier(DOMAIN, epsilon=1, **SMALL, **by),
    "ensembles": lambda **by: MatrixForestClassifier(
        DOMAIN, epsilon=1, **SMALL, n_ensembles=2, max_features=2, **by
    ),
    "posterior": lambda **by: PosteriorForestClassifier(DOMAIN, epsilon=1, **by),
    "replaced": lambda **by: PosteriorForestClassifier(
        DOMAIN, epsilon=1, neighboring="replace_one", **by
    ),
    "zCDP": lambda **by: PosteriorForestClassifier(DOMAIN, rho=0.1, **by),
    "delta": lambda **by: PosteriorForestClassifier(DOMAIN, epsilon=1, delta=0.3, **by),
    "residual": lambda **by: ResidualForestClassifier(DOMAIN, epsilon=1, n_records=400, **by),
    "private": lambda **by: PrivateForestClassifier(DOMAIN, epsilon=1, n_records=400, **by),
    "labels": lambda **by: LabelTreeClassifier(DOMAIN, epsilon=1, n_records=400, **by),
    "pooled": lambda **by: PooledForestClassifier(DOMAIN, epsilon=1, n_records=400, **by),
    "naive Bayes": lambda **by: PrivateNaiveBayesClassifier(DOMAIN, epsilon=1, **by),
    "no noise": lambda **by: PosteriorForestClassifier(DOMAIN, epsilon=float("inf"), **by),
}


def paying(kind):
    """A ledger that can pay for a kind."""
    if kind == "no noise":
        return PrivacyLedger(epsilon=float("inf"))
    neighboring = "replace_one" if kind == "replaced" else "add_remove"
    zcdp = kind in ("zCDP", "delta")
    return PrivacyLedger(ZCDP(100) if zcdp else PureDP(3), neighboring=neighboring)


@pytest.fixture(params=KINDS)
def paid(request):
    ledger = paying(request.param)
    return KINDS[request.param](ledger=ledger).fit(X, Y), ledger, paying(request.param)


def test_every_kind_that_was_charged_is_known_by_its_ledger(paid):
    model, ledger, empty = paid
    assert model_report(model, ledger=ledger).warnings == ()
    (unnamed,) = model_report(model, ledger=ledger, model_hash=HASH).warnings
    assert "No charge of the ledger on this page names this model's file." in unnamed
    for charge in ledger.charges:
        ledger.describe(charge.number, model=HASH)
    page = model_report(model, ledger=ledger, model_hash=HASH.upper())
    assert page.warnings == ()
    assert "For this model's file it was charged under number 1" in str(page)
    assert model_report(model, ledger=ledger, model_hash=OTHER).warnings == (NO_CHARGE,)
    assert model_report(model, ledger=empty).warnings == (NO_CHARGE,)


def test_answers_to_queries_are_charged_batch_by_batch():
    ledger = PrivacyLedger(epsilon=3)
    model = BatchPredictionClassifier(DOMAIN, epsilon=1, **SMALL, ledger=ledger).fit(X, Y)
    model.predict(X[:5])
    assert model_report(model, ledger=ledger).warnings == ()


def test_a_ledger_that_never_paid_is_said_to_be_so_wherever_the_page_is_read():
    model = KINDS["posterior"]().fit(X, Y)
    page = model_report(model, ledger=PrivacyLedger(epsilon=3), model_hash=HASH)
    assert page.warnings == (NO_CHARGE,)
    assert page.is_private  # the model's own claim stands
    assert f"WARNING: {NO_CHARGE}" in str(page).split("What is guaranteed")[0]
    assert f'role="alert">Warning: {NO_CHARGE}' in page.to_html().split("<section>")[0]
    told = page.to_dict()
    assert told["warnings"] == [NO_CHARGE]
    assert [one["title"] for one in told["sections"]] == [one.title for one in page.sections]
    alone = model_report(model, model_hash=HASH)
    assert alone.warnings == ()
    assert "WARNING" not in str(alone)
    assert "alert" not in alone.to_html()


@pytest.mark.parametrize(
    ("charges", "said"),
    [
        ([], NO_CHARGE),
        ([("1", OTHER)], NO_CHARGE),
        ([("1/2", "")], NO_CHARGE),  # it cannot have paid for epsilon=1
        ([("1/2", ""), ("1", OTHER)], NO_CHARGE),
        ([("1", "")], "Charge 1 names no file at all"),
        ([("1/2", ""), ("1/2", "")], "Charges 1, 2 name no file at all"),
        ([("1/2", HASH)], "was charged PureDP(epsilon=0.5) for this model, which states"),
        ([("1", HASH)], None),
        ([("1/2", HASH), ("1/2", HASH)], None),
        ([("2", HASH), ("1", OTHER)], None),
    ],
    ids=str,
)
def test_what_a_ledger_says_of_a_model(charges, said):
    ledger = PrivacyLedger(epsilon=9)
    for number, (amount, model) in enumerate(charges, 1):
        ledger.charge(PureDP(Fraction(amount)), "a fit", neighboring="add_remove")
        if model:
            ledger.describe(number, model=model)
    found = ledger_warnings(ledger, HASH, PureDP(1))
    if said is None:
        assert found == ()
    else:
        (one,) = found
        assert said in one


@pytest.mark.parametrize(
    ("epsilon", "spent", "pays"),
    [
        (1, ZCDP(Fraction(1, 2)), True),  # a claim of ε is one of ρ = ε²/2
        (Fraction(9, 10), ZCDP(Fraction(1, 2)), False),
        (1, PureDP(1), True),
        (Fraction(1, 10**9), ZCDP(5), False),
    ],
)
def test_a_charge_of_another_kind_pays_by_what_it_claims(epsilon, spent, pays):
    ledger = PrivacyLedger(rho=10)
    ledger.charge(PureDP(epsilon), "a fit", neighboring="add_remove")
    assert (ledger_warnings(ledger, None, spent) == ()) == pays
    (one,) = ledger_warnings(ledger, HASH, spent)
    assert (one != NO_CHARGE) == pays


@pytest.mark.parametrize(
    ("budget", "noise", "spent"),
    [
        (ZCDP(1), "exact", PureDP(1)),  # a claim of ρ is none of ε
        (PureDP(1), "research", PureDP(1)),
        (PureDP(float("inf")), "none", PureDP(1)),
    ],
)
def test_a_charge_that_claims_less_cannot_have_paid(budget, noise, spent):
    ledger = PrivacyLedger(rho=float("inf"))
    ledger.charge(budget, "a fit", neighboring="add_remove", noise=noise)
    assert ledger_warnings(ledger, None, spent) == (NO_CHARGE,)


def test_private_choices_are_known_by_their_ledger_too():
    ledger = PrivacyLedger(epsilon=3)
    model = MultinomialForestClassifier(
        DOMAIN, epsilon=1, n_trees=2, max_depth=2, ledger=ledger
    ).fit(X, Y)
    assert model_report(model, ledger=ledger).warnings == ()
    assert model_report(model, ledger=PrivacyLedger(epsilon=3)).warnings == (NO_CHARGE,)


def evaluation(**more):
    model = KINDS["posterior"]().fit(X, Y)
    return model, evaluate(model, X, Y, epsilon=1, **more).to_dict()


def test_an_evaluation_says_whose_it_is():
    model, record = evaluation(model_hash=HASH)
    assert record["model"] == HASH
    assert "It is of this model's file" in str(
        model_report(model, evaluation=record, model_hash=HASH)
    )
    assert f"model file with SHA-256 {HASH}" in str(model_report(model, evaluation=record))
    with pytest.raises(ValueError, match=f"another model, whose file has SHA-256 {HASH}"):
        model_report(model, evaluation=record, model_hash=OTHER)
    for wrong in ({"model": 7}, {"model": "a\nb"}, {"classes": [1, 0]}, {"classes": None}):
        with pytest.raises(ValueError, match="evaluation"):
            model_report(model, evaluation=record | wrong, model_hash=HASH)


def test_an_evaluation_in_memory_names_no_model():
    model, record = evaluation()
    assert record["model"] is None
    for old in (record, {key: value for key, value in record.items() if key != "model"}):
        page = str(model_report(model, evaluation=old, model_hash=HASH))
        assert "It names no model" in page
