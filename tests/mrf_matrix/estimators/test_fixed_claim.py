"""What was fitted is fixed by fit: no parameter that is changed later touches it, anywhere."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

import mrf_matrix.estimators
from mrf_matrix import (
    Attribute,
    BatchPredictionClassifier,
    Domain,
    MatrixForestClassifier,
    PrivacyLedger,
    PureDP,
    SubsampleAggregateClassifier,
    from_release,
    load_model,
    load_release,
    save_model,
    save_release,
)
from mrf_matrix.domain import PrivacyLeakWarning
from mrf_matrix.estimators import (
    FederatedForestClassifier,
    ForestClassifier,
    LabelTreeClassifier,
    MultinomialForestClassifier,
    MultinomialMatrixForestClassifier,
    PooledForestClassifier,
    PosteriorForestClassifier,
    PrivateForestClassifier,
    PrivateNaiveBayesClassifier,
    PureForestClassifier,
    ReleasedClassifier,
    ResidualForestClassifier,
    SimplifiedBreimanForestClassifier,
)
from mrf_matrix.files import ModelFileError, ReleaseFileError
from mrf_matrix.study import importance

DOMAIN = Domain.from_sizes([2, 3], n_classes=2)
OTHER = Domain(
    [Attribute("x0", categories=["a", "b"]), Attribute("x1", size=3)],
    target=Attribute("class", size=2),
)
RENAMED = Domain(DOMAIN.attributes, target=Attribute("label", size=2))
X = np.array([[0, 0], [0, 1], [1, 2], [1, 0], [0, 2], [1, 1]])
Y = np.array([0, 1, 0, 1, 1, 0])

TREES = {"n_trees": 2, "max_depth": 1, "random_state": 0}
CELLS = TREES | {"strategy": "identity"}
GROWN = {"n_trees": 2, "random_state": 0}
MADE = {
    "matrix": lambda: MatrixForestClassifier(DOMAIN, voting="weight", **CELLS),
    "batch prediction": lambda: BatchPredictionClassifier(DOMAIN, n_batches=3, **CELLS),
    "subsample": lambda: SubsampleAggregateClassifier(DOMAIN, n_batches=3, **CELLS),
    "tables": lambda: PosteriorForestClassifier(DOMAIN, random_state=0),
    "additive": lambda: ResidualForestClassifier(DOMAIN, n_records=100, random_state=0),
    "auto": lambda: PrivateForestClassifier(DOMAIN, n_records=100, random_state=0),
    "labels": lambda: LabelTreeClassifier(DOMAIN, n_records=50, random_state=0),
    "labels and counts": lambda: LabelTreeClassifier(DOMAIN, n_records=200, random_state=0),
    "pool": lambda: PooledForestClassifier(DOMAIN, n_records=100, random_state=0),
    "naive Bayes": lambda: PrivateNaiveBayesClassifier(DOMAIN),
    "multinomial": lambda: MultinomialForestClassifier(DOMAIN, epsilon=1, **TREES),
    "two stages": lambda: MultinomialMatrixForestClassifier(DOMAIN, **CELLS),
    "pure": lambda: PureForestClassifier(DOMAIN, n_leaves=2, **GROWN),
    "midpoints": lambda: SimplifiedBreimanForestClassifier(DOMAIN, n_leaves=2, **GROWN),
    "any source": lambda: ForestClassifier(DOMAIN, random_state=0),
    "federated": lambda: FederatedForestClassifier(DOMAIN, n_clients=2, **GROWN),
}
CHANGES = {
    "kind": "tables",
    "beside": "additive",
    "n_records": 90,
    "domain": OTHER,
    "epsilon": 5,
    "rho": 0.5,
    "neighboring": "replace_one",
    "noise": "research",
    "noise_state": 7,
    "allocation": "per_query",
    "budget_shares": [1.0],
    "n_batches": 9,
    "ledger": PrivacyLedger(epsilon=9),
    "voting": "hard",
    "label_rule": "smooth",
    "parts": "all",
    "structure_share": 0.9,
    "delta": 1e-5,
    "report": None,
    "model": None,
    "ensembles": (),
    "classes": ["x", "y"],
}
ASKED = ("predict", "predict_proba", "vote_intervals", "predict_or_abstain", "predict_log_proba",
         "expected_vote_error")  # fmt: skip
SEARCH = ("strategy", "objective", "time_limit", "n_jobs")
"""What batch prediction reads again for each batch, by design."""


def released(tmp_path, model):
    save_model(model.fit(X, Y), tmp_path / "m")
    return load_model(tmp_path / "m")


def fitted(name, tmp_path):
    if name == "released":
        return released(tmp_path, MADE["matrix"]())
    if name.startswith("released "):
        return released(tmp_path, MADE[name.removeprefix("released ")]())
    return MADE[name]().fit(X, Y)


def said(model, folder):
    """Return all that a fitted classifier says, by name: values, texts, files, refusals."""
    found = {}
    for name in ASKED:
        if not hasattr(model, name):
            continue
        drawn = {"random_state": 0} if name == "predict_or_abstain" else {}
        try:
            found[name] = repr(getattr(model, name)(X, **drawn))
        except (ValueError, AttributeError, TypeError) as refused:  # of a kind without intervals
            found[name] = repr(refused)
    found["report"] = repr(getattr(model, "privacy_report_", None))
    found["statement"] = getattr(model, "statement_", None)
    found["classes"], found["domain"] = model.classes_.tolist(), model.domain_
    if hasattr(model, "model_"):
        model.save(folder / "said.mrf", allow_nonprivate=True)
        found["file"] = (folder / "said.mrf").read_bytes()
        found["plan"] = repr(model.model_.plan)
    return found


@pytest.mark.parametrize("name", MADE)
def test_logarithms_are_those_of_probabilities(name):
    """Every classifier has them, where scikit-learn's threshold and calibration ask for them."""
    model = MADE[name]()
    model.set_params(**({"n_batches": 5} if "n_batches" in model.get_params() else {}))
    logs = model.fit(X, Y).predict_log_proba(X)
    assert np.exp(logs).sum(axis=1) == pytest.approx(1)
    if "n_batches" not in model.get_params():  # which draw noise of their own a batch
        np.testing.assert_allclose(np.exp(logs), model.predict_proba(X), atol=1e-12)


