"""Leaf labels of the smooth-sensitivity forest (Fletcher and Islam, 2017), as published.

The structure is drawn without data. In each leaf the majority class has utility 1, the others 0;
with j the majority's lead over the runner-up, the local sensitivity is smoothed to
``S = exp(-j ε)`` and a label is drawn with probability proportional to ``exp(ε u / (2 S))``.

**The published mechanism is not ε-DP.** The exponential mechanism's proof needs one sensitivity for
all data sets; here it moves with the data. A record that shortens the lead from j to j - 1
multiplies the odds of a minority class by ``exp(ε (exp(j ε) - exp((j-1) ε)) / 2)``, which exceeds
``exp(ε)`` as soon as j is not tiny. `worst_log_ratio` computes it. Choosing labels by class counts
(`growth.labels.private_labels` with "count") costs ε and no more.
"""

from math import exp, log1p

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.arrays import Array, Longs

LARGEST_EXPONENT = 700.0
"""Exponents above it leave no chance to a minority class in double precision."""


def smooth_label_probabilities(counts: NDArray[np.integer], epsilon: float) -> Array:
    """Return the published law of each leaf's label.

    `counts` (o, k): class counts of the leaves' records; `epsilon`: budget of one tree.

    Of shape (o, k). Rows sum to one. Where classes tie for the lead, all of them have utility 1.

    >>> smooth_label_probabilities(np.array([[3, 3]]), 1.0)
    array([[0.5, 0.5]])
    """
    table = np.asarray(counts)
    ranked = np.sort(table, axis=1)
    lead = ranked[:, -1] - (ranked[:, -2] if table.shape[1] > 1 else 0)
    finite = min(epsilon, 2 * LARGEST_EXPONENT)  # larger ones say the same; a tie leads by 0
    exponent = np.minimum(
        finite / 2 * np.exp(np.minimum(lead * finite, LARGEST_EXPONENT)), LARGEST_EXPONENT
    )
    weights = np.where(table == ranked[:, -1:], 1.0, np.exp(-exponent)[:, None])
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def draw_smooth_labels(
    counts: NDArray[np.integer], epsilon: float, generator: np.random.Generator
) -> Longs:
    """Draw each leaf's label by the published law, in floating point; for comparison only."""
    running = np.cumsum(smooth_label_probabilities(counts, epsilon), axis=1)
    uniform = generator.random((len(running), 1)) * running[:, -1:]
    return np.asarray(np.minimum((running <= uniform).sum(axis=1), running.shape[1] - 1))


def worst_log_ratio(epsilon: float, lead: int) -> float:
    """Return the log-ratio of a minority label's probabilities at leads `lead` and `lead - 1`.

    For two classes and ``lead >= 2``. It should be at most ε; it is not.

    >>> round(worst_log_ratio(1.0, 5), 1)
    46.9
    """
    far, near = (epsilon / 2 * exp(j * epsilon) for j in (lead, lead - 1))
    return far + log1p(exp(-far)) - near - log1p(exp(-near))
