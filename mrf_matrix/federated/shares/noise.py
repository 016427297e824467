r"""Shares of noise that parties draw: of Laplace noise on small integers, of Gaussian noise on any.

*Integer strategies small enough that their noise can be shared exactly.* Shares of discrete Laplace
noise are drawn up to a scale of 4096, but a strategy of real numbers is rounded at 2**30 units, and
its noise is as large. Here it is rounded at few units instead, where the rounding itself is
searched: the loss is computed anew from the integers.

*What the sum of several discrete Gaussians protects.* It is no discrete Gaussian, but close to one.
Let n parties draw from :math:`N_Z(0, v)`. Adding one to a sum of j, by Poisson's summation, gives
at every integer the probability of :math:`N_Z(0, (j+1) v)` times a factor within :math:`1 \pm
\eta_j` and a constant, where

.. math:: \eta_j = 2 \sum_{m \ge 1} \exp(-2 \pi^2 m^2 v j / (j + 1)).

So the logarithm of the sum's probabilities differs from the discrete Gaussian's by a function e
whose values lie within a range of at most
:math:`\tau = \sum_{j<n} \log\frac{1 + \eta_j}{1 - \eta_j}`.

A record shifts a noisy integer by c. The privacy loss there is
:math:`L + e(x - c) - e(x)`, where L, that of the discrete Gaussian, is linear in x. The moments of
L under the sum are those of its n draws, each at most the normal ones (Canonne, Kamath and Steinke
2020), so :math:`E\, e^{(\alpha-1) L} \le e^{\alpha (\alpha-1) c^2 / 2 n v}` without any correction;
the rest adds at most τ for each integer that is shifted. With d of them and a shift of L2 norm Δ,

.. math:: \rho \le \frac{\Delta^2}{2 n v} + \tau d.

The theorem of Kairouz, Liu and Steinke (2021) has the same form with other constants. Draws beyond
the n that are counted on are independent of them, and can only hide more.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from math import exp, isqrt, log1p, pi

import numpy as np

from mrf_matrix.mechanisms import (
    DiscreteGaussian,
    Mechanism,
    NoiseLaw,
    Quorum,
    SharedDiscreteLaplace,
    calibrate,
    integer_form,
)
from strategies import evaluate
from strategies.operators import Operator, RowSpaceError

LARGEST_RATIO = 1.05  # largest loss of a coarse strategy over that of the real one

LARGEST_SHARED_SCALE = 4096  # largest noise scale that shares are drawn for

TRIALS = 48  # factors that are tried, from the coarsest worth a try to the finest allowed


class CoarseStrategyError(ValueError):
    """No small integers are close enough to a strategy."""


def coarse_mechanism(finest: Mechanism, workload: object = None) -> tuple[Mechanism, float]:
    """Return a mechanism with noise of a small scale for pure DP, and what rounding cost.

    A strategy of small integers is taken as it is. Others are rounded at many factors, and the
    best is kept: of least ``Δ² ||W Ã⁺||²``, recomputed from the integers. The
    cost is the loss of the integers over that of the strategy; 1 where nothing was rounded.

    `finest`: as `calibrate` returns it; `workload` (q, n): what will be asked; needed where the
    strategy has to be rounded.

    Raises CoarseStrategyError if the best ratio is above 1.05, or there is nothing to judge
    roundings by.
    """
    if finest.law.scale <= LARGEST_SHARED_SCALE:
        return finest, 1.0
    if workload is None:
        raise CoarseStrategyError(
            f"{_small_budget_message(finest)} To have the strategy rounded to fewer "
            f"units, pass workload=, which roundings are judged by."
        )
    norms = _coarse_roundings(finest, workload)
    if not norms:
        raise CoarseStrategyError(_small_budget_message(finest))
    loss, best = min(norms, key=lambda pair: pair[0])
    ratio = loss / evaluate(workload, finest.rounded.recovery, norm="l1").loss
    if ratio > LARGEST_RATIO:
        raise CoarseStrategyError(
            f"integers with noise of scale up to {LARGEST_SHARED_SCALE} lose {ratio - 1:.1%} on "
            f"this strategy: expected at most {LARGEST_RATIO - 1:.0%}. Choose a strategy of small "
            f"integers (identity, marginals, workload_itself), a larger epsilon, or zCDP (rho=), "
            f"whose shares have any scale."
        )
    return best, ratio


def _coarse_roundings(finest: Mechanism, workload: object) -> list[tuple[float, Mechanism]]:
    """Return loss and mechanism of every rounding that answers the workload."""
    real = finest.rounded.recovery
    most = int(LARGEST_SHARED_SCALE * finest.budget.exact) // isqrt(finest.squared_factor)
    size = float(real.sensitivity("l1"))
    found = []
    for target in np.unique(np.geomspace(max(1, most / 64), max(1, most), TRIALS)):
        factor = float(target) / size
        matrix = integer_form(real, factor).matrix
        try:
            judged = evaluate(workload, matrix, norm="l1")
        except (RowSpaceError, ValueError):  # rounded to nothing, or to too little
            continue
        made = _with_integers(finest, matrix, factor)
        if made.law.scale <= LARGEST_SHARED_SCALE:
            found.append((judged.loss, made))
    return found


def _with_integers(finest: Mechanism, matrix: Operator, factor: float) -> Mechanism:
    """Return the mechanism of integers that were rounded here, not by `calibrate`."""
    made = calibrate(matrix, finest.budget, neighboring=finest.neighboring)
    scale = Fraction(factor) * finest.rounded.scale * made.rounded.scale
    return replace(made, rounded=replace(made.rounded, scale=scale), method=finest.method)


def _small_budget_message(finest: Mechanism) -> str:
    return (
        f"noise of scale {float(finest.law.scale):.4g} is needed, and shares are made for at most "
        f"{LARGEST_SHARED_SCALE}: expected a larger epsilon, a strategy of smaller integers, or "
        f"zCDP (rho=), whose shares have any scale."
    )


def laplace_layers(scale: Fraction, quorum: Quorum, remove_excess: bool) -> tuple[NoiseLaw, ...]:
    """Return the shares of discrete Laplace noise that a party draws, of shape 1/s in all.

    With removal, ``1/s = 1/K + Σ_{j=s+1}^K 1/(j(j-1))`` for ``K = k - C``: a base, and a layer for
    each further drop-out, the first drop-out's first.
    """
    least, most = quorum.honest, quorum.parties - quorum.colluders
    if not remove_excess:
        return (SharedDiscreteLaplace(scale, Fraction(1, least)),)
    steps = [Fraction(1, j * (j - 1)) for j in range(most, least, -1)]
    shapes = [Fraction(1, most), *steps]
    return tuple(SharedDiscreteLaplace(scale, shape) for shape in shapes)


COMFORTABLE_VARIANCE = 4
"""From this v on τ is below 3e-17 an integer: strategies are scaled up to reach it."""

SLACK = 1e-9  # relative excess that covers the rounding of τ


def spread_of_sums(variance: float, parties: int) -> float:
    """Return τ, or slightly more: by how much the sum's log probabilities are off, at most.

    `variance`: v, the variance parameter of each draw; `parties`: draws that are added.
    Infinite where the bound says nothing.

    >>> spread_of_sums(2.0, 2) < 1.1e-8, spread_of_sums(4.0, 100) < 3e-15
    (True, True)
    """
    total = 0.0
    for j in range(1, parties):
        rate = 2 * pi**2 * variance * j / (j + 1)
        eta = 2 * sum(exp(-rate * m * m) for m in range(1, 60))
        if eta >= 1:
            return float("inf")
        total += log1p(eta) - log1p(-eta)
    return total * (1 + SLACK) + 1e-300


@dataclass(frozen=True)
class GaussianShare:
    """One party's draw, and by what the strategy is multiplied for it."""

    law: DiscreteGaussian
    multiple: int  # a power of two
    correction: Fraction  # the part of ρ that goes into τ d