def test_every_classifier_is_in_the_table():
    named = [getattr(mrf_matrix.estimators, name) for name in mrf_matrix.estimators.__all__]
    classes = {one for one in named if isinstance(one, type) and issubclass(one, BaseEstimator)}
    tested = {type(make()) for make in MADE.values()}
    tested |= {ReleasedClassifier}
    assert classes <= tested


RELEASED = ("released", "released tables", "released additive", "released labels",
            "released pool", "released auto", "released naive Bayes")  # fmt: skip


def changed(model, parameter):
    """Return another value of a parameter: of most one that nobody could read."""
    old = getattr(model, parameter)
    if parameter == "voting":
        return "weight" if old == "hard" else "hard"
    return CHANGES.get(parameter, object())


@pytest.mark.parametrize("name", [*MADE, *RELEASED])
def test_a_parameter_changed_after_fit_changes_nothing_of_what_was_fitted(name, tmp_path):
    model = fitted(name, tmp_path)
    before = said(model, tmp_path)
    exempt = SEARCH if "batch" in name or name == "subsample" else ()
    for parameter in model.get_params(deep=False).keys() - set(exempt):
        model.set_params(**{parameter: changed(model, parameter)})
        assert said(model, tmp_path) == before, parameter


class Reads(MatrixForestClassifier):
    """A control: its predictions look at a parameter."""

    def _votes(self, X):
        return super()._votes(X) + np.array([1e6 * self.epsilon, 0])  # more than any noise


def test_the_law_finds_a_classifier_that_reads_a_parameter(tmp_path):
    model = Reads(DOMAIN, epsilon=1, voting="weight", **CELLS).fit(X, Y)
    before = said(model, tmp_path)
    model.set_params(voting="hard")
    assert said(model, tmp_path) == before
    model.set_params(epsilon=-1)
    assert said(model, tmp_path) != before


@pytest.mark.parametrize("kind", [MatrixForestClassifier, BatchPredictionClassifier])
def test_a_list_or_an_array_that_is_written_to_changes_nothing(kind):
    shares, sets = [1.0, 3.0], np.array([[0, 1], [1, 0]])
    model = kind(
        DOMAIN, n_ensembles=2, budget_shares=shares, feature_subsets=sets, noise="research",
        noise_state=0, **CELLS,
    )  # fmt: skip

    def budgets():
        shown = model.predict_proba(X)
        found = model.releases_ if kind is MatrixForestClassifier else model.batches_[0].releases
        return shown.tolist(), [one.budget for one in found]

    before = model.fit(X, Y) and budgets()
    model.fit(X, Y)
    shares[0], sets[0] = 9.0, [1, 0]
    assert budgets() == before
    model.fit(X, Y)  # the control: a fresh fit reads them
    assert budgets()[1] == [PureDP(0.75), PureDP(0.25)]


