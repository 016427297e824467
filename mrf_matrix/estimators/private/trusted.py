"""How far a private forest believes its votes: a factor that the records choose, privately."""

from typing import TypeGuard

import numpy as np

from mrf_matrix.base.arrays import Longs
from mrf_matrix.base.steps import tell
from mrf_matrix.estimators.private.screened import choice_of
from mrf_matrix.estimators.shared.base import sorted_classes
from mrf_matrix.estimators.shared.given_data import EncodedRecords
from mrf_matrix.mechanisms.selection.bits import Bits
from mrf_matrix.planning.private.trust import FACTORS, gain_units, trust_scores
from mrf_matrix.posterior import PooledPosterior, ProductPosterior
from mrf_matrix.residual.step import ResidualStep

AT_ONCE = 1 << 20  # probabilities that are held at once, 8 MB

LEAST = 1e-300  # probabilities are taken to be no smaller

Believed = ProductPosterior | PooledPosterior
"""Posteriors whose votes may be multiplied."""


def is_of_tables(posterior: object) -> TypeGuard[Believed]:
    """Tell whether a posterior is of tables of blocks, alone or beside a tree."""
    tables = posterior.tables if isinstance(posterior, PooledPosterior) else posterior
    return isinstance(tables, ProductPosterior)


def chosen_factor(
    step: ResidualStep, posterior: Believed, records: EncodedRecords, bits: Bits
) -> float:
    """Return the factor of `FACTORS` that is chosen.

    `step`: the choice; `posterior`: of releases; `records`: **Private**; `bits`: the randomness of
    the choice.
    """
    tell(f"Choosing {step.measured}")
    sums = summed_gains(posterior, records)
    scores = trust_scores(sums, step).tolist()
    return float(FACTORS[choice_of(scores, np.ones(len(scores), dtype=np.bool_), step, bits)])


def summed_gains(posterior: Believed, records: EncodedRecords) -> Longs:
    """Return what all records gain by each factor, in whole units: **private**.

    The largest arrays hold `AT_ONCE` probabilities, or those of one record.
    """
    sums, rows = np.zeros(len(FACTORS), dtype=np.int64), max(1, AT_ONCE // records.n_classes)
    place = np.argsort(sorted_classes(records.domain)[1])  # of each class, as posteriors have it
    for start in range(0, len(records.labels), rows):
        here = slice(start, start + rows)
        own = place[records.labels[here], None]
        found = posterior.probabilities_believed(records.codes[here], FACTORS.tolist())
        logs = [np.log(np.maximum(np.take_along_axis(one, own, 1), LEAST)) for one in found]
        sums += [int(gain_units(one - logs[0]).sum()) for one in logs]
    return sums
