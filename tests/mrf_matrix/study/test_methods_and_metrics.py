"""Figures of probabilities beside accuracy: scikit-learn's, and empty where there are none."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as theirs
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import Perceptron

from mrf_matrix import Attribute, Domain, RandomTrees, compare, load_dataset
from mrf_matrix.cli.compare import METRICS as WORDS
from mrf_matrix.cli.compare import score_table
from mrf_matrix.cli.screen import console
from mrf_matrix.domain.attribute import coarser_codes
from mrf_matrix.plotting import AccuracyDisplay
from mrf_matrix.study import expected_calibration_error, reliability
from mrf_matrix.study.calibration import METRICS, all_metrics
from mrf_matrix.study.methods import METHODS as OURS
from mrf_matrix.study.methods import NAMED_METHODS, Method, Setting

SILENT = Method("silent", "no probabilities", False, lambda setting: Perceptron())


@pytest.fixture(scope="module")
def study():
    return compare(
        load_dataset("balance_scale"), n_trees=2, max_depth=1, epsilons=[1.0], n_splits=1,
        n_draws=2, strategy="identity", kind=["naive_bayes", "extra_trees", SILENT],
    )  # fmt: skip


@pytest.mark.parametrize("ties", [False, True])  # shares of 0 and 1 too
@pytest.mark.parametrize("k", [2, 3])
def test_figures_are_those_of_scikit_learn(k, ties):
    rng = np.random.default_rng(k)
    truth, shares = rng.integers(0, k, 90), rng.dirichlet(np.ones(k), 90)
    if ties:
        shares = rng.multinomial(4, np.ones(k) / k, 90) / 4
    predicted = shares.argmax(axis=1)
    found = all_metrics(truth, predicted, shares)
    assert list(found) == list(METRICS)
    auc = theirs.roc_auc_score(truth, shares[:, 1] if k == 2 else shares, multi_class="ovr")
    assert found["auc"] == pytest.approx(auc)
    assert found["accuracy"] == theirs.accuracy_score(truth, predicted)
    balanced = theirs.balanced_accuracy_score(truth, predicted)
    assert found["balanced_accuracy"] == pytest.approx(balanced)
    assert found["log_loss"] == pytest.approx(theirs.log_loss(truth, shares))
    assert found["brier"] == pytest.approx(
        theirs.brier_score_loss(truth, shares[:, 1] if k == 2 else shares)
    )


def test_a_class_that_no_record_has_leaves_only_the_auc_empty():
    found = all_metrics(np.zeros(4, int), np.array([0, 0, 1, 0]), np.tile([0.6, 0.4], (4, 1)))
    assert [name for name, value in found.items() if value is None] == ["auc"]
    assert found["balanced_accuracy"] == 0.75


def test_every_score_and_summary_has_every_figure(study):
    record = study.to_dict()
    assert list(record["summaries_by_metric"]) == list(METRICS) == list(WORDS)
    assert record["summaries"] == record["summaries_by_metric"]["accuracy"]
    for metric in METRICS:
        values = [getattr(s, metric) for s in study.scores if s.method == "naive_bayes"]
        assert study.summary("naive_bayes", 1.0, metric).mean == pytest.approx(np.mean(values))
    with pytest.raises(ValueError, match=r"metric='f1'.*balanced_accuracy"):
        study.summary("naive_bayes", 1.0, "f1")


def test_a_method_without_probabilities_has_an_empty_cell(study):
    assert study.summary("silent", None, "balanced_accuracy").mean is not None
    for metric in ("auc", "log_loss", "brier", "calibration"):
        assert study.summary("silent", None, metric).mean is None
        screen = console()
        with screen.capture() as shown:
            screen.print(score_table(study, metric))
        rows = [line.split() for line in shown.get().splitlines()]
        assert ["no", "probabilities", "none"] in rows
        assert METRICS[metric].split()[0] in shown.get()


def test_the_picture_is_of_the_figure_that_was_asked_for(study):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    ax = AccuracyDisplay.from_comparison(study, "auc").ax_
    assert "test AUC" in ax.get_ylabel()
    assert len(ax.get_legend_handles_labels()[1]) == 2
    pyplot.close("all")


# Calibration -------------------------------------------------------------------------------------


def forecast(rng, n=200_000):
    """Return calibrated probabilities of two classes, and what happened."""
    high = rng.uniform(0.5, 1.0, size=n)
    truth = (rng.random(n) > high).astype(int)
    return truth, np.column_stack([high, 1 - high])


def test_a_calibrated_forecast_has_no_calibration_error():
    truth, shares = forecast(np.random.default_rng(0))
    assert expected_calibration_error(truth, shares) < 0.01
    sure = np.round(shares)  # negative control
    assert expected_calibration_error(truth, sure) == pytest.approx(0.25, abs=0.01)


@given(st.integers(0, 2**32 - 1), st.integers(1, 20))
def test_it_is_the_sum_over_bins_written_out(seed, n_bins):
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.ones(3), size=40)
    truth = rng.integers(0, 3, size=40)
    total = 0.0
    for m in range(n_bins):
        inside = [
            i
            for i in range(40)
            if m <= shares[i].max() * n_bins
            and (shares[i].max() * n_bins < m + 1 or m == n_bins - 1)
        ]
        if inside:
            right = np.mean([shares[i].argmax() == truth[i] for i in inside])
            total += len(inside) / 40 * abs(right - np.mean([shares[i].max() for i in inside]))
    assert expected_calibration_error(truth, shares, n_bins) == pytest.approx(total)
    curve = reliability(truth, shares, n_bins)
    assert curve.counts.sum() == 40
    assert (np.diff(curve.confidence) > 0).all()


def test_classes_have_names():
    shares = [[0.9, 0.1], [0.2, 0.8]]
    named = expected_calibration_error(["no", "yes"], shares, classes=["no", "yes"])
    assert named == expected_calibration_error([0, 1], shares) == pytest.approx(0.15)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0], [[0.5, 0.5]], 0), "n_bins=0"),
        (([0], [[0.5, 0.5]], True), "n_bins=True"),
        (([0, 1], [[0.5, 0.5]]), "y has shape"),
        (([0], [0.5, 0.5]), "proba has shape"),
        (([], np.zeros((0, 2))), "proba has shape"),
        (([0], [[0.9, 0.3]]), "sum to 1"),
        (([0], [[1.5, -0.5]]), "expected probabilities"),
        (([0], [[np.nan, 0.5]]), "expected probabilities"),
    ],
)
def test_what_are_no_probabilities_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        expected_calibration_error(*arguments)


def test_classes_must_fit_the_columns():
    with pytest.raises(ValueError, match="classes"):
        expected_calibration_error([0], [[0.5, 0.5]], classes=["a", "b", "c"])


# Methods ------------------------------------------------------------------------------------------


QUICK = {"n_trees": 2, "max_depth": 1, "epsilons": [1.0], "n_splits": 1, "n_draws": 1}


def setting_of(given):
    """Return what a fit is given whose records were encoded by a domain."""
    domain = Domain.from_sizes(given.sizes, n_classes=2)
    return Setting(
        domain=domain,
        forest=RandomTrees(n_trees=1, max_depth=1).grow(domain, random_state=0),
        strategies={},
        epsilon=1.0,
        voting="hard",
        neighboring="add_remove",
        noise="research",
        noise_state=0,
        seed=0,
        given=given,
        n_records=9,
    )


def test_the_posterior_forest_is_told_orders_and_the_number_of_records():
    named = Attribute("b", categories=["x", "y", "z"])
    setting = setting_of(Domain([Attribute("a", size=3), named]))
    build = next(method.build for method in OURS if method.key == "tables")
    codes = np.array([[i, j] for i in range(3) for j in range(3)])
    labels = (codes[:, 1] == 2).astype(int)
    model = build(setting).fit(codes, labels)
    assert model.n_records == 9
    assert model.domain_.ordered == (True, False)
    exact = build(replace(setting, epsilon=float("inf"), noise_state=None)).fit(codes, labels)
    np.testing.assert_array_equal(exact.predict(codes), labels)


def test_codes_are_measured_as_the_given_domain_would_be():
    """Bins, what is missing or not listed, and names: the same codes, and the same bins of them."""
    given = Domain(
        [
            Attribute("a", size=100, missing="category"),
            Attribute("b", edges=list(range(40)), outside="open", missing="category"),
            Attribute("c", size=90, unknown="other", missing="category"),
            Attribute("d", categories=["x", "y", "z"]),
        ]
    )
    build = next(method.build for method in OURS if method.key == "auto")
    domain = build(setting_of(given)).domain
    codes = np.stack([np.arange(500) % size for size in given.sizes], axis=1)
    np.testing.assert_array_equal(domain.encode(codes)[:, :3], codes[:, :3])
    coarse, usual = domain.coarser(), given.coarser()
    assert coarse.sizes == usual.sizes == (16, 15, 92, 3)
    assert coarse.ordered == usual.ordered == (True, True, True, False)
    wanted = coarser_codes(given.attributes, usual.attributes, codes)
    np.testing.assert_array_equal(coarse.encode(codes)[:, :3], wanted[:, :3])


GUESS = Method("guess", "a guess", True, lambda setting: DummyClassifier(strategy="most_frequent"))


def test_methods_of_ones_own_stand_beside_ours():
    study = compare("monks_1", kind=["majority", GUESS], strategy="identity", **QUICK)
    assert [method.key for method in study.methods] == ["majority", "guess"]
    assert study.summary("guess", 1.0).mean == study.summary("majority", None).mean
    said = [method["privacy"] for method in study.to_dict()["methods"]]
    assert said == ["noise-free, not private", "research noise, not a release"]


@pytest.mark.parametrize("method", [*OURS, *NAMED_METHODS], ids=lambda method: method.key)
def test_only_ours_are_called_private(method):
    own = replace(method, label="mine")
    assert method.privacy("exact") in ("exact noise, its own claim", "noise-free, not private")
    assert own.privacy("exact") in ("claim by its author, unverified", "noise-free, not private")
