"""What the records of one cell say of its label, and how often a cell is cut: bounds of lemmas."""

import math

from mrf_matrix.base.checks import check_integer


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
