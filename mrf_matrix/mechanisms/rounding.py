"""Strategies as integer matrices, so that every measured count and every sensitivity is exact.

Exact noise is integer noise, so the strategy is rounded to integers, ``Ã ≈ s A``, and its
sensitivity is computed again, exactly, from Ã. Matrices of integers (Identity, groups of cells,
a forest's paths) are taken as they are. Others are multiplied by a power of two such that
their largest column norm is near 2**30 ("l1") or 2**24 ("l2"): one unit is that small a part of
the sensitivity, and the loss changes by far less than one part in a thousand.

*Tables with a factor an attribute* have factors of a few bits, weights with the rest. The column
norm of a set is its weight times those of its factors, so the factors of the largest sets share
the bits of an entry. Rounding a factor moves its columns' norms to both sides, and the largest is
what noise pays for: entries go towards zero in the columns where it would rise.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, log2, prod

import numpy as np
from scipy import sparse

from mrf_matrix.base.arrays import Bools, Longs, Values
from mrf_matrix.mechanisms.integer_entries import (
    IntegerForm,
    defining_numbers,
    is_integral,
    loses_weights,
    rounded_product,
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
    Sparse,
    Stack,
    TableStack,
    Toeplitz,
    WeightedKronecker,
)
from strategies.operators.base.recovery import factorise, is_explicit
from strategies.problem.strategy import to_unit

WEIGHT_BITS = 5
"""Bits of a typical weight of the largest sets: an error of e in one raises the loss by e²."""
FAINT_BITS = 5  # by which rows are fainter that only keep a frame's span
LEAST_BITS, MOST_BITS = 4, 20  # of a factor's largest column norm


Framed = ObliqueResiduals | ProductMarginals


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

LARGEST_BITS = 62
"""The same for Kronecker products of integers, whose sensitivity is a Python integer."""

SHORT_BITS = 12
"""Powers of two up to this are tried first, in case they turn every entry into an integer."""


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
    inner, power = to_unit(matrix)
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
    framed = ObliqueResiduals, ProductMarginals
    if all(isinstance(one, framed) and rounds_by_factors(one) for one in parts):
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
