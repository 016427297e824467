"""The tree of labels: conventions, what is claimed and paid, and what it says."""

from fractions import Fraction

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from mrf_matrix import Attribute, Domain, LabelTreeClassifier, PrivacyLedger, partial_counts
from mrf_matrix.estimators.labelled import label_tree
from mrf_matrix.forests.growth.private.labels import right_by_codes
from mrf_matrix.mechanisms import ZCDP, BudgetError, CellCounts, PureDP
from mrf_matrix.planning.plans.verdict import NoiseError, weighing
from mrf_matrix.reports.strength_section import labels_section
from mrf_matrix.study.effects import effect, explained, importance

INFINITE = float("inf")
SIZES = (4, 3, 5, 2)
DOMAIN = Domain.from_sizes(SIZES, n_classes=2)
GENERATOR = np.random.default_rng(0)
X = GENERATOR.integers(0, SIZES, size=(300, 4))
Y = (X[:, 0] > 1).astype(int)


@parametrize_with_checks([LabelTreeClassifier("from_data", epsilon=INFINITE, random_state=0)])
@pytest.mark.filterwarnings("ignore::mrf_matrix.PrivacyLeakWarning")
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


def tree(**changes):
    parameters = {"n_records": 300, "random_state": 0, "noise": "research", "noise_state": 0}
    return LabelTreeClassifier(DOMAIN, **parameters | changes)


def counts_of(model, x=X, y=Y):
    """Return the class counts of the cells that were chosen, by brute force."""
    codes = x[:, model.halves_.attributes]
    cells = [2 * model.halves_.upper[0][a] + model.halves_.upper[1][b] for a, b in codes]
    return np.array([[np.sum(y[np.equal(cells, c)] == k) for k in range(2)] for c in range(4)])


def test_without_noise_the_best_pair_says_its_largest_classes():
    model = LabelTreeClassifier(DOMAIN, epsilon=INFINITE, random_state=0, n_records=300).fit(X, Y)
    counts = counts_of(model)
    assert model.labels_.tolist() == counts.argmax(axis=1).tolist()
    assert 0 in model.halves_.attributes
    assert model.score(X, Y) == right_by_codes(counts) / 300
    assert model.privacy_report_.statement.startswith("NOT A PRIVATE RELEASE")


def test_classes_keep_their_names_in_any_order():
    domain = Domain.from_sizes(SIZES, n_classes=2)
    named = Domain(domain.attributes, target=Attribute("y", categories=["yes", "no"]))
    names = np.array(["no", "yes"])[Y]
    model = LabelTreeClassifier(named, epsilon=INFINITE, random_state=0).fit(X, names)
    plain = LabelTreeClassifier(DOMAIN, epsilon=INFINITE, random_state=0).fit(X, Y)
    assert model.classes_.tolist() == ["no", "yes"]
    assert (model.predict(X) == np.array(["no", "yes"])[plain.predict(X)]).all()


def test_probabilities_are_those_of_a_label():
    model = tree(epsilon=0.2).fit(X, Y)
    shares = model.predict_proba(X)
    said = model.posterior_.evidence.right
    assert 0.5 < said < 0.75  # uniform shares of two classes have .75 behind the larger one
    assert np.allclose(shares.max(axis=1), said)
    assert np.allclose(shares.sum(axis=1), 1)
    assert (model.predict(X) == shares.argmax(axis=1)).all()
    odds = model.decision_function(X)
    assert np.allclose(odds, np.log(shares[:, 1] / shares[:, 0]))


def test_intervals_are_as_wide_as_labels_are_worth():
    few, many = (tree(epsilon=e).fit(X, Y) for e in (0.01, 10.0))
    assert few.predict_or_abstain(X, level=0.9).mask.all()
    margins, half_widths = many.vote_intervals(X, level=0.9)
    assert np.ptp(margins) == np.ptp(half_widths) == 0
    assert margins[0] > few.vote_intervals(X)[0][0] > 0
    assert half_widths[0] < many.vote_intervals(X, level=0.95)[1][0]


def test_effects_are_of_the_two_attributes_that_were_cut():
    model = tree(epsilon=1).fit(X, Y)
    names = tuple(DOMAIN.names[i] for i in model.halves_.attributes)
    assert list(importance(model)) == [names]
    shown = effect(model, names)
    assert np.isfinite(shown.log_odds).all()
    _, added = explained(model, X)
    assert np.allclose(added.sum(axis=1), model.decision_function(X))


