"""Integer matrices close to a multiple of a real one, structure kept."""

from dataclasses import dataclass, replace
from functools import singledispatch
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mrf_matrix.mechanisms.rounding.entries import is_integral
from strategies.operators import (
    Dense,
    Grouping,
    JointTables,
    Kronecker,
    Marginals,
    Operator,
    Partition,
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
    """An integer matrix close to ``factor * A``.

    Attributes
    ----------
    matrix : Operator
        Its entries are exact integers.
    is_exact : bool
        Whether it is ``factor * A`` itself.
    is_tilted : bool
        Whether its row space may be slightly off that of A, because an explicit matrix without
        full column rank was rounded entry by entry.
    is_lossy : bool
        Whether a weight was rounded to zero, so that its rows are no longer measured.
    """

    matrix: Operator
    is_exact: bool
    is_tilted: bool = False
    is_lossy: bool = False


@singledispatch
def integer_form(operator: Operator, factor: float) -> IntegerForm:
    """Return the integer form of ``factor * A`` by the rule of A's structure.

    A structure whose rows are each multiplied by a number, or that is itself of full column
    rank, keeps its row space through rounding. Other explicit matrices tilt it slightly.
    """
    if operator.is_binary:
        return _scaled(operator, factor, factor == int(factor))
    form = operator.compact()
    if isinstance(form, np.ndarray):
        return integer_form(Dense(form, operator.sizes), factor)
    return integer_form(Sparse(form, operator.sizes), factor)


@integer_form.register
def _(operator: Dense, factor: float) -> IntegerForm:
    values, is_exact = rounded_product(operator.array, factor)
    matrix = Dense(values, operator.sizes)
    return IntegerForm(matrix, is_exact, not (is_exact or _both_of_full_rank(operator, matrix)))


@integer_form.register
def _(operator: Sparse, factor: float) -> IntegerForm:
    form = operator.matrix
    values, is_exact = rounded_product(form.data, factor)
    whole = sparse.csr_array((values, form.indices, form.indptr), shape=form.shape)
    matrix = Sparse(whole, operator.sizes)
    return IntegerForm(matrix, is_exact, not (is_exact or _both_of_full_rank(operator, matrix)))


@integer_form.register
def _(operator: Marginals, factor: float) -> IntegerForm:
    values, is_exact = rounded_product(np.asarray(operator.weights), factor)
    sizes = operator.domain_sizes
    matrix = Marginals(sizes, operator.attribute_sets, values.tolist())
    return IntegerForm(matrix, is_exact, is_lossy=_lost(operator.weights, values))


@integer_form.register
def _(operator: ResidualMarginals, factor: float) -> IntegerForm:
    values, is_exact = rounded_product(np.asarray(operator.weights), factor)
    sizes = operator.domain_sizes
    matrix = ResidualMarginals(sizes, operator.attribute_sets, values.tolist())
    return IntegerForm(matrix, is_exact, is_lossy=_lost(operator.weights, values))


@integer_form.register
def _(operator: Scaled, factor: float) -> IntegerForm:
    if not is_integral(operator.inner):
        return integer_form(operator.inner, factor * operator.weight)
    inner = integer_form(operator.inner, 1.0)
    weight = factor * operator.weight
    return _scaled(inner.matrix, weight, weight == int(weight))


@integer_form.register
def _(operator: RowScaled, factor: float) -> IntegerForm:
    if not is_integral(operator.inner):
        return integer_form(_explicit(operator), factor)
    values, is_exact = rounded_product(operator.weights, factor)
    inner = integer_form(operator.inner, 1.0)
    lost = _lost(operator.weights, values)
    return IntegerForm(RowScaled(values, inner.matrix), is_exact, is_lossy=lost)


@integer_form.register
def _(operator: Stack, factor: float) -> IntegerForm:
    forms = [integer_form(block, factor) for block in operator.blocks]
    return _joined(Stack([form.matrix for form in forms]), forms)


@integer_form.register
def _(operator: Partition, factor: float) -> IntegerForm:
    forms = [integer_form(block, factor) for block in operator.blocks]
    return _joined(Partition([form.matrix for form in forms]), forms)


@integer_form.register
def _(operator: JointTables, factor: float) -> IntegerForm:
    forms = [integer_form(block, factor) for block in operator.blocks]
    return _joined(JointTables([form.matrix for form in forms]), forms)


@integer_form.register
def _(operator: Kronecker, factor: float) -> IntegerForm:
    whole = [is_integral(part) for part in operator.factors]
    norms = [float(part.sensitivity("l2")) for part in operator.factors]
    # every rounded factor gets the same largest column norm, hence the same relative precision
    real = [norm for norm, known in zip(norms, whole, strict=True) if not known]
    common = (abs(factor) * prod(real)) ** (1 / max(len(real), 1))
    shares = [1.0 if known else common / norm for norm, known in zip(norms, whole, strict=True)]
    pairs = zip(operator.factors, shares, strict=True)
    forms = [integer_form(part, share) for part, share in pairs]
    joined = _joined(Kronecker([form.matrix for form in forms]), forms)
    if real:
        return replace(joined, is_exact=False)
    return _scaled(joined.matrix, factor, factor == int(factor))


@integer_form.register
def _(operator: Product, factor: float) -> IntegerForm:
    if not isinstance(operator.right, Grouping):
        return integer_form(_explicit(operator), factor)
    left = integer_form(operator.left, factor)
    return replace(left, matrix=Product(left.matrix, operator.right))


def rounded_product(values: NDArray[Any], factor: float) -> tuple[NDArray[np.int64], bool]:
    """Return ``round(factor * values)`` and whether nothing was lost."""
    product = factor * values
    nearest = np.rint(product)
    return nearest.astype(np.int64), bool(np.array_equal(nearest, product))


def _scaled(matrix: Operator, weight: float, is_exact: bool) -> IntegerForm:
    whole = round(weight)
    scaled = matrix if whole == 1 else Scaled(whole, matrix)
    return IntegerForm(scaled, is_exact, is_lossy=whole == 0)


def _lost(weights: object, values: NDArray[np.int64]) -> bool:
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


def _both_of_full_rank(operator: Operator, integer: Operator) -> bool:
    """Tell whether both have full column rank, so that both determine every workload."""
    return has_full_column_rank(operator) and has_full_column_rank(integer)


def has_full_column_rank(operator: Operator) -> bool:
    """Tell, within the memory cap, whether a matrix certainly determines every cell."""
    m, n = operator.shape
    return m >= n and is_explicit(operator) and factorised(operator).basis is None
