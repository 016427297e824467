"""Whatever a user has, as an operator."""

from typing import Any

import numpy as np
from scipy import sparse

from strategies.operators.base.operator import Operator
from strategies.operators.base.validation import is_sparse
from strategies.operators.dense import Dense
from strategies.operators.sparse import Sparse


def as_operator(matrix: Any, name: str = "matrix") -> Operator:
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
    operator = matrix if isinstance(matrix, Operator) else _wrapped(matrix, name)
    if 0 in operator.shape:
        raise ValueError(
            f"{name} has shape {operator.shape}: expected at least one row and one column."
        )
    return operator


def _wrapped(matrix: Any, name: str) -> Operator:
    try:
        if is_sparse(matrix):
            return Sparse(sparse.csr_array(matrix))
        return Dense(np.asarray(matrix))
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name}: {error}") from None
