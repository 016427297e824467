"""Answers of marginals, split into components, and rows of masks answered from them.

Time is the price of `strategies.operators.masks.contraction`: for each component, what its table
and the rows' codes have in numbers, not their product.
"""

from collections.abc import Sequence
from functools import singledispatch
from itertools import product
from math import prod

import numpy as np

from strategies.operators.base.arrays import Array
from strategies.operators.base.operator import Operator
from strategies.operators.masks.components import MaskRows, mask_rows
from strategies.operators.masks.contraction import DistinctMasks, contracted

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
    means, fixed = rows.means, rows.fixed
    masks = [DistinctMasks.of(mask) for mask in rows.masks]
    answers = np.zeros((len(means), k))
    for key, table in residuals.items():
        used = np.flatnonzero(key)
        chosen = np.flatnonzero(fixed[:, used].all(axis=1))
        rest = means[np.ix_(chosen, np.flatnonzero(~np.asarray(key)))].prod(axis=1)
        picked = [(masks[i], masks[i].number[chosen]) for i in used]
        answers[chosen] += rest[:, None] * contracted(picked, table)
    return answers if rows.mix is None else np.asarray(rows.mix @ answers)


def table_of(chosen: Sequence[int], residuals: Residuals, sizes: Sequence[int]) -> Array:
    """Return the sum of the components below an attribute set, over the cells of its table."""
    k = next(iter(residuals.values())).shape[1] if residuals else 1
    result = np.zeros((*(sizes[i] for i in chosen), k))
    for flags in product((False, True), repeat=len(chosen)):
        key = [False] * len(sizes)
        for i, flag in zip(chosen, flags, strict=True):
            key[i] = flag
        table = residuals.get(tuple(key))
        if table is not None:
            kept = [sizes[i] if flag else 1 for i, flag in zip(chosen, flags, strict=True)]
            result += table.reshape(*kept, k)
    return result.reshape(prod(sizes[i] for i in chosen), k)


@singledispatch
def answers_from(workload: Operator, residuals: Residuals, sizes: tuple[int, ...]) -> Array | None:
    """Return ``W x`` for ``n x`` given by its components, None where W shows no way to it.

    Rows of masks are answered row by row; other structures register a rule beside their class.
    """
    rows = mask_rows(workload)
    return None if rows is None or rows.sizes != sizes else answer_rows(rows, residuals)
