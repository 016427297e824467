"""The base of all structured matrices: a matrix is a value that knows how it acts.

A structure is a class and states its action; everything else has a rule here that is right for
every structure, densifying below the memory cap, and that a structure overrides where it has a
cheaper one. What makes another structure (`transpose`, `product`, `explicit`) is a function that
those structures register themselves with, so that the base knows none of them.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from functools import singledispatch, wraps
from typing import Any, Concatenate, Literal, ParamSpec, SupportsFloat, TypeVar, overload
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from strategies.operators.base.arrays import (
    Array,
    Form,
    Integers,
    Longs,
    Numbers,
    Real,
    as_columns,
    as_dense,
    check_allocation,
    check_length,
    divide,
    exponent,
    plain_array,
)
from strategies.operators.base.face import MatrixFace
from strategies.operators.base.qr import least_squares

Norm = Literal["l1", "l2"]

Value = TypeVar("Value")
Rest = ParamSpec("Rest")
Found = TypeVar("Found")


def cached_per_value(
    find: Callable[Concatenate[Value, Rest], Found],
) -> Callable[Concatenate[Value, Rest], Found]:
    """Keep what a function finds of its first argument for as long as that value lives.

    The rest of the arguments follow from the first, or do not matter.
    """
    known: WeakKeyDictionary[Value, Found] = WeakKeyDictionary()

    @wraps(find)
    def look_up(value: Value, /, *rest: Rest.args, **named: Rest.kwargs) -> Found:
        if value not in known:
            known[value] = find(value, *rest, **named)
        return known[value]

    return look_up


class Operator(MatrixFace["Operator"]):
    """A real matrix known by its action.

    Subclasses are frozen dataclasses. Columns are the cells of a domain; when the domain is a
    product of attributes, `sizes` holds the attributes' sizes, cells are numbered in C order
    (last attribute fastest), and cells may be given as rows of codes.
    """

    __array_ufunc__ = None  # so that `ndarray @ operator` reaches __rmatmul__
    sizes: tuple[int, ...] | None = None  # of the product domain whose cells are the columns
    _own_numbers: tuple[str, ...] = ()  # fields that multiply all rows

    @abstractmethod
    def _matmat(self, right: Array) -> Array:
        """Return ``A @ right`` for a checked (n, j) array."""

    @abstractmethod
    def _rmatmat(self, left: Array) -> Array:
        """Return ``A.T @ left`` for a checked (m, j) array."""

    @property
    def prefers_sparse(self) -> bool:
        return False

    @property
    def entries(self) -> int:
        """Entries of the cheaper explicit form, or a bound above them; exact at any size."""
        return self.shape[0] * self.shape[1]

    @property
    def is_binary(self) -> bool:
        """Whether the structure proves that every entry is 0 or 1."""
        return False

    @property
    def has_distinct_columns(self) -> bool:
        """Whether the structure proves that no two columns are equal."""
        return False

    @property
    def has_cheap_inverse(self) -> bool:
        """Whether `least_squares` needs no dense factorisation."""
        return False

    @property
    def T(self) -> "Operator":
        """The transpose, as an operator."""
        return transpose(self)

    def __repr__(self) -> str:
        m, n = self.shape
        return f"{type(self).__name__}({m} x {n})"

    # Parts and multiples --------------------------------------------------------------------

    def take_rows(self, rows: Longs) -> "Operator":
        """Return the rows of some numbers, as combinations of these where no rule keeps more."""
        entries = np.ones(len(rows), dtype=np.int64), rows, np.arange(len(rows) + 1)
        chosen = sparse.csr_array(entries, shape=(len(rows), self.shape[0]))
        return product(explicit(chosen), self)

    def scaled_by(self, number: SupportsFloat) -> "Operator":
        return multiple(self, number)

    def to_unit(self) -> "tuple[Operator, int]":
        """Return the matrix over 2**k whose largest entry is near 1, and k; k is 0 for usual ones.

        Structures without numbers of their own are as they are.

        >>> from strategies.operators import Dense
        >>> unit, power = Dense([[2.0**-600, 0.0]]).to_unit()
        >>> unit.to_dense(), power
        (array([[0.5, 0. ]]), -599)
        """
        numbers = {name: getattr(self, name) for name in self._own_numbers}
        power = exponent(*numbers.values())
        if not power:
            return self, 0
        changed = {name: divide(one, power) for name, one in numbers.items()}
        return replace(self, **changed), power  # type: ignore[type-var]

    def _explicit(self, form: Form) -> "Operator":
        return explicit(form, self.sizes if form.shape[1] == self.shape[1] else None)

    # Products -------------------------------------------------------------------------------

    def matmat(self, right: Numbers) -> Array:
        return self._apply(self._matmat, right, self.shape[1], "right")

    def rmatmat(self, left: Numbers) -> Array:
        return self._apply(self._rmatmat, left, self.shape[0], "left")

    def _apply(
        self, action: Callable[[Array], Array], operand: Numbers, length: int, name: str
    ) -> Array:
        checked = check_length(length, name, operand, self.shape)
        result: Array = action(as_columns(checked))
        return result[:, 0] if checked.ndim == 1 else result

    @overload
    def __matmul__(self, other: "Operator") -> "Operator": ...

    @overload
    def __matmul__(self, other: ArrayLike | sparse.sparray) -> Array: ...

    def __matmul__(self, other: "Operator | ArrayLike | sparse.sparray") -> "Operator | Array":
        if isinstance(other, Operator):
            return product(self, other)
        if getattr(other, "__array_ufunc__", True) is None:  # it says itself what a product is
            return NotImplemented
        return self.matmat(as_dense(other))

    def __rmatmul__(self, other: ArrayLike | sparse.sparray) -> Array:
        return self.rmatmat(as_dense(other).T).T

    # Explicit forms -------------------------------------------------------------------------

    def to_dense(self) -> Array:
        m, n = self.shape
        check_allocation(f"dense {type(self).__name__}", (m, n))
        if self.prefers_sparse:
            return as_dense(self.to_sparse())
        side = min(m, n)
        check_allocation("identity to densify with", (side, side))
        return self._rmatmat(np.eye(m)).T if m < n else self._matmat(np.eye(n))

    def to_sparse(self) -> sparse.csr_array:
        return sparse.csr_array(self.to_dense())

    def compact(self) -> Any:
        return self.to_sparse() if self.prefers_sparse else self.to_dense()

    def columns(self, cells: Integers) -> sparse.csr_array:
        return sparse.csr_array(self.to_sparse().tocsc()[:, self.flat_cells(cells)])

    def flat_cells(self, cells: Integers) -> Longs:
        """Turn rows of codes into flat cell numbers; flat numbers pass through."""
        cells = plain_array("cells", cells)
        if cells.ndim == 1:
            return cells.astype(np.int64, copy=False)
        if self.sizes is None:
            raise ValueError(
                f"cells has shape {cells.shape}: {type(self).__name__} knows no product domain, "
                f"so cells must be flat numbers of shape (N,)."
            )
        return np.asarray(np.ravel_multi_index(tuple(cells.T), self.sizes), dtype=np.int64)

    # Grams ----------------------------------------------------------------------------------

    def gram_dense(self) -> Array:
        """Return ``A.T @ A`` (n x n), refused above the memory cap."""
        n = self.shape[1]
        check_allocation(f"gram of {type(self).__name__}", (n, n))
        form = self.compact().astype(np.float64)
        return as_dense(form.T @ form)

    def row_gram(self) -> Array:
        """Return ``A @ A.T`` (m x m), refused above the memory cap."""
        m = self.shape[0]
        check_allocation(f"row gram of {type(self).__name__}", (m, m))
        form = self.compact().astype(np.float64)
        return as_dense(form @ form.T)

    def row_gram_matmat(self, right: Array) -> Array:
        """Return ``A @ A.T @ right`` for an (m, j) array."""
        return self._matmat(self._rmatmat(right))

    def row_squares(self) -> Array:
        """Return the squared L2 norm of every row, shape (m,)."""
        form = self.compact().astype(np.float64)  # squares of integers would overflow
        return np.asarray((form * form).sum(axis=1), dtype=np.float64)

    # Sensitivity ----------------------------------------------------------------------------

    def column_norms(self, norm: Norm) -> Array:
        """Return the L1 or L2 norm of every column, shape (n,)."""
        form = abs(self.compact()).astype(np.float64)
        if norm == "l1":
            return np.asarray(form.sum(axis=0), dtype=np.float64)
        return np.sqrt(np.asarray((form * form).sum(axis=0), dtype=np.float64))

    def uniform_column_norm(self, norm: Norm) -> float | None:
        """Return the norm of every column where the structure proves that all are equal."""
        return None

    def sensitivity(self, norm: Norm) -> float:
        """Return the largest column norm: the sensitivity under add/remove neighbours.

        An upper bound where `sensitivity_is_exact` says so.
        """
        uniform = self.uniform_column_norm(norm)
        return float(self.column_norms(norm).max(initial=0.0)) if uniform is None else uniform

    def sensitivity_is_exact(self, norm: Norm) -> bool:
        """Tell whether `sensitivity` is the largest column norm itself, not a bound above it."""
        return True

    def rounded(self, scale: int) -> "Operator":
        """Return the operator with exact integer entries ``round(scale * A[i, j])``."""
        return explicit(integer_form(self.to_sparse() * scale), self.sizes)

    def integer_column_sums(self, norm: Norm) -> Longs:
        """Return exact column sums of an integer operator: of ``|a|`` ("l1") or ``a**2`` ("l2")."""
        return exact_column_sums(self.to_sparse(), 2 if norm == "l2" else 1)

    def integer_sensitivity(self, norm: Norm) -> int:
        """Return the exact sensitivity of an integer operator.

        The largest column sum of absolute entries for "l1", and of *squared* entries for "l2",
        as a Python integer; an upper bound where `sensitivity_is_exact` says so.
        """
        return int(self.integer_column_sums(norm).max(initial=0))

    # Inverses -------------------------------------------------------------------------------

    def least_squares(self, answers: Numbers) -> Array:
        """Return ``A⁺ @ answers``, the least-squares estimate of the cells, minimum norm."""
        return self._apply(self._solve, answers, self.shape[0], "answers")

    def _solve(self, answers: Array) -> Array:
        return least_squares(self.to_dense(), answers)

    def checked_answers(self, answers: Numbers) -> Array:
        """Return answers as floats, or refuse what does not match the rows."""
        return check_length(self.shape[0], "answers", answers, self.shape)

    def error_trace(self, workload: "Operator") -> float | None:
        """Return ``||W A⁺||_F²`` by a rule of the structure, None where it has none.

        A rule must raise `RowSpaceError` when a row of W lies outside the row space, and must
        not subtract traces. ``strategies.search.assessment`` asks here first.
        """
        errors = self.row_errors(workload)
        return None if errors is None else float(errors.sum())

    def row_errors(self, workload: "Operator") -> Array | None:
        """Return ``||(W A⁺)_r||²`` of every row by a rule of the structure, None without one.

        A bound of c² where row r is answered by c times its own answer.
        """
        multiples = self.own_multiples(workload)
        return None if multiples is None else multiples**2

    def has_rule_for(self, workload: "Operator") -> bool:
        """Tell whether a rule of the structure answers a workload; without one nothing was checked.

        Raises RowSpaceError if that rule finds rows outside the row space.
        """
        return self.own_multiples(workload) is not None

    def estimate(self, workload: "Operator", answers: Array) -> Array | None:
        """Return ``W A⁺ @ answers`` by a rule that never builds n, None without one."""
        checked = self.checked_answers(answers)
        found = self._estimate(workload, as_columns(checked))
        return found[:, 0] if found is not None and checked.ndim == 1 else found

    def _estimate(self, workload: "Operator", answers: Array) -> Array | None:
        multiples = self.own_multiples(workload)
        return None if multiples is None else multiples[:, None] * answers

    def own_multiples(self, workload: "Operator") -> Array | None:
        """Return c with ``W = diag(c) A`` where every row stands alone, else None.

        Row r is then served by c_r times its own answer: unbiased, with an error of at most c_r²,
        which least squares over all rows only lowers by as much as some depend on others.
        """
        (ours, rows), (theirs, wanted) = self.weights_and_rows, workload.weights_and_rows
        if not (ours.all() and rows.stands_alone(wanted)):
            return None
        return np.broadcast_to(theirs / ours, self.shape[:1])

    @property
    def weights_and_rows(self) -> "tuple[Real, Operator]":
        """Weights w, shape (m,) or (1,), and rows U with ``A = diag(w) U``."""
        return np.ones(1), self

    def stands_alone(self, workload: "Operator") -> bool:
        """Tell whether a workload's rows are these, too many to be solved with together."""
        return False


