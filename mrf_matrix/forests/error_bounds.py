r"""Bounds on the error of cells, pure and simplified forests (Gao, Xu and Zhou, 2020).

Records are points of the unit cube :math:`[0,1]^d` with two classes; :math:`\eta(x)`, the
probability of class 1, is L-Lipschitz in the Euclidean norm; n records are drawn independently; a
tree has k leaves and each predicts the majority of its records; the forest takes the majority of
its trees. :math:`R^*` is the Bayes error. Every function has two forms:

- ``form="published"``: the theorem as the paper states it;
- ``form="sharp"``: what the argument gives when it is carried out with less waste, derived in
  the documentation (Pure forests, The bounds). Where it is below 1, that is, where it says
  anything, it is at most the published one.

Both hold for every number of trees: a majority errs on a record only where half of the trees do,
so (Lemma 1) its excess error is at most twice that of a tree.
"""

import math
from collections.abc import Callable
from typing import Literal

from scipy.special import beta

from mrf_matrix.base.checks import check_integer, one_word
from mrf_matrix.forests.cell_laws import check_number

Form = Literal["published", "sharp"]
Splits = Literal["uniform", "midpoint"]


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


def pure_forest_bound(
    n_records: int,
    n_leaves: int,
    n_attributes: int,
    lipschitz: float = 1.0,
    *,
    splits: Splits = "uniform",
    form: Form = "published",
) -> float:
    r"""Bound the excess error :math:`E R(f) - R^*` of a pure forest (Theorems 1 and 2).

    .. math::

        \text{uniform:} \quad &4\sqrt{2 e L}\, d^{3/4} k^{-1/(8d)} + 2\sqrt{k/n} + 6k/n \\
        \text{midpoint:} \quad &8 L^{3/5} d^{7/10} k^{-1/(3.87 d)} + 2\sqrt{k/n} + 6k/n \\
        \text{sharp:} \quad &2 L\, \bar\nu + 2\sqrt{2/e}\sqrt{k/n} + 2k/(e n)

    with :math:`\bar\nu` of `expected_diameter_bound`.

    Parameters
    ----------
    n_records, n_leaves, n_attributes : int
        n, k (at least 2) and d.
    lipschitz : float, default=1.0
        The Lipschitz constant L.
    splits : {"uniform", "midpoint"}, default="uniform"
        As in `PureTrees`.
    form : {"published", "sharp"}, default="published"
        See the module.

    Returns
    -------
    float
        The bound says nothing where it exceeds 1/2.

    Notes
    -----
    The published rates are :math:`n^{-1/(8d+2)}` and :math:`n^{-1/(3.87d+2)}`; the sharp forms
    give :math:`n^{-1/(4d+2)}` and :math:`n^{-1/(2d+2)}`.

    Examples
    --------
    >>> published = pure_forest_bound(10**6, 1000, 2, splits="midpoint")
    >>> sharp = pure_forest_bound(10**6, 1000, 2, splits="midpoint", form="sharp")
    >>> round(published, 2), round(sharp, 2)
    (5.39, 0.64)
    """
    n, k, d, big_l = _checked_sizes(n_records, n_leaves, n_attributes, lipschitz, form)
    one_word("splits", splits, ("uniform", "midpoint"))
    if form == "sharp":
        diameter = expected_diameter_bound(k, d, splits=splits)
        return 2 * (big_l * diameter + math.sqrt(2 / math.e * k / n) + k / (math.e * n))
    if splits == "uniform":
        structure = 4 * math.sqrt(2 * math.e * big_l * d**1.5) * math.pow(k, -1 / (8 * d))
    else:
        structure = 8 * big_l**0.6 * d**0.7 * math.pow(k, -1 / (3.87 * d))
    return structure + 2 * math.sqrt(k / n) + 6 * k / n


