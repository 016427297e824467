"""Margins of votes that were released query by query, with honest intervals, and abstaining.

Every answered query's votes carry noise of a law that is known without data, one for each batch and
ensemble. So the margins have intervals as in `margin_widths`, under weight and hard voting alike:
what noise is added to are the votes themselves.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.error.noise_sums import NoiseTerm
from mrf_matrix.estimators.prediction.prediction_terms import FittedPrediction
from mrf_matrix.mechanisms import Release
from mrf_matrix.planning.kinds.kind import Kind
from mrf_matrix.planning.plans.part import PlanPart
from mrf_matrix.planning.plans.queries import query_keys
from mrf_matrix.voting.intervals import checked_level
from mrf_matrix.voting.margin_widths import half_widths
from mrf_matrix.voting.vote_draws import vote_terms
from strategies.operators import Operator

Array = NDArray[np.float64]
Codes = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class AnsweredEnsemble:
    """One ensemble's part of a batch, asked for the noise of its votes.

    Attributes
    ----------
    kind : Kind
        Whose votes are asked.
    part : PlanPart
        How the batch was answered.
    release : Release
        The noisy measurement.
    """

    kind: Kind
    part: PlanPart
    release: Release

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


class AnsweredIntervals:
    """Intervals and abstention for classifiers that release votes in batches."""

    classes_: NDArray[Any]

    def _answered(self, X: Any) -> tuple[FittedPrediction, Codes]:
        """Release what has no answer yet; return the fit that answered, and the codes."""
        raise NotImplementedError

    def _votes_of(self, fitted: FittedPrediction, codes: Codes) -> Array:
        """Return the released votes of queries."""
        raise NotImplementedError

    def vote_intervals(self, X: Any, level: float = 0.95) -> tuple[Array, Array]:
        """Return the margin of the leading class over the next, and its interval's half-width.

        Queries without an answer are released first, as by `predict`.

        Parameters
        ----------
        X : frame or array of shape (b, d)
            Queries in the domain's terms; they are public.
        level : float, default=0.95
            Probability, over the noise, that the interval holds the margin that the same votes
            would have without noise. It is not the probability that the label is right.

        Returns
        -------
        margin : ndarray of shape (b,)
            In votes, not negative.
        half_width : ndarray of shape (b,)
            See `mrf_matrix.voting.margin_widths`. Shared among all pairs of classes.

        Raises
        ------
        ValueError
            If the level is not between 0 and 1, or new queries cannot be paid (a `BudgetError`).
        """
        return self._interval(X, checked_level(level))[1:]

    def predict_or_abstain(self, X: Any, level: float = 0.95) -> Any:
        """Return labels, masked where the interval of the margin holds 0: noise may have chosen.

        Parameters
        ----------
        X : frame or array of shape (b, d)
            Queries in the domain's terms; new ones are released, as by `predict`.
        level : float, default=0.95
            See `vote_intervals`.

        Returns
        -------
        numpy.ma.MaskedArray of shape (b,)
            Predicted classes; masked is withheld.
        """
        votes, margin, width = self._interval(X, checked_level(level))
        return np.ma.masked_array(self.classes_[votes.argmax(axis=1)], mask=(margin <= width))

    def _interval(self, X: Any, level: float) -> tuple[Array, Array, Array]:
        """Return votes, margins and half-widths."""
        fitted, codes = self._answered(X)
        votes = self._votes_of(fitted, codes)
        if votes.shape[1] == 1:
            return votes, np.full(len(votes), np.inf), np.zeros(len(votes))
        book = fitted.book
        numbers = book.batch_numbers(query_keys(fitted.forests.ensembles, codes))
        widths = np.zeros(len(votes))
        for number in np.unique(numbers).tolist():
            mine = numbers == number
            batch = book.batches[number]
            parts = [
                AnsweredEnsemble(batch.plan.kind, part, release)
                for part, release in zip(batch.plan.parts, batch.releases, strict=True)
            ]
            widths[mine] = half_widths(parts, codes[mine], level, votes.shape[1])
        leading = np.sort(votes, axis=1)
        return votes, leading[:, -1] - leading[:, -2], widths