@singledispatch
def transpose(matrix: Operator) -> Operator:
    """Return the structure of the transpose."""
    raise NotImplementedError(f"{type(matrix).__name__} has no transpose.")


@singledispatch
def multiple(matrix: Operator, number: SupportsFloat) -> Operator:
    """Return the structure of a matrix times a number."""
    raise NotImplementedError(f"{type(matrix).__name__} has no multiples.")


@singledispatch
def product(left: Operator, right: Operator) -> Operator:
    """Return the structure of a product."""
    raise NotImplementedError(f"{type(left).__name__} has no product.")


@singledispatch
def explicit(form: Form, sizes: tuple[int, ...] | None = None) -> Operator:
    """Return an ndarray or a CSR array as a structure."""
    raise NotImplementedError(f"{type(form).__name__} is no explicit matrix.")


def cross_gram(left: Operator, right: Operator) -> Array:
    """Return ``left @ right.T`` (q x m), by structure where either side has one.

    Raises
    ------
    MemoryCapError
        If no rule applies and an explicit form exceeds the memory cap.
    """
    check_allocation("cross gram", (left.shape[0], right.shape[0]))
    rule = rows_product(left, right)
    if rule is not None:
        return rule
    rule = rows_product(right, left)
    if rule is not None:
        return rule.T
    return as_dense(left.compact() @ right.compact().T)


