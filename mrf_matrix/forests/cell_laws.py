"""The height of a record's leaf, the cuts above it and the sides of its cell: laws and bounds.

While a pure tree has i leaves, the one that holds a given record is split next with probability
1/i, whatever happened before. So the height of the record's leaf in a tree of k leaves is a sum of
independent indicators ``X_1 + ... + X_{k-1}``, ``X_i ~ Bernoulli(1/i)``, for uniform and midpoint
splits alike, and for every record (Gao, Xu and Zhou, 2020, have a bound of it: Lemma 2).
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, log1p, polygamma, rgamma

from mrf_matrix.base.checks import check_integer

BIAU = 0.3733646177016741  # the solution c* of ``c ln(2e/c) = 1`` below 1

LONGEST = 512
"""Heights listed at most: the probability beyond is below 1e-150 for every k below 2**63."""


def expected_height(n_leaves: int) -> float:
    """Return the expected height of a record's leaf: the harmonic number ``H(k - 1)``.

    Parameters
    ----------
    n_leaves : int
        Leaves k of the tree.

    Examples
    --------
    >>> expected_height(1), round(expected_height(5), 12)
    (0.0, 2.083333333333)
    """
    check_integer("n_leaves", n_leaves, 1)
    return float(digamma(float(n_leaves)) + np.euler_gamma)


def height_variance(n_leaves: int) -> float:
    """Return the variance of the height, ``sum of (1/i)(1 - 1/i)`` over i below k.

    Parameters
    ----------
    n_leaves : int
        Leaves k of the tree.

    Examples
    --------
    >>> round(height_variance(3), 12)
    0.25
    """
    check_integer("n_leaves", n_leaves, 1)
    squares = math.pi**2 / 6 - float(polygamma(1, float(n_leaves)))
    return expected_height(n_leaves) - squares


def height_bounds(n_leaves: int) -> tuple[float, float]:
    """Return Lemma 2's bounds ``ln k`` and ``1 + ln(k - 1)`` on the expected height.

    Parameters
    ----------
    n_leaves : int
        Leaves k of the tree, at least 2.

    Examples
    --------
    >>> low, high = height_bounds(100)
    >>> low <= expected_height(100) <= high
    True
    """
    check_integer("n_leaves", n_leaves, 2)
    return math.log(n_leaves), 1 + math.log(n_leaves - 1)


def height_tail_bounds(n_leaves: int, epsilon: float) -> tuple[float, float]:
    """Return bounds on the probability that a record's leaf is shallow, or deep (Lemma 2).

    ::

        P[h <= (1 - ε) ln k]            <=  k^(-ε²/2)
        P[h >= (1 + ε)(1 + ln(k - 1))]  <=  (e (k - 1))^-((1 + ε) ln(1 + ε) - ε)

    Parameters
    ----------
    n_leaves : int
        Leaves k of the tree, at least 2.
    epsilon : float
        Relative deviation, in (0, 1).

    Returns
    -------
    shallow, deep : float

    Raises
    ------
    ValueError
        If `epsilon` is not in (0, 1).

    Notes
    -----
    Both are Chernoff's: for independent indicators of total mean μ and ``ln k <= μ <= u``,
    ``P[h <= (1-ε)μ] <= exp(-ε²μ/2)`` and
    ``P[h >= (1+ε)u] <= exp(-u((1+ε) ln(1+ε) - ε))``, with ``u = 1 + ln(k-1)``.

    The paper states ``k^(-ε²/2)`` for the deep side too. That does not follow, and is not true for
    all k: the exact law exceeds it at ``k = 10**20``, ``ε = 0.999`` (it happens to hold for all
    k up to 10**12 that we looked at). ``k^(-ε²/3)`` is true, and weaker than what is returned.

    Examples
    --------
    >>> shallow, deep = height_tail_bounds(1000, 0.5)
    >>> round(shallow, 4), round(deep, 4)
    (0.4217, 0.4251)
    """
    low, high = height_bounds(n_leaves)
    if not 0 < epsilon < 1:
        raise ValueError(f"epsilon={epsilon!r}: expected a number between 0 and 1.")
    exponent = (1 + epsilon) * math.log1p(epsilon) - epsilon
    return math.exp(-(epsilon**2) / 2 * low), math.exp(-high * exponent)


def biau_height_rate(n_leaves: int, epsilon: float) -> float:
    r"""Return the rate of Biau, Devroye and Lugosi (2008) that Lemma 2 improves.

    .. math:: \Pr[h < (c^* - \varepsilon) \ln k]
        = O\bigl(\ln k \cdot k^{(c^* - \varepsilon) \ln(2e / (c^* - \varepsilon)) - 1}\bigr)

    with :math:`c^* = 0.3733...` the solution of :math:`c \ln(2e/c) = 1` below 1. Its constant is
    not stated, so it is a rate and no bound.

    Parameters
    ----------
    n_leaves : int
        Leaves k of the tree, at least 2.
    epsilon : float
        Deviation, in (0, c*).

    Notes
    -----
    Lemma 2 at the same height, ``height_tail_bounds(k, 1 - c* + epsilon)``, has the exponent
    :math:`-(1 - c^* + \varepsilon)^2 / 2`: the better one for epsilon up to .16, and the worse one
    above, that is, for heights below ``.213 ln k``.

    Examples
    --------
    >>> biau_height_rate(10**6, 0.1) > height_tail_bounds(10**6, 1 - BIAU + 0.1)[0]
    True
    """
    check_integer("n_leaves", n_leaves, 2)
    if not 0 < epsilon < BIAU:
        raise ValueError(f"epsilon={epsilon!r}: expected a number between 0 and c* = {BIAU:.4f}.")
    share = BIAU - epsilon
    exponent = share * (math.log(2 / share) + 1) - 1
    return math.log(n_leaves) * math.exp(exponent * math.log(n_leaves))


def height_probabilities(n_leaves: int) -> NDArray[np.float64]:
    """Return the exact law of the height: entry j is ``P[h = j]``, j = 0, 1, ...

    Parameters
    ----------
    n_leaves : int
        Leaves k of the tree.

    Returns
    -------
    ndarray of shape (min(k, 512),)
        The heights from 512 on have a probability below 1e-150. Absolute error about 1e-15.

    Notes
    -----
    The generating function is ``E z^h = Γ(k-1+z) / (Γ(z) Γ(k))`` (the probabilities are Stirling
    numbers of the first kind over ``(k-1)!``); its values at the roots of unity are inverted
    by a discrete Fourier transform. For k up to 512 it is a product of k - 1 factors; the largest
    array has 4 MB.

    Examples
    --------
    >>> height_probabilities(4).round(4)
    array([0.    , 0.3333, 0.5   , 0.1667])
    """
    check_integer("n_leaves", n_leaves, 1)
    points = min(int(n_leaves), LONGEST)
    z = np.exp(2j * np.pi * np.arange(points) / points)
    if n_leaves <= LONGEST:
        values = (1 + (z[:, np.newaxis] - 1) / np.arange(1, n_leaves)).prod(axis=1)
    else:
        values = np.exp(_log_gamma_ratio(float(n_leaves), z - 1)) * rgamma(z)
    law: NDArray[np.float64] = np.maximum(np.fft.fft(values).real / points, 0.0)
    return law


def _log_gamma_ratio(k: float, w: NDArray[Any]) -> NDArray[Any]:
    """Return ``ln Γ(k + w) - ln Γ(k)`` by Stirling's series, without cancellation, k > 512."""
    # SciPy's log1p is accurate for small complex numbers, NumPy's is not.
    main = (k + w - 0.5) * log1p(w / k) + w * np.log(k) - w
    correction = (1 / (k + w) - 1 / k) / 12 - (1 / (k + w) ** 3 - 1 / k**3) / 360
    return np.asarray(main + correction)


