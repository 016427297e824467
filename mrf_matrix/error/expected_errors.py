"""Expected squared errors without data, the least budget for targets, the strategy of least error.

With ``y = Ã D + z`` and independent draws z of variance v, the estimate ``W Ã⁺ y`` of query r has
error variance ``v ||(W Ã⁺)_r||²`` in each class, whatever D is. Ã is the strategy rounded to
integers that will be measured, and v the exact variance of the discrete noise.

`strategies.smallest_budget` speaks of continuous noise. What is measured is a rounded strategy
under integer noise, whose exact variance falls as the budget grows. The least budget is found by
bisection and rounded up, so that the targets hold for what is really released.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, floor, log10
from typing import overload

import numpy as np
from numpy.typing import ArrayLike

from mrf_matrix.base.arrays import Array
from mrf_matrix.base.checks import whole_number
from mrf_matrix.mechanisms import ZCDP, Mechanism, NoiseLaw, PureDP, as_budget, calibrate
from mrf_matrix.mechanisms.budget import claimed_budget
from mrf_matrix.mechanisms.measurement.least_squares import recovered_squares
from mrf_matrix.mechanisms.measurement.mechanism import MechanismView, noise_for, squared_factor
from strategies import Strategy
from strategies.operators import Gram, MemoryCapError, Operator, as_operator
from strategies.operators.base.arrays import plain_array, plain_floats


@dataclass(frozen=True, eq=False, repr=False)
class ExpectedError(MechanismView):
    """Expected squared error of a workload's answers, known without data.

    Attributes
    ----------
    mechanism : Mechanism
        What would be measured, at which budget, under which neighbouring relation.
    n_classes : int
        Number of class columns k; each is answered with its own noise.
    square : float
        ``||W Ã⁺||_F²``: the total over rows for noise of variance one.
    row_squares : ndarray of shape (q,) or None
        ``||(W Ã⁺)_r||²`` of every row; None where no workload was given.
    """

    mechanism: Mechanism
    n_classes: int
    square: float
    row_squares: Array | None

    @property
    def noise_variance(self) -> float:
        """Exact variance of each noise draw, in units of the integer answers squared."""
        return self.mechanism.law.variance

    @property
    def total(self) -> float:
        """Expected squared error, summed over all rows and class columns."""
        return self.n_classes * self.noise_variance * self.square

    @property
    def row_variances(self) -> Array:
        """Expected squared error of every row in each class, shape (q,)."""
        return self.noise_variance * self._rows

    @property
    def row_rms(self) -> Array:
        """Root of `row_variances`, in records."""
        return np.sqrt(self.row_variances)

    @property
    def rms_per_row(self) -> float:
        """Root of the mean of `row_variances`: the error of a typical row, in records."""
        return float(np.sqrt(self.row_variances.mean()))

    @property
    def worst_row(self) -> int:
        """The row with the largest expected error."""
        return int(np.argmax(self._rows))

    @property
    def worst_rms(self) -> float:
        """Root-mean-square error of the worst row, in records."""
        return float(self.row_rms[self.worst_row])

    @property
    def _rows(self) -> Array:
        if self.row_squares is None:
            raise ValueError(
                "errors of single rows need the workload: expected "
                "expected_error(strategy, workload, ...)."
            )
        return self.row_squares

    def at(
        self, *, epsilon: object = None, delta: float | Fraction = 0, rho: object = None
    ) -> "ExpectedError":
        """Return the same at another budget of the same kind, without new linear algebra."""
        budget = _budget(epsilon, delta, rho)
        if type(budget) is not type(self.budget):
            raise ValueError(
                f"{budget!r}: expected a budget of the kind of {self.budget!r}, for which the "
                f"strategy was rounded."
            )
        return replace(self, mechanism=self.mechanism.at(budget))

    def __repr__(self) -> str:
        rows = "" if self.row_squares is None else f", rms_per_row={self.rms_per_row:.6g}"
        law, unit = self.mechanism.law, float(self.mechanism.rounded.scale)
        name, of, _ = str(law).partition(" of scale ")  # the law's is that of scaled integers
        scale = f"{of}{float(law.scale) / unit:.6g}" if of else ""
        return (
            f"ExpectedError(total={self.total:.6g}{rows}, n_classes={self.n_classes}, "
            f"{self.budget!r} under {self.neighboring} neighbours, {name}{scale})"
        )


@overload
def expected_error(
    strategy: object,
    workload: object = None,
    *,
    epsilon: list[float] | tuple[float, ...] | Array,
    delta: float | Fraction = 0,
    neighboring: str = "add_remove",
    n_classes: int = 1,
    law: type[NoiseLaw] | None = None,
) -> tuple[ExpectedError, ...]: ...


@overload
def expected_error(
    strategy: object,
    workload: object = None,
    *,
    epsilon: float | Fraction | str | None = None,
    delta: float | Fraction = 0,
    rho: object = None,
    neighboring: str = "add_remove",
    n_classes: int = 1,
    law: type[NoiseLaw] | None = None,
) -> ExpectedError: ...


def expected_error(
    strategy: object,
    workload: object = None,
    *,
    epsilon: object = None,
    delta: float | Fraction = 0,
    rho: object = None,
    neighboring: str = "add_remove",
    n_classes: int = 1,
    law: type[NoiseLaw] | None = None,
) -> ExpectedError | tuple[ExpectedError, ...]:
    """Return the expected squared error of answering a workload through a strategy.

    Parameters
    ----------
    strategy : Strategy, Operator, ndarray or scipy sparse, of shape (m, n)
        What would be measured.
    workload : ndarray, scipy sparse or Operator of shape (q, n), optional
        What would be asked. Without it, the total comes from the strategy's own loss. Then, and
        for a `Gram`, single rows have no figures.
    epsilon, rho : positive number
        Exactly one: pure DP (discrete Laplace noise) or zCDP (discrete Gaussian noise). A list of
        ``epsilon`` gives a tuple, an error for each, with the linear algebra of one.
    delta : float, default=0
        Of an (ε, δ) claim: Gaussian noise under the largest zCDP budget that implies it.
    neighboring : {"add_remove", "replace_one"}, default="add_remove"
    n_classes : int, default=1
        Number of class columns.
    law : subclass of NoiseLaw, optional
        Noise of your own, see `calibrate`.

    Raises
    ------
    RowSpaceError
        If the strategy does not determine the workload.
    ValueError, TypeError
        If an argument is not of the kind described.

    Examples
    --------
    >>> error = expected_error(np.eye(4), np.tri(4), epsilon=1.0)
    >>> error
    ExpectedError(total=18.4135, rms_per_row=2.14555, n_classes=1, PureDP(epsilon=1) under \
add_remove neighbours, discrete Laplace noise of scale 1)
    >>> error.worst_row
    3
    >>> [round(one.rms_per_row, 3) for one in expected_error(np.eye(4), np.tri(4), epsilon=[1, 2])]
    [2.146, 0.951]
    """
    if isinstance(epsilon, list | tuple | np.ndarray):
        is_array = isinstance(epsilon, np.ndarray)
        given = plain_array("epsilon", epsilon).tolist() if is_array else list(epsilon)
        if not given:
            raise ValueError("epsilon is empty: expected at least one budget.")
        first = expected_error(
            strategy, workload, epsilon=given[0], delta=delta, rho=rho, neighboring=neighboring,
            n_classes=n_classes, law=law,
        )  # fmt: skip
        return (first, *(first.at(epsilon=one, delta=delta) for one in given[1:]))
    budget = _budget(epsilon, delta, rho)
    classes = whole_number("n_classes", n_classes)
    mechanism = calibrate(strategy, budget, neighboring=neighboring, workload=workload, law=law)
    if workload is not None:
        queries = as_operator(workload, "workload")
        rows = recovered_squares(queries, mechanism.rounded.recovery)
        known = None if isinstance(queries, Gram) else rows
        return ExpectedError(mechanism, classes, float(rows.sum()), known)
    if not isinstance(strategy, Strategy):
        raise ValueError(
            "workload is None: a bare matrix answers no workload of its own. Expected a "
            "workload, or a Strategy from strategies.select."
        )
    if strategy.objective != "total":
        raise ValueError(
            f"workload is None: the strategy's own loss is of objective={strategy.objective!r}, "
            f"not the total. Expected the workload."
        )
    real = strategy.loss / strategy.sensitivity**2
    return ExpectedError(mechanism, classes, real / float(mechanism.rounded.scale) ** 2, None)


def direct_error(
    matrix: object,
    *,
    epsilon: object = None,
    delta: float | Fraction = 0,
    rho: object = None,
    neighboring: str = "add_remove",
    n_classes: int = 1,
) -> ExpectedError:
    """Return the expected squared error of a matrix's own answers, as measured.

    This is the baseline of noise on every tree's leaves: for ``A = T`` each leaf value is one
    noisy answer, and nothing is reconstructed.

    Examples
    --------
    >>> round(direct_error(np.ones((3, 2)), epsilon=1.0).rms_per_row, 4)  # noise of scale 3
    4.2231
    """
    classes = whole_number("n_classes", n_classes)
    budget = _budget(epsilon, delta, rho)
    mechanism = calibrate(matrix, budget, neighboring=neighboring)
    rows = np.full(mechanism.rounded.matrix.shape[0], 1 / float(mechanism.rounded.scale) ** 2)
    return ExpectedError(mechanism, classes, float(rows.sum()), rows)


def _budget(epsilon: object, delta: float | Fraction, rho: object) -> PureDP | ZCDP:
    given = as_budget(epsilon=epsilon, rho=rho)  # refuses none
    return claimed_budget(epsilon, delta, rho) if delta else given


DIGITS = 6  # significant decimal digits of the budget


def smallest_release_budget(
    strategy: object,
    workload: object,
    targets: ArrayLike,
    *,
    norm: str = "l1",
    neighboring: str = "add_remove",
) -> PureDP | ZCDP:
    """Return the least budget at which every row's error meets its target, rounded up.

    Parameters
    ----------
    strategy : Strategy, Operator, ndarray or scipy sparse, of shape (m, n)
        What would be measured.
    workload : ndarray, scipy sparse or Operator of shape (q, n)
    targets : float or array-like of shape (q,)
        Largest root mean squared error of every row, in records, under the exact discrete noise.
    norm : {"l1", "l2"}, default="l1"
        Whose noise: "l1" for ε, "l2" for ρ.
    neighboring : {"add_remove", "replace_one"}, default="add_remove"

    Returns
    -------
    PureDP or ZCDP
        With 6 significant digits, never below the least.

    Raises
    ------
    RowSpaceError
        If the strategy does not determine the workload.
    ValueError
        If a target is not positive, none is finite, or the norm is unknown.

    Examples
    --------
    >>> smallest_release_budget(np.eye(2), np.eye(2), targets=10.0)
    PureDP(epsilon=0.141304)
    """
    if norm not in ("l1", "l2"):
        raise ValueError(f"norm={norm!r}: expected 'l1' (epsilon) or 'l2' (rho).")
    kind = PureDP if norm == "l1" else ZCDP
    name = kind.parameter
    error = expected_error(strategy, workload, neighboring=neighboring, **{name: 1})  # type: ignore[call-overload]
    limits = checked_targets(targets, len(error.row_rms))

    def holds(amount: Fraction) -> bool:
        return bool((error.at(**{name: amount}).row_rms <= limits).all())

    return kind(least_amount(holds))


def least_amount(holds: Callable[[Fraction], bool]) -> Fraction:
    """Return the least ε or ρ at which something holds that holds at all larger ones, rounded up.

    >>> float(least_amount(lambda amount: amount >= Fraction(1, 3)))
    0.333334
    """
    low = high = 1.0
    while not holds(Fraction(high)):
        low, high = high, 2 * high  # ends: noise vanishes at the smallest scale of a law
    while low == high or holds(Fraction(low)):
        low, high = low / 2, low
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(Fraction(middle)) else (middle, high)
    return round_up(high)


def round_up(value: float) -> Fraction:
    """Return the least number of `DIGITS` significant decimal digits that is not below a value.

    >>> round_up(0.12345678)
    Fraction(123457, 1000000)
    """
    unit = Fraction(10) ** (floor(log10(value)) + 1 - DIGITS)
    return ceil(Fraction(value) / unit) * unit


LEAST_TARGET = 1e-12
"""Records: answers are whole numbers plus noise, which is none long before."""


def checked_targets(targets: ArrayLike, rows: int, name: str = "targets") -> Array:
    """Return a positive target for every row, or refuse by name."""
    limits = plain_floats(name, targets)
    if limits.ndim == 0:
        limits = np.full(rows, float(limits))
    if limits.shape != (rows,):
        raise ValueError(f"{name} has shape {limits.shape}: expected one for each of {rows} rows.")
    if not (limits >= LEAST_TARGET).all() or not np.isfinite(limits).any():
        raise ValueError(
            f"{name}: expected positive root mean squared errors, none below {LEAST_TARGET:g}, at "
            f"least one of them finite."
        )
    return limits


TIE = 1e-9
"""Relative difference of two expected errors that is rounding: the smaller loss is then kept."""


def least_expected_error(
    candidates: Sequence[Strategy],
    calibrated: Callable[[Strategy], Mechanism],
    workload: Operator,
    value: Callable[[Array], float] = np.sum,
) -> tuple[Strategy, Mechanism]:
    r"""Return the strategy of least expected squared error, and its mechanism.

    `strategies.select` ranks by the loss, the error under continuous noise of variance ``2 Δ²/ε²``
    (Laplace) or ``Δ²/2ρ`` (Gaussian). Noise of integers has less: with ``t = Δ/ε`` discrete Laplace
    noise has variance :math:`1/(2\sinh^2(1/2t))`, at t = 1 it is 1.84 and not 2. A strategy of
    small integers, such as the Identity, gains by that; one rounded to 2**30 units does not. The
    two can change places, so that they are compared under the mechanism's own law.

    The error is ``v ||W Ã⁺||_F²`` with Ã the strategy rounded to integers and v the exact variance
    of the mechanism's law. A candidate whose loss is too large to win under any law of its budget
    is neither rounded nor calibrated: ``v`` is at least ``Δ²`` times the variance of noise for a
    sensitivity of one unit, because a coarser law has the smaller variance for its scale. Nor is
    one after the first a candidate whose answers do not fit in memory: whether there is a plan does
    not depend on the budget.

    `candidates`: the first is kept where others are as good; `calibrated`: returns the mechanism
    that spends the budget on a strategy; `workload` (q, n): what is asked; `value`: of its rows'
    squared errors, their sum or another objective.

    Raises RowSpaceError if the first does not determine the workload; MemoryCapError if it does not
    fit.
    """
    best, *others = candidates
    mechanism = calibrated(best)
    if not others or mechanism.budget.is_infinite:
        return best, mechanism
    unit = _unit_variance(mechanism)
    least = _expected_square(mechanism, workload, value)
    for other in others:
        if unit * other.loss >= least:
            continue
        try:
            rival = calibrated(other)
            error = _expected_square(rival, workload, value)
        except MemoryCapError:
            continue
        if error < least * (1 - TIE):
            best, mechanism, least = other, rival, error
    return best, mechanism


def _unit_variance(mechanism: Mechanism) -> float:
    """Return the variance of noise for integers of sensitivity one, which no strategy is below.

    0 for a law of one's own, of which no such thing is known.
    """
    if not mechanism.is_proved:
        return 0.0
    budget = mechanism.budget
    factor = squared_factor(mechanism.neighboring, budget.norm, nonnegative=True)
    return noise_for(1, factor, budget).variance


def _expected_square(
    mechanism: Mechanism, workload: Operator, value: Callable[[Array], float]
) -> float:
    squares = recovered_squares(workload, mechanism.rounded.recovery)
    return mechanism.law.variance * value(squares)
