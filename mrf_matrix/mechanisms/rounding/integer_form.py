"""Integer matrices close to a multiple of a real one, structure kept."""

from dataclasses import dataclass, replace
from math import prod

import numpy as np
from scipy import sparse

from mrf_matrix.base.arrays import Longs, Values
from mrf_matrix.mechanisms.rounding.entries import is_integral
from strategies.operators import (
    Dense,
    Grouping,
    Kronecker,
    Marginals,
    Operator,
    Product,
    ResidualMarginals,
    RowScaled,
    Scaled,
    Sparse,
    Stack,
)
from strategies.operators.base.pseudo_inverse import factorised
from strategies.operators.base.recovery import is_explicit


@dataclass(frozen=True, eq=False)
class IntegerForm:
    """An integer matrix close to ``factor * A``."""

    matrix: Operator
    """Its entries are exact integers."""
    is_exact: bool
    """Whether it is ``factor * A`` itself."""
    is_tilted: bool = False
    """Whether its row space may be slightly off that of A, because an explicit matrix without full
    column rank was rounded entry by entry."""
    is_lossy: bool = False
    """Whether a weight was rounded to zero, so that its rows are no longer measured."""


def integer_form(operator: Operator, factor: float) -> IntegerForm:
    """Return the integer form of ``factor * A`` by the rule of A's structure.

    A structure whose rows are each multiplied by a number, or that is itself of full column
    rank, keeps its row space through rounding. Other explicit matrices tilt it slightly.
    """
    match operator:
        case Dense():
            values, is_exact = rounded_product(operator.array, factor)
            return _explicit_form(operator, Dense(values, operator.sizes), is_exact)
        case Sparse():
            form = operator.matrix
            values, is_exact = rounded_product(form.data, factor)
            whole = sparse.csr_array((values, form.indices, form.indptr), shape=form.shape)
            return _explicit_form(operator, Sparse(whole, operator.sizes), is_exact)
        case Marginals() | ResidualMarginals():
            values, is_exact = rounded_product(np.asarray(operator.weights), factor)
            sizes, sets = operator.domain_sizes, operator.attribute_sets
            tables = type(operator)(sizes, sets, values.tolist())
            return IntegerForm(tables, is_exact, is_lossy=_lost(operator.weights, values))
        case Scaled() if not is_integral(operator.inner):
            return integer_form(operator.inner, factor * operator.weight)
        case Scaled():
            weight = factor * operator.weight
            return _scaled(integer_form(operator.inner, 1.0).matrix, weight)
        case RowScaled() if is_integral(operator.inner):
            values, is_exact = rounded_product(operator.weights, factor)
            matrix = RowScaled(values, integer_form(operator.inner, 1.0).matrix)
            return IntegerForm(matrix, is_exact, is_lossy=_lost(operator.weights, values))
        case Stack():
            forms = [integer_form(block, factor) for block in operator.blocks]
            return _joined(type(operator)([form.matrix for form in forms]), forms)
        case Kronecker():
            return _kronecker_form(operator, factor)
        case Product() if isinstance(operator.right, Grouping):
            left = integer_form(operator.left, factor)
            return replace(left, matrix=Product(left.matrix, operator.right))
        case _ if operator.is_binary:
            return _scaled(operator, factor)
    return integer_form(_explicit(operator), factor)


def _kronecker_form(operator: Kronecker, factor: float) -> IntegerForm:
    """Give every rounded factor the same largest column norm, hence relative precision."""
    whole = [is_integral(part) for part in operator.factors]
    norms = [float(part.sensitivity("l2")) for part in operator.factors]
    real = [norm for norm, known in zip(norms, whole, strict=True) if not known]
    common = (abs(factor) * prod(real)) ** (1 / max(len(real), 1))
    shares = [1.0 if known else common / norm for norm, known in zip(norms, whole, strict=True)]
    pairs = zip(operator.factors, shares, strict=True)
    forms = [integer_form(part, share) for part, share in pairs]
    joined = _joined(Kronecker([form.matrix for form in forms]), forms)
    return replace(joined, is_exact=False) if real else _scaled(joined.matrix, factor)


def _explicit_form(operator: Operator, integer: Operator, is_exact: bool) -> IntegerForm:
    """Return a matrix rounded entry by entry: not tilted if both determine every workload."""
    kept = is_exact or (has_full_column_rank(operator) and has_full_column_rank(integer))
    return IntegerForm(integer, is_exact, not kept)


def rounded_product(values: Values, factor: float) -> tuple[Longs, bool]:
    """Return ``round(factor * values)`` and whether nothing was lost."""
    product = factor * values
    nearest = np.rint(product)
    return nearest.astype(np.int64), bool(np.array_equal(nearest, product))


def _scaled(matrix: Operator, weight: float) -> IntegerForm:
    whole = round(weight)
    scaled = matrix if whole == 1 else Scaled(whole, matrix)
    return IntegerForm(scaled, whole == weight, is_lossy=whole == 0)


def _lost(weights: object, values: Longs) -> bool:
    return bool(((np.asarray(weights) != 0) & (values == 0)).any())


def _joined(matrix: Operator, forms: list[IntegerForm]) -> IntegerForm:
    return IntegerForm(
        matrix,
        is_exact=all(form.is_exact for form in forms),
        is_tilted=any(form.is_tilted for form in forms),
        is_lossy=any(form.is_lossy for form in forms),
    )


def _explicit(operator: Operator) -> Operator:
    form = operator.compact()
    if isinstance(form, np.ndarray):
        return Dense(form, operator.sizes)
    return Sparse(form, operator.sizes)


def has_full_column_rank(operator: Operator) -> bool:
    """Tell, within the memory cap, whether a matrix certainly determines every cell."""
    m, n = operator.shape
    return m >= n and is_explicit(operator) and factorised(operator).basis is None
