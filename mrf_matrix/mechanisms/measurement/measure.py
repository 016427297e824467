"""Calibrate, measure, reconstruct: where one curator's data and noise meet, and answers after it.

Parties of a federation each add their own share of the noise. Whether a strategy determines a
workload is asked before anything is spent or answered.
"""

from dataclasses import dataclass

import numpy as np

from mrf_matrix.base.arrays import Array, Longs, Seed
from mrf_matrix.base.checks import PrivateValue, check_parent_process
from mrf_matrix.base.provenance import STRATEGY, Provenance
from mrf_matrix.base.work import enter_draw, save_draw
from mrf_matrix.mechanisms.budget import ZCDP, Norm, PureDP, checked_neighboring
from mrf_matrix.mechanisms.counts import CellCounts, check_columns
from mrf_matrix.mechanisms.measurement.least_squares import estimated_cells, recovered_squares
from mrf_matrix.mechanisms.measurement.mechanism import (
    Mechanism,
    checked_budget,
    noise_for,
    squared_factor,
)
from mrf_matrix.mechanisms.measurement.release import (
    Noise,
    Release,
    checked_release,
    release_maker,
)
from mrf_matrix.mechanisms.noise import NoiseLaw
from mrf_matrix.mechanisms.rounding import (
    RoundedStrategy,
    is_integral,
    is_nonnegative,
    round_strategy,
)
from mrf_matrix.mechanisms.tally import LeafCounts
from strategies import Strategy
from strategies.operators import (
    Gram,
    Grouping,
    Identity,
    MemoryCapError,
    Operator,
    RowSpaceError,
    as_operator,
    check_allocation,
    estimate,
    fits,
)
from strategies.operators.base.recovery import format_rows

ASKED = ("exact", "research")


def calibrate(
    strategy: object,
    budget: PureDP | ZCDP,
    *,
    neighboring: str = "add_remove",
    workload: object = None,
    law: type[NoiseLaw] | None = None,
) -> Mechanism:
    """Return the mechanism that spends a budget on a strategy. No data is needed.

    The noise has scale ``f Δ / ε`` (discrete Laplace, pure DP) or variance parameter
    ``σ² = f² Δ² / 2ρ`` (discrete Gaussian, zCDP), where Δ is the rounded strategy's exact
    sensitivity and f the factor of the neighbouring relation; both are rounded up to a double.

    Parameters
    ----------
    strategy : Strategy, Operator, ndarray or scipy sparse, of shape (m, n)
        A `Strategy` must have been selected for the norm of the budget: "l1" for `PureDP`, "l2"
        for `ZCDP`.
    budget : PureDP or ZCDP
    neighboring : {"add_remove", "replace_one"}, default="add_remove"
    workload : ndarray, scipy sparse or Operator of shape (q, n), optional
        What will be asked: checked to be answerable, before anything is spent.
    law : subclass of NoiseLaw, optional
        The noise: by default discrete Laplace for `PureDP`, discrete Gaussian for `ZCDP`. Any
        other states its own scale, and its release says "claim by NAME, unverified".

    Raises
    ------
    TypeError, ValueError
        If an argument is not of the kind described, or the noise would not fit 64 bits.
    MemoryCapError
        If one column of the strategy's answers would exceed the memory cap.
    RowSpaceError
        If the strategy does not determine the workload, or rows of it are too faint to measure
        and no workload is given to tell whether they are needed.
    """
    checked_budget(budget)
    relation = checked_neighboring(neighboring)
    matrix, method = _matrix_and_method(strategy, budget)
    check_allocation("answers of the strategy", (matrix.shape[0], 1))  # whatever the budget
    rounded = _round_once(matrix, budget.norm)
    if workload is not None:
        check_determined(as_operator(workload, "workload"), rounded.recovery, rounded.matrix)
    elif rounded.is_lossy:
        raise RowSpaceError(
            "rows of the strategy are too faint beside the largest to be measured: expected "
            "weights above 2**-30 of the sensitivity. Drop those rows, or pass workload= to "
            "have it checked that it does not need them."
        )
    factor = squared_factor(relation, budget.norm, nonnegative=is_nonnegative(rounded.matrix))
    noise = noise_for(rounded.column_sum, factor, budget, law)
    return Mechanism(rounded, noise, budget, relation, factor, method)


