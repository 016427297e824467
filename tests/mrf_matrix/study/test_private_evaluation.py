"""Private evaluations: scikit-learn's figures without noise, and intervals that hold with it."""

import json
from dataclasses import dataclass, field, replace
from itertools import product
from math import inf

import numpy as np
import pytest
from sklearn import metrics

from mrf_matrix import BatchPredictionClassifier, Domain, PrivacyLedger
from mrf_matrix.mechanisms import BudgetError, DiscreteLaplace, PureDP, calibrate, count_cells
from mrf_matrix.study import PrivateEvaluation, evaluate
from mrf_matrix.study.table_figures import ProbabilityGrid, figures, grid_error
from strategies.operators import Identity


@dataclass(eq=False)
class Oracle:
    """A classifier whose probabilities are known: record i, coded in its attributes, has row i."""

    shares: np.ndarray
    names: tuple = ("no", "yes", "zebra")
    domain_: Domain = field(init=False)

    def __post_init__(self):
        k = self.shares.shape[1]
        public = Domain.from_sizes([len(self.shares)], n_classes=k)
        target = replace(public.target, categories=self.names[:k][::-1])  # not in sorted order
        self.domain_ = replace_target(public, target)
        self.classes_ = np.array(self.names[:k])

    def predict_proba(self, X):
        return self.shares[self.domain_.encode(X)[:, 0]]


def replace_target(domain, target):
    return Domain(domain.attributes, target)