def test_the_tree_is_drawn_with_its_labels():
    model = tree(epsilon=INFINITE).fit(X, Y)
    drawn = model.export_text()
    first, second = (DOMAIN.names[i] for i in model.halves_.attributes)
    assert drawn.count(first) == 2
    assert drawn.count(second) == 4
    said = [int(line.rpartition(": ")[2]) for line in drawn.splitlines() if ": " in line]
    assert said == model.labels_.tolist()
    cells = model.halves_.tree(DOMAIN).apply(X)[:, 0]
    assert (model.predict(X) == model.labels_[cells]).all()
    with pytest.raises(NotFittedError):
        tree().export_text()


def test_categories_that_read_like_leaves_are_drawn_as_they_are():
    odd = [Attribute(name, categories=["a: leaf 3", "b"]) for name in ("one", "two")]
    domain = Domain(odd, target=Attribute("y", categories=["no", "yes"]))
    x = np.array([["a: leaf 3", "b"], ["b", "b"], ["b", "a: leaf 3"], ["a: leaf 3", "a: leaf 3"]])
    model = LabelTreeClassifier(domain, epsilon=INFINITE, random_state=0)
    drawn = model.fit(x, ["no", "yes", "yes", "no"]).export_text().splitlines()
    assert sum(line.endswith(("no", "yes")) for line in drawn) == 4
    assert sum("a: leaf 3" in line for line in drawn) == 3


def test_what_is_lost_after_the_charge_is_said(monkeypatch):
    def fails(*args):
        raise KeyboardInterrupt

    ledger = PrivacyLedger(epsilon=1)
    model = tree(ledger=ledger, epsilon=0.1, noise="exact", noise_state=None)
    monkeypatch.setattr(label_tree, "release_labels", fails)
    with pytest.raises(KeyboardInterrupt) as caught:
        model.fit(X, Y)
    assert "budget is spent" in caught.value.__notes__[0]
    assert float(ledger.spent) == 0.1
    assert model.plan_.budget == PureDP(0.1)


def test_the_page_says_what_each_cell_was_labelled_with():
    model = tree(noise="exact", noise_state=None).fit(X, Y)
    page = str(model.report_)
    assert "Labels of cells" in page
    assert f"right with probability {model.posterior_.evidence.right:.2f}" in page
    section = labels_section(model.posterior_, ["no", "yes"], DOMAIN)
    assert [label for _, label in section.rows] == [["no", "yes"][c] for c in model.labels_]
    assert all(DOMAIN.names[model.halves_.attributes[0]] in cell for cell, _ in section.rows)


def test_plans_are_short_to_read():
    plan = LabelTreeClassifier(Domain.from_sizes([60_000] * 4, n_classes=2), epsilon=1).plan()
    assert len(str(plan)) < 200
    assert len(repr(plan.candidates)) < 10_000


def test_counts_and_streams_release_what_records_do():
    by_records = tree(epsilon=0.3).fit(X, Y)
    by_counts = tree(epsilon=0.3).fit_counts(partial_counts(X, Y, DOMAIN))
    by_stream = tree(epsilon=0.3).fit_stream([(X[:100], Y[:100]), (X[100:], Y[100:])])
    for other in (by_counts, by_stream):
        assert other.halves_ == by_records.halves_
        assert other.labels_.tolist() == by_records.labels_.tolist()
        assert other.privacy_report_ == by_records.privacy_report_


def test_the_plan_is_what_is_spent_and_the_ledger_pays_once():
    ledger = PrivacyLedger(epsilon=1)
    model = LabelTreeClassifier(DOMAIN, epsilon=0.4, n_records=300, random_state=0, ledger=ledger)
    announced = model.plan()
    model.fit(X, Y)
    assert model.plan_ == announced
    assert announced.spent == PureDP(0.4)
    assert ledger.spent == announced.budget.exact
    with pytest.raises(BudgetError):
        LabelTreeClassifier(DOMAIN, epsilon=0.7, ledger=ledger).fit(X, Y)


