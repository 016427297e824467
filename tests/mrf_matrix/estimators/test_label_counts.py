"""A tree of labels whose cells have noisy counts: what they say, and of whom."""

import pickle
import re
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import stats
from sklearn.base import clone

from mrf_matrix import Attribute, Domain, PrivacyLedger
from mrf_matrix.estimators import LabelTreeClassifier, ReleasedClassifier
from mrf_matrix.kinds.labels import tree_text
from mrf_matrix.labels.plan import COUNTED_FROM
from mrf_matrix.labels.posterior import label_posterior
from mrf_matrix.reports.model_sections import labels_section
from mrf_matrix.study import effect, explained, importance

INFINITE = float("inf")
SIZES = (4, 3, 5, 2)
NAMES = ["yes", "no", "maybe"]
"""Of codes 0, 1 and 2: as `classes_` they are in another order."""

PLAIN = Domain.from_sizes(SIZES, n_classes=2)
NAMED = Domain(PLAIN.attributes, target=Attribute("y", categories=NAMES))
GENERATOR = np.random.default_rng(0)
X = GENERATOR.integers(0, SIZES, size=(400, 4))
Y = ((X[:, 0] > 1) ^ (GENERATOR.random(400) < np.where(X[:, 3] == 0, 0.45, 0.02))).astype(int)
SAID = np.array(NAMES)[np.minimum(Y + 2 * (X[:, 2] == 4), 2)]


def tree(domain=PLAIN, **changes):
    parameters = {"n_records": 400, "random_state": 0, "noise": "research", "noise_state": 0}
    return LabelTreeClassifier(domain, **parameters | changes)


def true_counts(model, y):
    """Return how many records of each class the cells of a model hold, one by one."""
    cells = model.tree_.cells(X)
    return np.array(
        [
            [(y[cells == cell] == c).sum() for c in model.domain_.classes]
            for cell in range(model.tree_.n_cells)
        ]
    )


def test_without_noise_counts_are_those_of_the_records_by_the_names_of_classes():
    model = tree(NAMED, epsilon=INFINITE).fit(X, SAID)
    assert model.classes_.tolist() == ["maybe", "no", "yes"]
    assert_array_equal(model.tree_.counts, true_counts(model, SAID))
    other = true_counts(model, SAID)[:, [2, 1, 0]]
    assert not np.array_equal(model.tree_.counts, other), "the control: in another order"
    assert model.tree_.counts.sum() == 400
    labels = np.array(NAMES)[model.tree_.labels]
    assert model.predict(X).tolist() == labels[model.tree_.cells(X)].tolist()


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{"epsilon": 0.9}, {"rho": 0.1}], ids=str)
def test_counts_of_many_fits_are_true_ones_and_the_noise_of_the_law(changes):
    models = [tree(NAMED, noise_state=seed, **changes).fit(X, SAID) for seed in range(30)]
    assert len({model.tree_.cuts for model in models}) > 1, "of several trees"
    noise = np.array([model.tree_.counts - true_counts(model, SAID) for model in models]).ravel()
    law = models[0].plan_.counts.law
    spread = (law.fourth_cumulant + 2 * law.variance**2) ** 0.5
    assert abs(noise.mean()) < 4 * (law.variance / len(noise)) ** 0.5
    assert abs((noise**2).mean() - law.variance) < 4 * spread / len(noise) ** 0.5
    reach = np.arange(-60, 61)
    upto = dict(zip(reach.tolist(), law.pmf(reach).cumsum(), strict=True))
    assert distance(noise, upto) < 1.9 / len(noise) ** 0.5
    wrong = np.array([model.tree_.counts - true_counts(model, SAID)[:, ::-1] for model in models])
    assert distance(wrong.ravel(), upto) > 0.08, "the control: counts of other classes"
    assert abs((wrong**2).mean() - law.variance) > 10 * spread / len(noise) ** 0.5


def distance(noise, upto):
    """Return the largest distance of distribution functions (Kolmogorov), on the integers."""
    seen = stats.ecdf(noise).cdf
    return max(abs(seen.evaluate(x) - whole) for x, whole in upto.items())


def test_research_noise_is_that_of_its_state_and_exact_noise_of_none():
    one, same, other = (tree(epsilon=1, noise_state=seed).fit(X, Y).tree_ for seed in (1, 1, 2))
    assert_array_equal(one.counts, same.counts)
    assert not np.array_equal(one.counts, other.counts)
    exact = [tree(epsilon=1, noise="exact", noise_state=None).fit(X, Y).tree_ for _ in range(2)]
    assert not np.array_equal(exact[0].counts, exact[1].counts)
    with pytest.raises(ValueError, match="noise_state"):
        tree(epsilon=1, noise="exact", noise_state=1).fit(X, Y)


def with_tree(model, **changes):
    """Return the model that another tree makes of a plan."""
    odd = label_posterior(model.plan_, replace(model.tree_, **changes))
    return ReleasedClassifier(replace(model.model_, posterior=odd))


