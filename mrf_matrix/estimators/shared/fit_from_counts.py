"""Fitting from counts and from batches, for the classifiers that measure tables."""

from collections.abc import Callable
from functools import partial
from typing import Any, Self

from mrf_matrix.estimators.shared.fixed_claim import FixedClaim
from mrf_matrix.estimators.shared.given_data import GivenCounts, GivenStream, PrivateData
from mrf_matrix.mechanisms import CellCounts, LeafCounts
from mrf_matrix.streams import partial_counts
from mrf_matrix.streams.blocks import Progress


class FitsFromCounts(FixedClaim):
    """A classifier whose `fit` needs the counts of the records only.

    Subclasses say how they fit whatever data are given.
    """

    domain: Any

    def _fit(self, bring: Callable[[], PrivateData]) -> Self:
        """Check the parameters, bring the data, plan, and measure."""
        raise TypeError(f"{type(self).__name__} measures nothing: use one of its subclasses.")

    def fit_counts(self, counts: CellCounts | LeafCounts) -> Self:
        """Fit from counts that were made elsewhere, in batches, on a cluster, or by hand.

        The release has the same law as that of `fit` on the records themselves, and without noise
        it is the same.

        Parameters
        ----------
        counts : CellCounts or LeafCounts
            Private counts over the estimator's domain: of `count_stream`, `count_dask`,
            `partial_counts` or sums of them. Those of `count_leaves` will do where leaves of that
            forest are all that is measured.

        Returns
        -------
        self

        Raises
        ------
        TypeError, ValueError
            If they are no counts, of another domain, or do not hold what is measured; or as `fit`
            for parameters and budget. Nothing is spent then.
        """
        return self._fit(partial(GivenCounts.of, self, counts))

    def fit_stream(
        self, batches: Any, *, extra: str = "error", progress: Progress | None = None
    ) -> Self:
        """Fit from batches, files or folders that are read once and never held together.

        Parameters
        ----------
        batches, extra, progress
            See `mrf_matrix.count_stream`.

        Returns
        -------
        self

        Raises
        ------
        TypeError, ValueError
            As `fit`; a batch that does not fit the domain is named. Nothing is spent then.

        Notes
        -----
        Where the domain is too large for a table of all its cells, only what is measured is
        counted: the leaves of a forest, or the cells of each ensemble's attributes.
        """
        return self._fit(partial(GivenStream.of, self, batches, extra, progress))

    def partial_counts(self, X: Any, y: Any) -> CellCounts:
        """Count a batch of records over the estimator's domain, without fitting anything.

        The counts of several batches add, ``+``, and `fit_counts` takes the sum.

        Parameters
        ----------
        X : frame or array of shape (N, d)
            Private records, in the domain's terms.
        y : array of shape (N,)
            Their classes.

        Returns
        -------
        CellCounts
            Private.
        """
        return partial_counts(X, y, self.domain)