def _matrix_and_method(strategy: object, budget: PureDP | ZCDP) -> tuple[Operator, str]:
    if not isinstance(strategy, Strategy):
        return as_operator(strategy, "strategy"), "given"
    if strategy.norm != budget.norm:
        raise ValueError(
            f"strategy is one for norm={strategy.norm!r}, but {budget!r} needs "
            f"norm={budget.norm!r}: expected strategies.select or strategies.evaluate with "
            f"norm={budget.norm!r}."
        )
    return strategy.matrix, strategy.method


def _round_once(matrix: Operator, norm: Norm) -> RoundedStrategy:
    """Round a strategy once for as long as it lives, beside its other cached properties.

    A study releases the same strategy many times; the factors of its rounded form, which answers
    are recovered with, are kept as long as that form is.
    """
    kept: dict[str, RoundedStrategy] = vars(matrix).setdefault("_round_once", {})
    if norm not in kept:
        kept[norm] = round_strategy(matrix, norm)
    return kept[norm]


@dataclass(frozen=True, eq=False, repr=False)
class ReadyCounts(PrivateValue):
    """Exact answers ``A D`` to one strategy, worked out before anything is paid: **private**.

    They take the place of the counts in `measure`, so that nothing of the data can fail between
    charge and noise.
    """

    matrix: Operator
    sizes: tuple[int, ...]
    provenance: Provenance
    exact: Longs  # (m, k)

    @classmethod
    def of(cls, counts: CellCounts | LeafCounts, matrix: Operator) -> "ReadyCounts":
        return cls(matrix, counts.sizes, counts.provenance, counts.answers(matrix))

    def answers(self, operator: Operator) -> Longs:
        if operator is not self.matrix:
            raise ValueError("the answers are ready for another strategy: expected that one.")
        return self.exact


def measure(
    strategy: object,
    counts: CellCounts | LeafCounts | ReadyCounts,
    budget: PureDP | ZCDP | None = None,
    *,
    neighboring: str = "add_remove",
    noise: str = "exact",
    random_state: Seed = None,
    workload: object = None,
) -> Release:
    """Measure a strategy on private counts, once: ``y = Ã D + noise``.

    Everything is checked before the counts are read and any noise is drawn.

    Parameters
    ----------
    strategy : Strategy, Operator, ndarray, scipy sparse, or Mechanism
        A `Mechanism` has its budget and neighbouring relation already.
    counts : CellCounts or LeafCounts
        From `count_stream` or `count_cells`; or, where only leaves are measured, `count_leaves`.
    budget : PureDP or ZCDP
        Pure DP adds discrete Laplace noise, zCDP discrete Gaussian noise. An infinite budget adds
        none, and the release says so.
    neighboring : {"add_remove", "replace_one"}, default="add_remove"
    noise : {"exact", "research"}, default="exact"
        "exact" is sampled by OpenDP, never seedable, and is the only private one. "research" is
        the same law from NumPy's generators, for studies.
    random_state : None, int or numpy.random.Generator
        Seed of research noise; refused with exact noise. It is not stored.
    workload : ndarray, scipy sparse or Operator of shape (q, n), optional
        What will be asked of the release: refused before spending if it has no answer.

    Raises
    ------
    TypeError, ValueError
        If an argument is not of the kind described.
    RowSpaceError
        If the workload has no answer from the strategy.
    NoiseProcessError
        If exact noise is asked for in a worker process.

    Examples
    --------
    >>> from mrf_matrix.mechanisms import PureDP, count_cells
    >>> from strategies.operators import Identity
    >>> counts = count_cells(np.array([[0], [2], [2]]), np.zeros(3, int), sizes=(3,), n_classes=1)
    >>> measure(Identity(3), counts, PureDP(1.0), noise="research", random_state=0)
    Release(3 x 1 answers, method='given'. NOT A PRIVATE RELEASE: discrete Laplace noise of scale \
1 from a seedable generator (research noise), with the error of PureDP(epsilon=1) under \
add_remove neighbours.)
    """
    if isinstance(strategy, Mechanism):
        mechanism = strategy
        if budget not in (None, strategy.budget):
            raise ValueError(
                f"budget={budget!r}: expected none, for the mechanism is calibrated to "
                f"{strategy.budget!r} already."
            )
    else:
        mechanism = calibrate(
            strategy, checked_budget(budget), neighboring=neighboring, workload=workload
        )
    kind = _checked_noise(noise, mechanism, random_state)
    if not isinstance(counts, CellCounts | LeafCounts | ReadyCounts):
        raise TypeError(
            f"counts is of type {type(counts).__name__}: expected CellCounts, from "
            f"count_cells(codes, labels, sizes, n_classes)."
        )
    check_columns(mechanism.rounded.matrix, counts.sizes)
    generator = _generator(random_state) if kind == "research" else None
    if kind in ("exact", "claimed"):
        check_parent_process()
    answers = counts.answers(mechanism.rounded.matrix)
    rests_on = counts.provenance | STRATEGY
    draw = enter_draw(release_maker(mechanism, kind, counts.sizes, rests_on))
    if generator is not None:
        draw.outcome = answers + mechanism.law.research(answers.shape, generator)
    else:
        draw.outcome = mechanism.law.exact(answers)
    save_draw(draw)
    made: Release = draw.finish(draw.outcome)
    return made


