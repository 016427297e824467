"""A tree of labels whose cells have noisy counts: what they say, and of whom."""

import re
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import stats
from sklearn.exceptions import NotFittedError

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


# Text and page -----------------------------------------------------------------------------------


DOMAIN = Domain.from_sizes(SIZES, n_classes=2)
DRAWN_X = GENERATOR.integers(0, SIZES, size=(300, 4))
DRAWN_Y = (DRAWN_X[:, 0] > 1).astype(int)


def drawn_tree(domain=DOMAIN, **changes):
    parameters = {"n_records": 300, "random_state": 0, "noise": "research", "noise_state": 0}
    return LabelTreeClassifier(domain, **parameters | changes)


def read_condition(words):
    """Return the attribute of a condition and its codes, from its words."""
    name, _, codes = words.split(" ", 2)
    numbers = [int(one) for one in re.findall(r"\d+", codes)]
    if ".." in codes:
        numbers = list(range(numbers[0], numbers[1] + 1))
    return int(name.removeprefix("x")), frozenset(numbers)


def read_text(drawn):
    """Return the paths to the leaves of a drawing and what is said of them."""
    if "── " not in drawn:
        return [((), drawn)]
    path, rows = [], []
    for line in drawn.splitlines():
        indent, _, words = line.partition("── ")
        words, _, label = words.partition(": ")
        path = [*path[: len(indent) // 4], read_condition(words)]
        if label:
            rows.append((tuple(path), label))
    return rows


EVERYWHERE = np.array(list(product(*map(range, SIZES))))
DRAWN = [(0.001, seed) for seed in range(20)] + [(0.21, seed) for seed in range(6)]
"""Rates and seeds of trees with four cells, and with eight."""

COUNTED = [(epsilon, seed) for epsilon in (0.6, 3, INFINITE) for seed in range(4)]
"""Those whose cells have counts."""


def drawn_with(epsilon, seed):
    y = np.random.default_rng(seed).integers(0, 2, size=300)
    return drawn_tree(epsilon=epsilon, noise_state=seed, random_state=seed).fit(DRAWN_X, y)


def cells_of(rows):
    """Return the row of a drawing that every record is in."""
    holds = np.array(
        [[all(x[i] in codes for i, codes in path) for x in EVERYWHERE.tolist()] for path, _ in rows]
    )
    assert (holds.sum(axis=0) == 1).all(), "a record is in one cell"
    assert holds.any(axis=1).all(), "no cell is out of reach"
    return holds.argmax(axis=0)


def section_of(model):
    """Return the page's section of a tree of labels, its paths read."""
    section = labels_section(model.tree_, model.posterior_, DOMAIN)
    if section.rows[0][0] == "all records":
        return section, [((), *rest) for _, *rest in section.rows]
    rows = [(re.split(", (?=x)", path), rest) for path, *rest in section.rows]
    return section, [(tuple(map(read_condition, path)), *rest) for path, rest in rows]


@pytest.mark.parametrize(("epsilon", "seed"), DRAWN)
def test_text_and_page_say_what_is_predicted_and_no_more(epsilon, seed):
    model = drawn_with(epsilon, seed)
    rows = read_text(model.export_text())
    assert section_of(model)[1] == rows
    said = np.array([int(label) for _, label in rows])
    np.testing.assert_array_equal(said[cells_of(rows)], model.predict(EVERYWHERE))
    for path, _ in rows:
        for level in range(len(path)):
            below = {label for other, label in rows if other[:level] == path[:level]}
            assert len(below) > 1, "a cut with one label on both sides is left out"


@pytest.mark.parametrize(("epsilon", "seed"), COUNTED)
def test_with_counts_text_and_page_say_how_likely_every_cell_is_right(epsilon, seed):
    model = drawn_with(epsilon, seed)
    rows = read_text(model.export_text())
    section, on_page = section_of(model)
    assert section.header == ("cell", "label", "probability")
    where, shares = cells_of(rows), model.predict_proba(EVERYWHERE)
    reached = model.posterior_.cells_at(EVERYWHERE)
    assert len(set(zip(where, reached, strict=True))) == len(rows) == len(set(reached))
    for (path, text), (same, label, share) in zip(rows, on_page, strict=True):
        assert path == same
        here = where == rows.index((path, text))
        assert set(model.predict(EVERYWHERE[here])) == {int(label)}
        sure = shares[here].max(axis=1)
        assert np.ptp(sure) == 0
        assert (text, share) == (f"{label} ({sure[0]:.0%})", f"{sure[0]:.2f}")
    assert len({share for *_, share in on_page}) > 1, "they differ"


def test_drawings_leave_out_what_tells_nothing():
    """The cases above are of both kinds: some drawings have fewer cells than their tree."""
    left_out = set()
    for epsilon, seed in DRAWN:
        model = drawn_with(epsilon, seed)
        left_out.add(model.tree_.n_cells - len(read_text(model.export_text())))
    assert min(left_out) == 0
    assert max(left_out) > 1


def test_a_tree_of_one_label_is_drawn_as_that_label():
    odd = Domain(DOMAIN.attributes, target=Attribute("y", categories=["tree 0", ": no "]))
    for label in odd.required_target().labels:
        model = drawn_tree(odd, epsilon=0.21).fit(np.tile(DRAWN_X, (20, 1)), np.full(6000, label))
        assert model.export_text() == label
        section = labels_section(model.tree_, model.posterior_, odd)
        assert section.rows == (("all records", label),)
        counted = drawn_tree(odd, epsilon=INFINITE).fit(DRAWN_X, np.full(300, label)).export_text()
        lines = counted.splitlines()
        assert len(lines) > 1, "cells of one label differ in how sure they are"
        assert all(line.endswith(f": {label} (100%)") for line in lines if "%" in line)


def test_only_a_fitted_tree_is_drawn():
    with pytest.raises(NotFittedError):
        drawn_tree().export_text()


def test_categories_that_read_like_leaves_are_drawn_as_they_are():
    odd = [Attribute(name, categories=["a: leaf 3", "b"]) for name in ("one", "two")]
    domain = Domain(odd, target=Attribute("y", categories=["no", "yes"]))
    x = np.array([["a: leaf 3", "b"], ["b", "b"], ["b", "a: leaf 3"], ["a: leaf 3", "a: leaf 3"]])
    model = LabelTreeClassifier(domain, epsilon=INFINITE, random_state=0)
    drawn = model.fit(x, ["no", "yes", "no", "yes"]).export_text().splitlines()
    said = [re.search(r": (no|yes) \(\d+%\)$", line) for line in drawn]
    assert [one[1] for one in said if one] == ["yes", "no", "no", "yes"]
    assert sum("a: leaf 3" in line for line in drawn) == 3


@pytest.mark.parametrize("epsilon", [0.21, 1])
def test_the_page_says_what_each_cell_was_labelled_with(epsilon):
    model = drawn_tree(epsilon=epsilon, noise="exact", noise_state=None).fit(DRAWN_X, DRAWN_Y)
    page = str(model.report_)
    assert "Labels of cells" in page
    right = f"right with probability {model.predict_proba(DRAWN_X).max():.2f}"
    assert (right in page) == (model.tree_.counts is None) == (epsilon == 0.21)
    section, _ = section_of(model)
    for row in section.rows:
        assert " | ".join(row) in re.sub(r" {2,}", " | ", page)
