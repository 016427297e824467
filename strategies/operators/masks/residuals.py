"""Answers of marginals, split into components, and rows of masks answered from them.

A row asks for ``<mask_1 ⊗ ... ⊗ mask_h, table> / Π n_i``. Building each row's product of masks
costs rows times cells. Rows share masks, though, and what they share is summed once: after
attribute j the table is contracted for every *prefix* (the distinct masks on attributes 1 to j)
that occurs, and the codes that a mask admits are the only ones read.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import singledispatch
from itertools import product
from math import prod

import numpy as np
from scipy import sparse

from strategies.operators.base.arrays import Array, Bools, Longs, check_allocation, current_cap
from strategies.operators.base.operator import Operator
from strategies.operators.masks.components import MaskRows, mask_rows
from strategies.operators.masks.packed_masks import unique_rows


@dataclass(frozen=True, eq=False)
class DistinctMasks:
    """The distinct masks of some rows on one attribute."""

    matrix: sparse.csr_array  # (u, n_i): the masks over the attribute's size: ``mask / n_i``
    number: Longs  # (o,): which one is each row's

    @classmethod
    def of(cls, mask: Bools) -> "DistinctMasks":
        first, number = unique_rows(mask)
        return cls(sparse.csr_array(mask[first] / mask.shape[1]), number)

    @property
    def spread(self) -> float:
        """Masks for each code: the factor by which contracting the attribute lengthens a table."""
        return self.matrix.shape[0] / max(1, self.matrix.shape[1])


def contract(picked: Sequence[tuple[DistinctMasks, Longs]], table: Array) -> Array:
    """Return ``<⊗_i mask_i / n_i, table>`` for rows given by the number of their mask.

    Attributes of few masks a code come first. Rows are taken in parts, such that what is left
    of the table for all prefixes stays below an eighth of the memory cap.
    """
    k = table.shape[1]
    if not picked:
        return np.asarray(table)  # one row for all
    if not (k and len(picked[0][1])):
        return np.zeros((len(picked[0][1]), k))
    sizes = [masks.matrix.shape[1] for masks, _ in picked]
    order = sorted(range(len(picked)), key=lambda i: picked[i][0].spread)
    turned = table.reshape(*sizes, k).transpose(*order, len(sizes))
    parts = [picked[i] for i in order]
    n_rows = len(parts[0][1])
    result = np.empty((n_rows, k))
    step = _rows_at_once([masks for masks, _ in parts], n_rows, k)
    for start in range(0, n_rows, step):
        rows = slice(start, start + step)
        result[rows] = _sweep([(masks, number[rows]) for masks, number in parts], turned)
    return result


def _sweep(parts: Sequence[tuple[DistinctMasks, Longs]], turned: Array) -> Array:
    """Contract the first attribute of a table for every prefix, then the next."""
    k = turned.shape[-1]
    prefix = np.zeros(len(parts[0][1]), dtype=np.int64)
    left = turned[None]
    for masks, number in parts:
        n_prefixes, size = left.shape[:2]
        u = masks.matrix.shape[0]
        pairs, prefix = _distinct(prefix * u + number, n_prefixes * u)
        read = _block_rows(masks.matrix[pairs % u], pairs // u, n_prefixes)
        left = (read @ left.reshape(n_prefixes * size, -1)).reshape(len(pairs), *left.shape[2:])
    return np.asarray(left.reshape(-1, k)[prefix])


def _block_rows(masks: sparse.csr_array, block: Longs, n_blocks: int) -> sparse.csr_array:
    """Move every row's entries into its block of columns."""
    size = masks.shape[1]
    columns = masks.indices + np.repeat(block * size, np.diff(masks.indptr))
    return sparse.csr_array(
        (masks.data, columns, masks.indptr), shape=(masks.shape[0], n_blocks * size)
    )


def _distinct(keys: Longs, limit: int) -> tuple[Longs, Longs]:
    """Return the distinct keys below a limit in order, and which of them is each one."""
    if limit > 4 * len(keys) + 1024:
        values, number = np.unique(keys, return_inverse=True)
        return values, number.ravel()
    present = np.zeros(limit, dtype=np.bool_)
    present[keys] = True
    return np.flatnonzero(present), (np.cumsum(present) - 1)[keys]


