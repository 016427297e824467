"""How sure the margins of votes are that were released query by query.

Every answered query's votes carry noise of a law that is known without data, one for each batch and
ensemble. So the margins have intervals as in `margin_widths`, under weight and hard voting alike:
what noise is added to are the votes themselves.
"""

from dataclasses import dataclass, replace

import numpy as np

from mrf_matrix.base.arrays import Array, Codes
from mrf_matrix.error.noise_sums import NoiseTerm
from mrf_matrix.estimators.prediction.vote_book import FittedPrediction
from mrf_matrix.forests.sources.ensembles import query_keys
from mrf_matrix.mechanisms import Release
from mrf_matrix.planning.kinds.kind import Kind
from mrf_matrix.planning.plans.part import PlanPart
from mrf_matrix.voting.margin_widths import half_widths, vote_terms
from strategies.operators import Operator


@dataclass(frozen=True, eq=False)
class AnsweredEnsemble:
    """One ensemble's part of a batch, asked for the noise of its votes."""

    kind: Kind  # whose votes are asked
    part: PlanPart  # how the batch was answered
    release: Release  # the noisy measurement

    def vote_variances(self, codes: Codes) -> Array:
        """Return the expected squared error of every query's votes, per class, (b,)."""
        return replace(self.part, workload=self._votes_asked(codes)).row_variances

    def vote_terms(self, codes: Codes) -> list[NoiseTerm] | None:
        """Return the weighted noise draws of every query's votes, if they can be afforded."""
        if self.part.strategy is None:  # every query was measured itself
            one = np.array([1 / float(self.release.scale)])
            return [NoiseTerm.of(one, self.release.law)] * len(codes)
        return vote_terms(self._votes_asked, self.release, codes)

    def _votes_asked(self, codes: Codes) -> Operator:
        return self.kind.vote_workload(self.part.ensemble, codes)


def answered_widths(fitted: FittedPrediction, codes: Codes, level: float, n_classes: int) -> Array:
    """Return the half-widths of the intervals of answered queries' margins, shape (b,)."""
    book, widths = fitted.book, np.zeros(len(codes))
    numbers = book.batch_numbers(query_keys(fitted.forests.ensembles, codes))
    for number in np.unique(numbers).tolist():
        mine = numbers == number
        batch = book.batches[number]
        parts = [
            AnsweredEnsemble(batch.plan.kind, part, release)
            for part, release in zip(batch.plan.parts, batch.releases, strict=True)
        ]
        widths[mine] = half_widths(parts, codes[mine], level, n_classes)
    return widths
