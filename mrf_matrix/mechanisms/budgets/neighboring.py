"""Which data sets are neighbours, and what that does to the sensitivity.

Write ``a_i`` for column i of the strategy A, ``Δ`` for its largest column norm. A record in cell
i of class c adds ``a_i`` to column c of the m x k answers ``A D``.

``add_remove``
    Neighbours differ by one record more or less: the answers change by one column of A, by at
    most Δ in either norm.
``replace_one``
    Neighbours differ in one record, which may change cell and class: (i, c) becomes (j, c').
    In the L1 norm the answers change by at most ``|a_i|_1 + |a_j|_1 <= 2Δ``, reached whenever two
    cells (or one cell in two classes) have the largest norm.
    In the L2 norm, with another class, by ``sqrt(|a_i|² + |a_j|²) <= sqrt(2) Δ``. With the same
    class by ``|a_i - a_j| = sqrt(|a_i|² + |a_j|² - 2 a_i·a_j)``: at most ``2Δ``, and at most
    ``sqrt(2) Δ`` again where no entry of A is negative, for then ``a_i·a_j >= 0``.
"""

from math import sqrt
from typing import Literal, get_args

from mrf_matrix.base.checks import one_word

Neighboring = Literal["add_remove", "replace_one"]
NEIGHBORING: tuple[Neighboring, ...] = get_args(Neighboring)


def checked_neighboring(neighboring: object) -> Neighboring:
    """Return a known neighbouring relation, or refuse."""
    return one_word("neighboring", neighboring, NEIGHBORING)


def squared_factor(neighboring: object, norm: Literal["l1", "l2"], *, nonnegative: bool) -> int:
    """Return the *square* of what the relation multiplies the sensitivity by: 1, 2 or 4.

    Parameters
    ----------
    neighboring : {"add_remove", "replace_one"}
    norm : {"l1", "l2"}
    nonnegative : bool
        Whether no entry of the strategy is negative, as far as is known.

    Examples
    --------
    >>> squared_factor("replace_one", "l1", nonnegative=True)
    4
    >>> squared_factor("replace_one", "l2", nonnegative=True)
    2
    """
    if checked_neighboring(neighboring) == "add_remove":
        return 1
    return 2 if norm == "l2" and nonnegative else 4


def neighboring_factor(neighboring: object, norm: Literal["l1", "l2"] = "l1") -> float:
    """Return what the relation multiplies the sensitivity by, for any strategy: 1 or 2.

    In the L2 norm and for a strategy without negative entries, sqrt(2) suffices under
    "replace_one": see `squared_factor`.
    """
    return sqrt(squared_factor(neighboring, norm, nonnegative=False))
