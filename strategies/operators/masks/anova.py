"""The analysis of variance on a product domain: energies of workloads, components of answers.

The projections ``E_U = ⊗ (I - J/n_i for i in U, J/n_i elsewhere)`` split a product domain. With
``w_U = tr(WᵀW E_U) / n``, energies of a Kronecker product are the products of its factors'
energies, and those of a stack are sums. Where ``WᵀW`` is a combination of the projections
themselves (it lies in the *marginals algebra*: tables of marginals, identities, totals, and their
products and stacks), its eigenvalue on the component of U is ``n w_U / p_U``, with the rank
``p_U = Π_{i in U} (n_i - 1)``.

Answers of marginals split into the same components, and from these rows of masks are answered:
``<mask_1 ⊗ ... ⊗ mask_h, table> / Π n_i``. Rows share masks, and what they share is summed once:
after attribute j the table is contracted for every *prefix* (the distinct masks on attributes 1 to
j) that occurs, and the codes that a mask admits are the only ones read.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, singledispatch
from itertools import product
from math import prod

import numpy as np
from scipy import sparse

from strategies.operators.base.arrays import (
    Array,
    Bools,
    Longs,
    check_allocation,
    current_cap,
    fits,
)
from strategies.operators.base.operator import Operator, cached_per_value
from strategies.operators.masks.components import MaskRows, as_sets, mask_rows, subset_blocks
from strategies.operators.masks.packed_masks import mask_widths, unique_rows

MOST_FLAGS = 2**28  # sets times attributes that may be listed
NEGLIGIBLE = 1e-14  # share of all energy below which the rounding of a difference counts as zero


@dataclass(frozen=True, eq=False)
class Energies:
    """A workload's energy on every component that it reaches."""

    sizes: tuple[int, ...]  # sizes of the attributes
    sets: Bools  # (u, d): attribute sets U with positive energy
    values: Array  # (u,): ``w_U = tr(WᵀW E_U) / n``
    # whether the structure proves that ``WᵀW`` is a combination of the projections E_U
    is_invariant: bool = False

    @cached_property
    def maximal(self) -> Bools:
        """The sets that lie in no other: some marginal must contain each of them."""
        return self.sets[is_maximal(self.sets)]

    @cached_property
    def ranks(self) -> Array:
        """Dimension ``p_U`` of every component, shape (u,)."""
        return products_over(self.sets, np.asarray(self.sizes, dtype=np.float64) - 1.0)

    @property
    def total(self) -> float:
        return float(prod(self.sizes)) * float(self.values.sum())

    def scale(self, square: float) -> "Energies":
        return positive_energies(self.sizes, self.sets, square * self.values, self.is_invariant)


@singledispatch
def structure_energies(workload: Operator) -> Energies | None:
    """Return the energies of a workload by its structure, None where it has no rule."""
    return None


def is_maximal(sets: Bools) -> Bools:
    """Tell which of some distinct sets lie in no other.

    Where subsets of sets are sets too, one attribute less is all there is to look for; the others
    are compared with all larger ones.
    """
    known = {row.tobytes(): number for number, row in enumerate(np.packbits(sets, axis=1))}
    result = np.ones(len(sets), dtype=bool)
    for i in range(sets.shape[1]):
        smaller = sets[sets[:, i]]
        smaller[:, i] = False
        found = [known.get(row.tobytes()) for row in np.packbits(smaller, axis=1)]
        result[[number for number in found if number is not None]] = False
    count = sets.sum(axis=1)
    for size in np.unique(count)[:-1]:
        left, larger = np.flatnonzero(result & (count == size)), sets[count > size]
        inside = sets[left].astype(np.float32) @ larger.T.astype(np.float32)
        result[left] = inside.max(axis=1) < size
    return result


def positive_energies(
    sizes: tuple[int, ...], sets: Bools, values: Array, is_invariant: bool = False
) -> Energies:
    """Return energies with the sets left out that have none."""
    kept = values > 0
    return Energies(sizes, sets[kept], values[kept], is_invariant)


def products_over(sets: Bools, factors: Array) -> Array:
    result = np.ones(len(sets))
    for column, factor in zip(sets.T, factors, strict=True):
        result[column] *= factor
    return result


def table_energies(sizes: tuple[int, ...], sets: Bools, squares: Array) -> Energies | None:
    """Return the energies of marginals with squared weights, from subsets of their sets.

    ``w_U = p_U Σ_{S ⊇ U} θ_S² / Π_{i in S} n_i``. None where the subsets are too many to list.
    """
    counts, d = sets.sum(axis=1), len(sizes)
    if float((2.0**counts).sum()) * d > MOST_FLAGS:
        return None
    exact = np.asarray(sizes, dtype=np.float64)
    shares = squares / products_over(sets, exact)
    below, owners = [], []
    for chosen, attributes, subsets in subset_blocks(sets):
        below.append(as_sets(attributes, subsets, d))
        owners.append(np.repeat(shares[chosen], len(subsets)))
    distinct, number = distinct_sets(np.concatenate(below))
    values = np.bincount(number, weights=np.concatenate(owners), minlength=len(distinct))
    return positive_energies(sizes, distinct, values * products_over(distinct, exact - 1), True)


