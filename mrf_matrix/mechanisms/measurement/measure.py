"""Where one curator's data and noise meet, and how a release is answered from.

Parties of a federation each add their own share of the noise.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mrf_matrix.base.arrays import Array, Longs, Seed
from mrf_matrix.base.checks import PrivateValue, check_parent_process
from mrf_matrix.base.provenance import STRATEGY, Provenance, spending_of
from mrf_matrix.base.work import enter_draw, save_draw
from mrf_matrix.domain import Domain
from mrf_matrix.mechanisms.budget import ZCDP, PureDP
from mrf_matrix.mechanisms.counts import CellCounts, check_columns
from mrf_matrix.mechanisms.measurement.least_squares import (
    check_determined,
    checked_workload,
    determined_estimate,
    recovered_squares,
)
from mrf_matrix.mechanisms.measurement.mechanism import Mechanism, calibrate, checked_budget
from mrf_matrix.mechanisms.measurement.release import (
    DrawnAnswers,
    MeasurementRecord,
    Noise,
    Quorum,
    Release,
    checked_release,
)
from mrf_matrix.mechanisms.rounding import is_integral
from mrf_matrix.mechanisms.tally import LeafCounts
from strategies.operators import Operator

ASKED = ("exact", "research")


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

    @property
    def n_classes(self) -> int:
        return int(self.exact.shape[1])

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


def release_maker(
    mechanism: Mechanism,
    noise: Noise,
    sizes: tuple[int, ...],
    rests_on: Provenance,
    *,
    domain: Domain | None = None,
    quorum: Quorum | None = None,
) -> Callable[[Longs], Release]:
    """Return what makes a release of answers, all of which is known before they are drawn.

    `rests_on`: that of counts and strategy; its own charge is added, or the whole that it is a part
    of.
    """
    condition = mechanism.author if noise == "claimed" else ""
    if quorum is not None:
        condition = quorum.condition
    spending = spending_of(
        mechanism.budget, mechanism.neighboring, noise, "a measurement", condition
    )
    known = rests_on | Provenance.from_spending(spending)
    record = MeasurementRecord.today(noise)

    def release(answers: Longs) -> Release:
        drawn = DrawnAnswers(answers, known, mechanism, noise, quorum)
        return Release(mechanism, drawn.answers, noise, sizes, record, domain, quorum, drawn)

    return release


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


# Answers of a release ----------------------------------------------------------------------------


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
