"""Every kind of model keeps every law: fit, counts, streams, ledger, names, noise, copies."""

import copy
import pickle
from fractions import Fraction
from inspect import signature
from io import BytesIO
from threading import Thread

import numpy as np
import pytest
from fitted_kinds import (
    BY_COINS,
    KINDS,
    MODELS,
    OF_COUNTS,
    OF_RECORDS,
    RESEARCH,
    SMALL,
    SURE,
    WITH_INTERVALS,
    fitted,
    said,
    unfitted,
)
from sklearn.base import clone

from mrf_matrix import (
    Attribute,
    Domain,
    PrivacyLedger,
    PureDP,
    RandomTrees,
    count_stream,
    from_release,
    path_matrix,
    privacy_ledger,
)
from mrf_matrix.mechanisms import BudgetError, count_cells
from mrf_matrix.streams import count_leaves
from mrf_matrix.study import effect
from strategies import evaluate
from strategies.operators import MemoryCapError, memory_cap

INFINITE = float("inf")
LAST_CHECK = "mrf_matrix.release.curator.Live.check_finished"
"""What a fit does once it has paid for and drawn everything."""

AT_ONCE = ("multinomial",)
"""Kinds of one step, after which nothing can fail."""


@pytest.mark.parametrize("kind", KINDS)
def test_probabilities_are_shares_and_labels_lead(kind):
    model, codes, labels = fitted(kind)
    shares = said(model, codes)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    assert (model.predict(codes[:200]) == model.classes_[shares.argmax(axis=1)]).all()
    assert model.score(codes[:200], labels[:200]) > 0.5


@pytest.mark.parametrize("kind", OF_COUNTS)
def test_counts_and_streams_release_what_records_do(kind):
    model, codes, labels = fitted(kind)
    batches = [(codes[i::3], labels[i::3]) for i in range(3)]
    counts = count_stream(batches, model.domain)
    of_counts = unfitted(kind, **RESEARCH)[0].fit_counts(counts)
    of_stream = unfitted(kind, **RESEARCH)[0].fit_stream(batches)
    assert np.array_equal(said(of_counts, codes), said(of_stream, codes))
    if kind not in ("pool of residuals",):  # whose records are in another order
        np.testing.assert_allclose(said(of_counts, codes), said(model, codes), atol=1e-9)


@pytest.mark.parametrize("kind", OF_RECORDS)
def test_counts_are_refused_where_records_are_needed(kind):
    model, codes, labels = unfitted(kind)
    batches = [(codes, labels)]
    with pytest.raises(TypeError, match="needs the records themselves"):
        model.fit_counts(count_stream(batches, model.domain))
    with pytest.raises(TypeError, match="needs the records themselves"):
        model.fit_stream(batches)


DOMAIN, CODES, LABELS = SMALL
RENAMED = Domain(DOMAIN.attributes, target=Attribute("label", size=2))
STUMP = RandomTrees(n_trees=1, max_depth=1).grow(DOMAIN, random_state=9)
ODD_COUNTS = [  # made when they are asked for
    (lambda: CODES, "counts is of type ndarray"),
    (lambda: count_cells(CODES, LABELS, DOMAIN.sizes, 2), "do not say over which domain"),
    (lambda: count_stream([(CODES, LABELS)], RENAMED), "another domain"),
    (lambda: count_stream([], DOMAIN), "hold no record"),
    (lambda: count_leaves([(CODES, LABELS)], STUMP), "leaves|records themselves"),
]


@pytest.mark.parametrize("kind", [one for one in OF_COUNTS if KINDS[one][2] is SMALL])
def test_counts_that_do_not_fit_cost_nothing(kind):
    ledger = PrivacyLedger(epsilon=5)
    model = unfitted(kind, ledger=ledger)[0]
    for counts, words in ODD_COUNTS:
        with pytest.raises((TypeError, ValueError), match=words):
            model.fit_counts(counts())
    assert not ledger.charges


