"""What a posterior forest would label imagined records: one fit for each law of data."""

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.mechanisms import measure
from mrf_matrix.planning.accuracy.expected_accuracy import ImaginedData
from mrf_matrix.planning.blocks.block_part import only_blocks, tables_of
from mrf_matrix.planning.plans.plan import Plan
from mrf_matrix.posterior import product_posterior


def posterior_probabilities(
    plan: Plan, imagined: ImaginedData, generator: np.random.Generator
) -> NDArray[np.float64]:
    """Return class probabilities of the imagined queries, shape (laws, queries, k).

    The largest array is the noisy tables of all laws, leaves x (laws · k).

    Parameters
    ----------
    plan : Plan
        In mode "posterior".
    imagined : ImaginedData
    generator : Generator
        Draws research noise.
    """
    part, k = only_blocks(plan.parts), imagined.n_classes
    counts = imagined.counts(imagined.codes, plan.domain.sizes)
    release = measure(part.mechanism, counts, noise="research", random_state=generator)
    queries = imagined.queries.reshape(imagined.n_targets, imagined.n_queries, -1)
    found = []
    for law, asked in enumerate(queries):
        tables, totals = tables_of(part, release, law * k + np.arange(k))
        posterior = product_posterior(tables, plan.domain.ordered, totals)
        found.append(posterior.probabilities(asked))
    return np.stack(found)