def attribute_probability_bounds(n_attributes: int, b1: float) -> tuple[float, float]:
    r"""Return how rarely, and how often, a multinomial tree can choose an attribute.

    .. math:: \frac{1}{1 + (D-1) e^{B_1}} \le \Pr[v \in A] \le \frac{e^{B_1}}{e^{B_1} + D - 1}

    Both are reached: where one attribute alone has the largest impurity decrease, and where all but
    it have (Bai, Yao, Li and Xia, 2022, Lemma 3).

    Parameters
    ----------
    n_attributes : int
        Candidate attributes D of the node.
    b1 : float
        :math:`B_1`, at least 0.

    Examples
    --------
    >>> attribute_probability_bounds(4, 0.0)
    (0.25, 0.25)
    """
    check_integer("n_attributes", n_attributes, 1)
    check_number("b1", b1)
    others, odds = n_attributes - 1, math.exp(-b1)
    return odds / (odds + others), 1 / (1 + others * odds)


def central_cut_probability(n_parts: int, b2: float) -> float:
    r"""Bound the probability that a cut is in none of the two outer parts of an attribute.

    .. math:: \frac{N - 2}{N} e^{-2 B_2}

    Parameters
    ----------
    n_parts : int
        Equal parts N of the attribute's interval, at least 3.
    b2 : float
        :math:`B_2`, at least 0.

    Notes
    -----
    Lemma 4 of the same paper. Its proof takes the candidate cuts as spread evenly over the
    interval: on data whose values crowd at an end it need not hold, and the density assumption of
    the theorem is what brings it back.

    Examples
    --------
    >>> central_cut_probability(4, 0.0)
    0.5
    """
    check_integer("n_parts", n_parts, 3)
    check_number("b2", b2)
    return (n_parts - 2) / n_parts * math.exp(-2 * b2)


def expected_side_bound(
    depth: int, n_attributes: int, b1: float, b2: float, n_parts: int = 4
) -> float:
    r"""Bound the expected side of a record's cell after so many splits (the same proof, C.3).

    .. math:: \Bigl(1 - \frac{P_1 P_2}{N}\Bigr)^m

    Parameters
    ----------
    depth : int
        Splits m above the cell.
    n_attributes, b1
        As `attribute_probability_bounds`, whose lower bound is :math:`P_1`.
    b2, n_parts
        As `central_cut_probability`, which is :math:`P_2`. Four parts, the default, make the bound
        least: :math:`(N - 2) / N^2` is largest there.

    Examples
    --------
    >>> round(expected_side_bound(100, 2, 0.0, 0.0), 4)
    0.0016
    """
    check_integer("depth", depth, 0)
    rarest, _ = attribute_probability_bounds(n_attributes, b1)
    return (1 - rarest * central_cut_probability(n_parts, b2) / n_parts) ** depth


def check_number(name: str, value: float, most: float = math.inf) -> None:
    """Refuse a number that is not finite, negative or above `most`.

    Raises ValueError naming the parameter.
    """
    if not 0 <= value <= most or math.isinf(value):
        kind = "a finite number of at least 0" if math.isinf(most) else f"a number in [0, {most:g}]"
        raise ValueError(f"{name}={value!r}: expected {kind}.")
