"""Every kind of model keeps every law: fit, counts, streams, ledger, copies, files, reports."""

import copy
import json
import pickle
import zipfile
from fractions import Fraction
from functools import cache
from inspect import signature
from io import BytesIO
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
from sklearn.base import clone

from mrf_matrix import (
    Attribute,
    BatchPredictionClassifier,
    Domain,
    MatrixForestClassifier,
    MultinomialForestClassifier,
    PrivacyLedger,
    PrivateForestClassifier,
    PrivateNaiveBayesClassifier,
    SubsampleAggregateClassifier,
    count_stream,
    load_model,
)
from mrf_matrix.estimators import (
    LabelTreeClassifier,
    MultinomialMatrixForestClassifier,
    PooledForestClassifier,
    PosteriorForestClassifier,
    ResidualForestClassifier,
)
from mrf_matrix.files.container import ModelFileError, write_container
from mrf_matrix.mechanisms import BudgetError
from mrf_matrix.release import curator as curators
from mrf_matrix.release.transcript import Recorded
from mrf_matrix.study.effects import effect
from strategies.operators import MemoryCapError, memory_cap


def records_of(seed, sizes, count):
    """Return a domain and records whose class follows the first two attributes."""
    generator = np.random.default_rng(seed)
    codes = np.stack([generator.integers(size, size=count) for size in sizes], axis=1)
    labels = (codes[:, 0] + codes[:, 1] + generator.integers(2, size=count) > 3).astype(int)
    return Domain.from_sizes(sizes, n_classes=2), codes, labels


SMALL = records_of(1, [3, 4, 5, 2, 3], 3000)
WIDE = records_of(5, [3] * 12, 900)

FEW = {"n_trees": 2, "max_depth": 2, "strategy": "identity"}
MODELS = {
    "auto": (PrivateForestClassifier, {}, SMALL),
    "auto, screened": (PrivateForestClassifier, {"epsilon": 0.6}, WIDE),
    "tables": (PosteriorForestClassifier, {}, SMALL),
    "additive": (ResidualForestClassifier, {}, SMALL),
    "labels": (LabelTreeClassifier, {}, SMALL),
    "pool": (PooledForestClassifier, {}, SMALL),
    "pool of residuals": (PooledForestClassifier, {"beside": "additive"}, SMALL),
    "naive_bayes": (PrivateNaiveBayesClassifier, {}, SMALL),
    "matrix": (MatrixForestClassifier, FEW, SMALL),
    "matrix, levels": (MatrixForestClassifier, FEW | {"allocation": "uniform_levels"}, SMALL),
    "matrix, several": (
        MatrixForestClassifier,
        FEW | {"n_ensembles": 2, "max_features": 3, "voting": "posterior", "shrinkage": "leaves"},
        SMALL,
    ),
    "matrix, disjoint": (MatrixForestClassifier, FEW | {"allocation": "disjoint"}, SMALL),
    "two_stage, all": (
        MultinomialMatrixForestClassifier,
        FEW | {"parts": "all", "disjoint": False},
        SMALL,
    ),
    "two_stage, coins": (MultinomialMatrixForestClassifier, FEW, SMALL),
    "multinomial": (
        MultinomialForestClassifier,
        {"n_trees": 2, "max_depth": 2, "structure_score": "majority", "label_score": "count"},
        SMALL,
    ),
}
KEPT = FEW | {"keep_records_in_pickle": True}
ANSWERS = {
    "batch": (BatchPredictionClassifier, KEPT, SMALL),
    "subsample": (SubsampleAggregateClassifier, KEPT, SMALL),
    "subsample, hard": (SubsampleAggregateClassifier, KEPT | {"voting": "hard"}, SMALL),
}
"""Kinds that release when they are asked, and have no files."""
KINDS = MODELS | ANSWERS
OF_RECORDS = (
    "additive", "matrix, disjoint", "two_stage, all", "two_stage, coins", "multinomial",
    "subsample", "subsample, hard",
)  # fmt: skip
"""Kinds that need every record by itself."""
BY_COINS = ("two_stage, coins", "matrix, disjoint")
"""Kinds that deal each record to a step or a tree, so that a fit that failed does not go on."""
AT_ONCE = ("multinomial",)
"""Kinds of one step, after which nothing can fail."""