def _rows_at_once(masks: Sequence[DistinctMasks], n_rows: int, k: int) -> int:
    """Return how many rows leave at most an eighth of the cap in what is left of the table."""
    step = max(1, n_rows)
    while step > 1 and 64 * _largest_left(masks, step) * max(1, k) > current_cap():
        step = -(-step // 2)
    return step


def _largest_left(masks: Sequence[DistinctMasks], n_rows: int) -> int:
    """Return a bound on the numbers left after any attribute, for each column of the table."""
    prefixes, largest = 1, 0
    left = 1
    for one in masks:
        left *= one.matrix.shape[1]
    for one in masks:
        u, size = one.matrix.shape
        prefixes, left = min(n_rows, prefixes * u), left // size
        largest = max(largest, prefixes * left)
    return largest


Residuals = dict[tuple[bool, ...], Array]
"""Attribute set (one flag for each attribute) -> table over its cells, shape (cells, k)."""


def residual_answers(
    sizes: Sequence[int],
    attribute_sets: Sequence[Sequence[int]],
    weights: Sequence[float],
    tables: Sequence[Array],
) -> Residuals:
    """Return ``Σ_S θ_S E_U M_Sᵀ y_S`` for every U below a set, as tables over U.

    Along each attribute of S a marginal's answers split into their mean and what is left: all
    components of one marginal together cost ``Π_{i ∈ S} (1 + n_i)`` numbers.

    `tables`: (cells of S, k).
    """
    sums: Residuals = {}
    for chosen, weight, table in zip(attribute_sets, weights, tables, strict=True):
        if weight == 0:
            continue
        split = np.asarray(table).reshape(*(sizes[i] for i in chosen), table.shape[-1])
        for axis in range(len(chosen)):
            mean = np.asarray(split.mean(axis=axis, keepdims=True))
            split = np.concatenate([mean, split - mean], axis=axis)
        for flags in product((False, True), repeat=len(chosen)):
            cut = tuple(slice(1, None) if flag else slice(0, 1) for flag in flags)
            key = [False] * len(sizes)
            for i, flag in zip(chosen, flags, strict=True):
                key[i] = flag
            piece = split[cut]  # k may be 0, when only the row space is asked for
            part = weight * piece.reshape(prod(piece.shape[:-1]), table.shape[-1])
            known = sums.get(tuple(key))
            sums[tuple(key)] = part if known is None else known + part
    return sums


def answer_rows(rows: MaskRows, residuals: Residuals) -> Array:
    """Return ``W x`` for mask rows W and ``n x = Σ_U`` (the residual of U, spread over the rest).

    ``Σ_U Π_{i ∉ U} p_i · <⊗_{i ∈ U} mask_i, table_U> / Π_{i ∈ U} n_i``; a row takes part in U
    only if it restricts every attribute of U, because tables sum to zero along each attribute.
    """
    k = next(iter(residuals.values())).shape[1] if residuals else 1
    means, fixed = rows.means, rows.is_fixed
    masks = [DistinctMasks.of(mask) for mask in rows.masks]
    answers = np.zeros((len(means), k))
    for key, table in residuals.items():
        used = np.flatnonzero(key)
        chosen = np.flatnonzero(fixed[:, used].all(axis=1))
        rest = means[np.ix_(chosen, np.flatnonzero(~np.asarray(key)))].prod(axis=1)
        picked = [(masks[i], masks[i].number[chosen]) for i in used]
        answers[chosen] += rest[:, None] * contract(picked, table)
    return answers if rows.mix is None else np.asarray(rows.mix @ answers)


def table_of(chosen: Sequence[int], residuals: Residuals, sizes: Sequence[int]) -> Array:
    """Return the sum of the components below an attribute set, over the cells of its table."""
    k = next(iter(residuals.values())).shape[1] if residuals else 1
    tables = []
    for flags in product((False, True), repeat=len(chosen)):
        own = {i for i, flag in zip(chosen, flags, strict=True) if flag}
        table = residuals.get(tuple(i in own for i in range(len(sizes))))
        if table is not None:
            tables.append((np.flatnonzero(flags).tolist(), table))
    return sum_over_cells([sizes[i] for i in chosen], tables, k)


@singledispatch
def answers_from(workload: Operator, residuals: Residuals, sizes: tuple[int, ...]) -> Array | None:
    """Return ``W x`` for ``n x`` given by its components, None where W has no rule."""
    rows = mask_rows(workload)
    return None if rows is None or rows.sizes != sizes else answer_rows(rows, residuals)


def sum_over_cells(
    sizes: Sequence[int], tables: Iterable[tuple[Sequence[int], Array]], k: int
) -> Array:
    """Return the sum of tables' values (cells, k) at every cell of the domain, (n, k)."""
    check_allocation("a vector over the cells", (prod(sizes), max(k, 1)))
    result = np.zeros((*sizes, k))
    for chosen, table in tables:
        result += table.reshape(*(size if i in chosen else 1 for i, size in enumerate(sizes)), k)
    return result.reshape(prod(sizes), k)
