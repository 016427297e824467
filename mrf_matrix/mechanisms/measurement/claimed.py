"""Noisy answers that other tools made: taken in as claimed by whoever made them, and no further.

Real answers are held as integers of a lattice so fine that its step is 2**-24 of the sensitivity or
less. Least squares and its errors are then those of the answers as they were given.
"""

import os
from dataclasses import replace
from fractions import Fraction
from math import floor, log2
from typing import ClassVar

import numpy as np

import strategies
from mrf_matrix.base.arrays import Array
from mrf_matrix.base.provenance import DOMAIN, NOTHING, Provenance
from mrf_matrix.domain import Domain
from mrf_matrix.mechanisms.budget import ZCDP, PureDP, checked_neighboring
from mrf_matrix.mechanisms.counts import check_columns
from mrf_matrix.mechanisms.measurement.mechanism import (
    Mechanism,
    checked_budget,
    noise_for,
    squared_factor,
)
from mrf_matrix.mechanisms.measurement.release import ELSEWHERE, DrawnAnswers, Noise, Release
from mrf_matrix.mechanisms.noise import DiscreteGaussian, DiscreteLaplace
from mrf_matrix.mechanisms.rounding import (
    RoundedStrategy,
    exact_column_sum,
    is_nonnegative,
    round_strategy,
)
from strategies import Strategy
from strategies.operators import Operator, Scaled, as_operator
from strategies.operators.base.arrays import plain_array

STEP_BITS = {"l1": 30, "l2": 24}
"""The sensitivity in steps of the lattice, as a power of two: squares are summed exactly."""

LARGEST_BITS = 60
"""Of an answer in steps of the lattice: sums of a few are int64."""


class ClaimedLaplace(DiscreteLaplace):
    """Laplace noise of another tool, on a fine lattice."""

    name: ClassVar[str] = "Laplace noise"

    def __str__(self) -> str:
        return self.name  # its scale is one of steps, which mean nothing to a reader


class ClaimedGaussian(DiscreteGaussian):
    """Gaussian noise of another tool, on a fine lattice."""

    name: ClassVar[str] = "Gaussian noise"

    def __str__(self) -> str:
        return self.name


LAWS = {"l1": ClaimedLaplace, "l2": ClaimedGaussian}


def claimed_release(
    matrix: object,
    answers: object,
    budget: PureDP | ZCDP,
    *,
    neighboring: str = "add_remove",
    domain: Domain | None = None,
    made_by: str = "",
) -> Release:
    """Return answers ``y = A D + noise`` that another tool made as a release.

    `reconstruct`, `row_variances` and `from_release` take it. It is never private by our word: its
    statement names the budget as the claim of whoever made the answers.

    Parameters
    ----------
    matrix : Strategy, Operator, ndarray, scipy sparse, or path, of shape (m, n)
        A, as it was measured. A path: ``.npz``, ``.npy``, Matrix Market or CSV.
    answers : array-like or path, of shape (m,) or (m, k)
        y in A's units; a column for each class.
    budget : PureDP or ZCDP
        By which Laplace or Gaussian noise was scaled to A. Noise of standard deviation s is that of
        ``epsilon = sqrt(2) * f * norm / s``, or ``rho = (f * norm / s)**2 / 2``, with A's L1 or L2
        norm and f the factor of the neighbours; an infinite budget says that there is none.
    neighboring : {"add_remove", "replace_one"}, default="add_remove"
    domain : Domain, optional
        The public domain whose cells are A's columns, with the classes.
    made_by : str, default=""
        Which tool or person made them, quoted in every statement.

    Raises
    ------
    TypeError, ValueError, OverflowError
        If an argument is not of the kind described, or matrix, answers and domain do not fit.
    OperatorFileError
        If a file holds no matrix.

    Examples
    --------
    >>> from mrf_matrix.mechanisms import reconstruct
    >>> taken = claimed_release(np.tri(3), [1.2, 0.7, 3.1], PureDP(1), made_by="HDMM")
    >>> reconstruct(taken, np.eye(3)).ravel().round(6)
    array([ 1.2, -0.5,  2.4])
    >>> print(taken.statement)
    Claim by whoever made the answers ("HDMM", in the caller's words), unverified: \
PureDP(epsilon=1) under add_remove neighbours, Laplace noise; taken as public: domain.
    """
    checked_budget(budget)
    relation = checked_neighboring(neighboring)
    operator = _operator(matrix)
    sizes = (operator.sizes or (operator.shape[1],)) if domain is None else tuple(domain.sizes)
    check_columns(operator, sizes)
    values = _answers(answers, operator.shape[0])
    rounded = _round_to_lattice(operator, budget, float(np.abs(values).max(initial=0.0)))
    factor = squared_factor(relation, budget.norm, nonnegative=is_nonnegative(rounded.matrix))
    law = noise_for(rounded.column_sum, factor, budget, LAWS[budget.norm])
    mechanism = Mechanism(rounded, law, budget, relation, factor, ELSEWHERE)
    steps = np.rint(values * float(rounded.scale)).astype(np.int64)
    rests_on = Provenance.spent(budget, relation, "answers", made_by)
    noise: Noise = "none" if budget.is_infinite else "claimed"
    drawn = DrawnAnswers(
        steps, rests_on | (DOMAIN if domain is None else NOTHING), mechanism, noise, None
    )
    return Release(mechanism, drawn.answers, noise, sizes, None, domain, None, drawn)


def _operator(matrix: object) -> Operator:
    if isinstance(matrix, str | os.PathLike):
        matrix = strategies.load(matrix)
    return matrix.matrix if isinstance(matrix, Strategy) else as_operator(matrix, "matrix")


def _answers(answers: object, rows: int) -> Array:
    if isinstance(answers, str | os.PathLike):
        answers = _operator(answers).to_dense()
    values = plain_array("answers", answers)
    if values.dtype.kind not in "iuf" or values.ndim not in (1, 2):
        raise TypeError(f"answers has type {values.dtype}: expected real numbers, a row a query.")
    values = values.astype(np.float64)
    if values.shape == (1, rows) and rows > 1:  # a line of a text file
        values = values.T
    table = values.reshape(len(values), -1)
    if len(table) != rows or not table.shape[1] or not np.isfinite(table).all():
        raise ValueError(
            f"answers has shape {values.shape}: expected finite numbers of shape ({rows},) or "
            f"({rows}, k), a row for each row of the matrix."
        )
    return table


def _round_to_lattice(matrix: Operator, budget: PureDP | ZCDP, largest: float) -> RoundedStrategy:
    """Return the matrix in integers of a fine lattice, on which the answers are integers too."""
    rounded = round_strategy(matrix, budget.norm)
    norm = float(rounded.column_sum)
    size = log2(norm) if budget.norm == "l1" else log2(norm) / 2
    room = LARGEST_BITS - log2(max(largest * float(rounded.scale), 1.0))
    if room < 0:
        raise OverflowError(
            f"answers reach {largest:.3g}: expected less than 2**{LARGEST_BITS} steps of the "
            f"matrix's {float(1 / rounded.scale):.3g}."
        )
    bits = floor(min(STEP_BITS[budget.norm] - size, room))
    if bits <= 0:
        return rounded
    finer = Scaled(2**bits, rounded.matrix)
    kept = finer if rounded.recovery is rounded.matrix else Scaled(2**bits, rounded.recovery)
    return replace(
        rounded, matrix=finer, recovery=kept, scale=rounded.scale * Fraction(2) ** bits,
        column_sum=exact_column_sum(finer, budget.norm),
    )  # fmt: skip