@pytest.mark.parametrize("changes", [{"epsilon": 1}, {"rho": 0.5}, {"epsilon": INFINITE}], ids=str)
def test_what_is_predicted_follows_the_posterior(changes):
    """And so not the label of a cell that its counts outweigh."""
    model = tree(NAMED, **changes).fit(X, SAID)
    outweighed = with_tree(model, counts=np.roll(100 * model.tree_.counts, 1, axis=1))
    for one in (model, outweighed):
        shares, names = one.posterior_.probabilities(X), np.array(NAMED.classes)
        assert_array_equal(one.predict_proba(X), shares[:, np.argsort(names)])
        assert_array_equal(one.predict(X), names[shares.argmax(axis=1)])
        cells = one.posterior_.cells_at(X)
        assert_array_equal(cells, model.tree_.cells(X))
        assert_array_equal(one.predict(X), names[one.posterior_.labels[cells]])
        assert_array_equal(one.predict_or_abstain(X).data, one.predict(X))
        cut = one.posterior_.partition
        _, leaves = cut.forest(NAMED)
        said = names[one.posterior_.labels[leaves]].tolist()
        assert re.findall(r": (\w+) \(\d+%\)", tree_text(one.posterior_, NAMED)) == said
        section = labels_section(cut, one.posterior_, NAMED)
        assert [label for _, label, _ in section.rows] == said
    assert (model.predict(X) == names[model.tree_.labels[cells]]).mean() > 0.9
    if "epsilon" not in changes or changes["epsilon"] == INFINITE:  # Laplace noise reaches as far
        assert (outweighed.predict(X) == model.predict(X)).mean() < 0.1


def test_cells_differ_in_how_sure_they_are():
    model = tree(epsilon=2).fit(X, Y)
    counts = true_counts(model, Y) + 0.45
    shares = np.array([one.probabilities for one in model.posterior_.evidence])
    held = counts.sum(axis=1) > 20
    expected = (counts / counts.sum(axis=1, keepdims=True))[held]
    assert np.abs(shares[held] - expected).max() < 0.15
    assert np.abs(shares[held][::-1] - expected).max() > 0.3, "the control: of other cells"


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95])
def test_what_is_unsure_is_withheld(level):
    model = tree(epsilon=6).fit(X, Y)
    answers, (margins, below, above) = (
        ask(X, level=level) for ask in (model.predict_or_abstain, model.vote_intervals)
    )
    assert 0 < answers.mask.mean() < 1
    assert_array_equal(answers.mask, margins <= below)
    assert_array_equal(answers.data, model.predict(X))
    cells = model.posterior_.cells_at(X)
    for cell in np.unique(cells):
        evidence, here = model.posterior_.evidence[cell], cells == cell
        assert set(margins[here]) == {evidence.margin}
        assert {*zip(below[here], above[here], strict=True)} == {evidence.margin_widths(level)}
        ahead = evidence.shares.argmax(axis=1) == evidence.leading
        sure = evidence.weights @ ahead > (1 + level) / 2
        assert (answers.mask[here] != sure).all(), "what is sure is given, and nothing else"
    alone = tree(epsilon=0.95 * COUNTED_FROM / 400).fit(X, Y)
    assert alone.predict_or_abstain(X, level=level).mask.mean() in (0, 1), "labels are all alike"


def test_a_pure_cell_is_not_withheld_where_a_mixed_one_is_answered():
    model = tree(epsilon=INFINITE).fit(X, Y)
    counts = np.tile([57, 5], (8, 1))
    counts[4:] = [57, 0]
    mixed, pure = with_tree(
        model, counts=counts, labels=np.zeros(8, dtype=int)
    ).posterior_.evidence[3:5]
    assert pure.probabilities[0] > mixed.probabilities[0]
    for cell in (mixed, pure):
        assert cell.margin > cell.margin_widths(0.95)[0]
    # the negative control: one width for both sides, which reaches above the margin, holds 0
    logs = np.log(pure.shares)
    away = np.abs(logs[:, 0] - logs[:, 1] - pure.margin)
    assert pure.weights @ (away < pure.margin) < 0.95


def test_effects_are_weighed_by_the_sizes_of_cells():
    skewed = X[(X[:, 0] == 3) | (np.arange(400) % 5 == 0)]
    y = (skewed[:, 0] > 1).astype(int)
    model = tree(epsilon=20, n_records=45).fit(skewed, y)
    cells = model.tree_.cells(skewed)
    odds = model.decision_function(skewed)
    [size] = importance(model).values()
    assert size == pytest.approx(odds.std(), rel=0.1)
    assert len(set(cells)) > 2
    every = np.stack(np.unravel_index(np.arange(np.prod(SIZES)), SIZES), axis=1)
    assert size != pytest.approx(model.decision_function(every).std(), rel=0.1), "of even codes"
    names = tuple(PLAIN.names[i] for i in model.tree_.attributes)
    shown = effect(model, names)
    assert shown.shares.sum() == pytest.approx(1)
    top = np.take(shown.shares, 3, axis=model.tree_.attributes.index(0)).sum()
    assert top == pytest.approx((skewed[:, 0] == 3).mean(), abs=0.1)
    _, added = explained(model, skewed)
    np.testing.assert_allclose(added.sum(axis=1), odds)


def test_a_pickle_says_the_same_and_a_clone_nothing():
    model = tree(NAMED, epsilon=1).fit(X, SAID)
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.tree_.counts, model.tree_.counts)
    assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert again.export_text() == model.export_text()
    fresh = clone(model)
    assert not hasattr(fresh, "tree_")
    assert_array_equal(fresh.fit(X, SAID).tree_.counts, model.tree_.counts)
    assert_array_equal(model.fit(X, SAID).tree_.counts, fresh.tree_.counts)  # and once more


@pytest.mark.parametrize("changes", [{"epsilon": 1}, {"rho": 0.5}], ids=str)
def test_counts_are_as_near_to_the_truth_as_the_report_says(changes):
    model = tree(**changes).fit(X, Y)
    draw, counts = model.privacy_report_.measurements
    step = model.plan_.counts
    assert (draw.is_choice, counts.is_choice) == (True, False)
    assert counts.law == str(step.law)
    assert counts.column_sum == 1
    assert "class counts of 8 cells" in str(model.report_)
    ledger = PrivacyLedger(**changes)
    exact = tree(**changes, noise="exact", noise_state=None, ledger=ledger).fit(X, Y)
    assert ledger.remaining == 0
    assert "2 releases with exact" in exact.privacy_report_.statement
