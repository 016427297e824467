"""What a residual forest would label imagined records: its steps are taken for each law of data."""

import numpy as np

from mrf_matrix.base.arrays import Array
from mrf_matrix.planning.accuracy.expected_accuracy import ImaginedData
from mrf_matrix.residual.learning import ResidualReleases, learned
from mrf_matrix.residual.records import ResidualRecords
from mrf_matrix.residual.sequence import ResidualPlan


def residual_probabilities(
    plan: ResidualPlan, imagined: ImaginedData, generator: np.random.Generator
) -> Array:
    """Return class probabilities of the imagined queries, shape (laws, queries, 2).

    Parameters
    ----------
    plan : ResidualPlan
    imagined : ImaginedData
        Of two classes.
    generator : Generator
        Draws research noise and choices.
    """
    queries = imagined.queries.reshape(imagined.n_targets, imagined.n_queries, -1)
    found = []
    for law, asked in enumerate(queries):
        mine = np.repeat(np.flatnonzero(imagined.owner == law), imagined.weight)
        records = ResidualRecords(imagined.codes[mine], imagined.labels[mine], plan.domain.sizes)
        state = learned(plan, ResidualReleases(records, "research", generator))
        found.append(state.posterior.probabilities(asked))
    return np.stack(found)
