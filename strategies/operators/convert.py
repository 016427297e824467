"""Whatever a user has, as an operator."""

from typing import TypeAlias, cast

from numpy.typing import ArrayLike
from scipy import sparse

from strategies.operators.base.arrays import Real
from strategies.operators.base.operator import Operator
from strategies.operators.dense import Dense
from strategies.operators.sparse import Sparse

MatrixLike: TypeAlias = Operator | ArrayLike | sparse.sparray | sparse.spmatrix
"""What a front door takes for a matrix."""


def as_operator(matrix: object, name: str = "matrix") -> Operator:
    """Return an operator from an ndarray, a nested list, a scipy sparse matrix or an operator.

    Raises
    ------
    TypeError
        If the entries are not real numbers.
    ValueError
        If the matrix is empty, not two-dimensional, or holds NaN or infinity.

    Examples
    --------
    >>> as_operator([[1, 0], [1, 1]])
    Dense(2 x 2)
    """
    operator: Operator
    if isinstance(matrix, Operator):
        operator = matrix
    else:
        try:
            if sparse.issparse(matrix):
                operator = Sparse(cast(sparse.csr_array, matrix))
            else:
                operator = Dense(cast(Real, matrix))
        except (TypeError, ValueError) as error:
            raise type(error)(f"{name}: {error}") from None
    if 0 in operator.shape:
        raise ValueError(
            f"{name} has shape {operator.shape}: expected at least one row and one column."
        )
    return operator
