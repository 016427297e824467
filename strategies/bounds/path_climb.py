"""Weights on the cells of any domain that prove how good a strategy for paths can be.

A workload ``W = C P`` combines paths P, 0/1 rows over a product domain. With weights y >= 0 of sum
1 on the cells and ``M = C P diag(y) Pᵀ Cᵀ``, which has no side of the domain's length,

    (tr M^(1/2))²                       is below the loss of every strategy, and
    A = M^(-1/4) C P                    has the loss tr M^(1/2) · max_c q_c,

``q_c = v_cᵀ M^(-1/2) v_c`` for v_c the column of W at cell c: ``W A⁺ = M^(1/4)``, whose squared
norm is tr M^(1/2). Both meet at the best y, where no q_c is above tr M^(1/2). A share of
the weight is even, the rest on single cells that are generated: those with the largest q_c that a
search finds. Every weight is multiplied by a power of its ``q_c / tr M^(1/2)``. The search is no
proof: what is proved of q_c is the sensitivity of A (`strategies.operators.masks.heaviest_cell`).
"""

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from strategies.bounds.dual_ascent import SPEED
from strategies.bounds.path_bounds import (
    PatternRows,
    certified_bound,
    distinct_paths,
    even_bound,
    even_weights,
    heaviest_rows,
    is_plain,
    keep_heaviest,
    rounded_down_bound,
    weighted_gram,
)
from strategies.operators import Array, Operator, check_allocation, fits
from strategies.operators.base.arrays import Longs
from strategies.operators.base.operator import cached_per_value
from strategies.operators.masks.components import mask_rows
from strategies.operators.masks.packed_masks import unique_rows
from strategies.problem.problem import Problem

Floats = NDArray[np.float32]

MOST_PATHS = 12_000  # distinct paths, and rows over them, whose products are held
FIRST_CELLS = 6000
MOST_CELLS = 40_000  # cells that carry a weight of their own
ADDED = 1500  # cells that are generated in a round at most
CLIMBERS = 150  # cells that climb to larger norms, code by code
UPDATES = 4  # of the weights in a round
POWER = 4.0  # of an update; 1 climbs surely
SHARE = 0.3  # of all weight on single cells at first
LARGEST_GRAM = 1600  # rows, and paths behind them, that a bound keeps
GAP = 5e-3  # at which the climb for a bound stops
FAINT = 1e-8  # share of all weight below which a cell is dropped
CELL_SECONDS = 2e-6  # to tell a cell from others, and to hold it for a round
MET_SECONDS = 5e-10  # to look a path up at a code


