"""Questions of a tree of labels to private records: counts above cuts, all trees, cells of one."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.arrays import AnyInts, Longs
from mrf_matrix.base.fields import FieldError
from mrf_matrix.forests.label_tree import Cut, LabelTree
from mrf_matrix.labels.draw import (
    MOST_SUMMED,
    Exponential,
    JointCounts,
    MostAccurate,
    Rules,
    bytes_of,
    draw_tree,
    weights,
)
from mrf_matrix.labels.plan import LabelPlan, Round
from mrf_matrix.mechanisms import CellCounts
from mrf_matrix.mechanisms.counts import check_private_allocation
from mrf_matrix.mechanisms.selection import Bits
from mrf_matrix.release.plan import Data, Places, needs_records
from mrf_matrix.residual.step import ResidualStep
from strategies.operators import check_allocation

CHUNK = 1 << 20  # sides that are held at once, 8 MB, and parts of them three times

SINGLE = 2**24  # single precision holds whole numbers up to it

Reals = NDArray[np.floating]


def joint_counts(
    cuts: Sequence[Cut], attributes: Sequence[int], codes: AnyInts, counts: Longs, order: int
) -> JointCounts:
    """Return the counts of all records.

    `attributes`: those that are cut, rising; `codes` (n, m), `counts` (n, k): **Private**: cells of
    these attributes with their records by class. Sums are of whole numbers below 2**53, and so
    exact; of few records in single precision, below 2**24.

    Raises MemoryCapError if they are too large.
    """
    s, k = len(cuts), counts.shape[1]
    check_counts(s, order, k)
    above = np.moveaxis(np.zeros((k, *(s,) * order)), 0, -1)  # sums over few classes are quicker
    rows = max(1, CHUNK // s)
    kind = np.float32 if counts.sum(dtype=np.float64) < SINGLE else np.float64
    for start in range(0, len(codes), rows):
        part = slice(start, start + rows)
        sides = _sides(cuts, attributes, codes[part], kind)
        for c, of_class in enumerate(counts[part].T):
            there = of_class > 0
            above[..., c] += _counts_above(sides[there], of_class[there].astype(kind), order)
    return JointCounts(counts.sum(axis=0), above.astype(np.int64), order)


def check_counts(n_cuts: int, order: int, n_classes: int) -> None:
    """Raise MemoryCapError if counts above so many cuts are too large."""
    check_allocation("counts above several cuts at once", (*(n_cuts,) * order, n_classes))


def _sides(
    cuts: Sequence[Cut], attributes: Sequence[int], codes: AnyInts, kind: type[np.floating]
) -> Reals:
    """Return 1 where a cell lies above a cut and 0 below, (n, s)."""
    columns = {attribute: place for place, attribute in enumerate(attributes)}
    found = np.empty((len(codes), len(cuts)), dtype=kind)
    for place, cut in enumerate(cuts):
        found[:, place] = cut.upper[codes[:, columns[cut.attribute]]]
    return found


def _counts_above(sides: Reals, weights: Reals, order: int) -> Reals:
    """Return the weight above several cuts at once. `sides` (n, s); `weights` (n,)."""
    if order == 1:
        return np.asarray(weights @ sides)
    if order == 2:
        return np.asarray((sides * weights[:, None]).T @ sides)
    found = np.empty((sides.shape[1],) * order, dtype=sides.dtype)
    for first in range(sides.shape[1]):  # the others are no earlier: orders make no difference
        there = sides[:, first] > 0
        fewer = _counts_above(sides[there, first:], weights[there], order - 1)
        for place in range(order):
            part: list[int | slice] = [slice(first, None)] * order
            part[place] = first
            found[tuple(part)] = fewer
    return found


@dataclass(frozen=True, eq=False)
class Trees:
    """All trees below each cell of the last round, with the labels of their cells.

    A score is how many records are right: one record more raises it by 0 or 1, below one cell.
    """

    plan: LabelPlan
    round: Round
    above: LabelTree | None = None  # of the round before

    @property
    def kind(self) -> str:
        return self.round.step.kind

    @property
    def is_last(self) -> bool:
        """Whether labels are released: those of earlier rounds are not."""
        return self.round is self.plan.rounds[-1]

    @cached_property
    def cuts(self) -> tuple[Cut, ...]:
        return self.plan.cuts_of(self.round)

    def scores(self, data: Data) -> tuple[AnyInts, Longs, JointCounts | None]:
        """Return codes and counts of cells, and what the first draw needs: **private**.

        All that a later round may need is checked here: nothing is spent by it.

        Raises OverflowError, MemoryCapError if there are too many.
        """
        codes, counts = cell_counts(self.plan, data)
        if counts.sum(dtype=np.float64) >= MOST_SUMMED:
            raise OverflowError(
                "counts, whose number is private, add up to more than can be summed exactly: "
                "expected less than 2**53 records."
            )
        if self.above is not None:
            return codes, counts, None
        for later in self.plan.rounds[1:]:
            check_counts(len(self.plan.cuts_of(later)), later.depth, self.plan.n_classes)
        first = joint_counts(self.cuts, self.plan.attributes, codes, counts, self.round.depth)
        if not self.plan.budget.is_infinite:
            most = int(counts.sum(axis=0).max())
            rates = [Fraction(one.step.choice_rate) for one in self.plan.rounds]
            size = 2 * sum(bytes_of(rate, most) for rate in rates)  # put together from halves
            check_private_allocation("weights of up to so many records", (most + 1,), size)
        return codes, counts, first

    def draw(
        self, scores: tuple[AnyInts, Longs, JointCounts | None], step: ResidualStep, bits: Bits
    ) -> Places:
        """Draw below each cell, one after the other: their counts need not be held."""
        codes, counts, first = scores
        rules, attributes = self._rules(counts, step, bits), self.plan.attributes
        places = {id(cut): place for place, cut in enumerate(self.cuts)}
        own = np.zeros(len(codes), dtype=np.int64)
        if self.above is not None:
            own = self.above.cells(codes, attributes)
        chosen: list[int] = []
        for cell in range(1 if self.above is None else self.above.n_cells):
            here = own == cell
            below = first or joint_counts(
                self.cuts, attributes, codes[here], counts[here], self.round.depth
            )
            tree, _ = draw_tree(self.cuts, below, rules)
            chosen += [places[id(cut)] for cut in tree.cuts]
            chosen += tree.labels.tolist() if self.is_last else []
        return tuple(chosen)

    def _rules(self, counts: Longs, step: ResidualStep, bits: Bits) -> Rules:
        if self.plan.budget.is_infinite:
            return MostAccurate()
        most = int(counts.sum(axis=0).max())
        return Exponential(weights(Fraction(step.choice_rate), most), bits)

    def tree(self, chosen: Places) -> LabelTree:
        n_nodes, n_cells = (1 << self.round.depth) - 1, 1 << self.round.depth
        grown = []
        for start in range(0, len(chosen), self._length):
            part = chosen[start : start + self._length]
            cuts = tuple(self.cuts[place] for place in part[:n_nodes])
            labels = part[n_nodes:] or (0,) * n_cells
            grown.append(LabelTree(cuts, np.array(labels, dtype=np.int64)))
        return grown[0] if self.above is None else self.above.extend(grown)

    @property
    def _length(self) -> int:
        return (1 << self.round.depth) * (1 + self.is_last) - 1

    def check(self, chosen: Places) -> None:
        """Refuse what is no tree of these cuts and classes."""
        cells = 1 if self.above is None else self.above.n_cells
        nodes = (1 << self.round.depth) - 1
        parts = [chosen[i : i + self._length] for i in range(0, len(chosen), self._length)]
        if len(chosen) != cells * self._length or any(
            max(part[:nodes], default=0) >= len(self.cuts)
            or max(part[nodes:], default=0) >= self.plan.n_classes
            for part in parts
        ):
            raise FieldError("outcomes: expected places of cuts and classes for every cell.")


def cell_counts(plan: LabelPlan, data: Data) -> tuple[AnyInts, Longs]:
    """Return cells of the attributes that may be cut, and their records by class: **private**."""
    cells = data.cells(plan.attributes)
    if not isinstance(cells, CellCounts):
        raise needs_records("a tree of labels")
    return cells.codes, cells.counts


@dataclass(frozen=True, eq=False)
class TreeCells:
    """Records of each class in the cells of a tree that was released: one record is in one."""

    plan: LabelPlan
    tree: LabelTree
    kind: ClassVar[str] = "totals"

    @property
    def n_cells(self) -> int:
        return self.tree.n_cells

    @property
    def n_columns(self) -> int:
        return self.plan.n_classes

    @property
    def sizes(self) -> tuple[int, ...]:
        return (self.n_cells,)

    def counts(self, data: Data) -> CellCounts:
        codes, counts = cell_counts(self.plan, data)
        own = self.tree.cells(codes, self.plan.attributes)
        found = np.zeros((self.n_cells, self.n_columns), dtype=np.int64)
        np.add.at(found, own, counts)
        return CellCounts(np.arange(self.n_cells)[:, None], found, self.sizes)
