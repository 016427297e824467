r"""Finite-sample bounds on the error of pure and simplified forests (Gao, Xu and Zhou, 2020).

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

from mrf_matrix.base.checks import check_integer, one_word
from mrf_matrix.forests.theory.cells import (
    Form,
    Splits,
    check_number,
    expected_diameter_bound,
    impure_diameter,
)


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
    n, k, d, big_l = _checked(n_records, n_leaves, n_attributes, lipschitz, form)
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
    n, k, d, big_l = _checked(n_records, n_leaves, n_attributes, lipschitz, form)
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
    n, k, _, _ = _checked(n_records, n_leaves, 1, 1.0, form)
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


def _checked(
    n_records: int, n_leaves: int, n_attributes: int, lipschitz: float, form: str
) -> tuple[int, int, int, float]:
    check_integer("n_records", n_records, 1)
    check_integer("n_leaves", n_leaves, 2)
    check_integer("n_attributes", n_attributes, 1)
    one_word("form", form, ("published", "sharp"))
    check_number("lipschitz", lipschitz)
    return int(n_records), int(n_leaves), int(n_attributes), float(lipschitz)