@dataclass(frozen=True, eq=False)
class PathColumns:
    """The columns of a workload over paths, in coordinates of its row space."""

    basis: Array  # (r, p): B, with ``WᵀW = (B P)ᵀ (B P)`` and independent rows of B P
    masks: tuple[Floats, ...]  # (n_i, p) for each attribute that paths test
    tested: tuple[int, ...]

    @classmethod
    def of(cls, paths: PatternRows) -> "PathColumns":
        """Find the row space from the rows' inner products at equal weights of all cells."""
        mix = paths.mix.toarray()
        gram = mix @ weighted_gram(paths, even_weights(paths)) @ mix.T
        lengths = np.sqrt(np.maximum(np.diagonal(gram), 0.0))
        lengths[lengths == 0] = 1.0  # rows that cancel
        values, vectors = linalg.eigh(gram / np.outer(lengths, lengths), driver="evd")
        kept = values > 64 * len(values) * np.finfo(float).eps * values[-1]
        row_space = np.linalg.qr(lengths[:, None] * vectors[:, kept])[0]
        masks = paths.masks()
        tested = tuple(paths.varying_attributes)
        own = tuple(np.ascontiguousarray(masks[i].T, dtype=np.float32) for i in tested)
        return cls(row_space.T @ mix, own, tested)

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(len(mask) for mask in self.masks)

    def paths_over(self, cells: Longs) -> Floats:
        """Return the paths over cells given by codes (N, d), as a 0/1 array (N, p)."""
        result = self.masks[0][cells[:, 0]].copy()
        for i in range(1, len(self.masks)):
            result *= self.masks[i][cells[:, i]]
        return result

    def columns_at(self, cells: Longs) -> Floats:
        """Return the workload's columns at some cells, in the row space's coordinates (N, r)."""
        step = max(1, 2**26 // self.basis.shape[1])
        basis = self.basis.T.astype(np.float32)
        parts = [
            self.paths_over(cells[s : s + step]) @ basis for s in range(0, max(len(cells), 1), step)
        ]
        return np.concatenate(parts)


@dataclass(frozen=True, eq=False)
class CellWeights:
    """Even weights of all cells, and cells with weights beside them."""

    share: float  # of all cells together; the rest is on single cells
    cells: Longs  # (N, d)
    columns: Floats  # (N, r): the workload's columns there
    weights: Array  # (N,)


@dataclass(frozen=True, eq=False)
class PathProof:
    """The bound that weights prove, and the loss of their strategy."""

    weights: CellWeights
    inverse: Array  # (r, r): M^(-1/2)
    root: float  # tr M^(1/2)
    largest: float  # the largest q_c that a search found

    @property
    def gap(self) -> float:
        """Relative distance of the strategy from the bound, as far as the search can tell."""
        return self.largest / self.root - 1.0


@dataclass(eq=False)
class PathClimb:
    """Rounds of updates and generated cells, which can be taken up again where they ended."""

    paths: PatternRows
    generator: np.random.Generator
    spent: float = 0.0  # seconds of the reference machine
    even: Array = field(init=False)  # (r, r): M at even weights
    last: CellWeights | None = None
    best: PathProof | None = None  # of least gap
    highest: CellWeights | None = None  # of the largest bound
    root: float = 0.0  # that it proves, up to rounding

    @cached_property
    def columns(self) -> PathColumns:
        return PathColumns.of(self.paths)

    @property
    def least_seconds(self) -> float:
        q, p = self.paths.mix.shape
        first = round_seconds(q, p, self.paths.sizes)
        return 50.0 * q**3 / SPEED + first

    def run(self, tolerance: float, work: float) -> PathProof:
        if self.last is None:
            self.begin()
        while self.best is None or (
            self.best.gap > tolerance and self.spent + self.next_seconds() <= work
        ):
            self.spent += self.next_seconds()
            self.round()
        return self.best

    def next_seconds(self) -> float:
        held = FIRST_CELLS if self.last is None else len(self.last.cells)
        r, p = self.columns.basis.shape
        return round_seconds(r, p, self.columns.sizes, held)

    def begin(self) -> None:
        """Draw the first cells."""
        columns, paths = self.columns, self.paths
        self.spent += 50.0 * paths.mix.shape[0] ** 3 / SPEED
        basis = columns.basis
        self.even = basis @ weighted_gram(paths, even_weights(paths)) @ basis.T
        cells = self.draw_cells(FIRST_CELLS)
        even = np.full(len(cells), SHARE / len(cells))
        self.last = CellWeights(1 - SHARE, cells, columns.columns_at(cells), even)

    def draw_cells(self, count: int) -> Longs:
        """Return distinct cells drawn evenly."""
        sizes = self.columns.sizes
        return distinct_cells(
            np.stack([self.generator.integers(n, size=count) for n in sizes], axis=1)
        )

    def round(self) -> None:
        """Update the weights, then look for cells of larger norm and add them."""
        assert self.last is not None
        state, inverse, root, ratios = self.update_weights(self.last)
        fresh, columns, norms = self.generate_cells(state, inverse, ratios)
        proof = PathProof(state, inverse, root, float(max(ratios.max(), norms.max(initial=0.0))))
        if self.best is None or proof.gap < self.best.gap:
            self.best = proof
        kept = np.flatnonzero(state.weights > FAINT)
        kept = kept[np.argsort(-state.weights[kept])[: MOST_CELLS - ADDED]]
        new = np.full(len(fresh), 0.1 * (1 - state.share) / max(len(fresh), 1))
        weights = np.concatenate([state.weights[kept], new])
        total = weights.sum() + state.share
        self.last = CellWeights(
            state.share / total,
            np.concatenate([state.cells[kept], fresh]),
            np.concatenate([state.columns[kept], columns]),
            weights / total,
        )

    def update_weights(self, state: CellWeights) -> tuple[CellWeights, Array, float, Array]:
        """Multiply weights by powers of their ratios a few times.

        Returns weights, ``M^(-1/2)`` and ``tr M^(1/2)`` there, and the ratios q of the cells.
        """
        for update in range(UPDATES):
            inverse, root = self.spectrum(state)
            ratios = squared_norms(state.columns, inverse)
            if root > self.root:
                self.root, self.highest = root, state
            if update + 1 < UPDATES:
                whole = float((inverse * self.even).sum())
                weights = state.weights * np.maximum(ratios / root, 0.0) ** POWER
                share = max(state.share * (whole / root) ** POWER, 1e-4)
                total = weights.sum() + share
                state = replace(state, weights=weights / total, share=share / total)
        return state, inverse, root, ratios

    def spectrum(self, state: CellWeights) -> tuple[Array, float]:
        """Return ``M^(-1/2)`` and ``tr M^(1/2)`` at given weights."""
        scaled = state.columns * np.sqrt(state.weights).astype(np.float32)[:, None]
        moment = state.share * self.even + (scaled.T @ scaled).astype(np.float64)
        values, vectors = linalg.eigh(moment, driver="evd", overwrite_a=True, check_finite=False)
        values = np.maximum(values, 1e-13 * values[-1])
        return (vectors / np.sqrt(values)) @ vectors.T, float(np.sqrt(values).sum())

    def generate_cells(
        self, state: CellWeights, inverse: Array, ratios: Array
    ) -> tuple[Longs, Floats, Array]:
        """Return cells of large norm that carry no weight yet, with their columns and norms."""
        heavy = state.cells[np.argsort(-ratios)[:ADDED]]
        weighty = state.cells[np.argsort(-state.weights)[:ADDED]]
        near = self.change_codes(np.concatenate([heavy, weighty, heavy, weighty]))
        cells = unseen_cells(np.concatenate([near, self.draw_cells(4 * ADDED)]), state.cells)
        columns = self.columns.columns_at(cells)
        norms = squared_norms(columns, inverse)
        order = np.argsort(-norms)
        tops = self.climb_codes(cells[order[:CLIMBERS]], inverse)
        cells = np.concatenate([tops, cells[order[:ADDED]]])
        fresh = unseen_cells(cells, state.cells)
        columns = self.columns.columns_at(fresh)
        return fresh, columns, squared_norms(columns, inverse)

    def change_codes(self, cells: Longs) -> Longs:
        """Return cells with one attribute's code drawn again."""
        place = self.generator.integers(len(self.columns.sizes), size=len(cells))
        sizes = np.asarray(self.columns.sizes)[place]
        cells[np.arange(len(cells)), place] = self.generator.integers(sizes)
        return cells

    def climb_codes(self, cells: Longs, inverse: Array) -> Longs:
        """Give every attribute in turn the code of the largest norm."""
        cells = cells.copy()
        for i in self.generator.permutation(len(self.columns.sizes)):
            size = self.columns.sizes[i]
            each = np.repeat(cells, size, axis=0)
            each[:, i] = np.tile(np.arange(size), len(cells))
            norms = squared_norms(self.columns.columns_at(each), inverse)
            cells[:, i] = norms.reshape(-1, size).argmax(axis=1)
        return cells

    def certified_bound(self) -> float:
        """Return the bound at the best weights, rounded down: their moment in double precision."""
        state, paths = self.highest, self.paths
        if state is None:
            return 0.0
        moment = state.share * weighted_gram(paths, even_weights(paths))
        step = max(1, 2**24 // paths.n_paths)
        for start in range(0, len(state.cells), step):
            met = self.columns.paths_over(state.cells[start : start + step]).astype(np.float64)
            moment += (met.T * state.weights[start : start + step]) @ met
        roundings = paths.n_paths + len(state.cells) // step + 64
        total = float(state.share + state.weights.sum())
        return rounded_down_bound(paths, moment, roundings) / total


def squared_norms(columns: Floats, inverse: Array) -> Array:
    """Return ``vᵀ M^(-1/2) v`` of every column."""
    found = np.einsum("ij,ij->i", columns @ inverse.astype(np.float32), columns)
    return np.asarray(found, dtype=np.float64)


def distinct_cells(cells: Longs) -> Longs:
    return cells[unique_rows(np.ascontiguousarray(cells))[0]]


def unseen_cells(cells: Longs, known: Longs) -> Longs:
    first, _ = unique_rows(np.concatenate([known, cells]))
    return cells[first[first >= len(known)] - len(known)]


def round_seconds(r: int, p: int, sizes: tuple[int, ...], held: int = FIRST_CELLS) -> float:
    looked = 8 * ADDED + CLIMBERS * sum(sizes)
    work = UPDATES * (3.0 * held * r**2 + 25.0 * r**3) + looked * 2.0 * r * (p + r)
    met = looked * (CELL_SECONDS + MET_SECONDS * p * len(sizes))
    return 1e-3 + work / SPEED + met + held * CELL_SECONDS


@cached_per_value
def path_climb(problem: Problem) -> PathClimb | None:
    """Return the climb over the paths behind a workload, None where there are none, or too many.

    Search and certificate share it.
    """
    rows = mask_rows(problem.workload) if problem.is_total else None
    if rows is None or len(rows.masks[0]) * len(rows.masks) > 2 * 10**6:
        return None
    paths = fewer_rows(distinct_paths(keep_heaviest(rows)))
    side = max(paths.mix.shape)
    if not paths.varying_attributes or side > MOST_PATHS or not fits((side, side, 6)):
        return None
    return PathClimb(paths, np.random.default_rng(0))


def fewer_rows(paths: PatternRows) -> PatternRows:
    """Return rows of the same Gram, no more than there are paths."""
    q, p = paths.mix.shape
    if q <= p or p > MOST_PATHS or not fits((q, p), 16):
        return paths
    return replace(paths, mix=sparse.csr_array(np.linalg.qr(paths.mix.toarray(), mode="r")))


def paths_bound(workload: Operator, work: float) -> float | None:
    """Return a bound on the loss of every strategy, without n; None where no paths show.

    The heaviest `LARGEST_GRAM` rows and distinct paths are climbed with; more paths, of one row
    each, are bounded together at even weights.

    Raises MemoryCapError if the row Gram does not fit the memory cap.
    """
    rows = mask_rows(workload)
    if rows is None:
        return None
    every = distinct_paths(keep_heaviest(rows))
    if every.n_paths > LARGEST_GRAM and is_plain(every):
        return even_bound(every)
    paths = heaviest_rows(every, LARGEST_GRAM)
    side = max(paths.n_paths, paths.mix.shape[0])
    check_allocation("row Grams of the distinct paths", (side, side, 4))
    climb = PathClimb(paths, np.random.default_rng(0))
    if not paths.n_paths:
        return 0.0
    if not paths.varying_attributes or climb.least_seconds > work:
        return certified_bound(paths, even_weights(paths))
    climb.run(GAP, work)
    return climb.certified_bound()
