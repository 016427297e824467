"""``W @ A.T`` of two structures, without n where the structures allow."""

import numpy as np

from strategies.operators.base.explicit_forms import densified
from strategies.operators.base.memory import check_allocation
from strategies.operators.base.operator import Array, Operator
from strategies.operators.kronecker import Kronecker, kronecker_product
from strategies.operators.marginal_rows import marginal_rows, rows_are_cheaper
from strategies.operators.marginals import Marginals
from strategies.operators.product import Product
from strategies.operators.row_kronecker import RowKronecker
from strategies.operators.row_scaled import RowScaled
from strategies.operators.scaled import Scaled
from strategies.operators.stack import Stack


def cross_gram(left: Operator, right: Operator) -> Array:
    """Return ``left @ right.T`` (q x m), by structure where either side has one.

    Raises
    ------
    MemoryCapError
        If no rule applies and an explicit form exceeds the memory cap.
    """
    check_allocation("cross gram", (left.shape[0], right.shape[0]))
    if isinstance(left, RowKronecker) and isinstance(right, RowKronecker):
        return left.row_gram(right)
    rule = _by_rows(left, right)
    if rule is not None:
        return rule
    rule = _by_rows(right, left)
    if rule is not None:
        return rule.T
    return densified(left.compact() @ right.compact().T)


def _by_rows(outer: Operator, other: Operator) -> Array | None:
    """Peel a structure that only combines the rows of another, or that is made of products."""
    if isinstance(outer, Scaled):
        return outer.weight * cross_gram(outer.inner, other)
    if isinstance(outer, RowScaled):
        return np.asarray(outer.weights[:, None] * cross_gram(outer.inner, other))
    if isinstance(outer, Stack):
        return np.concatenate([cross_gram(block, other) for block in outer.blocks])
    if isinstance(outer, Product):
        return outer.left.matmat(cross_gram(outer.right, other))
    if isinstance(outer, Marginals) and rows_are_cheaper(outer):
        return cross_gram(marginal_rows(outer), other)
    if isinstance(outer, Kronecker):
        return _by_factors(outer, other)
    return None


def _by_factors(outer: Kronecker, other: Operator) -> Array | None:
    """Multiply the factors' own products, where the other's rows have the same factors."""
    columns = tuple(factor.shape[1] for factor in outer.factors)
    if isinstance(other, Kronecker):
        if columns != tuple(factor.shape[1] for factor in other.factors):
            return None
        pairs = zip(outer.factors, other.factors, strict=True)
        return kronecker_product([cross_gram(one, two) for one, two in pairs])
    if not isinstance(other, RowKronecker) or columns != other.sizes:
        return None
    result = np.ones((1, other.shape[0]))
    for i, factor in enumerate(outer.factors):
        part = factor.matmat(other.masks(i).T)
        result = (result[:, None, :] * part[None, :, :]).reshape(-1, other.shape[0])
    return result
