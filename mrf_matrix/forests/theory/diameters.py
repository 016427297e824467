"""How large the cells of pure and simplified trees are, as shares of the unit cube."""

import math
from typing import Literal

from scipy.special import beta

from mrf_matrix.base.checks import check_integer, one_word

Form = Literal["published", "sharp"]
Splits = Literal["uniform", "midpoint"]


def expected_diameter_bound(
    n_leaves: int, n_attributes: int, *, splits: Splits = "uniform"
) -> float:
    r"""Bound the expected diameter of the cell of any record in a pure tree.

    With :math:`m_q = E\,V^q` (a bound on) the moment of one side's length V,

    .. math::

        \bar\nu = \min\{d\, m_1, \sqrt{d\, m_2}\}, \qquad
        m_q = \prod_{i=1}^{k-1}\Bigl(1 - \frac{1-c_q}{d i}\Bigr)
            = \frac{\Gamma(k-a)}{\Gamma(1-a)\Gamma(k)} \le k^{-a}, \quad a = \frac{1-c_q}{d}

    where :math:`c_q` is what one cut leaves of :math:`V^q` in expectation:
    :math:`2^{-q}` at midpoints (exactly), at most 3/4 (q = 1) and 7/12 (q = 2) at uniform cuts.

    Parameters
    ----------
    n_leaves, n_attributes : int
        k (at least 1) and d.
    splits : {"uniform", "midpoint"}, default="uniform"
        As in `PureTrees`.

    Examples
    --------
    >>> round(expected_diameter_bound(2, 1, splits="midpoint"), 12)
    0.5
    """
    check_integer("n_leaves", n_leaves, 1)
    check_integer("n_attributes", n_attributes, 1)
    one_word("splits", splits, ("uniform", "midpoint"))
    first, second = (0.5, 0.25) if splits == "midpoint" else (3 / 4, 7 / 12)
    d = n_attributes
    return min(d * side_moment(n_leaves, d, first), math.sqrt(d * side_moment(n_leaves, d, second)))


def diameter_tail_bound(
    n_leaves: int, n_attributes: int, epsilon: float = 0.0, *, form: Form = "published"
) -> float:
    r"""Bound the probability of a large cell in a pure tree of uniform cuts (Lemma 3).

    .. math::

        \Pr\Bigl[\nu \ge (1+\varepsilon)\sqrt{d}\,k^{-1/8d}\Bigr]
            \le \frac{e d}{(1+\varepsilon)\,k^{1/8d}}
        \quad\text{(published)}, \qquad
            \frac{\bar\nu}{(1+\varepsilon)\sqrt{d}\,k^{-1/8d}}
        \quad\text{(sharp)}

    with :math:`\bar\nu` of `expected_diameter_bound`: Markov's inequality, at the same diameter.

    Parameters
    ----------
    n_leaves, n_attributes : int
        k (at least 2) and d.
    epsilon : float, default=0.0
        Relative excess, above -1.
    form : {"published", "sharp"}, default="published"
        As in `pure_forest_bound`.

    Returns
    -------
    float
        At most 1; 1 where the bound says nothing.

    Examples
    --------
    >>> published = diameter_tail_bound(10**6, 1)
    >>> round(published, 3), round(diameter_tail_bound(10**6, 1, form="sharp"), 3)
    (0.483, 0.145)
    """
    check_integer("n_leaves", n_leaves, 2)
    check_integer("n_attributes", n_attributes, 1)
    one_word("form", form, ("published", "sharp"))
    if not -1 < epsilon < math.inf:
        raise ValueError(f"epsilon={epsilon!r}: expected a finite number above -1.")
    root = math.pow(n_leaves, 1 / (8 * n_attributes))
    if form == "published":
        return min(1.0, math.e * n_attributes / ((1 + epsilon) * root))
    threshold = (1 + epsilon) * math.sqrt(n_attributes) / root
    return min(1.0, expected_diameter_bound(n_leaves, n_attributes) / threshold)


def side_moment(n_leaves: int, n_attributes: int, kept: float) -> float:
    """Return the product over i below k of ``1 - (1 - kept) / (d i)``, see above.

    `n_leaves`, `n_attributes`: k and d; `kept`: what one cut of the side leaves of the moment, in
    (0, 1).

    >>> round(side_moment(3, 1, 0.5), 12)  # (1 - 1/2)(1 - 1/4)
    0.375
    """
    a = (1 - kept) / n_attributes
    # Γ(k-a) / (Γ(1-a) Γ(k)) without the cancellation of large log-gammas
    return float(beta(n_leaves - a, a)) * math.sin(math.pi * a) / math.pi


def impure_diameter(n_leaves: int, n_attributes: int) -> float:
    r"""Return the largest diameter of an impure leaf of a simplified Breiman tree of k leaves.

    First come, first served: when the k-th leaf is made, no impure cell of fewer than
    :math:`h = \lfloor\log_2 k\rfloor` cuts is left. Longest sides first: of h = q d + r cuts, r
    sides got q + 1 and the others q, so the diameter is :math:`2^{-q}\sqrt{d - 3r/4}`.

    Parameters
    ----------
    n_leaves, n_attributes : int
        k and d.

    Examples
    --------
    >>> impure_diameter(8, 1), impure_diameter(16, 4)
    (0.125, 1.0)
    """
    check_integer("n_leaves", n_leaves, 1)
    check_integer("n_attributes", n_attributes, 1)
    q, r = divmod(int(n_leaves).bit_length() - 1, n_attributes)
    return math.ldexp(1.0, -q) * math.sqrt(n_attributes - 0.75 * r)
