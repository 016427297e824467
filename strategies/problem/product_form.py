r"""Attributes behind the columns of a plain matrix: what a product's structure would have said.

A workload that is given entry by entry shows no attributes. Yet its columns may be the cells of a
product domain, in the order of `numpy.ravel`. Two signs of that are looked for.

*Rows.* A row that is a Kronecker product ``r_1 ⊗ r_2`` has rank one as an ``n_1 x n_2`` table.
Where all rows have rank one at each of the divisors :math:`m_1 | m_2 | \dots` of n, they are
products of vectors over the attributes :math:`m_1, m_2 / m_1, \dots`: each table splits them once.
Rows that are all combinations of given factors are one Kronecker product. Others whose nonzeros are
all equal are boxes, `RowKronecker`: such a row is a product where it holds as many cells as the
codes that it meets on either side multiply to, so that nothing is written out.

*Gram.* Averaged over all cells that agree in the same attributes, ``WᵀW`` has the eigenvalue
:math:`n w_U / p_U` on the component of each attribute set U. Weighted marginals then have the
loss :math:`(\sum_U \sqrt{w_U p_U})^2` under Gaussian noise, the Identity :math:`n \sum_U w_U`.
Sizes are taken where the first is well below the second.

Every sign is checked on the whole matrix. A wrong guess would cost time, and no accuracy.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import isqrt, prod

import numpy as np

from strategies.operators import (
    Dense,
    Kronecker,
    Operator,
    RowKronecker,
    RowScaled,
    Scaled,
    Sparse,
    Stack,
    fits,
)
from strategies.operators.base.arrays import Array, Bools, Longs, Real
from strategies.operators.kronecker import kronecker_blocks
from strategies.operators.masks.anova import distinct_sets, gram_energies
from strategies.operators.masks.packed_masks import unique_rows
from strategies.problem.merging import ENTRY_BYTES, EqualValuedRows, equal_valued_rows, is_plain

MOST_ENTRIES = 2**22  # of a matrix of any numbers whose rows are looked at
PROBES = 16  # rows on which divisors are tried
LARGEST_GRAM = 1024  # cells up to which orders of attributes are compared by the Gram
MOST_ORDERS, MOST_ATTRIBUTES = 24, 10
GAIN = 0.98
"""Marginals are worth a search below this part of the Identity's loss."""

ROUNDING = 1e-12  # of a row's largest entry


def with_attributes(workload: Operator) -> Operator:
    """Return a workload of the same Gram that shows its attributes, or the workload itself.

    Rows may change their order. Operators that show attributes, or are not explicit, stay, but for
    products of one row each on top of each other.
    """
    if not is_plain(workload) or workload.shape[1] < 4:
        return rows_of_products(workload) or workload
    held = equal_valued_rows(workload.compact()) if fits((workload.entries,), ENTRY_BYTES) else None
    rows = np.empty((0, 0))
    if held is not None:
        held = held.take(np.flatnonzero(held.lengths))
        sizes = box_sizes(held)
        if len(sizes) > 1:
            masks, values = masks_of(held, sizes), np.abs(held.values)
            return kronecker_stack(masks, values) or weighted_masks(masks, values)
    elif workload.shape[0] * workload.shape[1] <= MOST_ENTRIES and fits(workload.shape, 8):
        rows = workload.to_dense()
        sizes = product_sizes(rows)
        if len(sizes) > 1:
            kept = rows[rows.any(axis=1)]
            scales = np.abs(scales_of(kept))
            return kronecker_stack(factors_of(kept, sizes), scales) or Dense(rows, sizes)
    sizes = () if isinstance(workload, RowScaled | Scaled) else sizes_by_gram(workload)
    if len(sizes) < 2:
        return workload
    return Dense(rows, sizes) if rows.size else Sparse(workload.to_sparse(), sizes)


def rows_of_products(workload: Operator) -> Operator | None:
    """Return stacked Kronecker products of one 0/1 row each as rows of masks, else None.

    No more of them than there are attributes stay a union of tables, which has families of its own.
    """
    blocks = kronecker_blocks(workload) if isinstance(workload, Stack) else None
    if not blocks or any(block.shape[0] > 1 for _, block in blocks):
        return None
    if len(blocks) <= len(blocks[0][1].factors):
        return None
    parts = [[factor.to_dense()[0] for factor in block.factors] for _, block in blocks]
    if len({tuple(map(len, part)) for part in parts}) > 1:
        return None
    masks = [np.stack(same) for same in zip(*parts, strict=True)]
    if not all(((mask == 0) | (mask == 1)).all() for mask in masks):
        return None
    return weighted_masks(masks, np.array([weight for weight, _ in blocks]))


