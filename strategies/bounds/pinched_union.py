"""A certified bound for unions of tables of any size: pinching along totals and residuals.

For probabilities λ = ⊗λ_i of cells every strategy's loss is at least ``||W Λ^½||_*²``. Columns of
an attribute split into a few low ones L, which hold ``u = √λ`` and what couples totals to
residuals, and the high ones E; rows of each of its kinds F split into high ones, a partial isometry
Q with ``Q ≈ polar(F X⁻¹ E)``, and the rest. For a set of attributes, take high columns on it and
low ones elsewhere; on the rows of each table above it, high rows on it and the rest elsewhere.
These are orthogonal projections, and orthogonal to each other, so that

    ||W Λ^½||_* >= Σ_sets (Π σ_i) tr(Σ_T ⊗ H_Ti)^½,  σ_i = ||Qᵀ F E||_*,  H = Lᵀ Fᵀ (I - Q Qᵀ) F L,

whichever L, E and Q were chosen: that only decides how tight it is. Proof in docs/unions.md.

*Sums of Kronecker products too large for one spectrum.* Let E have orthonormal columns, M be
positive, ``S = Eᵀ M E`` and ``R = Eᵀ M² E``. With ``V = M^½ E S^-½``, an isometry,
``Vᵀ M^-½ V ≥ (Vᵀ M V)^-½``: ``x^-½`` is operator convex. So

    tr Eᵀ M^½ E = tr S^½ Vᵀ M^-½ V S^½ ≥ tr S^½ (S^-½ R S^-½)^-½ S^½.

``tr M^½`` is the sum of the left side over blocks of columns that are a basis together. The right
side is as large where M mixes no blocks.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import isqrt, prod
from weakref import WeakKeyDictionary

import numpy as np
from scipy import linalg

from strategies.bounds.dual_ascent import MARGIN, SPEED, root_traces
from strategies.bounds.largest_design import MOST_ROWS, LargestClimb, outer, rows_of_tables
from strategies.bounds.largest_design import TOLERANCE as LARGEST_TOLERANCE
from strategies.bounds.total_design import (
    MOST_STEPS,
    TINY,
    TOLERANCE,
    Design,
    TotalClimb,
    reached_beside_ones,
    residual_basis,
)
from strategies.operators import Array, fits
from strategies.operators.base.arrays import Longs
from strategies.problem.problem import Problem
from strategies.problem.table_union import TableUnion, problem_union

LARGEST_LOW = 1100  # columns of one spectrum
MOST_LOW, MOST_LOW_OF_SEVERAL = 5, 8  # low columns beside u, of an attribute of one kind or more
FEW_LOW = (0, 1, 2)
UNCOUPLED = 1e-9  # coupling of totals and residuals below which no low column is needed
KEPT = 1e-7  # share of the largest singular value from which a direction of high rows is kept
LARGEST_JOINED = 1600  # columns of which the whole spectrum is asked
BLOCKS_WORK = 3e8  # columns of all blocks times those of one, squared
MOST_ENTRIES = 2**21  # of blocks at a time
FAINT = 1e-6  # share of a block's largest eigenvalue below which a direction is left out
EPS = float(np.finfo(float).eps)
FEWEST_STEPS = 12  # of a climb, however little work is allowed

_CLIMBS: "WeakKeyDictionary[Problem, TotalClimb | LargestClimb]" = WeakKeyDictionary()
_BOUNDS: "WeakKeyDictionary[Problem, tuple[int, float]]" = WeakKeyDictionary()
"""The bound of every climb, and the step at which it was taken."""


@dataclass(frozen=True, eq=False)
class Split:
    """An attribute's columns after pinching, for each of its kinds."""

    low: list[Array]  # (1 + K, 1 + K), the total's column first
    high: list[Array]  # (h, h'): Grams' roots on high columns, rows of a kind's own
    norms: list[float]  # nuclear norms of those


