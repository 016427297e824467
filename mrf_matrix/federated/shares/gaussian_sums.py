r"""What the sum of several discrete Gaussians protects.

It is no discrete Gaussian, but close to one. Let n parties draw from :math:`N_Z(0, v)`. Adding one
to a sum of j, by Poisson's summation, gives at every integer the probability of
:math:`N_Z(0, (j+1) v)` times a factor within :math:`1 \pm \eta_j` and a constant, where

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

from dataclasses import dataclass
from fractions import Fraction
from math import exp, log1p, pi

from mrf_matrix.mechanisms import DiscreteGaussian

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