def weighted_masks(masks: Sequence[Array | Bools], values: Real) -> Operator:
    """Return rows of masks, each times its value."""
    rows = RowKronecker.from_masks(masks)
    if np.ptp(values) > 0:
        return RowScaled(values, rows)
    return rows if values[0] == 1 else Scaled(values[0].item(), rows)


def masks_of(rows: EqualValuedRows, sizes: Sequence[int]) -> list[Bools]:
    """Return the codes of each attribute that every row meets, (q, n_i) each."""
    q = len(rows.values)
    number, rest, found = np.repeat(np.arange(q), rows.lengths), rows.cells, []
    for size in reversed(sizes):
        rest, code = np.divmod(rest, size)
        mask = np.zeros((q, size), dtype=np.bool_)
        mask[number, code] = True
        found.append(mask)
    return found[::-1]


def are_boxes(rows: EqualValuedRows, sizes: Sequence[int]) -> Bools:
    """Tell which rows hold all cells of the codes that they meet on every attribute."""
    widths = [mask.sum(axis=1, dtype=np.float64) for mask in masks_of(rows, sizes)]
    return np.asarray(np.prod(widths, axis=0) == rows.lengths)


def box_sizes(rows: EqualValuedRows) -> tuple[int, ...]:
    """Return sizes over which the cells of every row are a box, as many as there are.

    Divisors are tried on some rows, and what serves them on all; rows that it does not serve join
    the sample.

    >>> box_sizes(equal_valued_rows(np.kron(np.tri(3), np.eye(2))))
    (3, 2)
    """
    n, sample = rows.n, np.argsort(rows.lengths, kind="stable")[:: 1 + len(rows.lengths) // PROBES]
    while fits((len(sample), n), 1):
        probe, cuts = rows.take(sample), [1]
        for divisor in divisors(n):
            if divisor % cuts[-1] == 0 and are_boxes(probe, (divisor, n // divisor)).all():
                cuts.append(divisor)
        sizes = tuple(high // low for low, high in pairwise([*cuts, n]))
        if len(sizes) == 1 or not fits((len(rows.lengths), sum(sizes)), 8):
            break
        bad = np.flatnonzero(~are_boxes(rows, sizes))
        if not len(bad):
            return join_sizes(sizes, states_of(masks_of(rows, sizes)))
        sample = np.concatenate([sample, bad[:PROBES]])
    return (n,)


def product_sizes(rows: Array) -> tuple[int, ...]:
    """Return sizes of attributes over which every row is a product: as many as there are.

    >>> product_sizes(np.kron(np.tri(3), [[1.0, 2.0], [3.0, 1.0]]))
    (3, 2)
    >>> product_sizes(np.eye(8))
    (8,)
    """
    n, nonzero = rows.shape[1], rows[rows.any(axis=1)]
    cuts = [1]
    for divisor in divisors(n):
        if divisor % cuts[-1] == 0 and has_rank_one(nonzero, divisor):
            cuts.append(divisor)
    sizes = tuple(high // low for low, high in pairwise([*cuts, n]))
    return join_sizes(sizes, states_of(factors_of(nonzero, sizes)))


def divisors(n: int) -> list[int]:
    small = [m for m in range(2, isqrt(n) + 1) if n % m == 0]
    return sorted({*small, *(n // m for m in small)})


def has_rank_one(rows: Array, first: int) -> bool:
    """Tell whether each nonzero row is a product over `first` x the rest of its cells."""
    probe = rows[:: max(1, len(rows) // 8)]
    return bool(_has_rank_one(probe, first) and _has_rank_one(rows, first))


def _has_rank_one(rows: Array, first: int) -> bool:
    tables = rows.reshape(len(rows), first, -1)
    left, right, pivots = crosses(tables)
    return bool((np.abs(tables - left[:, :, None] * (right / pivots[:, None])[:, None])
                 <= ROUNDING * np.abs(pivots)[:, None, None]).all())  # fmt: skip


def crosses(tables: Array) -> tuple[Array, Array, Array]:
    """Return the column and the row of each table through its largest entry, and that entry."""
    number = np.arange(len(tables))
    place = np.abs(tables).reshape(len(tables), -1).argmax(axis=1)
    i, j = np.divmod(place, tables.shape[2])
    return tables[number, :, j], tables[number, i], tables[number, i, j]


def factors_of(rows: Array, sizes: Sequence[int]) -> list[Array]:
    """Return the factors of rows that are products, (q, n_i) each, of largest entry 1 in size."""
    factors, rest = [], rows
    for size in sizes[:-1]:
        left, right, pivots = crosses(rest.reshape(len(rest), size, -1))
        factors.append(left / pivots[:, None])
        rest = right
    return [*factors, rest / scales_of(rest)[:, None]]


def scales_of(rows: Array) -> Array:
    return np.asarray(rows[np.arange(len(rows)), np.abs(rows).argmax(axis=1)])


def states_of(factors: Sequence[Array | Bools]) -> Longs:
    """Tell of every row and attribute whether it leaves it, 0, picks one code, 1, or neither, 2."""
    states = []
    for one in factors:
        spread = np.ptp(np.asarray(one, dtype=np.float64), axis=1)
        free = spread <= ROUNDING * np.abs(one).max(axis=1)
        states.append(np.where(free, 0, np.where(np.count_nonzero(one, axis=1) == 1, 1, 2)))
    return np.stack(states, axis=1)


def join_sizes(sizes: tuple[int, ...], states: Longs) -> tuple[int, ...]:
    """Return sizes with neighbours joined of which every row picks one code each, or leaves both.

    Single cells are products over any sizes: they tell nothing of attributes.
    """
    found = [sizes[0]]
    for i, size in enumerate(sizes[1:], 1):
        if (states[:, i] == states[:, i - 1]).all() and states[:, i].max() < 2:
            found[-1] *= size
        else:
            found.append(size)
    return tuple(found)


def kronecker_stack(factors: Sequence[Array | Bools], scales: Real) -> Operator | None:
    """Return rows that are products as Kronecker products on top of each other, else None.

    Rows that depend on the same attributes are one product where they are all combinations of
    their factors, each as often, and of one length. `factors`: (q, n_i), of largest entry 1.
    """
    if (whole := product_of(factors, scales)) is not None:
        return whole
    sets, number = distinct_sets(states_of(factors) > 0)
    blocks = []
    for group in range(len(sets)):
        here = number == group
        block = product_of([one[here] for one in factors], scales[here])
        if block is None:
            return None
        blocks.append(block)
    return blocks[0] if len(blocks) == 1 else Stack(blocks)


def product_of(factors: Sequence[Array | Bools], scales: Real) -> Operator | None:
    """Return the Kronecker product whose rows these are, in any order, None where they are none."""
    if np.ptp(scales) > ROUNDING * scales.max():
        return None
    distinct, places = [], np.zeros(len(scales), dtype=np.int64)
    for one in factors:
        first, number = unique_rows(np.round(one + 0.0, 11) + 0.0)  # no negative zeros
        distinct.append(np.asarray(one[first], dtype=np.float64))
        places = places * len(first) + number
    counts = np.bincount(places, minlength=prod(map(len, distinct)))
    if np.ptp(counts):
        return None
    product = Kronecker([Dense(one) for one in distinct])
    weight = float(scales.mean()) * float(np.sqrt(counts[0]))
    return product if weight == 1.0 else Scaled(weight, product)


def sizes_by_gram(workload: Operator) -> tuple[int, ...]:
    """Return sizes of attributes for which marginals promise most, none where little."""
    n = workload.shape[1]
    primes = prime_factors(n)
    if n > LARGEST_GRAM or not 2 <= len(primes) <= MOST_ATTRIBUTES or not fits((n, n), 24):
        return ()
    gram = workload.gram_dense()
    orders = list(distinct_orders(primes))[:MOST_ORDERS]
    best = min(orders, key=lambda sizes: marginal_loss(gram, sizes))
    least = marginal_loss(gram, best)
    if least > GAIN * float(np.trace(gram)):
        return ()
    return coarsest(gram, best, least)


def marginal_loss(gram: Array, sizes: tuple[int, ...]) -> float:
    """Return the least Gaussian loss of marginals for a Gram averaged over these attributes."""
    energies = gram_energies(gram, sizes)
    return float(np.sqrt(energies.values * energies.ranks).sum()) ** 2


def coarsest(gram: Array, sizes: tuple[int, ...], loss: float) -> tuple[int, ...]:
    """Return sizes with neighbours joined as long as marginals lose next to nothing by it."""
    i = 0
    while len(sizes) > 2 and i + 1 < len(sizes):
        fewer = (*sizes[:i], sizes[i] * sizes[i + 1], *sizes[i + 2 :])
        if marginal_loss(gram, fewer) <= loss * (1 + 1e-3):
            sizes = fewer
        else:
            i += 1
    return sizes


def prime_factors(n: int) -> tuple[int, ...]:
    """Return the prime factors of n, ascending, each as often as it divides.

    >>> prime_factors(60)
    (2, 2, 3, 5)
    """
    found, divisor = [], 2
    while divisor * divisor <= n:
        while n % divisor == 0:
            found.append(divisor)
            n //= divisor
        divisor += 1
    return (*found, n) if n > 1 else tuple(found)


def distinct_orders(values: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield the distinct orders of some values.

    >>> list(distinct_orders((2, 2, 3)))
    [(2, 2, 3), (2, 3, 2), (3, 2, 2)]
    """
    if not values:
        yield ()
    for first in sorted(set(values)):
        place = values.index(first)
        for rest in distinct_orders(values[:place] + values[place + 1 :]):
            yield (first, *rest)
