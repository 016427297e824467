"""Every kind's file says what the model says, and what no honest writer would write is refused."""

import json

import numpy as np
import pytest
from damage import missing_keys, parts_of, rewritten, wrong_values
from fitted_kinds import MODELS, fitted, said, unfitted
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mrf_matrix import load_model, save_model
from mrf_matrix.files import ModelFileError
from mrf_matrix.study import importance

HOSTILE = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


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


OF_FILES = ("auto", "tables", "additive", "labels", "pool", "pool of residuals", "matrix")
CLAIMS = [{"epsilon": 8}, {"rho": 0.5}, {"delta": 1e-6}, {"neighboring": "replace_one"}]


@pytest.mark.parametrize(
    ("kind", "claim"),
    [(kind, CLAIMS[(place + half) % 4]) for place, kind in enumerate(OF_FILES) for half in (0, 2)],
    ids=str,
)
def test_so_it_does_whatever_is_claimed_by_exact_noise(kind, claim, tmp_path):
    rho = {"epsilon": None} if "rho" in claim else {}
    model, codes, labels = unfitted(kind, **rho, **claim)
    save_model(model.fit(codes, labels), tmp_path / "one.mrf")
    again = load_model(tmp_path / "one.mrf")
    assert np.array_equal(said(again, codes), said(model, codes))
    assert again.privacy_report_ == model.privacy_report_
    assert again.privacy_report_.is_private
    if kind not in ("matrix", "auto"):
        assert importance(again) == importance(model)
    if kind != "matrix":
        intervals = (one.vote_intervals(codes[:200]) for one in (again, model))
        np.testing.assert_array_equal(*intervals)


def test_the_largest_delta_is_read_back(tmp_path):
    model, codes, labels = unfitted("tables", delta=float(np.nextafter(1, 0)))
    model.fit(codes, labels).save(tmp_path / "one.mrf")
    assert load_model(tmp_path / "one.mrf").privacy_report_ == model.privacy_report_


@pytest.mark.parametrize("kind", MODELS)
def test_research_noise_is_written_when_asked_and_claims_nothing(kind, tmp_path):
    model, *_ = fitted(kind)
    with pytest.raises(ModelFileError, match="allow_nonprivate"):
        model.save(tmp_path / "one.mrf")
    assert not list(tmp_path.iterdir())
    model.save(tmp_path / "one.mrf", allow_nonprivate=True)
    statement = load_model(tmp_path / "one.mrf").privacy_report_.statement
    assert statement.startswith("NOT A PRIVATE RELEASE")
    exact = rewritten(model, tmp_path, lambda data, arrays: data.update(noise="exact"))
    assert not exact.privacy_report_.is_private, "nor where it is called exact"
    assert "NOT A PRIVATE RELEASE" in repr(exact)


# Changed files -----------------------------------------------------------------------------------


def test_a_slip_in_a_strategy_is_found(tmp_path):
    """The digest is left as it was; another strategy is measured by its own sensitivity."""
    model = fitted("two_stage, all")[0]
    model.save(tmp_path / "one.mrf", allow_nonprivate=True)
    _, arrays = parts_of(tmp_path / "one.mrf")
    (name,) = set(arrays) - {"answers"}

    def read(**other):
        return rewritten(model, tmp_path, lambda data, put: put.update(other), fits=False)

    read()  # the control: unchanged it is read
    for other in (
        {name: arrays[name][::-1].copy()},
        {name: np.zeros_like(arrays[name])},
        {"more": arrays[name]},
    ):
        with pytest.raises(ModelFileError):
            read(**other)


@pytest.mark.parametrize("kind", MODELS)
def test_a_slip_is_found_by_the_digest(kind, tmp_path):
    def slip(data, arrays):
        data["outcomes"].reverse()
        for one in data["outcomes"]:
            one.get("chosen", []).reverse()
        arrays["answers"] = arrays["answers"][::-1]

    with pytest.raises(ModelFileError):
        rewritten(fitted(kind)[0], tmp_path, slip, fits=False)


def first_choice(data):
    return next(one for one in data["outcomes"] if "chosen" in one)


def of_answers(change):
    """Return the change of the answers, and of how many there are said to be."""

    def changed(data, arrays):
        arrays["answers"] = change(arrays["answers"])
        data["n_answers"] = len(arrays["answers"])

    return changed


def of_data(**values):
    return lambda data, arrays: data.update(values)


def of_plan(**values):
    return lambda data, arrays: data["plan"].update(values)


def of_spending(**values):
    def changed(data, arrays):
        (spending,) = data["provenance"]["released"]
        spending.update(values)

    return changed