def test_the_report_names_both_laws_and_parallel_composition():
    report = tree(noise="exact", noise_state=None).fit(X, Y).privacy_report_
    assert report.statement.startswith("Private release: PureDP(epsilon=1) under add_remove")
    assert "exponential mechanism; permute-and-flip" in report.statement
    assert [one.n_answers for one in report.measurements] == [1, 4]
    assert "parallel composition" in " ".join(report.notes)
    concentrated = LabelTreeClassifier(DOMAIN, rho=0.1, n_records=300).fit(X, Y).privacy_report_
    assert "permute" not in concentrated.statement


def test_delta_takes_the_law_of_the_larger_rate():
    assert LabelTreeClassifier(DOMAIN, epsilon=1, delta=1e-6).plan().budget == PureDP(1)
    assert isinstance(LabelTreeClassifier(DOMAIN, epsilon=0.1, delta=0.3).plan().budget, ZCDP)


def test_noise_that_leaves_nothing_is_refused_where_that_is_asked():
    with weighing(strict=True), pytest.raises(NoiseError, match="do not deploy"):
        tree(epsilon=0.001).fit(X, Y)
    with weighing(strict=True) as verdicts:
        tree(epsilon=1).fit(X, Y)
    assert verdicts[0].records == 75


@pytest.mark.parametrize(
    ("sizes", "changes", "message"),
    [
        ((3,), {}, "n_features=1"),
        ((3, 1), {}, "expected two attributes or more"),
        ((3, 2), {"n_classes": 1}, "names 1 classes"),
        ((3, 2), {"epsilon": 1e9}, "too large"),
        ((3, 2), {"n_records": 0.5}, "n_records"),
        ((3, 2), {"neighboring": "any"}, "neighboring"),
        ((3, 2), {"random_state": -1}, "random_state"),
    ],
)
def test_what_cannot_be_planned_is_refused_before_anything_is_spent(sizes, changes, message):
    ledger = PrivacyLedger(epsilon=10**10)
    changes = {"n_classes": 2, "n_records": 50} | changes
    domain = Domain.from_sizes(sizes, n_classes=changes.pop("n_classes"))
    model = LabelTreeClassifier(domain, ledger=ledger, **changes)
    with pytest.raises(ValueError, match=message):
        model.fit(np.zeros((5, len(sizes)), dtype=int), np.zeros(5, dtype=int))
    assert ledger.spent == 0


def test_it_is_not_fitted_before_it_is():
    with pytest.raises(NotFittedError):
        tree().predict(X)


@pytest.mark.parametrize("ahead", [2**34, 2**40])
def test_counts_beyond_all_rates_do_not_wrap(ahead):
    """Counts of cells may be large where they were made elsewhere: products stay within 64 bits."""
    domain = Domain.from_sizes([2, 2], n_classes=2)
    counts = CellCounts(
        np.array([[0, 0], [1, 1]]), np.array([[ahead, 0], [0, ahead]]), (2, 2), domain
    )
    for seed in range(20):
        model = LabelTreeClassifier(domain, epsilon=0.5, noise="research", noise_state=seed)
        assert model.fit_counts(counts).labels_[[0, 3]].tolist() == [0, 1]


@pytest.mark.parametrize("changes", [{"rho": 1e-25}, {"epsilon": Fraction(1, 10**400)}], ids=str)
def test_a_budget_that_buys_nothing_labels_at_random(changes):
    model = tree(**changes).fit(X, Y)
    assert model.predict_proba(X).max() == pytest.approx(0.5)


def test_nothing_is_paid_where_what_a_label_says_cannot_be_worked_out(monkeypatch):
    def fails(plan):
        raise MemoryError

    ledger = PrivacyLedger(epsilon=1)
    monkeypatch.setattr(label_tree, "evidence_of", fails)
    with pytest.raises(MemoryError):
        tree(ledger=ledger, epsilon=0.1, noise="exact", noise_state=None).fit(X, Y)
    assert ledger.spent == 0


def test_more_classes_are_named_by_more_cells():
    domain = Domain.from_sizes(SIZES, n_classes=6)
    model = LabelTreeClassifier(domain, epsilon=INFINITE, n_records=300, random_state=0)
    model.fit(X, X[:, 0] + X[:, 3])
    assert model.plan_.n_cells == len(model.labels_) == 8
    assert importance(model).keys() == {tuple(DOMAIN.names[i] for i in model.halves_.attributes)}
    assert len(set(model.predict(X))) > 2