def drawn(k, n=4000, seed=0, rare=None):
    """Probabilities that are somewhat wrong, and what happened."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.ones(k) if rare is None else rare, n)
    truth = (
        rng.random((n, 1)) > (shares**1.3 / (shares**1.3).sum(1, keepdims=True)).cumsum(1)
    ).sum(1)
    return Oracle(shares), np.arange(n)[:, None], truth.clip(0, k - 1)


def rounded(grid, shares):
    """The forecast at the midpoints of its bins."""
    row = grid.rows(shares, np.full(len(shares), -1)) % len(grid.midpoints)
    return grid.midpoints[row]


def test_without_noise_two_classes_have_the_figures_of_scikit_learn():
    model, X, truth = drawn(2)
    found = evaluate(model, X, model.classes_[truth], epsilon=inf, threshold=0.3)
    values = {name: one.value for name, one in found.figures.items()}
    p = model.shares[:, 1]
    said, near = p > 0.3, rounded(found.grid, model.shares)
    assert values == pytest.approx(
        {
            "accuracy": metrics.accuracy_score(truth, said),
            "balanced_accuracy": metrics.balanced_accuracy_score(truth, said),
            "auc": metrics.roc_auc_score(truth, near),
            "log_loss": metrics.log_loss(truth, near),
            "brier": metrics.brier_score_loss(truth, near),
            "calibration": expected_calibration_of_second_class(truth, near),
            "recall": metrics.recall_score(truth, said),
            "precision": metrics.precision_score(truth, said),
        }
    )
    within = grid_error(found.release.values)
    assert 0 < abs(metrics.roc_auc_score(truth, p) - values["auc"]) <= within < 0.05
    for one in found.figures.values():
        assert one.low == pytest.approx(one.value) == one.high
    assert "NOT A PRIVATE RELEASE" in str(found)


def expected_calibration_of_second_class(truth, near):
    bins = [near == value for value in np.unique(near)]
    return sum(abs((truth[one] - near[one]).sum()) for one in bins) / len(truth)


def test_without_noise_several_classes_have_those_of_labels_and_calibration():
    model, X, truth = drawn(3)
    found = evaluate(model, X, model.classes_[truth], epsilon=inf, n_bins=10)
    said = model.shares.argmax(1)
    assert set(found.figures) == {"accuracy", "balanced_accuracy", "calibration"}
    values = {name: one.value for name, one in found.figures.items()}
    assert values["accuracy"] == pytest.approx(metrics.accuracy_score(truth, said))
    assert values["balanced_accuracy"] == pytest.approx(
        metrics.balanced_accuracy_score(truth, said)
    )
    near = rounded(found.grid, model.shares)
    by_hand = sum(
        abs(((said == truth)[near == value] - value).sum()) for value in np.unique(near)
    ) / len(truth)
    assert values["calibration"] == pytest.approx(by_hand)


def test_the_standard_error_of_sampling_is_that_of_fresh_records():
    spread = {}
    for seed in range(120):
        model, X, truth = drawn(2, 600, seed)
        found = evaluate(model, X, model.classes_[truth], epsilon=inf)
        for name, one in found.figures.items():
            spread.setdefault(name, []).append((one.value, one.sampling_error))
    for name in ("accuracy", "balanced_accuracy", "auc", "log_loss", "brier", "recall"):
        values, errors = np.array(spread[name]).T
        assert np.mean(errors) == pytest.approx(values.std(ddof=1), rel=0.2), name


@pytest.mark.parametrize(
    ("epsilon", "rare"), [(0.5, None), pytest.param(2.0, (9.0, 1.0), marks=pytest.mark.slow)]
)
def test_intervals_hold_over_releases(epsilon, rare):
    model, X, truth = drawn(2, rare=rare)
    cut = 0.2 if rare else None
    exact = evaluate(model, X, model.classes_[truth], epsilon=inf, threshold=cut)
    truth_of = {name: one.value for name, one in exact.figures.items()}
    law = DiscreteLaplace.calibrated(1, 1, PureDP(epsilon).exact)
    noise = np.random.default_rng(1)
    trials, held, narrow = 100, dict.fromkeys(truth_of, 0), dict.fromkeys(truth_of, 0)
    for _ in range(trials):
        noisy = exact.release.values + law.research((exact.grid.n_rows, 2), noise)
        for name, one in figures(noisy, law, exact.grid, 0.9).items():
            held[name] += one.low <= truth_of[name] <= one.high
            third = (one.high - one.low) / 6
            narrow[name] += abs(one.value - truth_of[name]) <= third
    for name, hits in held.items():
        assert hits >= 0.84 * trials, name  # 2.5 standard errors below .9
        if name != "calibration":  # whose interval holds at least that often
            assert hits <= 0.97 * trials, name
            assert narrow[name] <= 0.75 * trials, name  # control: a third of it does not hold


@pytest.mark.parametrize(("relation", "moved"), [("add_remove", 1), ("replace_one", 2)])
@pytest.mark.parametrize("k", [2, 3])
def test_one_record_moves_the_measured_table_by_what_the_noise_is_for(k, relation, moved):
    model, _, _ = drawn(k, 40)
    grid = ProbabilityGrid.of(k, 4, None)
    records = [(record, label) for record, label in product(range(0, 40, 7), range(k))]

    def table(chosen):
        record, label = np.array(chosen).T
        rows = grid.rows(model.shares[record], label)
        counts = count_cells(rows[:, None], label, (grid.n_rows,), k)
        return counts.answers(Identity(grid.n_rows))

    base = records[:5]
    others = (
        [[*base, one] for one in records]
        if relation == "add_remove"
        else [[one, *base[1:]] for one in records]
    )
    farthest = max(abs(table(other) - table(base)).sum() for other in others)
    mechanism = calibrate(Identity(grid.n_rows), PureDP(1), neighboring=relation)
    assert farthest == moved == mechanism.sensitivity
    assert mechanism.law.scale == moved
    twice = max(abs(table([*base, one, one]) - table(base)).sum() for one in records)
    assert twice > calibrate(Identity(grid.n_rows), PureDP(1)).sensitivity  # control: two records


@pytest.mark.parametrize(("relation", "scale"), [("add_remove", 2), ("replace_one", 4)])
def test_what_is_released_is_the_histogram_plus_noise_of_the_law(relation, scale):
    model, X, truth = drawn(2, 50)
    names = model.classes_[truth]
    counts = evaluate(model, X, names, epsilon=inf).release.answers
    assert counts.sum() == 50
    draws = np.concatenate(
        [
            evaluate(model, X, names, epsilon=0.5, neighboring=relation).release.answers - counts
            for _ in range(100)
        ]
    ).ravel()

    def deviations(t):
        """Standard errors between the mean distance from 0 and that of discrete Laplace noise."""
        values = np.arange(60 * t)
        mass = np.tanh(1 / (2 * t)) * np.exp(-values / t) * np.where(values, 2, 1)
        mean = mass @ values
        spread = np.sqrt((mass @ (values - mean) ** 2) / len(draws))
        return abs(np.abs(draws).mean() - mean) / spread

    assert deviations(scale) < 6
    assert deviations(scale / 2) > 20  # control: half the noise


def test_every_record_counts_once_whatever_its_probability():
    for k in (2, 3):
        grid = ProbabilityGrid.of(k, 5, None)
        rng = np.random.default_rng(0)
        shares = np.vstack([rng.dirichlet(np.ones(k), 50), np.eye(k), np.full((1, k), 1 / k)])
        for label in range(k):
            rows = grid.rows(shares, np.full(len(shares), label))
            assert rows.shape == (len(shares),)
            assert set(rows) <= set(range(grid.n_rows))


def test_another_threshold_is_free_where_the_grid_has_it():
    model, X, truth = drawn(2)
    ledger = PrivacyLedger(epsilon=1)
    found = evaluate(model, X, model.classes_[truth], epsilon=1, ledger=ledger)
    assert found.release.is_private
    other = found.at(0.2061)
    assert other.release is found.release
    assert ledger.spent == 1
    assert other.figures["recall"].value > found.figures["recall"].value
    assert other.figures["auc"] == found.figures["auc"]
    with pytest.raises(ValueError, match=r"threshold=0\.21: .* nearest is 0\.2061"):
        found.at(0.21)


def test_the_record_and_the_display_show_the_release_alone():
    model, X, truth = drawn(2, 3000)
    found = evaluate(
        model, X, model.classes_[truth], rho=0.5, neighboring="replace_one", noise="research",
        noise_state=3,
    )  # fmt: skip
    record = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert record["is_private"] is False
    assert record["neighboring"] == "replace_one"
    assert np.array(record["noisy_counts"]).shape == (20, 2)
    for shown in (str(found), found._repr_html_(), repr(found), record["statement"]):
        assert "3000" not in shown
        assert "NOT A PRIVATE RELEASE" in shown
    assert "recall of yes" in str(found)
    assert isinstance(found, PrivateEvaluation)


def test_too_few_records_for_the_noise_are_said_to_be():
    model, X, truth = drawn(2, 30)
    found = evaluate(model, X, model.classes_[truth], epsilon=0.1, noise="research", noise_state=0)
    assert found.figures["auc"].value is None
    assert "too few records" in str(found)
    json.dumps(found.to_dict(), allow_nan=False)


BAD = [
    ({}, BudgetError, "no budget"),
    ({"epsilon": 1, "rho": 1}, BudgetError, "exactly one"),
    ({"epsilon": -1}, BudgetError, "epsilon"),
    ({"epsilon": 5}, BudgetError, "remains"),
    ({"epsilon": 1, "n_bins": 1}, ValueError, "n_bins=1"),
    ({"epsilon": 1, "threshold": 1.5}, ValueError, r"threshold=1\.5"),
    ({"epsilon": 1, "level": 95}, ValueError, "level=95"),
    ({"epsilon": 1, "noise": "none"}, ValueError, "noise='none'"),
    ({"epsilon": 1, "noise_state": 1}, ValueError, "never seedable"),
    ({"epsilon": 1, "neighboring": "near"}, ValueError, "neighboring"),
]


@pytest.mark.parametrize(("arguments", "error", "message"), BAD)
def test_what_is_refused_spends_nothing(arguments, error, message):
    model, X, truth = drawn(2, 40)
    ledger = PrivacyLedger(epsilon=2)
    with pytest.raises(error, match=message):
        evaluate(model, X, model.classes_[truth], ledger=ledger, **arguments)
    assert not ledger.charges


def test_bad_records_and_models_are_refused_and_spend_nothing():
    model, X, truth = drawn(2, 40)
    ledger = PrivacyLedger(epsilon=2)
    names = model.classes_[truth].astype(object)
    with pytest.raises(ValueError, match="different lengths") as caught:
        evaluate(model, X, names[:-1], epsilon=1, ledger=ledger)
    assert "40" not in str(caught.value)
    with pytest.raises(ValueError, match="no records"):
        evaluate(model, X[:0], names[:0], epsilon=1, ledger=ledger)
    with pytest.raises(ValueError, match="not in the categories"):
        evaluate(model, X, ["perhaps"] * 40, epsilon=1, ledger=ledger)
    with pytest.raises(ValueError, match="not in the categories"):
        evaluate(model, X + 1, names, epsilon=1, ledger=ledger)
    asking = BatchPredictionClassifier(Domain.from_sizes([2], n_classes=2))
    with pytest.raises(TypeError, match="queries for public"):
        evaluate(asking, X, names, epsilon=1, ledger=ledger)
    with pytest.raises(TypeError, match="without domain_, classes_, predict_proba"):
        evaluate(object(), X, names, epsilon=1, ledger=ledger)
    three, X, truth = drawn(3, 40)
    with pytest.raises(ValueError, match="3 classes"):
        evaluate(three, X, three.classes_[truth], epsilon=1, threshold=0.5, ledger=ledger)
    assert not ledger.charges


def test_delta_takes_the_law_of_less_noise_and_says_what_is_claimed():
    model, X, truth = drawn(2)
    y = model.classes_[truth]
    found = evaluate(model, X, y, epsilon=1, delta=1e-6)
    assert "(epsilon=1, delta=1e-06)-DP via PureDP(epsilon=1)" in found.statement
    assert found.to_dict()["delta"] == 1e-6
    terms = {"epsilon": 0.01, "delta": 0.01, "neighboring": "replace_one"}
    wide = evaluate(model, X, y, **terms)
    assert "delta=0.01)-DP via ZCDP" in wide.statement
    pure = evaluate(model, X, y, **terms | {"delta": 0})
    assert wide.release.law.variance < pure.release.law.variance
    with pytest.raises(BudgetError, match="no budget"):
        evaluate(model, X, y, delta=1e-6)
    with pytest.raises(BudgetError, match="delta=1e-06 and rho=1"):
        evaluate(model, X, y, rho=1, delta=1e-6)