def simplified_forest_bound(
    n_records: int,
    n_leaves: int,
    n_attributes: int,
    lipschitz: float = 1.0,
    *,
    form: Form = "published",
) -> float:
    r"""Bound the excess error :math:`E R(f) - R^*` of a simplified Breiman forest (Theorem 3).

    .. math::

        \text{published:} \quad &4\sqrt{\tfrac{k\ln n}{n}} + 2\sqrt[4]{\tfrac{4k^3\ln n}{n^3}}
            + \tfrac{12k}{n} + 4\sqrt{\tfrac{k}{n}} + \tfrac{4L\sqrt{d}}{k^{1/d}} \\
        \text{sharp:} \quad &2 L\,\nu_k + 2\sqrt{\tfrac{2}{n}\ln\tfrac{8^k}{3}}

    with :math:`\nu_k` of `impure_diameter`, at most :math:`2\sqrt{d}\,k^{-1/d}`.

    Parameters
    ----------
    n_records, n_leaves, n_attributes : int
        n (at least 4 for the published form), k (at least 2) and d.
    lipschitz : float, default=1.0
        The Lipschitz constant L.
    form : {"published", "sharp"}, default="published"
        See the module.

    Notes
    -----
    The published rate is :math:`(\ln n/n)^{1/(d+2)}`, reached at
    :math:`k = (n/\ln n)^{d/(d+2)}`; the paper prints the exponent :math:`2d/(d+2)`, which would
    make k exceed n from d = 2 on. The sharp form has no logarithm: its rate
    :math:`n^{-1/(d+2)}` is the minimax rate.

    Examples
    --------
    >>> simplified_forest_bound(10**6, 1000, 2) > simplified_forest_bound(
    ...     10**6, 1000, 2, form="sharp"
    ... )
    True
    """
    n, k, d, big_l = _checked_sizes(n_records, n_leaves, n_attributes, lipschitz, form)
    if form == "sharp":
        trees = 2 * math.sqrt(2 * _log_labelled_trees(k) / n)
        return 2 * big_l * impure_diameter(k, d) + trees
    check_integer("n_records", n, 4)
    logarithmic = _logarithmic_terms(n, k)
    structure = 4 * big_l * math.sqrt(d) * math.pow(k, -1 / d)
    return logarithmic + 12 * k / n + 4 * math.sqrt(k / n) + structure


def pure_leaves_bound(n_records: int, n_leaves: int, *, form: Form = "published") -> float:
    r"""Bound the error :math:`E R(f)` when Algorithm 1 ends with pure leaves only (Theorem 4).

    .. math::

        \text{published:} \quad &4\sqrt{\tfrac{k_0\ln n}{n}}
            + 2\sqrt[4]{\tfrac{4k_0^3\ln n}{n^3}} + 2\sqrt{\tfrac{k_0}{n\ln n}}
            + \tfrac{6k_0}{n} \\
        \text{sharp:} \quad &\tfrac{2}{n}\left(1 + \ln\tfrac{8^{k_0}}{3}\right)

    Parameters
    ----------
    n_records : int
        n, at least 4.
    n_leaves : int
        :math:`k_0` (at least 2): for every sample, all trees end with at most so many leaves, each
        of one class.
    form : {"published", "sharp"}, default="published"
        See the module.

    Notes
    -----
    The trees then make no error on their sample, and a classifier that does not, out of M that
    were fixed beforehand, errs with probability at most :math:`(1 + \ln M)/n` in expectation. So
    the error falls like 1/n, not like the square root that the paper states.

    Examples
    --------
    >>> round(pure_leaves_bound(10_000, 8, form="sharp"), 4)
    0.0033
    """
    n, k, _, _ = _checked_sizes(n_records, n_leaves, 1, 1.0, form)
    check_integer("n_records", n, 4)
    if form == "sharp":
        return 2 * (1 + _log_labelled_trees(k)) / n
    return _logarithmic_terms(n, k) + 2 * math.sqrt(k / (n * math.log(n))) + 6 * k / n


def best_leaves(bound: Callable[[int], float], most: int) -> int:
    """Return the number of leaves, from 2 to `most`, at which a bound is least.

    Parameters
    ----------
    bound : callable
        ``bound(k)``; tried on a grid of steps of 2 per cent.
    most : int
        Largest k, usually the number of records.

    Examples
    --------
    >>> best_leaves(lambda k: pure_forest_bound(10**6, k, 2, splits="midpoint"), 10**6) > 1000
    True
    """
    check_integer("most", most, 2)
    grid, k = [], 2
    while k <= most:
        grid.append(k)
        k = max(k + 1, int(1.02 * k))
    return min(grid, key=bound)


def _logarithmic_terms(n: int, k: int) -> float:
    return 4 * math.sqrt(k * math.log(n) / n) + 2 * math.pow(4 * k**3 * math.log(n) / n**3, 0.25)


def _log_labelled_trees(k: int) -> float:
    """Return ln(8^k / 3): prunings of a fixed tree to at most k leaves, times labels of leaves.

    There are Catalan(j - 1) <= 4^(j-1) prunings to j leaves, together at most 4^k / 3.
    """
    return k * math.log(8) - math.log(3)


def _checked_sizes(
    n_records: int, n_leaves: int, n_attributes: int, lipschitz: float, form: str
) -> tuple[int, int, int, float]:
    check_integer("n_records", n_records, 1)
    check_integer("n_leaves", n_leaves, 2)
    check_integer("n_attributes", n_attributes, 1)
    one_word("form", form, ("published", "sharp"))
    check_number("lipschitz", lipschitz)
    return int(n_records), int(n_leaves), int(n_attributes), float(lipschitz)
