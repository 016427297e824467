"""Strategies as integer matrices, so that every measured count and every sensitivity is exact.

Exact noise is integer noise, so the strategy is rounded to integers, ``Ã ≈ s A``, and its
sensitivity is computed again, exactly, from Ã. Matrices of integers (Identity, groups of cells,
a forest's paths) are taken as they are. Others are multiplied by a power of two such that
their largest column norm is near 2**30 ("l1") or 2**24 ("l2"): one unit is that small a part of
the sensitivity, and the loss changes by far less than one part in a thousand.

A structure is built from arrays of numbers: weights, factors, explicit entries. Where all of
them are integers so is every entry, and where none is negative none of the entries is. The
converse does not hold, and need not: both are proofs, not decisions.

Sums of 64-bit integers wrap around without a word. A strategy that was rounded here is known not
to come near; one from a file may be made to, so that its sensitivity would be computed too small.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, log2, prod

import numpy as np
from scipy import sparse

from mrf_matrix.base.arrays import Bools, Longs, Values
from mrf_matrix.mechanisms.factor_rounding import (
    Framed,
    IntegerForm,
    framed_form,
    rounds_by_factors,
)
from strategies.operators import (
    Dense,
    Grouping,
    JointMarginals,
    Kronecker,
    Marginals,
    Norm,
    ObliqueResiduals,
    Operator,
    Product,
    ProductMarginals,
    RowKronecker,
    RowScaled,
    Scaled,
    Semiseparable,
    Sparse,
    Stack,
    TableStack,
    Toeplitz,
    Transposed,
    WeightedKronecker,
)
from strategies.operators.base.recovery import factorise, is_explicit


def defining_numbers(operator: Operator) -> Iterator[Values]:
    """Yield the arrays of numbers that a strategy is made of; zeros and ones may be left out."""
    match operator:
        case Dense():
            yield operator.array
        case Sparse():
            yield operator.matrix.data
        case Marginals():
            yield np.asarray(operator.weights)
        case ObliqueResiduals() | ProductMarginals():
            yield np.asarray(operator.weights)
            yield from _all_numbers(operator.factors)
        case Toeplitz():
            yield operator.coefficients
        case Semiseparable():  # entries are sums of products of these
            yield operator.outputs
            yield operator.factors
        case Scaled():
            yield np.asarray([operator.weight])
            yield from defining_numbers(operator.inner)
        case RowScaled():
            yield operator.weights
            yield from defining_numbers(operator.inner)
        case Stack() | TableStack():
            yield from _all_numbers(operator.blocks)
        case Kronecker():
            yield from _all_numbers(operator.factors)
        case Product():
            yield from _all_numbers((operator.left, operator.right))
        case Transposed():
            yield from defining_numbers(operator.inner)
        case _ if not operator.is_binary:
            form = operator.compact()
            yield form if isinstance(form, np.ndarray) else form.data


def _all_numbers(parts: Iterable[Operator]) -> Iterator[Values]:
    for part in parts:
        yield from defining_numbers(part)


def is_integral(operator: Operator) -> bool:
    """Tell whether the structure proves that every entry is an integer."""
    return all(np.array_equal(part, np.rint(part)) for part in defining_numbers(operator))


def is_nonnegative(operator: Operator) -> bool:
    """Tell whether the structure proves that no entry is negative."""
    return all(bool((part >= 0).all()) for part in defining_numbers(operator))


def rounded_product(values: Values, factor: float) -> tuple[Longs, bool]:
    """Return ``round(factor * values)`` and whether nothing was lost."""
    product = factor * values
    nearest = np.rint(product)
    return nearest.astype(np.int64), bool(np.array_equal(nearest, product))


def loses_weights(weights: object, values: Longs) -> bool:
    """Tell whether a weight was rounded to zero."""
    return bool(((np.asarray(weights) != 0) & (values == 0)).any())


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
            own = form.indices.copy(), form.indptr.copy()  # nobody else's to write to
            whole = sparse.csr_array((values, *own), shape=form.shape)
            return _explicit_form(operator, Sparse(whole, operator.sizes), is_exact)
        case Marginals():
            values, is_exact = rounded_product(np.asarray(operator.weights), factor)
            tables = operator.with_weights(values.tolist())
            return IntegerForm(tables, is_exact, is_lossy=loses_weights(operator.weights, values))
        case ObliqueResiduals() | ProductMarginals() if rounds_by_factors(operator):
            return framed_form(operator, factor)
        case Toeplitz() if rounded_product(operator.coefficients[:1], factor)[0].any():
            values, is_exact = rounded_product(operator.coefficients, factor)
            return IntegerForm(Toeplitz(operator.n, values), is_exact)
        case Scaled() if not is_integral(operator.inner):
            return integer_form(operator.inner, factor * operator.weight)
        case Scaled():
            weight = factor * operator.weight
            return _scale_integers(integer_form(operator.inner, 1.0).matrix, weight)
        case WeightedKronecker() if is_integral(operator.inner):
            values, is_exact = rounded_product(operator.weights, factor)
            return IntegerForm(
                WeightedKronecker(np.where(values, values, 1), operator.inner), is_exact
            )
        case RowScaled() if is_integral(operator.inner):
            values, is_exact = rounded_product(operator.weights, factor)
            matrix = RowScaled(values, integer_form(operator.inner, 1.0).matrix)
            return IntegerForm(matrix, is_exact, is_lossy=loses_weights(operator.weights, values))
        case JointMarginals() if not all(map(rounds_by_factors, operator.blocks)):
            return integer_form(Stack(operator.blocks), factor)
        case Stack():
            forms = [integer_form(block, factor) for block in operator.blocks]
            return _join_forms(type(operator)([form.matrix for form in forms]), forms)
        case TableStack():
            forms = [integer_form(block, factor) for block in operator.blocks]
            return _join_forms(operator.with_blocks([form.matrix for form in forms]), forms)
        case Kronecker():
            return _kronecker_form(operator, factor)
        case Product() if isinstance(operator.right, Grouping):
            left = integer_form(operator.left, factor)
            return replace(left, matrix=Product(left.matrix, operator.right))
        case Product(left=Dense(array=left), right=RowKronecker()):
            return _combined_paths(operator, left, factor)
        case Product(left=Sparse()) if operator.right.is_binary and is_integral(operator.left):
            return _scale_integers(operator, factor)
        case _ if operator.is_binary:
            return _scale_integers(operator, factor)
    return integer_form(_to_explicit(operator), factor)


def _kronecker_form(operator: Kronecker, factor: float) -> IntegerForm:
    """Give every rounded factor the same largest column norm, hence relative precision."""
    whole = [is_integral(part) for part in operator.factors]
    norms = [float(part.sensitivity("l2")) for part in operator.factors]
    real = [norm for norm, known in zip(norms, whole, strict=True) if not known]
    common = (abs(factor) * prod(real)) ** (1 / max(len(real), 1))
    shares = [1.0 if known else common / norm for norm, known in zip(norms, whole, strict=True)]
    pairs = zip(operator.factors, shares, strict=True)
    forms = [integer_form(part, share) for part, share in pairs]
    joined = _join_forms(Kronecker([form.matrix for form in forms]), forms)
    return replace(joined, is_exact=False) if real else _scale_integers(joined.matrix, factor)


def _combined_paths(operator: Product, left: Values, factor: float) -> IntegerForm:
    """Round combinations of paths, whose cells are out of reach.

    What is whole already stays itself, so that its sensitivity is not searched for again.
    """
    values, is_exact = rounded_product(left, factor)
    if is_exact and factor == 1 and left.dtype.kind == "i":
        return IntegerForm(operator, True)
    lost = left.any(axis=1) & ~values.any(axis=1)
    whole = Product(Dense(values), operator.right)
    return IntegerForm(whole, is_exact, not is_exact, bool(lost.any()))


def _explicit_form(
    operator: Dense | Sparse, integer: Dense | Sparse, is_exact: bool
) -> IntegerForm:
    """Return a matrix rounded entry by entry: not tilted if both determine every workload."""
    kept = is_exact or (has_full_column_rank(operator) and has_full_column_rank(integer))
    lost = not is_exact and bool((_has_entries(operator) & ~_has_entries(integer)).any())
    return IntegerForm(integer, is_exact, not kept, lost)


def _has_entries(operator: Dense | Sparse) -> Bools:
    """Tell of every row of an explicit matrix whether it measures something."""
    if isinstance(operator, Sparse):
        form = operator.matrix
        return np.bincount(form.nonzero()[0], minlength=form.shape[0]) > 0
    return np.asarray(operator.array.any(axis=1))


def _scale_integers(matrix: Operator, weight: float) -> IntegerForm:
    whole = round(weight)
    scaled = matrix if whole == 1 else Scaled(whole, matrix)
    return IntegerForm(scaled, whole == weight, is_lossy=whole == 0)


def _join_forms(matrix: Operator, forms: list[IntegerForm]) -> IntegerForm:
    return IntegerForm(
        matrix,
        is_exact=all(form.is_exact for form in forms),
        is_tilted=any(form.is_tilted for form in forms),
        is_lossy=any(form.is_lossy for form in forms),
    )


def _to_explicit(operator: Operator) -> Operator:
    form = operator.compact()
    if isinstance(form, np.ndarray):
        return Dense(form, operator.sizes)
    return Sparse(form, operator.sizes)


def has_full_column_rank(operator: Operator) -> bool:
    """Tell, within the memory cap, whether a matrix certainly determines every cell."""
    m, n = operator.shape
    return m >= n and is_explicit(operator) and factorise(operator).basis is None


PRECISION_BITS = 30  # the rounded strategy's largest column sum lies near 2**30

SQUARED_BITS = 24  # the same in the L2 norm, for squares must be summed exactly

FACTORED_BITS = 40
"""The same for Kronecker products, whose factors are rounded one by one and share the bits, and
for differences of codes, whose weights stand beside entries as large as their tables."""

LARGEST_BITS = 62  # for Kronecker products of integers, whose sensitivity is a Python integer

SHORT_BITS = 12  # powers of two up to this are tried first, in case they make integers of all


@dataclass(frozen=True, eq=False)
class RoundedStrategy:
    """A strategy as it is measured.

    Attributes
    ----------
    matrix : Operator of shape (m, n)
        Integer entries, ``Ã ≈ scale * A``.
    scale : Fraction
        What A was multiplied by.
    norm : {"l1", "l2"}
    column_sum : int
        Exact: the largest column sum of ``|ã|`` ("l1") or of ``ã²`` ("l2"). Its root ("l2"), or it
        itself ("l1"), is the sensitivity of the integer answers under add/remove.
    recovery : Operator of shape (m, n)
        The matrix whose pseudo-inverse is applied to the answers. It is Ã itself, unless A is
        rank-deficient and without structure: then rounding adds faint directions to its row
        space, which would amplify noise, and ``scale * A`` is used instead. The answers then
        carry a rounding error of at most half a unit a record, where the sensitivity is 2**30
        (2**24 in the L2 norm) units.
    is_lossy : bool
        Whether rows too faint to measure were rounded to zero. They are not measured: a workload
        that needs them has no answer.
    """

    matrix: Operator
    scale: Fraction
    norm: Norm
    column_sum: int
    recovery: Operator
    is_lossy: bool = False

    @property
    def is_unbiased(self) -> bool:
        """Whether the estimates are exactly unbiased: nothing was lost by rounding."""
        return self.recovery is self.matrix


def round_strategy(matrix: Operator, norm: Norm) -> RoundedStrategy:
    """Return the strategy that is measured in place of a real matrix.

    Parameters
    ----------
    matrix : Operator of shape (m, n)
    norm : {"l1", "l2"}
        "l1" for discrete Laplace, "l2" for discrete Gaussian noise.

    Raises
    ------
    ValueError
        If the matrix is all zeros.

    Examples
    --------
    >>> from strategies.operators import Dense, Identity
    >>> round_strategy(Identity(5), "l1").scale
    Fraction(1, 1)
    >>> kept = round_strategy(Dense([[0.5, 0.25], [0.0, 0.75]]), "l1")
    >>> kept.scale, kept.column_sum
    (Fraction(4, 1), 4)
    """
    inner, power = matrix.to_unit()
    inner, weight = _without_weight(inner)
    weight *= Fraction(2) ** power
    size = inner.sensitivity(norm)
    if not size > 0:
        raise ValueError(
            "A (strategy matrix) is all zeros: expected a strategy that measures something."
        )
    factor, form = _round_entries(inner, norm, size)
    return RoundedStrategy(
        matrix=form.matrix,
        scale=Fraction(factor) / weight,
        norm=norm,
        column_sum=exact_column_sum(form.matrix, norm),
        recovery=Scaled(factor, inner) if form.is_tilted else form.matrix,
        is_lossy=form.is_lossy and not has_full_column_rank(form.matrix),
    )


def exact_column_sum(matrix: Operator, norm: Norm) -> int:
    """Return the sensitivity of an integer strategy, exact, or more; computed once while it lives.

    The largest column sum of absolute ("l1") or of squared ("l2") entries.
    """
    kept: dict[str, int] = vars(matrix).setdefault("_column_sums", {})
    if norm not in kept:
        kept[norm] = int(matrix.integer_sensitivity(norm))
    return kept[norm]


def _without_weight(matrix: Operator) -> tuple[Operator, Fraction]:
    """Return a strategy without its common weight, which changes nothing but the units."""
    weight = Fraction(1)
    while isinstance(matrix, Scaled) and matrix.weight > 0:
        weight, matrix = weight * Fraction(matrix.weight), matrix.inner
    return matrix, weight


def _round_entries(matrix: Operator, norm: Norm, size: float) -> tuple[float, IntegerForm]:
    """Multiply by a small power of two where that makes integers, else by the largest allowed."""
    finest = _bits(matrix, norm) - ceil(log2(size))
    for short in range(min(SHORT_BITS, finest) + 1):
        if _is_integral_at(matrix, 2.0**short):
            form = integer_form(matrix, 2.0**short)
            if form.is_exact:
                return 2.0**short, form
    return 2.0**finest, integer_form(matrix, 2.0**finest)


def _bits(matrix: Operator, norm: Norm) -> int:
    """Return the bits of the largest column norm, such that its exact sums stay below 2**62."""
    if isinstance(matrix, Kronecker):
        real = [part for part in matrix.factors if not is_integral(part)]
        return min(FACTORED_BITS, SQUARED_BITS * len(real)) if real else LARGEST_BITS
    if isinstance(matrix, WeightedKronecker) and is_integral(matrix.inner):
        return FACTORED_BITS
    if isinstance(matrix, ObliqueResiduals) and matrix.is_integral:
        plain = matrix.with_weights([1] * len(matrix.weights))
        return min(FACTORED_BITS, PRECISION_BITS + plain.largest_entry().bit_length())
    parts = matrix.blocks if isinstance(matrix, JointMarginals) else (matrix,)
    if all(isinstance(one, Framed) and rounds_by_factors(one) for one in parts):
        return FACTORED_BITS
    if norm == "l1":
        return PRECISION_BITS
    return min(SQUARED_BITS, (61 - matrix.shape[0].bit_length()) // 2)


def _is_integral_at(matrix: Operator, factor: float) -> bool:
    """Tell whether every number that defines the matrix is an integer after multiplication."""
    numbers = (factor * np.asarray(part).ravel() for part in defining_numbers(matrix))
    # a few entries decide most cases without a pass over all
    return all(
        np.array_equal(part[:64], np.rint(part[:64])) and np.array_equal(part, np.rint(part))
        for part in numbers
    )


LARGEST = 2**62  # entries and partial sums of entries stay below this


def entry_bound(operator: Operator) -> int:
    """Return a number that no absolute entry of an integer strategy exceeds.

    Raises ValueError if a number that defines the strategy is no integer, or a structure has no
    rule.
    """
    match operator:
        case Dense() | Sparse() | Marginals() | Toeplitz():
            return largest_magnitude(next(defining_numbers(operator)))
        case ObliqueResiduals() | ProductMarginals():
            return operator.largest_entry()
        case Scaled() | RowScaled():
            weights = next(defining_numbers(operator))
            return largest_magnitude(weights) * entry_bound(operator.inner)
        case Stack() | TableStack():
            return max(map(entry_bound, operator.blocks))
        case Kronecker():
            return prod(map(entry_bound, operator.factors))
        case Product():
            both = entry_bound(operator.left) * entry_bound(operator.right)
            summed = 1 if isinstance(operator.right, Grouping) else operator.left.shape[1]
            return both * summed
        case Transposed():
            return entry_bound(operator.inner)
        case _ if operator.is_binary:
            return 1
    raise ValueError(f"{operator!r} is no strategy of integers: expected a rounded one.")


def largest_magnitude(numbers: Values) -> int:
    if numbers.dtype.kind != "i":
        raise ValueError(f"the strategy has entries of type {numbers.dtype}: expected integers.")
    if not numbers.size:
        return 0
    return max(int(numbers.max()), -int(numbers.min()))


def check_entries(operator: Operator) -> None:
    """Refuse a strategy whose entries are no integers, or might not be exact in 64 bits."""
    bound = entry_bound(operator)
    if bound >= LARGEST:
        size = f"entries of up to {bound:.3g}" if bound < 10**300 else "endless entries"
        raise ValueError(f"the strategy has {size}: expected less than 2**62.")
