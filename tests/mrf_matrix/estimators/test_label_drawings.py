"""A tree of labels, drawn: text and page say what is predicted, and no more."""

import re
from itertools import product

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from mrf_matrix import Attribute, Domain
from mrf_matrix.estimators import LabelTreeClassifier
from mrf_matrix.reports.model_sections import labels_section

INFINITE = float("inf")
SIZES = (4, 3, 5, 2)
DOMAIN = Domain.from_sizes(SIZES, n_classes=2)
GENERATOR = np.random.default_rng(0)
X = GENERATOR.integers(0, SIZES, size=(300, 4))
Y = (X[:, 0] > 1).astype(int)


def tree(domain=DOMAIN, **changes):
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
    return tree(epsilon=epsilon, noise_state=seed, random_state=seed).fit(X, y)


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
        model = tree(odd, epsilon=0.21).fit(np.tile(X, (20, 1)), np.full(6000, label))
        assert model.export_text() == label
        section = labels_section(model.tree_, model.posterior_, odd)
        assert section.rows == (("all records", label),)
        counted = tree(odd, epsilon=INFINITE).fit(X, np.full(300, label)).export_text()
        lines = counted.splitlines()
        assert len(lines) > 1, "cells of one label differ in how sure they are"
        assert all(line.endswith(f": {label} (100%)") for line in lines if "%" in line)


def test_only_a_fitted_tree_is_drawn():
    with pytest.raises(NotFittedError):
        tree().export_text()


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
    model = tree(epsilon=epsilon, noise="exact", noise_state=None).fit(X, Y)
    page = str(model.report_)
    assert "Labels of cells" in page
    right = f"right with probability {model.predict_proba(X).max():.2f}"
    assert (right in page) == (model.tree_.counts is None) == (epsilon == 0.21)
    section, _ = section_of(model)
    for row in section.rows:
        assert " | ".join(row) in re.sub(r" {2,}", " | ", page)
