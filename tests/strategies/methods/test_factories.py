"""Families as functions with options: alone, beside words, and as factors of products."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import strategies
from strategies import Family, evaluate, examples, select
from strategies.operators import Dense, Gram, Identity, Kronecker, RowKronecker, Stack, as_operator

PREFIX = examples.prefix_sums
TABLE = Path(__file__).parents[3] / "docs" / "why" / "families.md"


@pytest.mark.parametrize("name", strategies.families())
def test_every_word_is_a_function(name: str) -> None:
    """Without options it is the family of that word, and the same object each time."""
    make: Callable[[], Family] = getattr(strategies, name)
    assert make() is make()
    assert (make().name, make().purpose) == (name, strategies.families()[name])
    assert name in strategies.__all__


def test_the_page_lists_exactly_the_families() -> None:
    section = TABLE.read_text("utf-8").split("## The families")[1].split("\n\n|")[1]
    rows = [row.split("|")[1:4] for row in section.split("\n\n")[0].splitlines()[2:]]
    listed = [
        (name.strip(" `"), norms.split(",")[0].strip(), text.strip()) for name, norms, text in rows
    ]
    norms = {frozenset({"l1", "l2"}): "both", frozenset({"l1"}): "l1", frozenset({"l2"}): "l2"}
    families = [getattr(strategies, name)() for name in strategies.families()]
    assert listed == [(one.name, norms[one.norms], one.purpose) for one in families]


@pytest.mark.parametrize(
    ("family", "name"),
    [
        (strategies.p_identity(p=3), "p_identity(p=3)"),
        (strategies.tree(branching=16), "tree(branching=16)"),
        (strategies.tree(weighted=False, branching=2), "tree(branching=2, weighted=False)"),
        (strategies.wavelet(weighted=True), "wavelet"),
        (strategies.levels(sizes=(1, 4)), "levels(sizes=(1, 4))"),
        (
            strategies.kronecker(strategies.wavelet(), strategies.p_identity(p=4)),
            "kronecker(wavelet, p_identity(p=4))",
        ),
    ],
)
def test_options_show_in_the_name(family: Family, name: str) -> None:
    assert family.name == name


def test_options_serve_alone_and_in_a_sequence() -> None:
    few = strategies.p_identity(p=2)
    alone = select(PREFIX(12), method=few, random_state=0, time_limit=0.2)
    assert (alone.method, alone.matrix.shape[0] <= 14) == ("p_identity(p=2)", True)
    several = (few, "p_identity", strategies.tree(branching=2), strategies.identity())
    beside = select(PREFIX(12), method=several, random_state=0, time_limit=1.0)
    assert {one.family for one in beside.candidates} == {
        "p_identity(p=2)", "p_identity", "tree(branching=2)", "identity",
    }  # fmt: skip
    assert beside.loss <= alone.loss * (1 + 1e-9)
    every = select(PREFIX(4), method=strategies.families(), random_state=0, time_limit=0.1)
    assert len(every.candidates) > 5
    with pytest.raises(ValueError, match="each name once"):
        select(PREFIX(4), method=("identity", strategies.identity()))


def test_options_are_what_they_were_when_given() -> None:
    """What a caller does to a list afterwards changes no family."""
    weights, sets = [1.0, 2.0], [[0, 1]]
    families = strategies.levels(weights=weights), strategies.marginals(attribute_sets=sets)
    workloads = PREFIX(16), examples.marginals((2, 3), 1)
    asked = list(zip(workloads, families, strict=True))
    before = [select(one, method=family, random_state=0).loss for one, family in asked]
    weights[1], sets[0][1] = 9.0, 0
    assert [select(one, method=family, random_state=0).loss for one, family in asked] == before


def test_rows_as_they_are_lose_what_their_noise_loses() -> None:
    workload = np.repeat(np.eye(3), [1, 8, 1], axis=0)
    plain = select(workload, method=strategies.workload_itself(weighted=False))
    assert plain.matrix.shape == workload.shape
    assert plain.loss == pytest.approx(evaluate(workload, workload).loss)
    assert plain.loss > select(workload, method="workload_itself").loss


def test_given_tables_are_what_is_measured() -> None:
    workload = examples.marginals((2, 3, 2), 1)
    family = strategies.marginals(attribute_sets=[(0, 1), (2,), (2,)])
    given = {"method": family, "random_state": 0, "time_limit": 0.2}
    for objective in ("total", "max"):
        found = select(workload, objective=objective, **given)
        assert set(found.matrix.attribute_sets) == {(0, 1), (2,)}
    every = select(workload, method="marginals", random_state=0, time_limit=0.2)
    assert every.loss <= select(workload, **given).loss * (1 + 1e-6)


BLOCKS = [(PREFIX(8), Identity(4)), (Identity(8), PREFIX(4))]
PRODUCTS = {
    "product": Kronecker([PREFIX(8), PREFIX(4)]),
    "union": Stack([Kronecker(block) for block in BLOCKS]),
}


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("name", PRODUCTS)
def test_families_of_factors(name: str, norm: str) -> None:
    workload = PRODUCTS[name]
    wavelets = select(workload, norm, method=strategies.kronecker(strategies.wavelet()))
    assert isinstance(wavelets.matrix, Kronecker)
    assert [factor.shape for factor in wavelets.matrix.factors] == [(8, 8), (4, 4)]
    again = evaluate(workload.to_dense(), wavelets.matrix.to_dense(), norm)
    assert again.loss == pytest.approx(wavelets.loss)
    mixed = strategies.kronecker(strategies.tree(branching=2), strategies.identity())
    found = select(workload, norm, method=mixed)
    assert found.matrix.factors[1].shape[0] == 4
    if name == "product":
        tree = select(PREFIX(8), norm, method=strategies.tree(branching=2)).loss
        assert found.loss == pytest.approx(tree * 10)  # of the Identity on prefix sums over 4


def test_families_of_one_name_are_two_families() -> None:
    """Factors are equal and names are: what each family finds is still its own."""
    both = frozenset({"l1", "l2"})
    found = [Identity(4), Dense(np.tri(4))]
    mine = [
        Family("mine", "merged", both, lambda problem: True, lambda *_, one=one: one)
        for one in found
    ]
    chosen = select(Kronecker([PREFIX(4)] * 2), method=strategies.kronecker(*mine))
    for factor, expected in zip(chosen.matrix.factors, found, strict=True):
        assert np.array_equal(factor.to_dense(), expected.to_dense())


ONES = Dense(np.ones((1, 4)))
GRID = RowKronecker.from_masks(
    [np.repeat(np.tri(4, dtype=bool), 4, axis=0), np.tile(np.tri(4, dtype=bool), (4, 1))]
)
LEFT_OUT: dict[str, object] = {
    "kronecker_selections": Stack([Kronecker([Identity(4), ONES]), Kronecker([ONES, Identity(4)])]),
    "boxes": GRID,
    "ordered_cells": np.vstack([np.eye(20), np.arange(20) < 6, np.ones((1, 20))]),
    "joint_tables": Stack([Kronecker([PREFIX(4), ONES]), Kronecker([ONES, PREFIX(4)])]),
}
"""What "auto" leaves to others, though the family can serve it."""


@pytest.mark.parametrize("name", LEFT_OUT)
def test_a_family_asked_for_by_name_serves_what_it_can(name: str) -> None:
    given = {"norm": "l2", "random_state": 0, "time_limit": 0.2}
    found = select(LEFT_OUT[name], method=name, **given)
    rows = as_operator(LEFT_OUT[name]).to_dense()
    assert evaluate(rows, found.matrix.to_dense(), "l2").loss == pytest.approx(found.loss)
    assert name not in {one.family for one in select(LEFT_OUT[name], **given).candidates}


def test_a_factor_of_a_gram_is_served_too() -> None:
    prefixes = np.tril(np.ones((8, 8)))
    workload = Kronecker([Gram(prefixes.T @ prefixes), Dense(np.ones((1, 3)))])
    found = select(workload, method=strategies.kronecker(strategies.tree(branching=2)))
    alone = select(PREFIX(8), method=strategies.tree(branching=2))
    assert found.loss == pytest.approx(alone.loss)


REFUSED: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "no rows": (lambda: strategies.p_identity(p=0), ValueError, "p=0: expected an integer"),
    "no integer": (lambda: strategies.p_identity(p=2.0), ValueError, "p=2.0"),
    "a truth": (lambda: strategies.p_identity(p=True), ValueError, "p=True"),
    "one child": (lambda: strategies.tree(branching=1), ValueError, "branching=1: expected"),
    "a word": (lambda: strategies.tree(weighted="no"), ValueError, "weighted='no'"),
    "wavelet": (lambda: strategies.wavelet(weighted=1), ValueError, "weighted=1"),
    "rows": (lambda: strategies.workload_itself(weighted=None), ValueError, "weighted=None"),
    "not nested": (lambda: strategies.levels(sizes=(1, 4, 6)), ValueError, "multiple of"),
    "not from cells": (lambda: strategies.levels(sizes=(2, 4)), ValueError, "1 first"),
    "one level": (lambda: strategies.levels(sizes=(1,)), ValueError, "two integers or more"),
    "weights": (lambda: strategies.levels(weights=(1, 2, 3)), ValueError, "expected 2 numbers"),
    "zero": (lambda: strategies.levels(weights=(1, 0)), ValueError, "above 0, one a level"),
    "no tables": (lambda: strategies.marginals(attribute_sets=[]), ValueError, "at least one"),
    "no factors": (lambda: strategies.kronecker(), ValueError, "one for each factor"),
    "a name": (lambda: strategies.kronecker("tree"), TypeError, "expected families"),
    "unknown": (lambda: strategies.tree(children=2), TypeError, "children"),
    "attribute": (
        lambda: select(
            examples.marginals((2, 3), 1), method=strategies.marginals(attribute_sets=[(0, 2)])
        ),
        ValueError,
        "distinct attribute numbers from 0 to 1",
    ),
    "an attribute twice": (
        lambda: select(
            examples.marginals((2, 3), 1), method=strategies.marginals(attribute_sets=[(0, 0)])
        ),
        ValueError,
        "distinct attribute numbers",
    ),
    "no noise in common": (
        lambda: strategies.kronecker(strategies.toeplitz(), strategies.row_space()),
        ValueError,
        r"kronecker\(toeplitz, row_space\): expected families for one noise",
    ),
    "too few tables": (
        lambda: select(
            examples.marginals((2, 3), 1), method=strategies.marginals(attribute_sets=[(0,)])
        ),
        ValueError,
        "do not contain",
    ),
    "too many factors": (
        lambda: select(
            PRODUCTS["product"], method=strategies.kronecker(*[strategies.identity()] * 3)
        ),
        ValueError,
        "3 families for 2 factors",
    ),
    "no product": (
        lambda: select(np.eye(5), method=strategies.kronecker(strategies.tree())),
        ValueError,
        "cannot serve",
    ),
    "Laplace": (
        lambda: select(np.eye(5), "l2", method=strategies.p_identity(p=2)),
        ValueError,
        "cannot serve",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_options(name: str) -> None:
    act, kind, message = REFUSED[name]
    with pytest.raises(kind, match=message):
        act()
