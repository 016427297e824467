"""Cells of pure and simplified trees: what is known of their labels, cuts and sizes."""

import math
from typing import Literal

from scipy.special import beta

from mrf_matrix.base.checks import check_integer, one_word


def cell_error_bound(
    n_records: int, share: float, diameter: float, bayes: float, lipschitz: float = 1.0
) -> float:
    r"""Bound the error that one cell of a tree adds (Gao, Xu and Zhou, 2020, Lemma 4).

    .. math:: \Pr[f \ne y, x \in C] \le 2 L \nu p + \beta p + \sqrt{p / n} + 3 / n

    Parameters
    ----------
    n_records : int
        Records n of the sample; the cell predicts the majority of those that fall into it.
    share : float
        :math:`p = \Pr[x \in C]`, in [0, 1].
    diameter : float
        :math:`\nu` of the cell, at least 0.
    bayes : float
        :math:`\beta = E[\min\{\eta, 1 - \eta\} | x \in C]`, in [0, 1/2].
    lipschitz : float, default=1.0
        The Lipschitz constant L.

    Returns
    -------
    float
        The expectation is over samples and one more record.

    Examples
    --------
    >>> round(cell_error_bound(10_000, 0.25, 0.0, 0.1), 4)
    0.0303
    """
    check_integer("n_records", n_records, 1)
    check_number("share", share, 1)
    check_number("diameter", diameter)
    check_number("bayes", bayes, 0.5)
    check_number("lipschitz", lipschitz)
    constant = 2 * lipschitz * diameter + bayes
    return constant * share + math.sqrt(share / n_records) + 3 / n_records


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