def gaussian_share(
    squared_sensitivity: int, squared_factor: int, shifted: int, rho: Fraction, honest: int
) -> GaussianShare:
    """Return the draw of which ``honest`` parties' sum makes integer answers ρ-zCDP.

    `squared_sensitivity`: largest column sum of squared entries of the integer strategy;
    `squared_factor`: square of the neighbouring relation's factor; `shifted`: d, the most noisy
    integers that one record changes, whatever the multiple; `rho`: finite budget; `honest`: s, the
    draws that are counted on.
    """
    least = Fraction(squared_factor * squared_sensitivity) / (2 * rho * honest)
    multiple = 1
    while least * multiple**2 < COMFORTABLE_VARIANCE:
        multiple *= 2
    # τ falls in v, and what it costs can only make v larger
    spread = spread_of_sums(float(least * multiple**2) * (1 - SLACK), honest)
    correction = Fraction(spread) * shifted
    if not correction < rho / 2:
        raise ValueError(
            f"rho={float(rho):.3g} for {shifted} noisy integers a record and {honest} honest "
            f"parties: the correction for sums of discrete Gaussians takes half of it or more. "
            f"Expected a larger budget or fewer integers."
        )
    square = squared_sensitivity * multiple**2
    law = DiscreteGaussian.calibrated(square, squared_factor, honest * (rho - correction))
    return GaussianShare(law, multiple, correction)