def masks_energies(workload: Operator) -> Energies | None:
    """Return the energies of rows of masks that are all cells of some tables, else None.

    A table is all rows that fix single codes of the same attributes, with every cell weighing
    the same.
    """
    rows = mask_rows(workload)
    if rows is None or (rows.mix is not None and np.diff(rows.mix.indptr).max(initial=0) > 1):
        return None
    if not may_be_tables(mask_widths(rows.masks), rows.sizes):
        return None
    sets, number = distinct_sets(rows.is_fixed)
    cells = products_over(sets, np.asarray(rows.sizes, dtype=np.float64))
    codes = np.stack([mask.argmax(axis=1) for mask in rows.masks], axis=1)
    weights, squares = np.empty(len(sets)), rows.squares
    for j, chosen in enumerate(sets):
        members = np.flatnonzero(number == j)
        used = np.flatnonzero(chosen)
        place = np.zeros(len(members), dtype=np.int64)
        for i in used:
            place = place * rows.sizes[i] + codes[members, i]
        sums = np.bincount(place, weights=squares[members], minlength=int(cells[j]))
        if (sums != sums[0]).any():
            return None
        weights[j] = sums[0]
    return table_energies(rows.sizes, sets, weights)


def may_be_tables(widths: Longs, sizes: tuple[int, ...]) -> bool:
    """Tell whether rows fix single codes, and are as many as their tables' cells at least."""
    fixed = widths < np.asarray(sizes)
    if ((widths != 1) & fixed).any():
        return False
    cells = products_over(distinct_sets(fixed)[0], np.asarray(sizes, dtype=np.float64))
    return bool(cells.sum() <= len(fixed))


def distinct_sets(sets: Bools) -> tuple[Bools, Longs]:
    first, number = unique_rows(sets)
    return sets[first], number


def gram_energies(gram: Array, sizes: tuple[int, ...]) -> Energies:
    """Return ``tr(G E_U)/n`` for every U, contracting one attribute after another.

    The largest arrays are the Gram and half of it again.
    """
    tensor = gram[None]
    for size in sizes:
        count, n = len(tensor), tensor.shape[1]
        split = tensor.reshape(count, size, n // size, size, n // size)
        total = split.sum(axis=(1, 3)) / size
        own = np.einsum("caxay->cxy", split)
        tensor = np.stack([total, own - total], axis=1).reshape(2 * count, n // size, n // size)
    flags = np.arange(len(tensor))[:, None] >> np.arange(len(sizes))[::-1] & 1
    values = tensor.ravel() / gram.shape[0]
    values[values < 1e-13 * values.sum()] = 0.0  # rounding of components that are not reached
    return positive_energies(sizes, flags.astype(bool), values)


@cached_per_value
def line_energies(form: Operator) -> Energies | None:
    """Return the energies of an explicit matrix whose columns are the codes of one attribute.

    They are those of its mean column and of the rest. ``WᵀW = aI + bJ`` is looked for where the
    entries are integers, so that equality means what it says. A union asks for its factors' once
    a block: what was found is kept as long as the matrix.
    """
    if form.sizes is not None and len(form.sizes) != 1:
        return None
    n = form.shape[1]
    sums = form.matmat(np.ones(n))
    mean, whole = float(sums @ sums) / n, float(form.row_squares().sum())
    return split_energies(mean, whole, n, _is_even(form))


def line_gram_energies(gram: Array, sizes: tuple[int, ...] | None) -> Energies | None:
    """Return the same from the Gram ``WᵀW`` itself, whose entries then tell whether it is even."""
    if sizes is not None and len(sizes) > 1:
        return None
    n = len(gram)
    even = np.where(np.eye(n, dtype=bool), gram[0, 0], gram[0, -1])
    return split_energies(
        float(gram.sum()) / n, float(np.trace(gram)), n, bool((gram == even).all())
    )


def split_energies(mean: float, whole: float, n: int, is_even: bool) -> Energies:
    rest = whole - mean
    values = np.array([mean, rest if rest > NEGLIGIBLE * whole else 0.0]) / n
    return positive_energies((n,), LINE, values, is_even)


LINE: Bools = np.array([[False], [True]])  # the two components of one attribute


def _is_even(form: Operator) -> bool:
    """Tell whether ``WᵀW`` is certainly ``aI + bJ``."""
    n = form.shape[1]
    unit = np.zeros(n)
    unit[0] = 1.0
    first = form.rmatmat(form.matmat(unit))
    if np.ptp(first[1:]) if n > 1 else False:
        return False
    compact = form.compact()
    entries = compact if isinstance(compact, np.ndarray) else compact.data
    if not fits((n, n), 16) or not np.array_equal(entries, np.rint(entries)):
        return False
    gram = form.gram_dense()
    return bool((gram == np.where(np.eye(n, dtype=bool), first[0], first[-1])).all())


def product_energies(parts: Sequence[Energies | None]) -> Energies | None:
    known = [part for part in parts if part is not None]
    count, width = prod(len(p.values) for p in known), sum(len(p.sizes) for p in known)
    if len(known) < len(parts) or count * width > MOST_FLAGS:
        return None
    sets, values = np.zeros((1, 0), dtype=bool), np.ones(1)
    for part in known:
        left = np.repeat(sets, len(part.sets), axis=0)
        sets = np.concatenate([left, np.tile(part.sets, (len(sets), 1))], axis=1)
        values = np.outer(values, part.values).ravel()
    sizes = tuple(size for part in known for size in part.sizes)
    return positive_energies(sizes, sets, values, all(part.is_invariant for part in known))


def summed_energies(parts: Sequence[Energies | None]) -> Energies | None:
    known = [part for part in parts if part is not None]
    if len(known) < len(parts) or len({part.sizes for part in known}) > 1:
        return None
    sets, number = distinct_sets(np.concatenate([part.sets for part in known]))
    every = np.concatenate([part.values for part in known])
    values = np.bincount(number, weights=every).astype(np.float64)
    whole = all(part.is_invariant for part in known)
    return replace(known[0], sets=sets, values=values, is_invariant=whole)


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
