r"""A sum of effects that were measured each for itself, and by how much of it to believe.

Effects :math:`g_i` measured beside nothing but the class totals are those of one attribute. Their
sum counts twice what two attributes say, and too little where every one was shrunk. With one
number for all of them, the scale s,

.. math:: F(x) = f_0 + s \Bigl(\sum_i g_i(x_i) - \bar m\Bigr),

right log odds leave no residual in all, whether the sum is far above its mean or far below. The
middle :math:`\bar m` lies half-way between the means of the sum in the two classes: means add up,
whatever attributes have in common. Of several classes the same holds for any two scores, and each
score takes its mean over all classes, by their shares.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import softmax

from mrf_matrix.base.arrays import Array
from mrf_matrix.posterior.residuals.several import ClassStates

USUAL_SCALE = 0.6
"""Where no record says otherwise: what sums over public sets were worth."""

SCALES: Array = USUAL_SCALE * 1.25 ** np.array(sorted(range(-18, 9), key=abs), dtype=np.float64)
"""Candidates, a quarter apart, from a hundredth to three and a half: the usual ones first, for ties
go to the first."""

SPREAD_OF_SCALES = 0.4
"""Of their logarithms about the usual one, before any record: the mean size of a Laplace law, for
copies ask for far smaller ones."""

UNKNOWN_INTERCEPT = 0.05
"""Variance of what the middle misses of the intercept, on the log odds."""


@dataclass(frozen=True, eq=False)
class SumOfEffects:
    """Effects of single attributes that are to be added up; public.

    Attributes
    ----------
    effects : tuple of ndarray, (n_i, columns)
        Of each attribute's codes: on the log odds of two classes, else on each class's score.
    base, middle, mean, spread : ndarray of shape (columns,)
        Intercepts without effects; middle of the sum between the classes; its mean over records,
        and its standard deviation if attributes were independent.
    """

    effects: tuple[Array, ...]
    base: Array
    middle: Array
    mean: Array
    spread: Array

    def intercepts(self, scale: float) -> Array:
        """Return the intercepts beside the scaled sum."""
        return np.asarray(self.base - scale * self.middle)

    def shifts(self, scale: float) -> Array:
        """Return by how much the intercepts move beside the scaled sum."""
        return np.asarray(self.intercepts(scale) - self.base)


def sum_of_effects(states: ClassStates) -> SumOfEffects:
    """Return the effects of single attributes as they are known."""
    margins = states.first.margins
    effects = tuple(
        np.column_stack([one.blocks[i].mean for one in states.columns]) for i in range(len(margins))
    )
    base = np.array([one.intercept for one in states.columns])
    mean, variance = np.zeros_like(base), np.zeros_like(base)
    for shares, one in zip(margins, effects, strict=True):
        own = shares @ one
        mean += own
        variance += shares @ (one - own) ** 2
    middle = _middle(margins, effects, base)
    return SumOfEffects(effects, base, middle, mean, np.sqrt(variance))


def _middle(margins: tuple[Array, ...], effects: tuple[Array, ...], base: Array) -> Array:
    """Return the sum half-way between the classes' means, shape (columns,)."""
    odds = _of_each_class(base[None, :])
    means = np.zeros((odds.shape[1],) * 2)  # of each class's records (rows), each class's score
    for shares, one in zip(margins, effects, strict=True):
        scores = _of_each_class(one)
        weights = shares[:, None] * softmax(odds + scores, axis=1)
        means += (weights / weights.sum(axis=0)).T @ scores
    own = np.diagonal(means)
    half_way = (own[:, None] - means + means.T - own) / 2  # (c, o): score c less score o
    if len(base) == 1:
        return half_way[1:, 0]
    return np.asarray(half_way @ softmax(base))


def _of_each_class(scores: Array) -> Array:
    """Return scores with a column for every class: of two classes the first has 0."""
    return scores if scores.shape[1] > 1 else np.column_stack([np.zeros(len(scores)), scores[:, 0]])


def beside_totals(before: ClassStates, after: ClassStates) -> ClassStates:
    """Return states after a table that was measured beside nothing but the class totals.

    It says nothing of the intercept that they do not, and moves no score yet.
    """
    columns = tuple(
        replace(new, shift=old.shift, base_variance=old.base_variance)
        for old, new in zip(before.columns, after.columns, strict=True)
    )
    return replace(before, columns=columns)


def scaled_states(states: ClassStates, effects: SumOfEffects, scale: float) -> ClassStates:
    """Return the states once the sum is believed so far."""
    columns = []
    for one, shift in zip(states.columns, effects.shifts(scale), strict=True):
        blocks = tuple(
            replace(block, mean=scale * block.mean, covariance=scale**2 * block.covariance)
            for block in one.blocks
        )
        unknown = max(one.base_variance, UNKNOWN_INTERCEPT)
        columns.append(
            replace(one, blocks=blocks, shift=one.shift + float(shift), base_variance=unknown)
        )
    return replace(states, columns=tuple(columns))


def penalties_of_scales(rate: float) -> Array:
    """Return by what each scale is behind before any record, in units of score.

    `rate`: by what the log probability of a choice falls for a unit of score. Scores are clipped,
    so that far below any rate in use all scales would be as likely.
    """
    distance = np.abs(np.log(SCALES / USUAL_SCALE)) / SPREAD_OF_SCALES
    return np.asarray(distance / max(rate, 1e-300))