@singledispatch
def rows_product(outer: Operator, other: Operator) -> Array | None:
    """Return ``outer @ other.T`` by a rule of the outer structure, None where it has none."""
    return None


def integer_form(form: Form) -> sparse.csr_array:
    """Return a CSR array with every entry rounded to the nearest integer, zeros dropped."""
    matrix = sparse.csr_array(form)
    check_range(float(np.abs(matrix.data).max(initial=0.0)))
    data = np.rint(matrix.data).astype(np.int64)
    rounded = sparse.csr_array((data, matrix.indices, matrix.indptr), shape=matrix.shape)
    rounded.eliminate_zeros()
    return rounded


def exact_column_sums(form: sparse.csr_array, power: int) -> Longs:
    """Return the column sums of ``|a| ** power`` of integer entries, power 1 or 2, shape (n,)."""
    matrix = abs(form).astype(np.int64)
    check_range(float(abs(matrix).max()) ** power * form.shape[0])
    if power == 2:
        matrix = matrix * matrix
    return np.asarray(matrix.sum(axis=0), dtype=np.int64)


def check_range(largest: float) -> None:
    """Refuse integers that would not stay exact in 64 bits."""
    if largest >= 2.0**62:
        raise OverflowError(
            f"integer entries or their column sums reach {largest:.3g}: expected less than 2**62. "
            f"Round with a smaller scale."
        )
