"""The noise of votes of trees that see disjoint records: how far one record moves them.

Write ``a_l`` for column l (leaf l) of the strategy A, ``Δ`` for its largest column norm, and C for
the private table (leaves x classes) whose answers ``A C`` are measured.

**Weight voting.** C are class counts, and a record counts in one leaf: exactly the table of cells,
with leaves for cells. The sensitivity is Δ, times the factor of the neighbouring relation
(`mrf_matrix.mechanisms.claim`).

**Hard voting.** Row l of C is the unit vector of leaf l's largest class, or zero without records.

``add_remove``
    One leaf l gains or loses a record, so its row changes from u to u', both unit vectors or
    zero: one vote moves from a class to another. ``A C`` changes by ``a_l (u' - u)ᵀ``. In the L1
    norm that is ``|a_l|₁ |u' - u|₁ <= 2Δ``; in the L2 norm ``|a_l|₂ |u' - u|₂ <= sqrt(2) Δ``.
``replace_one``
    The record keeps its coin, so its tree, but may move from leaf l to leaf m: both rows may
    change. In the L1 norm by ``2 |a_l|₁ + 2 |a_m|₁ <= 4Δ``. In the L2 norm, by the triangle
    inequality, ``sqrt(2) |a_l| + sqrt(2) |a_m| <= 2 sqrt(2) Δ``, whatever the signs of A.

**One query at a time** (Dwork and Feldman, 2018). Each of b queries is a release of its own at
``1/b`` of the budget, for which a query of sensitivity s needs noise of scale ``s b/ε`` (variance
``s² b/2ρ``): that of a sensitivity of b (``sqrt(b)`` in the L2 norm), times s. A query reaches one
leaf of the record's tree. With weight voting s is 1 under add/remove, and 2 (``sqrt(2)``) under
replace-one, where the class may change. With hard voting s is 2 (``sqrt(2)``) under both, for of
the leaves that a record moves between the query reaches only one.
"""

from dataclasses import replace

from mrf_matrix.mechanisms import Mechanism

HARD_SQUARED = {
    ("add_remove", "l1"): 4,
    ("add_remove", "l2"): 2,
    ("replace_one", "l1"): 16,
    ("replace_one", "l2"): 8,
}
"""Square of what hard voting and the neighbouring relation multiply Δ by, together."""


def with_hard_votes(mechanism: Mechanism) -> Mechanism:
    """Return the mechanism with the noise that a table of hard votes needs.

    `mechanism`: calibrated to a table of counts.
    """
    squared = HARD_SQUARED[mechanism.neighboring, mechanism.rounded.norm]
    return mechanism.with_factor(squared)


def one_query_at_a_time(mechanism: Mechanism, *, hard: bool) -> Mechanism:
    """Return the mechanism with the noise of one release a query, composed sequentially.

    `mechanism`: of the 0/1 workload over leaves itself, one row a query; `hard`: whether the table
    holds hard votes.
    """
    rounded = replace(mechanism.rounded, column_sum=mechanism.rounded.matrix.shape[0])
    squared = mechanism.squared_factor
    if hard:
        squared = HARD_SQUARED["add_remove", rounded.norm]
    law = mechanism.law_for(rounded.column_sum, squared, mechanism.budget)
    return replace(mechanism, rounded=rounded, squared_factor=squared, law=law)
