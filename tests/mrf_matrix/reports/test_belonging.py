"""What a page says a model rests on: its ledger and evaluation, its blocks and coins."""

import re
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
    PrivacyLedger,
    PrivateForestClassifier,
    PrivateNaiveBayesClassifier,
    Provenance,
    PureDP,
    load_model,
    save_model,
)
from mrf_matrix.base.provenance import Spending, join
from mrf_matrix.estimators import (
    LabelTreeClassifier,
    PooledForestClassifier,
    PosteriorForestClassifier,
    ResidualForestClassifier,
)
from mrf_matrix.mechanisms.statement import Claim
from mrf_matrix.reports import model_report
from mrf_matrix.reports.attachments import ANOTHER_FILE, ledger_warnings
from mrf_matrix.study import evaluate

RNG = np.random.default_rng(0)
X = RNG.integers(0, 3, (400, 4))
Y = (X[:, 0] + X[:, 1] > 2).astype(int)
DOMAIN = Domain.from_sizes([3] * 4, n_classes=2)
HASH, OTHER = sha256(b"this").hexdigest(), sha256(b"other").hexdigest()
NO_CHARGE = "The ledger on this page has no charge for what this model rests on"
SMALL = {"n_trees": 2, "max_depth": 1}
PLAIN = SMALL | {"strategy": "identity"}
KINDS = {
    "matrix": lambda **by: MatrixForestClassifier(DOMAIN, epsilon=1, **PLAIN, **by),
    "ensembles": lambda **by: MatrixForestClassifier(
        DOMAIN, epsilon=1, **PLAIN, n_ensembles=2, max_features=2, **by
    ),
    "tables": lambda **by: PosteriorForestClassifier(DOMAIN, epsilon=1, **by),
    "replaced": lambda **by: PosteriorForestClassifier(
        DOMAIN, epsilon=1, neighboring="replace_one", **by
    ),
    "zCDP": lambda **by: PosteriorForestClassifier(DOMAIN, rho=0.1, **by),
    "delta": lambda **by: PosteriorForestClassifier(DOMAIN, epsilon=1, delta=0.3, **by),
    "additive": lambda **by: ResidualForestClassifier(DOMAIN, epsilon=1, n_records=400, **by),
    "auto": lambda **by: PrivateForestClassifier(DOMAIN, epsilon=1, n_records=400, **by),
    "labels": lambda **by: LabelTreeClassifier(DOMAIN, epsilon=1, n_records=400, **by),
    "pool": lambda **by: PooledForestClassifier(DOMAIN, epsilon=1, n_records=400, **by),
    "multinomial": lambda **by: MultinomialForestClassifier(DOMAIN, epsilon=1, **SMALL, **by),
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
    assert model_report(model, ledger=ledger, model_hash=HASH).warnings == ()
    for charge in ledger.charges:
        ledger.describe(charge.number, model=HASH)
    page = model_report(model, ledger=ledger, model_hash=HASH.upper())
    assert page.warnings == ()
    assert "For this model's file it was charged under number 1" in str(page)
    assert model_report(model, ledger=ledger, model_hash=OTHER).warnings == (ANOTHER_FILE,)
    (said,) = model_report(model, ledger=empty).warnings
    assert said.startswith(NO_CHARGE)


def test_answers_to_queries_are_charged_batch_by_batch():
    ledger = PrivacyLedger(epsilon=3)
    model = BatchPredictionClassifier(DOMAIN, epsilon=1, **PLAIN, ledger=ledger).fit(X, Y)
    model.predict(X[:5])
    assert model_report(model, ledger=ledger).warnings == ()


def test_a_ledger_that_never_paid_is_said_to_be_so_wherever_the_page_is_read():
    model = KINDS["tables"]().fit(X, Y)
    page = model_report(model, ledger=PrivacyLedger(epsilon=3), model_hash=HASH)
    (said,) = page.warnings
    assert said.startswith(NO_CHARGE)
    assert page.is_private  # the model's own claim stands
    assert f"WARNING: {said}" in str(page).split("What is guaranteed")[0]
    assert f'role="alert">Warning: {said}' in page.to_html().split("<section>")[0]
    told = page.to_dict()
    assert told["warnings"] == [said]
    assert [one["title"] for one in told["sections"]] == [one.title for one in page.sections]
    alone = model_report(model, model_hash=HASH)
    assert alone.warnings == ()
    assert "WARNING" not in str(alone)
    assert "alert" not in alone.to_html()


def spending(budget, neighboring="add_remove"):
    return Claim(Provenance.from_spending(Spending(budget, neighboring, "exact")), ("a law",))


@pytest.mark.parametrize(
    ("charges", "said"),
    [
        ([], NO_CHARGE),
        ([("1", OTHER)], NO_CHARGE),
        ([("1", "")], NO_CHARGE),  # whose it is nobody said
        ([("1/2", HASH)], "was charged PureDP(epsilon=0.5) under add_remove neighbours for this"),
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
    found = ledger_warnings(ledger, HASH, spending(PureDP(1)))
    if said is None:
        assert found == ()
    else:
        (one,) = found
        assert said in one


def charged(ledger, budget, noise="exact"):
    """Charge a ledger for a model's file."""
    made = ledger.charge(budget, "a fit", neighboring=ledger.neighboring, noise=noise)
    ledger.describe(made.number, model=HASH)
    return ledger


@pytest.mark.parametrize(
    ("ledger", "budget", "spent", "pays"),
    [
        (PrivacyLedger(rho=10), PureDP(1), ZCDP(Fraction(1, 2)), True),  # ε makes ρ = ε²/2
        (PrivacyLedger(rho=10), PureDP(Fraction(9, 10)), ZCDP(Fraction(1, 2)), False),
        (PrivacyLedger(rho=10), ZCDP(1), PureDP(1), False),  # a claim of ρ is none of ε
        (PrivacyLedger(epsilon=9), PureDP(1), PureDP(1), True),
        (PrivacyLedger(epsilon=9, neighboring="replace_one"), PureDP(1), PureDP(1), False),
        (PrivacyLedger(epsilon=9, neighboring="replace_one"), PureDP(2), PureDP(1), True),
        (PrivacyLedger(rho=9, neighboring="replace_one"), ZCDP(3), ZCDP(1), False),
        (PrivacyLedger(rho=9, neighboring="replace_one"), ZCDP(4), ZCDP(1), True),
    ],
    ids=str,
)
def test_relations_and_kinds_are_compared_by_what_they_imply(ledger, budget, spent, pays):
    """To replace a record is to remove one and add another: twice ε, or four times ρ."""
    assert (ledger_warnings(charged(ledger, budget), HASH, spending(spent)) == ()) == pays


def test_of_replaced_records_nothing_follows_for_one_more_or_less():
    ledger = charged(PrivacyLedger(epsilon=9), PureDP(9))
    assert ledger_warnings(ledger, HASH, spending(PureDP(1), "replace_one")) != ()


@pytest.mark.parametrize(
    ("budget", "noise"), [(PureDP(1), "research"), (PureDP(float("inf")), "none")]
)
def test_a_charge_that_claims_less_cannot_have_paid(budget, noise):
    ledger = charged(PrivacyLedger(rho=float("inf")), budget, noise)
    assert ledger_warnings(ledger, HASH, spending(PureDP(1))) != ()


def evaluation(**more):
    model = KINDS["tables"]().fit(X, Y)
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


def test_a_report_claims_what_the_worst_release_allows():
    def release(**changes):
        return (
            MatrixForestClassifier(DOMAIN, **(PLAIN | {"random_state": 0} | changes))
            .fit(X, Y)
            .release_
        )

    def claim(*releases):
        known = join(one.provenance for one in releases)
        return Claim(known, tuple(str(one.law) for one in releases))

    good, again = release(), release()
    assert claim(good, again).statement.startswith("Private release: PureDP(epsilon=2")
    assert claim(good, good).budget == good.budget, "one charge is added once"
    seeded = release(noise="research", noise_state=0)
    for mixed in ([good, seeded], [seeded, good]):
        said = claim(*mixed).statement
        assert re.match("NOT A PRIVATE RELEASE: 2 releases .* seedable", said)
    bare = release(epsilon=float("inf"))
    assert "no noise" in claim(good, bare, seeded).statement
    known = good.resting_on(Provenance.from_records("domain"))
    assert not known.is_private
    said = claim(good, known).statement
    assert said.startswith("NOT A PRIVATE RELEASE: the domain was read off")
    both = claim(good, release(neighboring="replace_one"))
    assert (both.neighboring, both.budget) == ("replace_one", 3 * good.budget)
    gaussian = claim(good, release(epsilon=None, rho=0.5))
    assert gaussian.budget == ZCDP(1)  # ε²/2 and ρ


# How a model came about ---------------------------------------------------------------------------


RESEARCH = {"noise": "research", "noise_state": 0, "random_state": 0}
GIVEN, ASKED, CHOSEN = (
    "blocks were given",
    "blocks of all attributes were asked for",
    "domain alone",
)


def report_of(model, sizes, k, n=400):
    rng = np.random.default_rng(0)
    codes = np.stack([rng.integers(0, size, n) for size in sizes], axis=1)
    return model.fit(codes, rng.integers(0, k, n)).report_.to_html()


@pytest.mark.parametrize(
    ("design", "said"),
    [
        ({"blocks": [[0], [1, 2]]}, GIVEN),
        ({"n_blocks": 2}, f"2 {ASKED}"),
        ({}, f"{CHOSEN}, for hundreds to ten thousand records"),
        ({"n_records": 500}, f"{CHOSEN}, for the public number of 500 records"),
    ],
    ids=str,
)
def test_it_is_told_how_blocks_were_chosen(design, said):
    sizes = (3, 2, 2)
    model = PosteriorForestClassifier(Domain.from_sizes(sizes, 2), **design, **RESEARCH)
    told = report_of(model, sizes, 2)
    assert said in told
    assert sum(one in told for one in (GIVEN, ASKED, CHOSEN)) == 1


@pytest.mark.parametrize(
    ("sizes", "options"),
    [([3] * 40, {"epsilon": 0.004, "n_records": 140_000}), ([3, 2], {"epsilon": 5})],
    ids=["screened", "not"],
)
def test_it_is_told_what_screening_came_to(sizes, options, tmp_path):
    model = PrivateForestClassifier(Domain.from_sizes(sizes, 6), **options, **RESEARCH)
    told = report_of(model, sizes, 4)
    assert (model.plan_.screening is not None) == ("n_records" in options)
    assert ("screening kept" in told) == ("n_records" in options)
    assert "few attributes do not tell enough" not in told
    assert model.forest_plan_.kind.name == "tables"
    assert "the domain and the classes" in told
    structure = "the forest&#x27;s structure"  # of blocks that records chose it is not public
    assert (structure in told) == ("n_records" not in options)
    assert ("the shares of all choices" in told) == ("n_records" in options)
    if model.plan_.screening is None:
        return
    save_model(model, tmp_path / "model.mrf", allow_nonprivate=True)
    of_file, own = (one.model_.plan for one in (load_model(tmp_path / "model.mrf"), model))
    assert of_file.steps[-1] == own.steps[-1], "what follows is of the tables that were kept"


def test_ensembles_of_a_study_throw_coins_of_their_own():
    """Where each record is counted in one tree only; a private release keeps no seed of them."""
    same = {"n_ensembles": 8, "max_features": 2, "n_trees": 8, "allocation": "disjoint"}
    domain = Domain.from_sizes([3, 2, 2], 2)
    coins = MatrixForestClassifier(domain, **same, **RESEARCH).plan().coins
    assert len(set(coins)) == 8
    assert max(coins) > 2**58, "of all seeds of 63 bits"
    assert MatrixForestClassifier(domain, **same, random_state=0).plan().coins == ()
