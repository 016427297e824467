"""A tree of labels whose cells have noisy counts: what they say, and of whom."""

import re
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from mrf_matrix import Attribute, Domain
from mrf_matrix.estimators import LabelTreeClassifier, ReleasedClassifier
from mrf_matrix.kinds.labels import tree_text
from mrf_matrix.labels.posterior import label_posterior
from mrf_matrix.reports.model_sections import labels_section

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


# Text and page -----------------------------------------------------------------------------------


DOMAIN = Domain.from_sizes(SIZES, n_classes=2)
DRAWN_X = GENERATOR.integers(0, SIZES, size=(300, 4))


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


def test_categories_that_read_like_leaves_are_drawn_as_they_are():
    odd = [Attribute(name, categories=["a: leaf 3", "b"]) for name in ("one", "two")]
    domain = Domain(odd, target=Attribute("y", categories=["no", "yes"]))
    x = np.array([["a: leaf 3", "b"], ["b", "b"], ["b", "a: leaf 3"], ["a: leaf 3", "a: leaf 3"]])
    model = LabelTreeClassifier(domain, epsilon=INFINITE, random_state=0)
    drawn = model.fit(x, ["no", "yes", "no", "yes"]).export_text().splitlines()
    said = [re.search(r": (no|yes) \(\d+%\)$", line) for line in drawn]
    assert [one[1] for one in said if one] == ["yes", "no", "no", "yes"]
    assert sum("a: leaf 3" in line for line in drawn) == 3
