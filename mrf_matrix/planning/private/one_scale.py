"""Kinds of forest on one scale: the expected share of right labels under one public prior."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
from scipy.special import expit

from mrf_matrix.base.arrays import Array, Longs
from mrf_matrix.domain import Domain
from mrf_matrix.mechanisms.budgets.claim import choice_epsilon, squared_factor
from mrf_matrix.mechanisms.selection.exponential import LARGEST_RATE
from mrf_matrix.planning.blocks.block_design import (
    UNKNOWN_RECORDS,
    BlockDesign,
    choose_blocks,
    variances,
)
from mrf_matrix.planning.private.correlated_effects import CorrelatedEffects, share_right
from mrf_matrix.planning.private.forecasts import alike_codes, residuals_explain, tables_explain
from mrf_matrix.planning.private.screening import Screening, screening_share
from mrf_matrix.residual.sequence import most_codes, residual_plan
from mrf_matrix.residual.settings import (
    ASSUMED_RECORDS,
    Budget,
    residual_signal,
    suits_residual_forest,
)

Explained = Callable[[int, Budget], Array]

WIDE = 0.35
"""Part of the attributes in one table from which it sees what sums of single attributes do not."""

LEAST_BESIDE_WIDE = 500
"""Signal from which residuals are considered where a posterior forest would have such a table:
below they were behind on public sets, on average and by up to 30 points."""


@cache
def _prior(n_attributes: int) -> CorrelatedEffects:
    return CorrelatedEffects.of(n_attributes)


@lru_cache(maxsize=32)
def _chosen_blocks(
    sizes: tuple[int, ...], n_classes: int, budget: Budget, n_records: int, factor: float
) -> BlockDesign:
    """Return the design that a posterior forest would take, up to which attributes go together."""
    structure = np.random.default_rng(0)
    return choose_blocks(sizes, n_classes, budget, n_records, structure, squared_factor=factor)


@dataclass(frozen=True)
class Scale:
    """What is known in public, and what each kind of forest would explain."""

    domain: Domain
    budget: Budget  # the whole
    n_records: int | None  # where it is public; else hundreds to ten thousand of them count alike
    neighboring: str

    @property
    def prior(self) -> CorrelatedEffects:
        """The draws over the domain's attributes."""
        return _prior(self.domain.n_attributes)

    def right(self, explained: Explained) -> float:
        """Return the mean share of right labels over the draws."""
        records = UNKNOWN_RECORDS if self.n_records is None else (max(self.n_records, 1),)
        lean = self.prior.lean
        found = [share_right(explained(n, self.budget), lean).mean() for n in records]
        return float(np.mean(found))

    @property
    def width(self) -> float:
        """Part of all attributes that the widest table of a posterior forest holds, up to 1."""
        known = self.n_records or ASSUMED_RECORDS
        blocks = self._design(self.domain.sizes, known, self.budget).blocks
        return max(map(len, blocks)) / sum(n > 1 for n in self.domain.sizes)

    @property
    def signal(self) -> float:
        """How far records outweigh noise, see `residual_signal`; 0 where N is not public."""
        d, k = self.domain.n_attributes, self.domain.n_classes
        return residual_signal(self.n_records or 0, self.budget, d, k)

    @property
    def suits_residuals(self) -> bool:
        """Whether a residual forest is considered, where the records will be there."""
        domain, wide = self.domain, self.width > WIDE
        suits = suits_residual_forest(
            self.n_records, self.budget, domain.n_attributes, domain.n_classes
        )
        suits = suits and (not wide or self.signal >= LEAST_BESIDE_WIDE)
        suits = suits and (self.budget.is_infinite or choice_epsilon(self.budget) < LARGEST_RATE)
        return suits and max(domain.sizes) <= most_codes(domain.n_classes)

    def posterior(self, n_records: int, budget: Budget) -> Array:
        """Return what a posterior forest of this budget explains in each draw."""
        d = self.domain.n_attributes
        columns = np.tile(np.arange(d), (len(self.prior.lean), 1))
        alike = alike_codes(self.domain)
        return self._by_tables(columns, self.domain.sizes, alike, n_records, budget)

    def residual(self, n_records: int, budget: Budget) -> Array:
        """Return what a residual forest of this budget explains in each draw."""
        plan = residual_plan(
            self.domain,
            budget,
            np.random.default_rng(0),
            n_records=n_records,
            neighboring=self.neighboring,
        )
        return residuals_explain(self.prior, plan, n_records)

    def right_of_screened(self, screening: Screening, *, residuals: bool) -> float:
        """Return the mean share of right labels where attributes are screened first.

        `residuals`: whether a residual forest goes on where few attributes do not tell enough.
        """
        goes_on = self.residual if residuals else self.posterior
        return self.right(lambda n, _: self._screened(n, screening, goes_on))

    def _screened(self, n_records: int, screening: Screening, goes_on: Explained) -> Array:
        prior, rest = self.prior, screening_share(screening, self.budget)
        alone = share_right(prior.shown**2, prior.lean[:, None]) * n_records
        rate = min(max(choice_epsilon(screening.choices[0].budget), 1e-12), 1e9)
        chance = np.random.default_rng(1).gumbel(size=alone.shape) / rate
        columns = np.argsort(-(alone + chance), axis=1)[:, : len(screening.choices)]
        usual = max(2, round(float(np.exp(np.log(self.domain.sizes).mean()))))
        sizes = (usual,) * columns.shape[1]
        alike = np.full(len(sizes), alike_codes(self.domain).mean())
        explained = self._by_tables(columns, sizes, alike, n_records, rest)
        if screening.enough is None:
            return explained
        told = float(screening.told)
        enough = _told(prior, columns[:, : screening.together(sizes)]) >= told
        return np.where(enough, explained, goes_on(n_records, rest))

    def _by_tables(
        self,
        columns: Longs,
        sizes: Sequence[int],
        alike: Array,
        n_records: int,
        budget: Budget,
    ) -> Array:
        """Return what the blocks explain that would be chosen among some attributes."""
        design = self._design(sizes, n_records, budget)
        used = [i for block in design.blocks for i in block]
        place = {attribute: number for number, attribute in enumerate(used)}
        of_totals = self._factor(budget) * variances(budget, len(design.blocks))[1]
        return tables_explain(
            self.prior,
            columns[:, used],
            [tuple(place[i] for i in block) for block in design.blocks],
            [sizes[i] for i in used],
            alike[used],
            n_records / self.domain.n_classes,
            (design.noise_variance, of_totals),
        )

    def _design(self, sizes: Sequence[int], n_records: int, budget: Budget) -> BlockDesign:
        classes, factor = self.domain.n_classes, self._factor(budget)
        return _chosen_blocks(tuple(sizes), classes, budget, n_records, factor)

    def _factor(self, budget: Budget) -> float:
        return squared_factor(self.neighboring, budget.norm, nonnegative=True)


def _told(prior: CorrelatedEffects, columns: Longs) -> Array:
    """Return which part of what the largest class misses attributes are right on together."""
    shown, shared = np.take_along_axis(prior.shown, columns, axis=1), prior.correlations
    squares = (shown**2).sum(axis=1)
    spent = (1 - shared) * squares + shared * shown.sum(axis=1) ** 2
    right = share_right(squares**2 / np.maximum(spent, 1e-12), prior.lean)
    most = np.maximum(expit(prior.lean), expit(-prior.lean))
    return np.asarray((right - most) / (1 - most))