def union_bound(design: Design, low: int | None = None) -> float:
    """Return a bound on the total error of every strategy, from a design's weights.

    `low`: low columns of an attribute beside its total, chosen by the size of spectra if None;
    where tables have unlike rows along an attribute fewer may be better, and some are tried.
    """
    union = design.weighted
    several = low is None and max(map(len, union.kinds)) > 1
    most = low_columns(union) if low is None else low
    tries = [(design, count) for count in sorted({most, *(FEW_LOW if several else ())})]
    tries += [(one, most) for one in flatten_weights(design)]
    tilts, unit = row_tilts(design), float(union.weights.max())
    squares = (union.weights / unit) ** 2
    roots = [Sectors(union, squares, splits_of(one, tilts, count)).total() for one, count in tries]
    return float((unit * max(roots)) ** 2 * (1.0 - MARGIN))


def flatten_weights(design: Design) -> list[Design]:
    """Return designs with even weights along attributes, where tables differ over many cells.

    Rows of single codes then have an even spectrum along them, and nothing is lost by bounding
    column by column.
    """
    union = design.weighted
    differ = [i for i, kinds in enumerate(union.kinds) if len(kinds) > 1]
    if prod(union.sizes[i] - 1 for i in differ) <= LARGEST_JOINED:
        return []
    chosen = [differ, *([i] for i in differ if union.twin[i] == i)]
    return [
        replace(
            design,
            weights=tuple(
                np.full(len(one), 1.0 / len(one)) if i in flat else one
                for i, one in enumerate(design.weights)
            ),
        )
        for flat in chosen
    ]


def splits_of(design: Design, tilts: Sequence[float], count: int) -> list[Split]:
    """Return the splits of all attributes, one for those that may change places."""
    union = design.weighted
    splits: list[Split] = []
    for i, kinds in enumerate(union.kinds):
        first = union.twin[i]
        if first < i and np.array_equal(design.weights[i], design.weights[first]):
            splits.append(splits[first])
            continue
        mine = union.table_members[:, i]
        shares = np.bincount(union.kind[mine, i], union.weights[mine] ** 2, len(kinds))
        grams = [kind.gram for kind in kinds]
        splits.append(split(design.weights[i], grams, shares / shares.max(), tilts[i], count))
    return splits


def low_columns(union: TableUnion) -> int:
    """Return the low columns of an attribute that keep the largest spectrum small."""
    powers = [len(chosen) for chosen in union.sets if set(chosen) <= set(union.moving_attributes)]
    most = MOST_LOW_OF_SEVERAL if max(map(len, union.kinds)) > 1 else MOST_LOW
    able = [k for k in range(2, most + 1) if sum(float(k) ** p for p in powers) <= LARGEST_LOW]
    return max(able, default=1)


def row_tilts(design: Design) -> list[float]:
    """Return every attribute's tilt, the weight of totals in its tables: it turns rows only."""
    union = design.weighted
    of_set, of_table = union.pairs
    residual, total = np.empty(union.count), np.empty(union.count)
    for i, (frame, kinds) in enumerate(zip(design.frames, union.kinds, strict=True)):
        gram = np.sum([kind.gram for kind in kinds], axis=0)
        residual[i] = max(frame.norms.max() * (gram * frame.inverse).sum(), TINY)
        total[i] = max(frame.z @ gram @ frame.z, TINY)
    inside = union.set_members[of_set]
    rest = union.table_members[of_table] & ~inside
    parts = np.where(inside, residual, np.where(rest, total, 1.0))
    each = union.weights[of_table] ** 2 * parts.prod(axis=1) / design.shares[of_set]
    own, others = (each @ inside) / residual, np.maximum(each @ rest, TINY) / total
    tilts = np.maximum((own / others) ** 2 * residual - total, 0.0)
    return np.minimum(tilts, 1e6 * (residual + total)).tolist()  # type: ignore[no-any-return]


