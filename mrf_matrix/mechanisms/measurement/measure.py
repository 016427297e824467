"""Calibrate and measure: where one curator's data and noise meet.

Parties of a federation each add their own share of the noise.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mrf_matrix.base.arrays import Longs, Seed
from mrf_matrix.base.checks import PrivateValue, check_parent_process
from mrf_matrix.base.provenance import STRATEGY, Provenance, spending_of
from mrf_matrix.base.work import enter_draw, save_draw
from mrf_matrix.domain import Domain
from mrf_matrix.mechanisms.budget import ZCDP, Norm, PureDP, checked_neighboring, squared_factor
from mrf_matrix.mechanisms.counts import CellCounts, check_columns
from mrf_matrix.mechanisms.measurement.least_squares import check_determined
from mrf_matrix.mechanisms.measurement.mechanism import Mechanism, checked_budget, noise_for
from mrf_matrix.mechanisms.measurement.release import (
    DrawnAnswers,
    MeasurementRecord,
    Noise,
    Release,
)
from mrf_matrix.mechanisms.noise import NoiseLaw
from mrf_matrix.mechanisms.rounding import RoundedStrategy, is_nonnegative, round_strategy
from mrf_matrix.mechanisms.shared_noise import Quorum
from mrf_matrix.mechanisms.tally import LeafCounts
from strategies import Strategy
from strategies.operators import Operator, RowSpaceError, as_operator, check_allocation

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