RESEARCH = {"noise": "research", "noise_state": 7}


def unfitted(kind, **more):
    """Return a classifier of a kind, and its records."""
    make, own, (domain, codes, labels) = KINDS[kind]
    given = {"epsilon": 1.0, "random_state": 3, "n_records": len(labels)} | own | more
    known = signature(make).parameters
    return make(domain, **{k: v for k, v in given.items() if k in known}), codes, labels


@cache
def fitted(kind):
    """Return a classifier that was fitted with research noise, and its records."""
    model, codes, labels = unfitted(kind, **RESEARCH)
    return model.fit(codes, labels), codes, labels


def said(model, codes):
    return model.predict_proba(codes[:200])


@pytest.mark.parametrize("kind", KINDS)
def test_probabilities_are_shares_and_labels_lead(kind):
    model, codes, labels = fitted(kind)
    shares = said(model, codes)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    assert (model.predict(codes[:200]) == model.classes_[shares.argmax(axis=1)]).all()
    assert model.score(codes[:200], labels[:200]) > 0.5


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("classes", [("yes", "no"), ("no", "yes"), ("m", "z", "a")])
def test_the_order_in_which_a_domain_writes_its_classes_changes_no_label(kind, classes):
    """A class for each code of the first attribute, so that a column in another's place shows."""
    sizes, many = (len(classes), 2), 600
    codes = np.column_stack([np.arange(many) % len(classes), np.arange(many) // len(classes) % 2])
    attributes = Domain.from_sizes(sizes).attributes
    domain = Domain(attributes, target=Attribute("class", categories=classes))
    make, own, _ = KINDS[kind]
    given = {"epsilon": 300.0, "random_state": 3, "n_records": many} | own | RESEARCH
    given |= {"epsilon": 300.0, "max_features": None}
    known = signature(make).parameters
    model = make(domain, **{k: v for k, v in given.items() if k in known})
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


@pytest.mark.parametrize("kind", [one for one in KINDS if one not in OF_RECORDS])
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
    counts = count_stream([(codes, labels)], model.domain)
    with pytest.raises(TypeError, match="the records themselves"):
        model.fit_counts(counts)


@pytest.mark.parametrize("kind", KINDS)
def test_one_charge_of_the_whole_and_a_refusal_leaves_the_model(kind):
    ledger = PrivacyLedger(epsilon=1)
    model, codes, labels = unfitted(kind, epsilon=0.75, ledger=ledger)
    before = said(model.fit(codes, labels), codes)
    assert [one.amount for one in ledger.charges] == [Fraction(3, 4)]
    with pytest.raises(BudgetError):
        model.fit(codes, labels)
    assert np.array_equal(said(model, codes), before)
    assert len(ledger.charges) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_the_report_says_what_was_spent_and_measurements_add_up(kind):
    model, codes, labels = unfitted(kind)
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
    if kind == "two_stage, coins":  # either step spends the whole, on its own records
        assert [one.budget for one in report.measurements] == ["PureDP(epsilon=1)"] * 2
        spent = max(asked, spent / 2)
    assert spent == asked or abs(float(spent - asked)) < 1e-6  # budgets are shown rounded


@pytest.mark.parametrize("kind", KINDS)
def test_copies_say_the_same_and_clones_are_unfitted(kind):
    model, codes, _ = fitted(kind)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(said(again, codes), said(model, codes))
    assert not hasattr(clone(model), "privacy_report_")


@pytest.mark.parametrize("kind", MODELS)
def test_a_parameter_changed_after_the_fit_changes_nothing(kind, tmp_path):
    model, codes, _ = fitted(kind)
    before = said(model, codes), model.privacy_report_
    model.save(tmp_path / "one.mrf", allow_nonprivate=True)
    other = pickle.loads(pickle.dumps(model))
    other.set_params(**{name: object() for name in model.get_params(deep=False)})
    assert np.array_equal(said(other, codes), before[0])
    assert other.privacy_report_ == before[1]
    other.save(tmp_path / "two.mrf", allow_nonprivate=True)
    assert (tmp_path / "one.mrf").read_bytes() == (tmp_path / "two.mrf").read_bytes()


@pytest.mark.parametrize("kind", KINDS)
def test_two_fits_at_once_leave_one_or_the_other(kind):
    model, codes, labels = unfitted(kind, **RESEARCH)
    threads = [Thread(target=model.fit, args=(codes, labels)) for _ in range(2)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert np.array_equal(said(model, codes), said(fitted(kind)[0], codes))


@pytest.mark.parametrize("kind", [one for one in KINDS if one not in BY_COINS + AT_ONCE])
def test_without_noise_nothing_is_claimed_and_nothing_is_drawn(kind):
    model, codes, labels = unfitted(kind, epsilon=float("inf"))
    first = said(model.fit(codes, labels), codes)
    assert not model.privacy_report_.is_private
    assert model.privacy_report_.noise == "none"
    assert np.array_equal(
        first, said(unfitted(kind, epsilon=float("inf"))[0].fit(codes, labels), codes)
    )


@pytest.mark.parametrize("kind", KINDS)
def test_what_does_not_fit_in_memory_is_refused_before_the_charge(kind):
    ledger = PrivacyLedger(epsilon=1)
    model, codes, labels = unfitted(kind, epsilon=0.5, ledger=ledger)
    with memory_cap(1000), pytest.raises((MemoryCapError, ValueError), match="memory"):
        said(model.fit(codes, labels), codes)
    assert not ledger.charges


# A fit that fails once it was paid for -----------------------------------------------------------


@pytest.mark.parametrize("kind", [one for one in MODELS if one not in BY_COINS + AT_ONCE])
def test_a_fit_that_fails_keeps_its_transcript_and_goes_on_at_no_charge(kind, monkeypatch):
    ledger = PrivacyLedger(epsilon=1)
    model, codes, labels = unfitted(kind, epsilon=0.75, ledger=ledger)
    with monkeypatch.context() as patched:
        patched.setattr(curators.Live, "check_finished", lambda self: 1 / 0, raising=False)
        with pytest.raises(ZeroDivisionError) as caught:
            model.fit(codes, labels)
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
    with monkeypatch.context() as patched:
        patched.setattr(curators.Live, "check_finished", lambda self: 1 / 0, raising=False)
        with pytest.raises(ZeroDivisionError) as caught:
            model.fit(codes, labels)
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
    with monkeypatch.context() as patched:
        patched.setattr(curators.Live, "check_finished", lambda self: 1 / 0, raising=False)
        with pytest.raises(ZeroDivisionError):
            model.fit(codes, labels)
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


# Files -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", MODELS)
def test_a_file_says_the_same_and_is_written_again_the_same(kind, tmp_path):
    model, codes, _ = fitted(kind)
    model.save(tmp_path / "one.mrf", allow_nonprivate=True)
    again = load_model(tmp_path / "one.mrf")
    assert np.array_equal(said(again, codes), said(model, codes))
    again.save(tmp_path / "two.mrf", allow_nonprivate=True)
    assert (tmp_path / "one.mrf").read_bytes() == (tmp_path / "two.mrf").read_bytes()
    mine, theirs = model.privacy_report_, again.privacy_report_
    assert (mine.claim, mine.measurements, mine.public) == (
        theirs.claim, theirs.measurements, theirs.public,
    )  # fmt: skip
    with pytest.raises(TypeError, match="cannot be fitted"):
        again.fit(codes, codes[:, 0])
    with pytest.raises(ModelFileError, match="allow_nonprivate"):
        model.save(tmp_path / "three.mrf")


def rewritten(kind, folder, change, *, rehash=True):
    """Return a model of a file that somebody changed, with a digest that fits again."""
    model = fitted(kind)[0]
    model.save(folder / "before.mrf", allow_nonprivate=True)
    arrays = arrays_of(folder / "before.mrf")
    with zipfile.ZipFile(folder / "before.mrf") as file:
        data = json.loads(file.read("model.json"))
    answers = arrays.pop("answers")
    found = change(data, answers)
    answers = answers if found is None else found
    data["n_answers"] = len(answers)
    if rehash:
        record = Recorded(data["noise"], data["outcomes"], answers, None)
        data["digest"] = record.digest(data["plan"], arrays)
    arrays["answers"] = answers.astype("<i8")
    write_container(Path(folder / "after.mrf"), "model", data, arrays)
    return load_model(folder / "after.mrf")


def arrays_of(path):
    """Return the arrays of a file, by name."""
    with zipfile.ZipFile(path) as file:
        names = [one for one in file.namelist() if one.endswith(".npy")]
        read = np.lib.format.read_array
        return {one.removesuffix(".npy"): read(BytesIO(file.read(one))) for one in names}


def test_a_slip_in_a_strategy_is_found_and_another_strategy_is_measured_by_its_own_sensitivity(
    tmp_path,
):
    model = fitted("two_stage, all")[0]
    model.save(tmp_path / "one.mrf", allow_nonprivate=True)
    arrays = arrays_of(tmp_path / "one.mrf")
    with zipfile.ZipFile(tmp_path / "one.mrf") as file:
        data = json.loads(file.read("model.json"))

    def loaded(**changed):
        write_container(Path(tmp_path / "two.mrf"), "model", data, arrays | changed)
        return load_model(tmp_path / "two.mrf")

    loaded()  # the control: unchanged it is read
    (name,) = set(arrays) - {"answers"}
    for changed in (
        {name: arrays[name][::-1].copy()},
        {name: np.zeros_like(arrays[name])},
        {"more": arrays[name]},
    ):
        with pytest.raises(ModelFileError):
            loaded(**changed)


def first_choice(data):
    return next(one for one in data["outcomes"] if "chosen" in one)


TAMPERED = {
    "last outcome dropped": lambda data, answers: data["outcomes"].pop() and None,
    "one more outcome": lambda data, answers: data["outcomes"].append({"answers": [1, 1]}),
    "one answer less": lambda data, answers: answers[:-1],
    "one answer more": lambda data, answers: np.append(answers, 3),
    "no noise with a finite budget": lambda data, answers: data.update(noise="none"),
    "absurd answers": lambda data, answers: answers * 0 + 2**62 + 5,
    "another kind": lambda data, answers: data.update(
        kind="labels" if data["kind"] == "tables" else "tables"
    ),
    "no kind": lambda data, answers: data.update(kind="forest"),
    "other settings": lambda data, answers: data.update(settings=10**6),
    "no charge": lambda data, answers: data["provenance"].update(released=[]),
    "a key too many": lambda data, answers: data["plan"].update(more=1),
    "another relation": lambda data, answers: data["plan"].update(neighboring="replace_one"),
    "a choice that was no option": lambda data, answers: first_choice(data).update(chosen=[10**6]),
    "a choice of nothing": lambda data, answers: first_choice(data).update(chosen=[]),
}  # fmt: skip
WITHOUT_CHOICES = ("tables", "naive_bayes", "matrix")
WITHOUT_ANSWERS = ("labels", "multinomial")


@pytest.mark.parametrize("kind", MODELS)
def test_tampered_files_are_refused(kind, tmp_path):
    rewritten(kind, tmp_path, lambda data, answers: None)  # the control: unchanged it is read
    for what, change in TAMPERED.items():
        if "choice" in what and kind.split(",")[0] in WITHOUT_CHOICES:
            continue
        if "relation" in what and kind.startswith("pool"):
            continue  # its parts have one each
        try:
            rewritten(kind, tmp_path, change)
        except (ModelFileError, StopIteration):
            continue
        if what in ("absurd answers", "one answer less") and kind in WITHOUT_ANSWERS:
            continue
        pytest.fail(f"{kind}: not refused: {what}")


@pytest.mark.parametrize("kind", MODELS)
def test_research_noise_that_is_called_exact_claims_nothing(kind, tmp_path):
    again = rewritten(kind, tmp_path, lambda data, answers: data.update(noise="exact"))
    assert not again.privacy_report_.is_private
    assert "NOT A PRIVATE RELEASE" in repr(again)


@pytest.mark.parametrize("kind", MODELS)
def test_a_slip_is_found_by_the_digest(kind, tmp_path):
    def slip(data, answers):
        data["outcomes"].reverse()
        for one in data["outcomes"]:
            one.get("chosen", []).reverse()
        return answers[::-1]

    with pytest.raises(ModelFileError):
        rewritten(kind, tmp_path, slip, rehash=False)