def split(weights: Array, grams: list[Array], shares: Array, tilt: float, count: int) -> Split:
    """Split what rows reach of one attribute, and every kind's rows.

    Low columns beside u: ``(D + t)⁻¹ b`` for shifts t, with D and b the mixed Gram beside u and its
    coupling to u: a root of the Gram couples the two through these alone.
    """
    u = np.sqrt(weights / weights.sum())
    whole = np.column_stack([u, residual_basis(weights, reached_beside_ones(grams))])
    forms = [whole.T @ (u[:, None] * gram * u) @ whole for gram in grams]
    form = np.tensordot(shares, np.asarray(forms), 1)
    low, high = low_and_high(form, tilt, count)
    high = high @ linalg.eigh(high.T @ form @ high)[1]  # one basis for every kind
    tilted = form.copy()
    tilted[0, 0] += tilt
    lows, highs = [], []
    for one in forms:
        root = lowered_root(one)
        own = tilted if len(forms) == 1 else one + np.diag([tilt] + [0.0] * (len(one) - 1))
        left, lengths, _ = linalg.svd(root @ inverse_root(own) @ high, full_matrices=False)
        rows = left[:, lengths > KEPT * max(lengths.max(initial=0.0), TINY)]
        highs.append(rows.T @ root @ high)
        rest = root @ low
        rest = rest - rows @ (rows.T @ rest)
        lows.append(rest.T @ rest)
    return Split(lows, highs, [float(linalg.svdvals(one).sum()) for one in highs])


def low_and_high(form: Array, tilt: float, count: int) -> tuple[Array, Array]:
    """Return low columns, the first that of totals, and high ones, orthonormal together."""
    n = len(form)
    values, vectors = linalg.eigh(form[1:, 1:])
    values = np.maximum(values, 1e-13 * max(values.max(initial=0.0), TINY))
    coupling = vectors.T @ form[1:, 0]
    if np.abs(coupling).max(initial=0.0) < UNCOUPLED * form.max():
        count = 0
    count = min(count, n - 1)
    basis = vectors
    if 0 < count < n - 1:
        ends = np.log(values[0]), np.log(values[-1] + tilt)
        shifts = np.exp(np.linspace(*ends, count)) if count > 1 else values[-1:]
        krylov = coupling[:, None] / (values[:, None] + shifts)
        basis = vectors @ linalg.qr(krylov / np.abs(krylov).max(axis=0))[0]
    every = np.eye(n)
    every[1:, 1:] = basis
    return every[:, : 1 + count], every[:, 1 + count :]


def lowered_root(form: Array) -> Array:
    """Return a symmetric root of a form that is nowhere above the one given."""
    values, vectors = linalg.eigh(form)
    values = np.maximum(values - 8.0 * len(values) * EPS * values[-1], 0.0)
    return np.asarray((vectors * np.sqrt(values)) @ vectors.T)


def inverse_root(form: Array) -> Array:
    """Return ``H^(-1/2)``, faint eigenvalues raised: only rows depend on it."""
    values, vectors = linalg.eigh(form)
    values = np.maximum(values, 1e-14 * max(float(values[-1]), TINY))
    return np.asarray((vectors / np.sqrt(values)) @ vectors.T)


Factors = tuple[tuple[int, int], ...]
"""Attributes with low columns and the kind that a table has of each."""


