"""Labels of a public tree: where they are taken, the law of all cells together, what they say."""

from dataclasses import replace
from fractions import Fraction
from functools import reduce
from itertools import product

import numpy as np
import pytest
from scipy.stats import chisquare

from mrf_matrix import Attribute, Domain
from mrf_matrix.labels.depth import DEEPEST, FLAT, PUBLIC_TREES, depth_of_public
from mrf_matrix.labels.draw import cut_counts, grown_tree, rules_of
from mrf_matrix.labels.law import label_evidence
from mrf_matrix.labels.plan import PUBLIC_CONCENTRATIONS, label_plan
from mrf_matrix.labels.posterior import label_posterior
from mrf_matrix.mechanisms import ZCDP, PureDP
from mrf_matrix.mechanisms.selection.bits import Bits
from mrf_matrix.mechanisms.selection.permute_and_flip import flip_probabilities
from mrf_matrix.residual.step import ResidualStep

TENTH = PureDP(Fraction(1, 10))
SIZES = (4, 3, 5, 2, 6)


def planned(signal, k=2, sizes=SIZES, neighboring="add_remove", seed=0):
    """Return a plan of so many records that they move a label by a signal, at a tenth."""
    times = 10 if neighboring == "add_remove" else 20
    return label_plan(
        Domain.from_sizes(sizes, n_classes=k),
        TENTH,
        np.random.default_rng(seed),
        n_records=round(times * signal),
        neighboring=neighboring,
    )


@pytest.mark.parametrize("neighboring", ["add_remove", "replace_one"])
@pytest.mark.parametrize(
    ("k", "depth", "most"),
    [
        *((2, FLAT, 7), (3, FLAT, 13), (6, FLAT, 13)),
        *((7, DEEPEST, 20), (40, DEEPEST, 20)),
    ],
)
def test_trees_are_public_up_to_a_signal(k, depth, most, neighboring):
    within, above = (planned(most + more, k, neighboring=neighboring) for more in (0, 0.1))
    assert (within.is_public, above.is_public) == (True, False)
    assert (within.depth, within.n_cells, len(within.cuts)) == (depth, 1 << depth, depth)
    assert within.concentration == PUBLIC_CONCENTRATIONS[depth]
    (step,) = within.steps
    assert (step, step.budget, step.kind) == (within.labels, TENTH, "flips")
    assert step.choice_rate == TENTH.exact / (1 if neighboring == "add_remove" else 2)
    assert f"{1 << depth} cells of a public tree" in step.measured
    assert within.to_dict()["steps"][0]["rate"] == float(step.choice_rate)
    assert "public tree" in repr(within)
    assert "public tree" not in repr(above)


def test_trees_are_chosen_where_the_signal_is_not_known_to_be_small():
    faint = PureDP(Fraction(1, 10**9))
    for k, *_ in PUBLIC_TREES:
        assert depth_of_public(faint, 20, "add_remove", k, 9) is not None
        for budget, known in (
            (ZCDP(Fraction(1, 10**6)), 20),
            (PureDP(float("inf")), 20),
            (faint, None),
        ):
            assert depth_of_public(budget, known, "add_remove", k, 9) is None
    domain = Domain.from_sizes(SIZES, n_classes=2)
    plan = label_plan(domain, PureDP(0.003), np.random.default_rng(0), n_records=None)
    assert not plan.is_public


def test_permute_and_flip_has_its_own_price_under_zcdp():
    rho = ZCDP(Fraction(1, 50))
    flips, labels = (
        ResidualStep(kind, "", rho, "add_remove").choice_rate for kind in ("flips", "labels")
    )
    assert flips**2 / 2 <= rho.exact < (flips * (1 + Fraction(1, 10**9))) ** 2 / 2
    assert labels == pytest.approx(2 * flips)


@pytest.mark.parametrize("sizes", [SIZES, (9, 2, 1), (8,)])
@pytest.mark.parametrize("k", [2, 10])
def test_levels_cut_different_attributes_so_that_every_cell_has_codes(k, sizes):
    plan = planned(6, k, sizes=sizes)
    assert plan.depth == len({cut.attribute for cut in plan.cuts}) == len(plan.cuts)
    assert plan.depth == min(FLAT if k == 2 else DEEPEST, sum(size > 1 for size in sizes))
    tree, _ = drawn(plan, *records(plan))
    codes = np.array(list(product(*map(range, sizes))))
    assert set(tree.cells(codes)) == set(range(plan.n_cells))
    assert label_posterior(plan, tree).evidence[0].probabilities[0] > 0


def test_the_seed_draws_the_cuts():
    assert planned(20, k=10).cuts != planned(20, k=10, seed=1).cuts


def records(plan, count=40, seed=0):
    generator = np.random.default_rng(seed)
    codes = generator.integers(0, plan.domain.sizes, (count, plan.domain.n_attributes))
    return codes, np.eye(plan.n_classes, dtype=np.int64)[
        generator.integers(0, plan.n_classes, count)
    ]