@pytest.mark.parametrize("neighboring", ["add_remove", "replace_one"])
@pytest.mark.parametrize("kind", KINDS)
def test_one_charge_of_the_whole_and_a_refusal_leaves_the_model(kind, neighboring):
    ledger = PrivacyLedger(epsilon=1, neighboring=neighboring)
    model, codes, labels = unfitted(kind, epsilon=0.75, ledger=ledger, neighboring=neighboring)
    with privacy_ledger(epsilon=0.1) as around:  # which its own comes before
        before = said(model.fit(codes, labels), codes)
    assert not around.charges
    (charge,) = ledger.charges
    assert (charge.amount, charge.neighboring) == (Fraction(3, 4), neighboring)
    assert charge.what.startswith(type(model).__name__)
    assert neighboring in model.privacy_report_.statement
    with pytest.raises(BudgetError):
        model.fit(codes, labels)
    assert np.array_equal(said(model, codes), before)
    assert len(ledger.charges) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_the_report_says_what_was_spent_and_measurements_add_up(kind):
    model, codes, labels = unfitted(kind)
    with privacy_ledger(epsilon=1) as around:
        said(model.fit(codes, labels), codes)
    report = model.privacy_report_
    assert report.is_private
    assert report.statement.startswith("Private release")
    assert report.noise == "exact"
    assert {"add_remove"} == {report.neighboring}
    spent = sum(
        Fraction(one.budget.removeprefix("PureDP(epsilon=")[:-1]) for one in report.measurements
    )
    asked = Fraction(str(KINDS[kind][1].get("epsilon", 1)))
    assert [one.amount for one in around.charges] == [asked]
    if kind == "two_stage, coins":  # either step spends the whole, on its own records
        assert [one.budget for one in report.measurements] == ["PureDP(epsilon=1)"] * 2
        spent = max(asked, spent / 2)
    assert spent == asked or abs(float(spent - asked)) < 1e-6  # budgets are shown rounded


@pytest.mark.parametrize("strategy", ["identity", "workload_itself"])
def test_a_forest_of_a_release_is_planned_as_the_release_was(strategy):
    model, codes, labels = unfitted("matrix", strategy=strategy, voting="weight", **RESEARCH)
    model.fit(codes, labels)
    other = from_release(model.release_, DOMAIN, forest=model.forest_, voting="weight")
    assert np.array_equal(said(other, codes), said(model, codes))
    mine, theirs = model.plan_.strategy, other.plan_.strategy
    assert theirs.loss == pytest.approx(mine.loss, rel=1e-6)
    assert theirs.loss == pytest.approx(evaluate(path_matrix(model.forest_), theirs.matrix).loss)
    assert other.plan_.total == pytest.approx(model.plan_.total)


@pytest.mark.parametrize("kind", KINDS)
def test_copies_say_the_same_and_clones_are_unfitted(kind):
    model, codes, _ = fitted(kind)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(said(again, codes), said(model, codes))
    assert not hasattr(clone(model), "privacy_report_")