@dataclass(frozen=True, eq=False)
class Sectors:
    """The terms of the bound, one for each set of attributes whose columns are high."""

    union: TableUnion
    squares: Array  # (tables,): squared weights
    splits: list[Split]

    def total(self) -> float:
        """Return the sum of all terms, equal ones computed once."""
        of_set, of_table = self.union.pairs
        order = np.argsort(of_set, kind="stable")
        ends = np.cumsum(np.bincount(of_set, minlength=len(self.union.sets)))[:-1]
        known: dict[object, float] = {}
        tables = np.split(of_table[order], ends)
        pairs = zip(self.union.sets, tables, strict=True)
        return sum(self.term(chosen, above, known) for chosen, above in pairs)

    def term(self, chosen: tuple[int, ...], above: Longs, known: dict[object, float]) -> float:
        groups = self.group_tables(chosen, above)
        largest = max(weight for group in groups.values() for weight in group.values())
        if largest <= 0.0:
            return 0.0
        first = next(iter(groups))
        apart = [n for n in range(len(chosen)) if any(kinds[n] != first[n] for kinds in groups)]
        same = [
            self.splits[chosen[n]].norms[first[n]] for n in range(len(chosen)) if n not in apart
        ]
        key = self.key(chosen if apart else (), groups, largest)
        if key not in known:
            lows = assemble(
                [
                    [(rest, c / largest, [self.splits[i].low[k] for i, k in rest])
                     for rest, c in group.items()]
                    for group in groups.values()
                ]
            )  # fmt: skip
            highs = [[self.splits[chosen[n]].high[kinds[n]] for n in apart] for kinds in groups]
            grams = [[high.T @ high for high in group] for group in highs]
            known[key] = joined_root(grams, lows) if apart else float(root_traces(lows).sum())
        return float(np.prod(same)) * float(np.sqrt(largest)) * known[key]

    def group_tables(
        self, chosen: tuple[int, ...], above: Longs
    ) -> dict[tuple[int, ...], dict[Factors, float]]:
        """Group the tables above a set by their kinds on it: the rest of each, and its weight."""
        groups: dict[tuple[int, ...], dict[Factors, float]] = {}
        for t in above:
            kind, weight, rest = self.union.kind[t], float(self.squares[t]), []
            for i in self.union.tables[t]:
                if i in chosen:
                    continue
                low = self.splits[i].low[kind[i]]
                if len(self.splits[i].low[0]) == 1:
                    weight *= float(low[0, 0])
                else:
                    rest.append((i, int(kind[i])))
            group = groups.setdefault(tuple(int(kind[i]) for i in chosen), {})
            group[tuple(rest)] = group.get(tuple(rest), 0.0) + weight
        return groups

    def key(
        self,
        chosen: tuple[int, ...],
        groups: dict[tuple[int, ...], dict[Factors, float]],
        largest: float,
    ) -> object:
        """Return a key that equal terms share: attributes are named by their splits."""
        name = {i: next(j for j, s in enumerate(self.splits) if s is self.splits[i])
                for group in groups.values() for rest in group for i, _ in rest}  # fmt: skip
        order = {i: n for n, i in enumerate(sorted(name, key=lambda i: (name[i], i)))}
        parts = [
            sorted(
                (tuple(sorted((order[i], k) for i, k in rest)), round(weight / largest, 13))
                for rest, weight in group.items()
            )
            for group in groups.values()
        ]
        return chosen, tuple(name[i] for i in order), tuple(map(tuple, parts))


def assemble(groups: Sequence[Sequence[tuple[Factors, float, list[Array]]]]) -> Array:
    """Return the matrices ``Σ c ⊗ H`` of several lists of tables, over the same columns.

    A column is a low one of some attributes, and the totals of all others.
    """
    place: dict[tuple[tuple[int, int], ...], int] = {}
    parts = []
    for number, tables in enumerate(groups):
        for rest, weight, grams in tables:
            matrix = np.full((1, 1), weight)
            cells: list[tuple[tuple[int, int], ...]] = [()]
            for (i, _), gram in zip(rest, grams, strict=True):
                matrix = np.kron(matrix, gram)
                cells = [(*cell, (i, k)) if k else cell for cell in cells for k in range(len(gram))]
            at = np.array([place.setdefault(cell, len(place)) for cell in cells])
            parts.append((number, at, matrix))
    result = np.zeros((len(groups), len(place), len(place)))
    for number, at, matrix in parts:
        result[number][np.ix_(at, at)] += matrix
    return result