def drawn(plan, codes, counts, seed=0):
    first = cut_counts(plan, codes[:, plan.attributes], counts)
    rules = rules_of(plan, first, Bits(np.random.default_rng(seed)))
    return grown_tree(plan, codes[:, plan.attributes], counts, first, rules)


@pytest.mark.parametrize("k", [2, 10])
def test_all_nodes_of_a_level_have_its_cut_whatever_the_records_are(k):
    plan = planned(6, k)
    for seed in range(5):
        codes, counts = records(plan, seed=seed)
        tree, of_cells = drawn(plan, codes, counts, seed)
        levels = [cut for level, cut in enumerate(plan.cuts) for _ in range(1 << level)]
        assert tree.cuts == tuple(levels)
        expected = np.zeros((plan.n_cells, k), dtype=np.int64)
        np.add.at(expected, tree.cells(codes), counts)
        np.testing.assert_array_equal(of_cells, expected)


def test_labels_of_cells_follow_the_law_of_their_own_records():
    plan = planned(6)
    codes, counts = records(plan)
    times, (_, of_cells) = 1500, drawn(plan, codes, counts)
    labels = [drawn(plan, codes, counts, seed)[0].labels for seed in range(times)]
    seen = np.bincount(np.array(labels) @ [8, 4, 2, 1], minlength=16)
    gaps = of_cells.max(axis=1) - of_cells.T
    expected, wrong = (
        times * reduce(np.multiply.outer, flip_probabilities(gaps, rate).T).ravel()
        for rate in (0.1, 0.3)
    )
    assert chisquare(seen, expected).pvalue > 1e-4
    assert chisquare(seen, wrong).pvalue < 1e-9  # the negative control


def joint_laws(plan, times=1):
    """Return the laws of all labels, by all tables of up to one record of each type."""
    codes = np.array(list(product(*map(range, plan.domain.sizes))))
    rate, found = float(plan.labels.choice_rate) * times, {}
    sides = np.zeros(len(codes), dtype=int)
    for cut in plan.cuts:
        sides = 2 * sides + cut.upper[codes[:, cut.attribute]]
    for table in product(range(2), repeat=2 * len(codes)):
        of_types = np.array(table).reshape(len(codes), 2)
        of_cells = np.zeros((plan.n_cells, 2), dtype=int)
        np.add.at(of_cells, sides, of_types)
        each = flip_probabilities(of_cells.max(axis=1) - of_cells.T, rate)
        found[table] = np.array(
            [
                np.prod(each[list(labels), range(plan.n_cells)])
                for labels in product((0, 1), repeat=4)
            ]
        )
    return found


def largest_loss(laws, neighboring):
    """Return the largest log ratio of neighbours' laws."""
    most = 0.0
    for table, here in laws.items():
        for i, j in product(range(len(table)), repeat=2):
            other = list(table)
            other[i] += 1
            if neighboring == "replace_one":
                other[j] -= 1
            if tuple(other) in laws:
                most = max(most, np.abs(np.log(here / laws[tuple(other)])).max())
    return most


@pytest.mark.parametrize("neighboring", ["add_remove", "replace_one"])
def test_all_labels_together_are_within_the_budget_for_all_neighbours(neighboring):
    plan = planned(6, sizes=(2, 2), neighboring=neighboring)
    assert plan.is_public
    most = largest_loss(joint_laws(plan), neighboring)
    assert 0.0999 < most <= 0.1 * (1 + 1e-9)
    assert largest_loss(joint_laws(plan, times=1.2), neighboring) > 0.1  # the negative control
    if neighboring == "replace_one":
        alone = replace(plan.labels, neighboring="add_remove")  # the rate of one record more
        twice = replace(plan, rounds=(replace(plan.rounds[0], step=alone),))
        assert largest_loss(joint_laws(twice), neighboring) > 0.19


@pytest.mark.parametrize(("k", "depth"), [(2, FLAT), (3, FLAT), (10, DEEPEST)])
def test_cells_say_what_labels_by_permute_and_flip_are_worth(k, depth):
    plan = planned(6, k)
    tree, _ = drawn(plan, *records(plan))
    model = label_posterior(plan, tree)
    first = label_evidence(k, plan.cell_signal, PUBLIC_CONCENTRATIONS[depth], flips=True)
    for label, found in zip(tree.labels.tolist(), model.evidence, strict=True):
        np.testing.assert_array_equal(found.probabilities, first.turned(label).probabilities)
    chosen = label_evidence(k, plan.cell_signal, PUBLIC_CONCENTRATIONS[depth])
    assert first.probabilities[0] > chosen.probabilities[0] * 1.001  # it hears more


def test_codes_without_an_order_are_cut_at_random():
    domain = Domain(
        [Attribute(f"x{i}", categories=list("abcdef")) for i in range(2)],
        target=Attribute("y", size=2),
    )
    found = {
        label_plan(domain, TENTH, np.random.default_rng(seed), n_records=60).cuts
        for seed in range(20)
    }
    assert len(found) > 10
