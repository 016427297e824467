"""Values, probabilities and intervals by a posterior, wherever it comes from."""

from abc import abstractmethod
from dataclasses import fields
from functools import cached_property
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.arrays import AnyInts, Array, Codes
from mrf_matrix.estimators.shared.base import BaseForestClassifier
from mrf_matrix.estimators.shared.parameters import Outside, Records
from mrf_matrix.posterior import ProductPosterior
from mrf_matrix.voting.intervals import Margins, VoteIntervals
from mrf_matrix.voting.voting import log_shares, once_a_cell


class AskedPosterior(ProductPosterior):
    """The same posterior, which keeps the log odds and margin variances of the last batch.

    Probabilities need both, and so do the intervals of margins. The two leading classes are
    nearly always the same by probability as by log odds, and only the others are computed again.
    """

    @classmethod
    def of(cls, posterior: ProductPosterior) -> Self:
        """Return a posterior that remembers one batch."""
        return cls(**{field.name: getattr(posterior, field.name) for field in fields(posterior)})

    @cached_property
    def _kept(self) -> dict[str, NDArray[np.generic]]:
        return {}

    def log_odds(self, codes: AnyInts) -> Array:
        """Return the log odds, from memory where the batch is the last one."""
        if self._kept.get("codes") is not codes:
            self._kept.clear()
            self._kept.update(codes=codes, odds=super().log_odds(codes))
        return np.asarray(self._kept["odds"])

    def margin_variances(self, codes: AnyInts, first: AnyInts, second: AnyInts) -> Array:
        """Return the variances; of pairs of classes that were asked before, from memory."""
        pairs = np.sort(np.stack([first, second]), axis=0)
        if self._kept.get("codes") is not codes or "variances" not in self._kept:
            variances = super().margin_variances(codes, first, second)
            self.log_odds(codes)
        else:
            variances = np.array(self._kept["variances"], dtype=np.float64)
            new = np.flatnonzero((pairs != self._kept["pairs"]).any(axis=0))
            if len(new):
                variances[new] = super().margin_variances(codes[new], first[new], second[new])
        self._kept.update(pairs=pairs, variances=variances)
        return np.asarray(variances)


class Posterior(Protocol):
    """What a release implies: `ProductPosterior` or `ResidualPosterior`."""

    def probabilities(self, codes: Codes) -> Array:
        """Return class probabilities, shape (b, k)."""


class ProbabilityVotes(VoteIntervals, BaseForestClassifier):
    """A classifier that has class probabilities; subclasses say where they and the codes come from.

    Attributes
    ----------
    posterior_ : ProductPosterior or ResidualPosterior
        What releases imply.
    """

    posterior_: Posterior
    _learned = "posterior_"

    def predict_proba(self, X: Records, *, outside: Outside = "refuse") -> Array:
        """Return class probabilities (b, k), averaged over what noise leaves unknown."""
        codes = self._codes(self._within(X, outside))  # tells first whether there is a posterior
        return once_a_cell(self.posterior_.probabilities, codes, self.domain_.sizes, dear=False)

    def decision_function(self, X: Records) -> Array:
        """Return the log odds of the second of two classes, (b,), or of each class, (b, k).

        Of several classes each one's odds are against all others.
        """
        shares = self.predict_proba(X)
        logs = log_shares(shares)
        if shares.shape[1] == 2:
            return np.asarray(logs[:, 1] - logs[:, 0])
        return np.asarray(logs - log_shares(1 - shares))

    def _votes(self, X: Records) -> Array:
        return self.predict_log_proba(X)


class Asked(Posterior, Protocol):
    """A posterior that has log odds and the widths of their intervals, too."""

    def log_odds(self, codes: AnyInts) -> Array:
        """Return log probabilities up to a constant of each record, shape (b, k)."""

    def margin_widths(
        self, codes: AnyInts, first: AnyInts, second: AnyInts, level: float
    ) -> tuple[Array, Array]:
        """Return how far the log odds between two classes may be below and above, each (b,)."""


class OddsVotes(ProbabilityVotes):
    """A classifier whose posterior has log odds, and intervals of them."""

    @abstractmethod
    def _asked(self) -> Asked:
        """Return the posterior, as one that remembers the last batch."""

    def _margins(self, X: Records, level: float) -> Margins:
        """Return leading classes, margins in log odds, and widths under the model.

        Averaging pulls log odds toward those of the class totals, so that the class of the largest
        probability may be behind by log odds. The margin is 0 then, and either side wider by as
        much as it is behind, to hold the interval of the log odds: it covers as often or more, and
        the label is withheld.
        The margin of averaged probabilities would not do: its sign is not that of the log odds.
        """
        codes = self._codes(X)
        posterior = self._asked()
        shares = posterior.probabilities(codes)
        if shares.shape[1] < 2:
            raise ValueError("the domain names one class: expected two, for a margin.")
        # Ties go to the first class, as in predict: sort the classes backwards, then the shares.
        order = shares.shape[1] - 1 - np.argsort(shares[:, ::-1], axis=1, kind="stable")
        first, second = order[:, -1], order[:, -2]
        odds = np.take_along_axis(posterior.log_odds(codes), order[:, -2:], axis=1)
        below, above = posterior.margin_widths(codes, first, second, level)
        ahead = odds[:, 1] - odds[:, 0]
        behind = np.maximum(-ahead, 0.0)
        return first, np.maximum(ahead, 0.0), below + behind, above + behind


class PosteriorVotes(OddsVotes):
    """A classifier that has a posterior of blocks."""

    posterior_: ProductPosterior

    def _asked(self) -> AskedPosterior:
        return AskedPosterior.of(self.posterior_)