def _generator(random_state: Seed) -> np.random.Generator:
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise type(error)(
            f"random_state={random_state!r}: expected None, a non-negative integer or a "
            f"numpy.random.Generator ({error})."
        ) from None


def _checked_noise(noise: object, mechanism: Mechanism, random_state: object) -> Noise:
    if noise not in ASKED:
        raise ValueError(
            f"noise={noise!r}: expected 'exact' (release-grade) or 'research' (seedable, for "
            f"studies)."
        )
    if noise == "exact" and random_state is not None:
        raise ValueError(
            "random_state was given with noise='exact': release-grade noise is never seedable. "
            "Expected random_state=None, or noise='research' for a reproducible study."
        )
    if mechanism.budget.is_infinite:
        return "none"
    if noise == "research":
        return "research"
    if mechanism.law.guards_as is not None:
        raise ValueError(
            f"strategy has {mechanism.law}, of which several parties draw a share each: expected "
            f"the mechanism of one curator, from calibrate(...), or run_federation(design, parts)."
        )
    return "exact" if mechanism.is_proved else "claimed"


PROBES = 4
TOLERANCE = 1e-6
"""Relative distance of a row from the row space that counts as inside."""
ROUNDED = 1e-4
"""The same where a strategy was rounded entry by entry: rows that need lost digits are outside."""


def checked_workload(workload: object) -> Operator:
    queries = as_operator(workload, "workload")
    if isinstance(queries, Gram):
        raise TypeError(
            "workload is a Gram: its rows are not known, so they have no answers. Expected the "
            "workload itself."
        )
    return queries


def check_determined(
    workload: Operator, matrix: Operator, measured: Operator | None = None
) -> None:
    """Refuse a workload with rows outside the row space of a matrix, naming them.

    Raises RowSpaceError if ``w_r A⁺ Ã`` is not ``w_r`` for some row r. `measured`: Ã, A itself by
    default; see `RoundedStrategy`.

    A structure that decides it by a rule of its own (marginals: by attribute sets) estimates
    nothing, so its price does not depend on the cells.
    """
    _check_columns(workload, matrix)
    if not matrix.has_rule_for(workload):
        nothing = np.zeros((matrix.shape[0], 0))
        determined_estimate(workload, matrix, nothing, measured)


def determined_estimate(
    workload: Operator, matrix: Operator, answers: Array, measured: Operator | None = None
) -> Array:
    """Return ``W A⁺ @ answers``, refusing rows of W outside the row space of A by number.

    A row is inside if ``w A⁺ Ã z = w z`` for random vectors z, carried along as more answers. For
    a row at a relative distance δ from the row space the difference is normal with deviation
    ``δ |w|`` for each of `PROBES` vectors, so a distance of 1000 times the tolerance passes with
    a probability below 1e-11. A structure's own rule goes first; where n is out of reach and
    there is none, its estimate checks.

    Raises RowSpaceError if a row lies outside; ValueError if workload and matrix have different
    columns.
    """
    _check_columns(workload, matrix)
    check_allocation("answers to the workload", (workload.shape[0], answers.shape[1] + PROBES))
    n = matrix.shape[1]
    ruled = isinstance(matrix, Identity) or not fits((n, 4 * PROBES))
    if ruled or matrix.has_rule_for(workload):
        return _estimate(workload, matrix, answers)
    probes = np.random.default_rng(0).standard_normal((n, PROBES))
    is_rounded = measured is not None and measured is not matrix
    probed = (measured if measured is not None else matrix).matmat(probes)
    results = _estimate(workload, matrix, np.hstack([answers, probed]))
    differences = results[:, answers.shape[1] :] - workload.matmat(probes)
    _check_rows(workload, differences, ROUNDED if is_rounded else TOLERANCE)
    return results[:, : answers.shape[1]]