def joined_root(grams: Sequence[Sequence[Array]], lows: Array) -> float:
    """Return a number below ``tr (Σ_g ⊗ G_gi ⊗ M_g)^½``, all of them symmetric and positive.

    A block has a single column of some axes, and all columns of the others.
    """
    sizes = [len(one) for one in grams[0]]
    columns = prod(sizes) * lows.shape[1]
    if columns <= LARGEST_JOINED:
        return float(
            root_traces(np.sum(full_products(grams, range(len(sizes)), lows), axis=0)).sum()
        )
    single = single_axes(grams, max(1, isqrt(int(BLOCKS_WORK / columns)) // lows.shape[1]))
    whole = full_products(grams, [n for n in range(len(sizes)) if n not in single], lows)
    first = np.array([outer([group[n].diagonal() for n in single]).ravel() for group in grams])
    second = np.array(
        [outer([(a[n] * b[n]).sum(axis=1) for n in single]).ravel() for a in grams for b in grams]
    )
    squares = np.einsum("gij,hjk->ghik", whole, whole).reshape(-1, *whole.shape[1:])
    step = max(1, MOST_ENTRIES // whole[0].size)
    parts = [slice(k, k + step) for k in range(0, first.shape[1], step)]
    return sum(
        blocks_root(
            np.tensordot(first[:, part].T, whole, 1), np.tensordot(second[:, part].T, squares, 1)
        )
        for part in parts
    )


def single_axes(grams: Sequence[Sequence[Array]], most: int) -> list[int]:
    """Return the axes asked column by column: those of matrices next to diagonal first."""
    beside = [
        sum(1.0 - float((one.diagonal() ** 2).sum() / max((one**2).sum(), TINY)) for one in axis)
        for axis in zip(*grams, strict=True)
    ]
    single: list[int] = []
    for axis in np.argsort(beside, kind="stable").tolist():
        if prod(len(one) for n, one in enumerate(grams[0]) if n not in single) > most:
            single.append(axis)
    return single


def blocks_root(first: Array, second: Array) -> float:
    """Return the right side above of blocks S and R, (blocks, r, r), rounded down.

    Directions that a block hardly has are left out: those kept are orthonormal too.
    """
    values, vectors = np.linalg.eigh(first)
    kept = values > FAINT * np.maximum(values[:, -1:], TINY)
    roots = np.sqrt(np.where(kept, values, 0.0))
    inverse = vectors * np.divide(1.0, roots, out=np.zeros_like(roots), where=kept)[:, None, :]
    inner = np.swapaxes(inverse, 1, 2) @ second @ inverse
    means, turned = np.linalg.eigh((inner + np.swapaxes(inner, 1, 2)) / 2.0)
    error = 8.0 * means.shape[-1] * EPS / FAINT * means[:, -1:]
    lengths = np.einsum("ki,kij->kj", roots**2, turned**2)
    return float((lengths / np.sqrt(np.maximum(means, 0.0) + error + TINY)).sum())


def full_products(grams: Sequence[Sequence[Array]], axes: Sequence[int], lows: Array) -> Array:
    """Return ``⊗ G_gi ⊗ M_g`` over some axes, for every g."""
    pairs = zip(grams, lows, strict=True)
    return np.array([reduce(np.kron, [*(group[n] for n in axes), low]) for group, low in pairs])


# One search a problem ---------------------------------------------------------------------------


def table_design(problem: Problem, work: float) -> Design | None:
    union = problem_union(problem)
    if union is None or not rows_fit(problem, union):
        return None
    if problem not in _CLIMBS:
        _CLIMBS[problem] = TotalClimb(union) if problem.is_total else LargestClimb(union)
    climb = _CLIMBS[problem]
    tolerance = TOLERANCE if problem.is_total else LARGEST_TOLERANCE
    fewest = 1 if climb.is_warm else FEWEST_STEPS
    steps = max(fewest, int(work / step_seconds(union, problem.is_total)))
    return climb.run(tolerance, min(MOST_STEPS, steps))


def rows_fit(problem: Problem, union: TableUnion) -> bool:
    """Tell whether the error is a total, or of single rows that are few enough to list."""
    rows = sum(kind.rows.shape[0] for kinds in union.kinds for kind in kinds)
    single = problem.aim.groups is None and fits((rows, max(union.sizes)), 64)
    return problem.is_total or single


def tables_bound(problem: Problem, work: float) -> float:
    design = table_design(problem, work)
    if design is None:
        return 0.0
    step, known = _CLIMBS[problem].step, _BOUNDS.get(problem)
    if known is None or known[0] != step:
        known = _BOUNDS[problem] = step, union_bound(design)
    return known[1]


def step_seconds(union: TableUnion, is_total: bool = True) -> float:
    own = set(union.twin) & set(union.moving_attributes)
    cubes = sum(60.0 * float(union.sizes[i]) ** 3 for i in own)
    seconds = 1e-4 * (1 + len(own)) + 2e-7 * len(union.pairs[0]) + cubes / SPEED
    if is_total:
        return seconds
    listed = min(rows_of_tables(union), MOST_ROWS) * 2.0 ** max(map(len, union.tables))
    return seconds + 2e-5 * len(union.pairs[0]) + 1e-8 * listed


def frames_fit(union: TableUnion) -> bool:
    return fits((max(union.sizes),) * 2, 64)