@pytest.mark.parametrize("kind", KINDS)
def test_two_fits_at_once_leave_one_or_the_other(kind):
    model, codes, labels = unfitted(kind, **RESEARCH)
    threads = [Thread(target=model.fit, args=(codes, labels)) for _ in range(2)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert np.array_equal(said(model, codes), said(fitted(kind)[0], codes))


@pytest.mark.parametrize("kind", [one for one in SURE if one != "auto, pooled"])  # as "screened"
def test_without_noise_nothing_is_claimed_and_nothing_is_drawn(kind):
    model, codes, labels = unfitted(kind, epsilon=INFINITE)
    first = said(model.fit(codes, labels), codes)
    assert not model.privacy_report_.is_private
    assert model.privacy_report_.noise == "none"
    assert np.array_equal(
        first, said(unfitted(kind, epsilon=INFINITE)[0].fit(codes, labels), codes)
    )


@pytest.mark.parametrize("claim", [{"epsilon": 0.1}, {"epsilon": 30.0}, {"epsilon": INFINITE}])
@pytest.mark.parametrize("kind", KINDS)
def test_a_domain_of_one_class_is_answered_with_it_at_one_charge(kind, claim):
    """Whatever has nothing to tell apart does not fail once it is paid for."""
    domain = Domain.from_sizes([3, 2, 4], n_classes=1)
    codes = np.random.default_rng(0).integers(domain.sizes, size=(300, 3))
    make, own, _ = KINDS[kind]
    known, ledger = signature(make).parameters, PrivacyLedger(epsilon=100)
    given = {"random_state": 3, "n_records": 300, "ledger": ledger} | own | RESEARCH | claim
    given |= {"max_features": None, "ledger": None if claim["epsilon"] == INFINITE else ledger}
    model = make(domain, **{k: v for k, v in given.items() if k in known})
    model.fit(codes, np.zeros(300, dtype=int))
    assert model.predict(codes).tolist() == [0] * 300
    assert model.predict_proba(codes).tolist() == [[1.0]] * 300
    assert ledger.spent <= claim["epsilon"]
    if kind in ("tables", "labels", "pool"):
        with pytest.raises(ValueError, match="one class"):
            model.vote_intervals(codes)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("classes", [("yes", "no"), ("m", "z", "a")])
def test_the_order_in_which_a_domain_writes_its_classes_changes_no_label(kind, classes):
    """A class for each code of the first attribute, so that a column in another's place shows."""
    sizes, many = (len(classes), 2), 600
    codes = np.column_stack([np.arange(many) % len(classes), np.arange(many) // len(classes) % 2])
    attributes = Domain.from_sizes(sizes).attributes
    domain = Domain(attributes, target=Attribute("class", categories=classes))
    given = RESEARCH | {"epsilon": 300.0, "n_records": many, "max_features": None}
    model, *_ = unfitted(kind, domain=domain, **given)
    truth = np.array(classes)[codes[:, 0]]
    model.fit(codes, truth)
    assert model.classes_.tolist() == sorted(classes)
    assert model.score(codes, truth) == 1
    if hasattr(model, "decision_function"):
        odds = model.decision_function(codes)
        places = odds.argmax(axis=1) if odds.ndim == 2 else (odds > 0).astype(int)
        assert (model.classes_[places] == truth).all()
    if kind in ("tables", "additive", "labels", "pool", "pool of residuals"):
        told = model.predict_or_abstain(codes, 0.5)
        assert (told.compressed() == truth[~told.mask]).all()
        assert not told.mask.all()
        found = effect(model, "x0")
        assert found.classes == (sorted(classes)[-1], sorted(classes)[0])
        assert classes[found.log_odds.argmax()] == found.classes[0]


@pytest.mark.parametrize("kind", KINDS)
def test_research_noise_follows_its_state_and_exact_noise_nobody(kind):
    # labels by a few hard votes or choices may well be the same
    fine = {"voting": "weight"} if kind.startswith(("matrix", "two_stage")) else {}
    if kind == "multinomial":
        fine = {"epsilon": 0.02, "n_trees": 8}

    def drawn(**noise):
        model, codes, labels = unfitted(kind, **fine, **noise)
        return said(model.fit(codes, labels), codes)

    one, same = (drawn(**RESEARCH), drawn(**RESEARCH)) if fine else (said(*fitted(kind)[:2]),) * 2
    assert np.array_equal(one, same)  # else two fits at once, above, have shown it
    assert not np.array_equal(one, drawn(noise="research", noise_state=8))
    with pytest.raises(ValueError, match="never seedable"):
        drawn(noise_state=7)
    assert not np.array_equal(drawn(), drawn())


@pytest.mark.filterwarnings("ignore::mrf_matrix.PrivacyLeakWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_a_domain_read_off_the_records_is_never_claimed(kind):
    model, codes, labels = unfitted(kind, domain="from_data")
    values = codes.astype(float)
    said(model.fit(values, labels), values)
    report = model.privacy_report_
    assert report.statement.startswith("NOT A PRIVATE RELEASE: the domain was read off")
    if kind in MODELS:  # what its noise would protect is not forgotten
        assert report.budget == repr(PureDP(KINDS[kind][1].get("epsilon", 1)))
    with privacy_ledger(epsilon=9), pytest.raises(ValueError, match="no charge would be true"):
        model.fit(values, labels)
    with pytest.raises(ValueError, match="no charge would be true"):
        model.set_params(ledger=PrivacyLedger(epsilon=9)).fit(values, labels)


@pytest.mark.parametrize("kind", KINDS)
def test_an_overdraft_is_refused_before_records_are_read(kind):
    ledger = PrivacyLedger(epsilon=0.5)
    model, *_ = unfitted(kind, ledger=ledger)
    with pytest.raises(BudgetError):
        model.fit(None, None)
    if kind in OF_COUNTS:
        batches = iter([(CODES, LABELS)])
        with pytest.raises(BudgetError):
            model.fit_stream(batches)
        assert next(batches, None) is not None
    assert not ledger.charges


@pytest.mark.parametrize("kind", WITH_INTERVALS)
def test_what_is_unsure_is_withheld(kind):
    model, codes, _ = fitted(kind)
    margins, below, above = model.vote_intervals(codes[:200], 0.9)
    assert margins.min() >= 0
    assert min(below.min(), above.min()) >= 0
    kept = model.predict_or_abstain(codes[:200], 0.9)
    np.testing.assert_array_equal(np.ma.getdata(kept), model.predict(codes[:200]))
    np.testing.assert_array_equal(np.ma.getmaskarray(kept), margins <= below)
    assert (model.vote_intervals(codes[:200], 0.5)[1] <= below).all()
    for level in (0, 1, float("nan")):
        with pytest.raises(ValueError, match="level"):
            model.vote_intervals(codes[:200], level=level)


@pytest.mark.parametrize("kind", [one for one in KINDS if one not in WITH_INTERVALS])
def test_kinds_that_know_no_intervals_say_so(kind):
    model, codes, _ = fitted(kind)
    with pytest.raises((ValueError, AttributeError), match="intervals"):
        model.vote_intervals(codes[:200])


def of_length(model, count):
    """Return the arrays of so many entries in all that a model holds."""
    found = []

    class Looking(pickle.Pickler):
        def persistent_id(self, one):
            found.extend([one] if isinstance(one, np.ndarray) and count in one.shape else [])

    Looking(BytesIO()).dump(model)
    return found


@pytest.mark.parametrize("kind", MODELS)
def test_no_record_is_held(kind):
    model, codes, _ = fitted(kind)
    assert not of_length(model, len(codes))


def test_records_that_are_held_are_found():
    """The control of the law above."""
    model, codes, _ = fitted("tables")
    other = pickle.loads(pickle.dumps(model))
    other.kept_ = {"deep": [codes]}
    assert of_length(other, len(codes))


@pytest.mark.parametrize("kind", KINDS)
def test_what_does_not_fit_in_memory_is_refused_in_the_same_words_for_any_records(kind):
    ledger, said_of = PrivacyLedger(epsilon=1), []
    for few in (77, 301):
        model, codes, labels = unfitted(kind, epsilon=0.5, ledger=ledger)
        with memory_cap(1000), pytest.raises((MemoryCapError, ValueError), match="memory") as error:
            said(model.fit(codes[:few], labels[:few]), codes[:5])
        said_of.append(str(error.value))
    assert said_of[0] == said_of[1]
    assert not ledger.charges


# A fit that fails once it was paid for -----------------------------------------------------------


def fail_after_payment(model, codes, labels, monkeypatch):
    """Let a fit fail at its last check, and return what it raised."""
    with monkeypatch.context() as patched:
        patched.setattr(LAST_CHECK, lambda self: 1 / 0, raising=False)
        with pytest.raises(ZeroDivisionError) as caught:
            model.fit(codes, labels)
    return caught


@pytest.mark.parametrize("kind", [one for one in MODELS if one not in BY_COINS + AT_ONCE])
def test_a_fit_that_fails_keeps_its_transcript_and_goes_on_at_no_charge(kind, monkeypatch):
    ledger = PrivacyLedger(epsilon=1)
    model, codes, labels = unfitted(kind, epsilon=0.75, ledger=ledger)
    caught = fail_after_payment(model, codes, labels, monkeypatch)
    assert any("go_on" in note for note in caught.value.__notes__)
    assert not hasattr(model, "privacy_report_")
    told = model.transcript_.outcomes
    assert told
    model.go_on(codes, labels)
    assert model.transcript_.outcomes[: len(told)] == told  # nothing is drawn twice
    assert [one.amount for one in ledger.charges] == [Fraction(3, 4)]
    assert model.privacy_report_.is_private
    assert len(model.privacy_report_.provenance.spendings) == 1


@pytest.mark.parametrize("kind", BY_COINS)
def test_a_fit_by_coins_that_fails_keeps_its_transcript_and_does_not_go_on(kind, monkeypatch):
    """Coins are in no transcript: thrown anew they would show a record elsewhere."""
    ledger = PrivacyLedger(epsilon=1)
    model, codes, labels = unfitted(kind, epsilon=0.75, ledger=ledger)
    caught = fail_after_payment(model, codes, labels, monkeypatch)
    assert not any("go_on" in note for note in caught.value.__notes__)
    assert model.transcript_.outcomes
    with pytest.raises(ValueError, match="by coins"):
        model.go_on(codes, labels)
    assert [one.amount for one in ledger.charges] == [Fraction(3, 4)]


@pytest.mark.parametrize("kind", ["tables", "additive"])
@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))]
)
def test_what_is_left_is_taken_once_whoever_has_a_copy(kind, copied, monkeypatch):
    """Steps that are drawn twice would cost twice, and are paid once."""
    model, codes, labels = unfitted(kind)
    fail_after_payment(model, codes, labels, monkeypatch)
    other = copied(model)
    assert other.transcript_.outcomes
    model.go_on(codes, labels)
    with pytest.raises(ValueError, match="taken elsewhere"):
        other.go_on(codes, labels)


@pytest.mark.parametrize("kind", [one for one in MODELS if one not in AT_ONCE])
def test_nothing_goes_on_where_nothing_was_left(kind):
    model, codes, labels = unfitted(kind)
    with pytest.raises(ValueError, match="no paid fit was left"):
        model.go_on(codes, labels)