def _check_columns(workload: Operator, matrix: Operator) -> None:
    if workload.shape[1] != matrix.shape[1]:
        raise ValueError(
            f"workload has {workload.shape[1]} columns: expected {matrix.shape[1]}, the cells "
            f"of the strategy's domain."
        )


def _estimate(workload: Operator, matrix: Operator, answers: Array) -> Array:
    result = matrix.estimate(workload, answers)
    if result is not None:
        return result
    if isinstance(matrix, Identity | Grouping):  # cells or groups, one by one
        return workload.matmat(matrix.least_squares(answers))
    cells = estimated_cells(matrix, answers)
    return estimate(workload, matrix, answers) if cells is None else workload.matmat(cells)


def _check_rows(workload: Operator, differences: Array, tolerance: float) -> None:
    distance = np.abs(differences).max(axis=1, initial=0.0)
    outside = np.flatnonzero(distance > tolerance * np.sqrt(_row_squares(workload)))
    if len(outside):
        raise RowSpaceError(
            f"the strategy does not determine {len(outside)} of the workload's {workload.shape[0]} "
            f"rows ({format_rows(outside)}): expected combinations of the strategy's rows only. "
            f"Measure a strategy selected for this workload, or drop those rows."
        )


def _row_squares(workload: Operator) -> Array:
    try:
        return workload.row_squares()
    except MemoryCapError:  # a product known by its action alone: one scale for all rows
        probe = workload.matmat(np.random.default_rng(1).standard_normal(workload.shape[1]))
        return np.full(workload.shape[0], float(np.mean(probe**2)))


def reconstruct(release: Release, workload: object) -> Array:
    """Answer a workload from a release by least squares: ``W A⁺ y``.

    The estimates are unbiased, of covariance ``variance * (W A⁺)(W A⁺)ᵀ`` in each class (Li, Hay,
    Rastogi, Miklau and McGregor, 2010). Where no noise was added, the answers of a workload of
    integers are the exact counts.

    Parameters
    ----------
    release : Release
    workload : ndarray, scipy sparse or Operator of shape (q, n)
        Any workload in the strategy's row space, not only the one it was selected for.

    Returns
    -------
    ndarray of shape (q, k)
        A column for each class. Estimates may be negative or fractional.

    Raises
    ------
    RowSpaceError
        If rows of the workload are no combination of the strategy's rows; it names them.
    ValueError
        If the workload is not a matrix over the cells of the release's domain.

    Examples
    --------
    >>> from mrf_matrix.mechanisms import PureDP, count_cells, measure
    >>> counts = count_cells(np.array([[0], [2], [2]]), np.zeros(3, int), sizes=(3,), n_classes=1)
    >>> release = measure(np.eye(3), counts, PureDP(float("inf")))
    >>> reconstruct(release, [[1, 1, 0], [1, 1, 1]]).ravel()
    array([1., 3.])
    """
    checked_release(release)
    queries = checked_workload(workload)
    answers = release.answers.astype(np.float64)
    rounded = release.mechanism.rounded
    estimates = determined_estimate(queries, rounded.recovery, answers, rounded.matrix)
    if release.noise == "none" and is_integral(queries):
        return np.rint(estimates)
    return estimates


def row_variances(release: Release, workload: object) -> Array:
    """Return the expected squared error of every answer of a workload in each class.

    ``variance * ||(W A⁺)_r||²`` with the exact variance of the discrete noise, in records squared,
    shape (q,). Where the strategy had to be rounded (`RoundedStrategy.recovery`), the rounding
    error is not in it: at most half a unit a record, where the sensitivity is 2**30 units.

    Parameters
    ----------
    release : Release
    workload : ndarray, scipy sparse or Operator of shape (q, n)

    Raises
    ------
    RowSpaceError
        If rows of the workload are no combination of the strategy's rows; it names them.

    Examples
    --------
    >>> from mrf_matrix.mechanisms import PureDP, count_cells, measure
    >>> counts = count_cells(np.array([[0], [2], [2]]), np.zeros(3, int), sizes=(3,), n_classes=1)
    >>> release = measure(np.eye(3), counts, PureDP(1), noise="research", random_state=0)
    >>> row_variances(release, [[1, 1, 0], [1, 1, 1]]) / release.variance
    array([2., 3.])
    """
    checked_release(release)
    queries, rounded = checked_workload(workload), release.mechanism.rounded
    # row by row: sums over all rows would pass a faint one outside beside the others
    check_determined(queries, rounded.recovery, rounded.matrix)
    return release.variance * recovered_squares(queries, rounded.recovery)
