"""Tables with a factor an attribute as integers, rounded factor by factor.

Factors have a few bits, weights the rest. The column norm of a set is its weight times those of its
factors, so the factors of the largest sets share the bits of an entry. Rounding a factor moves its
columns' norms to both sides, and the largest is what noise pays for: entries go towards zero in the
columns where it would rise.
"""

from dataclasses import dataclass
from math import log2

import numpy as np

from mrf_matrix.base.arrays import Longs, Values
from strategies.operators import Dense, Norm, ObliqueResiduals, Operator, ProductMarginals

WEIGHT_BITS = 5
"""Bits of a typical weight of the largest sets: an error of e in one raises the loss by e²."""
FAINT_BITS = 5  # by which rows are fainter that only keep a frame's span
LEAST_BITS, MOST_BITS = 4, 20  # of a factor's largest column norm

Framed = ObliqueResiduals | ProductMarginals


@dataclass(frozen=True, eq=False)
class IntegerForm:
    """An integer matrix close to ``factor * A``."""

    matrix: Operator  # its entries are exact integers
    is_exact: bool  # whether it is ``factor * A`` itself
    is_tilted: bool = False
    """Whether its row space may be slightly off that of A, because an explicit matrix without full
    column rank was rounded entry by entry."""
    is_lossy: bool = False
    """Whether a weight or a row was rounded to zero, so that it is no longer measured."""


def framed_form(operator: Framed, factor: float) -> IntegerForm:
    """Return integer weights over factors of integers; those of integers stay as they are.

    Many attributes leave a factor few bits: it is lossy where faint codes then have no column of
    their own.
    """
    norm: Norm = "l2" if isinstance(operator, ObliqueResiduals) else "l1"
    real = [part.array.dtype.kind == "f" for part in operator.factors]
    bits = factor_bits(operator, factor, real, norm)
    factors, scales = [], []
    for i, part in enumerate(operator.factors):
        scale = 2.0**bits / (part.sensitivity(norm) or 1.0) if real[i] else 1.0
        values = scale * part.array
        if isinstance(operator, ObliqueResiduals) and real[i] and not operator.spans_attribute(i):
            values = np.vstack([values, 2.0 ** (bits - FAINT_BITS) * missing_directions(values)])
        factors.append(Dense(rounded_columns(values, norm)) if real[i] else part)
        scales.append(scale)
    exact = [
        factor * weight / float(np.prod([scales[i] for i in chosen]))
        for weight, chosen in zip(operator.weights, operator.attribute_sets, strict=True)
    ]
    weights = [max(1, round(value)) if value else 0 for value in exact]
    matrix = type(operator)(factors, operator.attribute_sets, weights)
    is_exact = not any(real) and weights == exact
    return IntegerForm(matrix, is_exact, is_lossy=any(real) and loses_rank(matrix, operator, real))


def loses_rank(rounded: Framed, operator: Framed, real: list[bool]) -> bool:
    """Tell whether rounding made codes alike, or rows of a factor depend on others."""
    if rounded.frame_inverses is None or operator.frame_inverses is None:
        return True
    used = {i for chosen in rounded.attribute_sets for i in chosen if real[i]}
    if isinstance(rounded, ObliqueResiduals):  # whose frames are to span all codes
        return not all(map(rounded.spans_attribute, used))
    both = zip(rounded.frame_inverses, operator.frame_inverses, strict=True)
    return any(one.shape != other.shape for one, other in both)  # a column a class


def missing_directions(rows: Values) -> Values:
    """Return an orthonormal basis of what rows and the ones do not reach.

    Faint rows along it keep the frame's span through rounding: all that it has a row for.
    """
    n = rows.shape[1]
    whole = np.vstack([np.full((1, n), np.abs(rows).max(initial=1.0)), rows])
    _, lengths, right = np.linalg.svd(whole)
    rank = int(np.count_nonzero(lengths > 1e-9 * lengths[0]))
    return np.asarray(right[rank:])


def factor_bits(operator: Framed, factor: float, real: list[bool], norm: Norm) -> int:
    """Return the bits of every factor that the largest sets leave room for."""
    most = max(sum(real[i] for i in chosen) for chosen in operator.attribute_sets)
    whole = log2(factor * operator.sensitivity(norm)) - log2(len(operator.weights)) / 2
    return max(LEAST_BITS, min(MOST_BITS, int((whole - WEIGHT_BITS) / max(most, 1))))


def rounds_by_factors(operator: Framed) -> bool:
    """Tell whether factors rounded with enough bits reach the same rows, or are integers already.

    Product marginals do where their factors tell classes of codes apart; with few bits a form may
    still be lossy, and says so. Oblique residuals do
    where each set measured has all below it: frames that span all codes of an attribute then reach
    all tables below the sets, whatever their rows are.
    """
    if operator.is_integral:
        return True
    if operator.frame_inverses is None or isinstance(operator, ProductMarginals):
        return operator.frame_inverses is not None
    pairs = zip(operator.attribute_sets, operator.weights, strict=True)
    measured = {chosen for chosen, weight in pairs if weight}
    smaller = (tuple(j for j in s if j != i) for s in measured for i in s)
    return all(one in measured for one in smaller)


def rounded_columns(values: Values, norm: Norm) -> Longs:
    """Return entries rounded so that no column's norm is above the largest before.

    Where the nearest integers exceed it, those entries go towards zero for which it is the least
    change.
    """
    power = 1 if norm == "l1" else 2
    nearest = np.rint(values)
    sizes, rounded = np.abs(values), np.abs(nearest)
    excess = (rounded**power).sum(axis=0) - (sizes**power).sum(axis=0).max()
    raised = rounded > sizes
    order = np.argsort(np.where(raised, rounded - sizes, -1.0), axis=0)[::-1]
    steps = rounded**power - (rounded - 1.0) ** power
    gains = np.take_along_axis(np.where(raised, steps, 0.0), order, axis=0)
    before = np.cumsum(gains, axis=0) - gains
    lowered = np.zeros(values.shape, dtype=bool)
    np.put_along_axis(lowered, order, (before < excess) & (gains > 0), axis=0)
    return np.asarray(nearest - np.sign(nearest) * lowered, dtype=np.int64)
