"""A tree of labels, drawn: text and page say what is predicted, and no more."""

import re
from itertools import product

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from mrf_matrix import Attribute, Domain, LabelTreeClassifier
from mrf_matrix.reports.strength_section import labels_section

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
    """Return the paths to the leaves of a drawing and their labels."""
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
DRAWN = [(0.001, seed) for seed in range(20)] + [(0.2, seed) for seed in range(6)]
"""Rates and seeds of trees with four cells, and with eight."""


@pytest.mark.parametrize(("epsilon", "seed"), DRAWN)
def test_text_and_page_say_what_is_predicted_and_no_more(epsilon, seed):
    y = np.random.default_rng(seed).integers(0, 2, size=300)
    model = tree(epsilon=epsilon, noise_state=seed, random_state=seed).fit(X, y)
    rows = read_text(model.export_text())
    section = labels_section(model.tree_, model.posterior_, ["0", "1"], DOMAIN).rows
    if len(rows) == 1:
        assert section == (("all records", rows[0][1]),)
    else:
        assert rows == [(tuple(map(read_condition, re.split(", (?=x)", a))), b) for a, b in section]
    holds = np.array(
        [[all(x[i] in codes for i, codes in path) for x in EVERYWHERE.tolist()] for path, _ in rows]
    )
    assert (holds.sum(axis=0) == 1).all(), "a record is in one cell"
    assert holds.any(axis=1).all(), "no cell is out of reach"
    said = np.array([int(label) for _, label in rows])
    np.testing.assert_array_equal(said[holds.argmax(axis=0)], model.predict(EVERYWHERE))
    for path, _ in rows:
        for level in range(len(path)):
            below = {label for other, label in rows if other[:level] == path[:level]}
            assert len(below) > 1, "a cut with one label on both sides is left out"


def test_drawings_leave_out_what_tells_nothing():
    """The cases above are of both kinds: some drawings have fewer cells than their tree."""
    left_out = set()
    for epsilon, seed in DRAWN:
        y = np.random.default_rng(seed).integers(0, 2, size=300)
        model = tree(epsilon=epsilon, noise_state=seed, random_state=seed).fit(X, y)
        left_out.add(model.tree_.n_cells - len(read_text(model.export_text())))
    assert min(left_out) == 0
    assert max(left_out) > 1


def test_a_tree_of_one_label_is_drawn_as_that_label():
    odd = Domain(DOMAIN.attributes, target=Attribute("y", categories=["tree 0", ": no "]))
    for label in odd.required_target().labels:
        model = tree(odd, epsilon=INFINITE).fit(X, np.full(300, label))
        assert model.export_text() == label
        section = labels_section(model.tree_, model.posterior_, model.classes_.tolist(), odd)
        assert section.rows == (("all records", label),)


def test_only_a_fitted_tree_is_drawn():
    with pytest.raises(NotFittedError):
        tree().export_text()


def test_categories_that_read_like_leaves_are_drawn_as_they_are():
    odd = [Attribute(name, categories=["a: leaf 3", "b"]) for name in ("one", "two")]
    domain = Domain(odd, target=Attribute("y", categories=["no", "yes"]))
    x = np.array([["a: leaf 3", "b"], ["b", "b"], ["b", "a: leaf 3"], ["a: leaf 3", "a: leaf 3"]])
    model = LabelTreeClassifier(domain, epsilon=INFINITE, random_state=0)
    drawn = model.fit(x, ["no", "yes", "no", "yes"]).export_text().splitlines()
    assert sum(line.endswith(("no", "yes")) for line in drawn) == 4
    assert sum("a: leaf 3" in line for line in drawn) == 3


def test_the_page_says_what_each_cell_was_labelled_with():
    model = tree(noise="exact", noise_state=None).fit(X, Y)
    page = str(model.report_)
    assert "Labels of cells" in page
    assert f"right with probability {model.posterior_.evidence.right:.2f}" in page
    section = labels_section(model.tree_, model.posterior_, model.classes_.tolist(), DOMAIN)
    for path, label in section.rows:
        assert f"{path} | {label}" in re.sub(r" {2,}", " | ", page)
