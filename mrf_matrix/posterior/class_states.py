r"""Posterior of several classes while a residual forest learns: a score for each.

.. math:: F_c(x) = f_c + \sum_B g_{c,B}(x_B), \qquad p = \mathrm{softmax}(F).

Tables of residuals hold a column for each class. With :math:`D` the diagonal of p, the derivative
of :math:`w (e_y - p)` by the scores is :math:`-w (D - p p^\top)`. Scores may gain a common number,
and those whose gains are 0 on average over p see ``w D`` alone: a column for itself, of curvature
``w p_c``. That is the mean curvature ``w (1 - sum p²)`` times the class's part of it,
``p_c / (1 - sum p²)``, taken at the class totals.

Effects :math:`g_i` measured beside nothing but the class totals are those of one attribute. Their
sum counts twice what two attributes say, and too little where every one was shrunk. With one
number for all of them, the scale s,

.. math:: F(x) = f_0 + s \Bigl(\sum_i g_i(x_i) - \bar m\Bigr),

right log odds leave no residual in all, whether the sum is far above its mean or far below. The
middle :math:`\bar m` lies half-way between the means of the sum in the two classes: means add up,
whatever attributes have in common. Of several classes the same holds for any two scores, and each
score takes its mean over all classes, by their shares.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.special import softmax

from mrf_matrix.base.arrays import Array
from mrf_matrix.posterior.class_shares import (
    CodeShares,
    additive_shares,
    cell_curvatures,
    first_pass_shares,
    mapped_effects,
)
from mrf_matrix.posterior.residual_posterior import (
    ResidualPosterior,
    ResidualState,
)

LEAST_CURVATURE, PART_OF_TOTALS = 0.01, 0.2
"""Smallest mean curvature of a record, or this part of the one at the class totals if less."""


@dataclass(frozen=True, eq=False)
class ClassStates:
    """A residual forest while it learns: a state for each column of its tables.

    Attributes
    ----------
    columns : tuple of ResidualState
        The log odds of class 1 of two; else the score of each class.
    parts : ndarray of shape (columns,)
        Of the mean curvature, each column's.
    curvature : float
        Mean curvature of a record, as last measured or known.
    least : float
        What it is no less than.
    shares : tuple of ndarray, (n_i, columns)
        Of each class among the records of each attribute's codes, after the first pass.
    told : bool
        Whether that pass told them: else they are those of the class.
    """

    columns: tuple[ResidualState, ...]
    parts: Array
    curvature: float = 0.0
    least: float = PART_OF_TOTALS * LEAST_CURVATURE
    shares: tuple[Array, ...] = ()
    told: bool = False

    @property
    def first(self) -> ResidualState:
        """The first column, for what all of them share."""
        return self.columns[0]

    @property
    def evenness(self) -> float:
        """Share of the rarest class, as released, over that of even classes."""
        bases = [one.base for one in self.columns]
        shares = softmax(bases if len(bases) > 1 else [0.0, *bases])
        return float(len(shares) * shares.min())

    def with_block(self, attributes: tuple[int, ...]) -> "ClassStates":
        """Return the states with one more block, without effects."""
        block = self.first.empty_block(attributes)
        return self._with_columns([one.with_block(block) for one in self.columns])

    def largest_effects(self, count: int) -> tuple[int, ...]:
        """Return the attributes whose effects move the scores most, as far as is known."""
        moved = np.sum([one.mean_squares for one in self.columns], axis=0)
        return tuple(np.argsort(np.round(moved, 9), kind="stable")[::-1][:count].tolist())

    def with_curvature(self, curvature: float) -> "ClassStates":
        """Return the states with a mean curvature of a record: measured, or known from totals."""
        return replace(self, curvature=max(curvature, self.least))

    def end_first_pass(self, *, told: bool) -> "ClassStates":
        """Return the states once every attribute was measured beside the class totals alone.

        Class shares are told by the effects as the linear model has them, where noise lets them be
        `told`: else codes have the share of the class. The effects themselves are capped: on the
        log odds that model holds nearby only.
        """
        bases = np.array([one.base for one in self.columns])
        shares = tuple(
            first_pass_shares(bases, told * np.column_stack([block.mean for block in blocks]))
            for blocks in zip(*(one.blocks for one in self.columns), strict=True)
        )
        least = min(LEAST_CURVATURE, PART_OF_TOTALS * self.curvature)
        states = self._with_columns([one.cap() for one in self.columns])
        return replace(states, shares=shares, told=told, least=least)

    def with_code_shares(self, told: Sequence[tuple[CodeShares, ...]]) -> "ClassStates":
        """Return the states with what the first pass told of each attribute, a value a column."""
        columns = zip(self.columns, zip(*told, strict=True), strict=True)
        return self._with_columns([replace(one, code_shares=shares) for one, shares in columns])

    def curvatures(self, attributes: tuple[int, ...], counts: Array) -> Array:
        """Return the expected curvature of each cell of a table, (n, columns).

        `counts` (n,): of the cells' records. In the first pass records are alike.
        """
        means = self.curvature * self.parts
        if not self.shares:
            return np.multiply.outer(counts, means)
        return cell_curvatures(means, self._cell_shares(attributes, counts), counts)

    def _cell_shares(self, attributes: tuple[int, ...], counts: Array) -> Array:
        """Return the shares of each class in a table's cells, were log odds sums, (n, columns)."""
        table = counts.reshape([self.first.sizes[i] for i in attributes])
        shares = [
            additive_shares([self.shares[i][:, c] for i in attributes], table).ravel()
            for c in range(len(self.columns))
        ]
        return np.column_stack(shares)

    def _limits(self, attributes: tuple[int, ...], counts: Array) -> list[Callable[[Array], Array]]:
        """Return what becomes of a table's effects in each column.

        In the first pass it is linear however large they are. Later ones are capped, and several
        attributes are visited once: theirs are mapped, where shares were told.
        """
        n_columns = len(self.columns)
        if not self.shares:
            return [np.asarray] * n_columns
        if len(attributes) == 1 or not self.told:
            return [self.first.pooling.cap] * n_columns
        shares = self._cell_shares(attributes, counts)
        return [partial(mapped_effects, one, of_two=n_columns == 1) for one in shares.T]

    def visit(
        self, place: int, residuals: Array, counts: Array, variance: float
    ) -> tuple["ClassStates", Array]:
        """Return the states after a table of residuals, and what scores gain, (n, columns).

        Residuals of all classes add up to nothing, so what noise adds up to is taken out.
        `residuals` (n, columns); `counts` (n,): of the cells' records, as far as known;
        `variance`: of the noise on each residual.
        """
        n_columns = len(self.columns)
        if n_columns > 1:
            residuals = residuals - residuals.mean(axis=1, keepdims=True)
            variance = variance * (n_columns - 1) / n_columns
        attributes = self.first.blocks[place].attributes
        curvatures, limits = self.curvatures(attributes, counts), self._limits(attributes, counts)
        found = [
            one.visit(place, residuals[:, c], curvatures[:, c], variance, within=limits[c])
            for c, one in enumerate(self.columns)
        ]
        states = self._with_columns([state for state, _ in found])
        return states, np.stack([g for _, g in found], axis=1)

    def _with_columns(self, columns: list[ResidualState]) -> "ClassStates":
        return replace(self, columns=tuple(columns))

    @property
    def posterior(self) -> ResidualPosterior:
        """What predictions need."""
        found = tuple(one.score for one in self.columns)
        is_of_two = len(found) == 1 and self.parts.any()  # the only class has no curvature
        return ResidualPosterior(found, 2 if is_of_two else len(found))


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
    odds = _class_columns(base[None, :])
    means = np.zeros((odds.shape[1],) * 2)  # of each class's records (rows), each class's score
    for shares, one in zip(margins, effects, strict=True):
        scores = _class_columns(one)
        weights = shares[:, None] * softmax(odds + scores, axis=1)
        means += (weights / weights.sum(axis=0)).T @ scores
    own = np.diagonal(means)
    half_way = (own[:, None] - means + means.T - own) / 2  # (c, o): score c less score o
    if len(base) == 1:
        return half_way[1:, 0]
    return np.asarray(half_way @ softmax(base))


def _class_columns(scores: Array) -> Array:
    """Return scores with a column for every class: of two classes the first has 0."""
    return scores if scores.shape[1] > 1 else np.column_stack([np.zeros(len(scores)), scores[:, 0]])


def add_first_table(before: ClassStates, after: ClassStates) -> ClassStates:
    """Return states after a table that was measured beside nothing but the class totals.

    It says nothing of the intercept that they do not, and moves no score yet.
    """
    columns = tuple(
        replace(new, shift=old.shift, base_variance=old.base_variance)
        for old, new in zip(before.columns, after.columns, strict=True)
    )
    return replace(before, columns=columns)


def scale_states(states: ClassStates, effects: SumOfEffects, scale: float) -> ClassStates:
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