TAMPERED = {
    "last outcome dropped": lambda data, arrays: data["outcomes"].pop() and None,
    "one more outcome": lambda data, arrays: data["outcomes"].append({"answers": [1, 1]}),
    "no outcomes": of_data(outcomes=[]),
    "outcomes no list": of_data(outcomes={}),
    "one answer less": of_answers(lambda answers: answers[:-1]),
    "one answer more": of_answers(lambda answers: np.append(answers, 3)),
    "absurd answers": of_answers(lambda answers: answers * 0 + 2**62 + 5),
    "fewer answers said": of_data(n_answers=3),
    "more answers said": of_data(n_answers=10**6),
    "no noise with a finite budget": of_data(noise="none"),
    "unknown noise": of_data(noise="loud"),
    "another kind": lambda data, arrays: data.update(
        kind="labels" if data["kind"] == "tables" else "tables"
    ),
    "no kind": of_data(kind="forest"),
    "other settings": of_data(settings=10**6),
    "an earlier version": lambda data, arrays: data.update(
        schema_version=data["schema_version"] - 1
    ),
    "a later version": lambda data, arrays: data.update(schema_version=data["schema_version"] + 1),
    "another format": of_data(format="mrf_matrix.model"),
    "no charge": lambda data, arrays: data["provenance"].update(released=[]),
    "a short identity of its ledger": of_spending(identity="0" * 31),
    "letters for an identity": of_spending(identity="g" * 32),
    "a key too many": of_plan(more=1),
    "another law": of_plan(budget={"rho": "1"}),
    "less privacy": of_plan(budget={"epsilon": "3"}),
    "no privacy": of_plan(budget={"epsilon": "inf"}),
    "another relation": of_plan(neighboring="replace_one"),
    "no relation": of_plan(neighboring="any"),
    "no records": of_plan(n_records=0),
    "records in words": of_plan(n_records="1500"),
    "delta of one": of_plan(delta=1.0),
    "no delta": of_plan(delta=None),
    "a choice that was no option": lambda data, arrays: first_choice(data).update(chosen=[10**6]),
    "a choice of nothing": lambda data, arrays: first_choice(data).update(chosen=[]),
}
DAMAGED = (
    "auto, screened", "tables", "additive", "labels", "pool of residuals", "naive_bayes",
    "matrix, several", "two_stage, all", "multinomial",
)  # fmt: skip
"""One of each kind of plan."""
WITHOUT_CHOICES = ("tables", "naive_bayes", "matrix")
WITHOUT_ANSWERS = ("labels", "multinomial")


@pytest.mark.parametrize("kind", DAMAGED)
def test_tampered_files_are_refused(kind, tmp_path):
    model = fitted(kind)[0]
    rewritten(model, tmp_path, lambda data, arrays: None)  # the control: unchanged it is read
    for what, change in TAMPERED.items():
        if "choice" in what and kind.split(",")[0] in WITHOUT_CHOICES:
            continue
        if "relation" in what and kind.startswith("pool"):
            continue  # its parts have one each
        try:
            rewritten(model, tmp_path, change)
        except (ModelFileError, StopIteration):
            continue
        if what in ("absurd answers", "one answer less") and kind in WITHOUT_ANSWERS:
            continue
        pytest.fail(f"{kind}: not refused: {what}")


@pytest.mark.parametrize("fits", [True, False])
@pytest.mark.parametrize("kind", DAMAGED)
@HOSTILE
@given(data=st.data())
def test_any_value_of_the_json_may_be_wrong(kind, fits, tmp_path, data):
    try:
        again = rewritten(
            fitted(kind)[0], tmp_path, lambda told, arrays: data.draw(wrong_values(told)), fits=fits
        )
    except ModelFileError:
        return
    zeros = np.zeros((3, again.domain_.n_attributes), dtype=int)
    shares = again.predict_proba(again.domain_.decode(zeros, numeric="midpoint"))
    assert np.isfinite(shares).all()
    assert json.dumps(again.privacy_report_.to_dict())


@pytest.mark.parametrize("fits", [True, False])
@pytest.mark.parametrize("kind", DAMAGED)
@HOSTILE
@given(data=st.data())
def test_any_key_of_the_json_may_be_missing(kind, fits, tmp_path, data):
    paths = []

    def without(told, arrays):
        path, rest = data.draw(missing_keys(told))
        paths.append(path)
        return rest

    try:
        rewritten(fitted(kind)[0], tmp_path, without, fits=fits)
    except ModelFileError:
        return
    assert paths[-1][0] == "domain" or (fits and paths[-1] == ("digest",)), "all else is needed"
