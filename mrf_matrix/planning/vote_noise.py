"""The noise of votes of trees that see disjoint records, before any record is seen.

Where trees vote for their leaf's largest class, one record moves one leaf's vote from a class to
another: by ``2Δ`` in the L1 norm and ``sqrt(2) Δ`` in the L2 norm under add/remove neighbours,
and, since a replaced record may change leaf, by twice that under replace-one. A query measured by
itself gets ``1/b`` of the budget of b queries, hence the noise of a sensitivity of b (``sqrt(b)``
in the L2 norm); of the two leaves that a replaced record touches it reaches one.
"""

from dataclasses import replace

from mrf_matrix.mechanisms import Mechanism
from mrf_matrix.mechanisms.mechanism import noise_for

HARD_SQUARED = {
    ("add_remove", "l1"): 4,
    ("add_remove", "l2"): 2,
    ("replace_one", "l1"): 16,
    ("replace_one", "l2"): 8,
}
"""Square of what hard voting and the neighbouring relation multiply Δ by, together."""


def with_hard_votes(mechanism: Mechanism) -> Mechanism:
    """Return the mechanism with the noise that a table of hard votes needs."""
    return _recalibrated(
        mechanism,
        mechanism.rounded.sensitivity,
        HARD_SQUARED[mechanism.neighboring, mechanism.rounded.norm],
    )


def one_query_at_a_time(mechanism: Mechanism, *, hard: bool) -> Mechanism:
    """Return the mechanism with the noise of one release a query, composed sequentially."""
    squared = mechanism.squared_factor
    if hard:
        squared = HARD_SQUARED["add_remove", mechanism.rounded.norm]
    return _recalibrated(mechanism, mechanism.rounded.matrix.shape[0], squared)


def _recalibrated(mechanism: Mechanism, sensitivity: int, squared: int) -> Mechanism:
    rounded = replace(mechanism.rounded, sensitivity=sensitivity)
    law = noise_for(sensitivity, squared, mechanism.budget)
    return replace(mechanism, rounded=rounded, squared_factor=squared, law=law)