MEASURING = ("matrix", "batch prediction", "tables", "naive Bayes", "pool")
FROM_COUNTS = {
    "fit_counts": lambda model: model.fit_counts(model.partial_counts(X, Y)),
    "fit_stream": lambda model: model.fit_stream([(X[:2], Y[:2]), (X[2:], Y[2:])]),
}


@pytest.mark.parametrize("name", MEASURING)
@pytest.mark.parametrize("how", FROM_COUNTS)
def test_fits_from_counts_fix_the_claim_as_fit_does(name, how, tmp_path):
    model = MADE[name]()
    assert FROM_COUNTS[how](model) is model
    assert {*vars(model)} == {*vars(MADE[name]().fit(X, Y))}
    before = said(model, tmp_path)
    for parameter in ("domain", "epsilon", "neighboring"):
        model.set_params(**{parameter: CHANGES[parameter]})
    assert said(model, tmp_path) == before


@pytest.mark.parametrize("name", MEASURING)
def test_a_fit_from_counts_that_fails_leaves_what_stands(name):
    model = MADE[name]().fit(X, Y)
    before = dict(vars(model))
    for bad, words in (([(X, Y[:2])], "differ in length"), ([], "hold no record")):
        with pytest.raises(ValueError, match=words):
            model.fit_stream(bad)
    with pytest.raises(ValueError, match="another domain"):
        model.fit_counts(replace(model.partial_counts(X, Y), domain=RENAMED))
    assert vars(model) == before


@pytest.mark.parametrize("name", MADE)
def test_weights_of_records_are_refused_by_name_and_cost_nothing(name):
    model = MADE[name]()
    with pytest.raises(TypeError, match=f"{type(model).__name__}.fit takes no sample_weight"):
        model.fit(X, Y, sample_weight=np.ones(len(Y)))
    assert not any(one.endswith("_") for one in vars(model))


@pytest.mark.parametrize("name", ["matrix", "two stages"])
def test_other_votes_of_what_was_released_are_another_classifier(name, tmp_path):
    model = MADE[name]().fit(X, Y)
    before = said(model, tmp_path)
    for voting in ("hard", "weight"):
        other = model.voted_by(voting)
        assert other.voted_by(model.voting).privacy_report_ == model.privacy_report_
        assert set(other.predict(X)) <= {0, 1}
        if name == "matrix" and voting == "weight":
            assert other.vote_intervals(X)[0].shape == (6,)
    assert said(model, tmp_path) == before
    with pytest.raises(ValueError, match="voting='loud'"):
        model.voted_by("loud")
    with pytest.raises(ValueError, match="one rule only"):
        MADE["tables"]().fit(X, Y).voted_by("hard")


@pytest.mark.parametrize("name", MADE)
def test_a_changed_parameter_is_read_by_the_next_fit(name):
    model = MADE[name]().fit(X, Y)
    change = {"epsilon": 3} if "epsilon" in model.get_params() else {"domain": RENAMED}
    model.set_params(**change).fit(X, Y).predict(X)
    if "epsilon" in change and hasattr(model, "privacy_report_"):
        assert "epsilon=3" in model.privacy_report_.budget


@pytest.mark.parametrize("name", ["multinomial", "midpoints"])
def test_a_fit_that_failed_before_it_paid_leaves_nothing(name):
    model = MADE[name]().set_params(n_trees=0)
    before = set(vars(model))
    with pytest.raises(ValueError, match="n_trees"):
        model.fit(X, Y)
    assert set(vars(model)) == before
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_voting_cannot_halve_the_noise():
    model = SubsampleAggregateClassifier(DOMAIN, voting="hard", **CELLS).fit(X, Y)
    model.set_params(voting="weight").predict(X)
    mechanism = model.batches_[0].plan.parts[0].mechanism
    assert mechanism.squared_factor == 4  # of a factor of two
    assert "hard voting" in model.privacy_report_.notes[0]


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ({"neighboring": "replace_one"}, {"neighboring": "add_remove"}),
        ({}, {"noise": "research", "noise_state": 1}),
        ({"noise": "research", "noise_state": 3}, {"noise": "exact", "noise_state": None}),
        ({}, {"epsilon": 5}),
        ({"epsilon": float("inf")}, {"epsilon": 1}),
        ({}, {"n_batches": 20}),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", [BatchPredictionClassifier, SubsampleAggregateClassifier])
