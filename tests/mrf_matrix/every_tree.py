"""All trees with all labels over tiny tables, and all neighbours of these: whole numbers.

Probabilities are fractions of whole numbers, so that bounds are checked without rounding.
"""

from dataclasses import replace
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import cache, reduce
from itertools import product

import numpy as np
import pytest

from mrf_matrix import Domain
from mrf_matrix.forests.label_tree import LabelTree
from mrf_matrix.labels.draw import weights
from mrf_matrix.labels.plan import label_plan
from mrf_matrix.labels.questions import Trees
from mrf_matrix.mechanisms import CellCounts, PureDP
from mrf_matrix.mechanisms.measurement.mechanism import choice_signal

ORDERS = (1.05, 1.5, 2.0, 4.0, 16.0, 64.0)
SMALL, LARGE = PureDP(Fraction(1, 10)), PureDP(Fraction(3, 2))
SIZES = (2, 2)


SIGNAL = 25
"""Of plans: trees are chosen, and have four cells."""


class Counted:
    """Cells of a plan's attributes, and their records by class, as a question asks for them."""

    def __init__(self, codes, counts, sizes=SIZES):
        self.counted = CellCounts(codes, counts, sizes)

    def cells(self, features):
        return self.counted


def drawn(plan, data, bits):
    """Return what draws a tree by all rounds of a plan, from counts."""
    tree = None
    for one in plan.rounds:
        asked = Trees(plan, one, tree)
        tree = asked.tree(asked.draw(asked.scores(data), one.step, bits))
    return tree


@cache
def plan_of(budget, neighboring="add_remove", k=2):
    domain, one = Domain.from_sizes(SIZES, n_classes=k), choice_signal(budget, 1, neighboring)
    return label_plan(
        domain,
        budget,
        np.random.default_rng(0),
        n_records=max(1, round(SIGNAL / one)),
        neighboring=neighboring,
    )


def counted(plan):
    """Return a plan with the draw and the counts of one of so many records, in one round.

    The steps of 399 times as much as moves a label by one, which releases counts.
    """
    many = label_plan(
        plan.domain,
        plan.budget,
        np.random.default_rng(0),
        n_records=int(399 / plan.labels.choice_rate),
        neighboring=plan.neighboring,
    )
    assert len(many.rounds) == 1
    return replace(with_draw(plan, many.labels), counts=many.counts)


def with_draw(plan, step):
    """Return a plan of one round with another draw."""
    return replace(plan, rounds=(replace(plan.rounds[0], step=step),))


def with_marks(cases):
    """Return cases of (relation, number of classes, ...); those of most neighbours are slow."""
    return [
        pytest.param(*case, marks=pytest.mark.slow) if case[:2] == ("replace_one", 3) else case
        for case in cases
    ]


def types(k):
    """Return every record there can be: its codes, and its class."""
    return [(codes, c) for codes in product(*map(range, SIZES)) for c in range(k)]


@cache
def tables(k):
    """Return tables as numbers of records of every type: none, one, some, and many alike."""
    n = len(types(k))
    generator = np.random.default_rng(0)
    some = [generator.multinomial(size, np.full(n, 1 / n)) for size in (2, 3, 5, 9)]
    alike = [20 * one for one in np.eye(n, dtype=int)[:3]]
    ones = list(np.eye(n, dtype=int))
    return np.array([np.zeros(n, dtype=int), *ones[:: k - 1], *some, *alike])


@cache
def with_one_more(k):
    """Return each table, followed by all with one record more, (tables, 1 + types, types)."""
    n = len(types(k))
    moves = np.vstack([np.zeros((1, n), dtype=int), np.eye(n, dtype=int)])
    return tables(k)[:, None] + moves


def cell_counts(plan, data):
    """Return counts of the cells of every tree, (trees, ..., 4, k), record by record."""
    k, nothing = plan.n_classes, np.zeros(4, dtype=np.int64)
    found = []
    for cuts in product(plan.cuts, repeat=3):
        cells = LabelTree(cuts, nothing).cells(np.array([codes for codes, _ in types(k)]))
        counts = np.zeros((*data.shape[:-1], 4, k), dtype=np.int64)
        for number, (_, c) in enumerate(types(k)):
            counts[..., cells[number], c] += data[..., number]
        found.append(counts)
    return np.array(found)


def numbers(plan, data, *, times=1):
    """Return the weight of every tree with labels, whole numbers, (..., trees * k**4)."""
    table = weights(Fraction(plan.labels.choice_rate) * times, int(data.sum(axis=-1).max()))
    of_labels = table[cell_counts(plan, data)]  # (trees, ..., 4, k)
    found = reduce(
        lambda one, other: (one[..., :, None] * other[..., None, :]).reshape(*one.shape[:-1], -1),
        [of_labels[..., cell, :] for cell in range(4)],
    )
    return np.moveaxis(found, 0, -2).reshape(*data.shape[:-1], -1)


@cache
def law(plan, **changes):
    """Return weights and their sums for all tables and those with one record more."""
    found = numbers(plan, with_one_more(plan.n_classes), **changes)
    return found, found.sum(axis=-1, keepdims=True)


@cache
def cells(plan):
    """Return counts of the cells of every tree for these tables, (tables, ..., trees, 4 k)."""
    found = cell_counts(plan, with_one_more(plan.n_classes))
    return np.moveaxis(found, 0, -3).reshape(*found.shape[1:-2], len(found), -1)


def neighbours(plan, **changes):
    """Yield pairs of (weights, sums, counts of cells) of neighbours, both ways."""
    all_of_them = *law(plan, **changes), cells(plan)
    if plan.neighboring == "add_remove":
        fewer, more = ([one[:, part] for one in all_of_them] for part in np.s_[:1, 1:])
        yield fewer, more
        yield more, fewer
    else:
        moved = [one[:, 1:] for one in all_of_them]
        for i in range(1, moved[0].shape[1]):  # every pair of types, either way
            yield moved, [np.roll(one, i, axis=1) for one in moved]


def exponential(epsilon):
    """Return a fraction just below ``exp(epsilon)``."""
    context = Context(prec=60, rounding=ROUND_FLOOR)
    exact = context.divide(Decimal(epsilon.numerator), Decimal(epsilon.denominator))
    return Fraction(context.exp(exact)) * (1 - Fraction(1, 10**50))
