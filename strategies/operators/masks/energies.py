"""A workload's energy on the component of every attribute set, without its rows.

The projections ``E_U = ⊗ (I - J/n_i for i in U, J/n_i elsewhere)`` split a product domain. With
``w_U = tr(WᵀW E_U) / n``, energies of a Kronecker product are the products of its factors'
energies, and those of a stack are sums. Where ``WᵀW`` is a combination of the projections
themselves (it lies in the *marginals algebra*: tables of marginals, identities, totals, and their
products and stacks), its eigenvalue on the component of U is ``n w_U / p_U``, with the rank
``p_U = Π_{i in U} (n_i - 1)``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, singledispatch
from math import prod

import numpy as np

from strategies.operators.base.arrays import Array, Bools, Longs, fits
from strategies.operators.base.operator import Operator, cached_per_value
from strategies.operators.masks.components import as_sets, mask_rows, subset_blocks
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