def test_batches_are_measured_on_the_terms_of_fit(kind, first, then):
    model = kind(DOMAIN, **(CELLS | {"n_batches": 2} | first)).fit(X, Y)
    model.predict(X[:1])
    planned = model.privacy_report_.planned
    model.set_params(**then).predict(X)
    one, two = (batch.releases[0] for batch in model.batches_)
    assert (one.budget, one.neighboring, one.noise) == (two.budget, two.neighboring, two.noise)
    assert model.privacy_report_.planned == planned


def read_off(kind, **changes):
    model = kind("from_data", **changes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        return model.fit(X.astype(float), Y)


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        (MatrixForestClassifier, CELLS),
        (PosteriorForestClassifier, {}),
    ],
    ids=["matrix", "tables"],
)
def test_a_domain_read_off_the_records_never_becomes_private(kind, changes, tmp_path):
    model = read_off(kind, **changes)
    domain, denial = model.domain_, "NOT A PRIVATE RELEASE: the domain was read off"
    assert model.privacy_report_.statement.startswith(denial)
    with pytest.raises(ModelFileError, match="read off the records"):
        save_model(model, tmp_path / "m")
    with pytest.raises(ModelFileError, match="read off the records"):
        save_model(model.set_params(domain=domain), tmp_path / "m")
    save_model(model, tmp_path / "m", allow_nonprivate=True)
    loaded = load_model(tmp_path / "m")
    with pytest.raises(ModelFileError, match="read off the records"):
        save_model(loaded, tmp_path / "again")
    assert not model.release_.is_private
    with pytest.raises(ReleaseFileError, match="read off"):
        save_release(model.release_, tmp_path / "r", domain)
    save_release(model.release_, tmp_path / "r", domain, allow_nonprivate=True)
    kept = load_release(tmp_path / "r")
    assert kept.statement.startswith(denial)
    if kind is MatrixForestClassifier:
        made = from_release(kept, forest=model.forest_, voting="weight")
        assert made.privacy_report_.statement.startswith(denial)
        with pytest.raises(ModelFileError, match="read off the records"):
            save_model(made, tmp_path / "made")


def failing(model, monkeypatch):
    """Fit so that it fails once it is paid for, and a tree was drawn."""

    def fail(*args):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr("mrf_matrix.release.curator.Live._take_measurement", fail)
        with pytest.raises(MemoryError):
            model.fit(X, Y)
    return model


@pytest.mark.parametrize("before", [False, True], ids=["first fit", "fitted before"])
def test_a_paid_fit_goes_on_on_its_own_terms(before, monkeypatch):
    model = MADE["labels and counts"]()
    if before:
        model.fit(X, Y)
    failing(model.set_params(epsilon=2), monkeypatch)
    changes = {name: one for name, one in CHANGES.items() if name in model.get_params()}
    model.set_params(**changes).go_on(X, Y)
    report = model.privacy_report_
    assert (report.budget, report.noise) == ("PureDP(epsilon=2)", "exact")
    assert (report.neighboring, model.domain_) == ("add_remove", DOMAIN)
    assert set(vars(model)) == set(vars(MADE["labels and counts"]().fit(X, Y)))
    model.set_params(domain=DOMAIN, rho=None, delta=0, ledger=None)
    refit = model.fit(X, Y).privacy_report_  # the control: a fresh fit reads them
    assert (refit.noise, refit.neighboring) == ("research", "replace_one")


def test_a_kind_without_effects_is_refused_by_name():
    with pytest.raises(TypeError, match="PrivateNaiveBayesClassifier"):
        importance(MADE["naive Bayes"]().fit(X, Y))


@pytest.mark.parametrize("name", ["report_", "privacy_report_"])
def test_before_fit_a_report_is_refused_as_predictions_are(name):
    model = PosteriorForestClassifier(DOMAIN)
    assert not hasattr(model, name)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        getattr(model, name)
    fitted = MADE["any source"]().fit(X, Y)  # negative control: fitted, without a claim
    with pytest.raises(AttributeError, match="claims nothing") as found:
        _ = fitted.privacy_report_
    assert not isinstance(found.value, NotFittedError)
