"""What tables over fewer codes imply, asked with the codes of the domain that was given."""

from dataclasses import dataclass, replace

import numpy as np

from mrf_matrix.base.arrays import AnyInts, Array, Longs
from mrf_matrix.posterior.product import ProductPosterior


@dataclass(frozen=True, eq=False)
class CoarserTables:
    """Log probabilities by tables in which neighbouring codes are one.

    Attributes
    ----------
    posterior : ProductPosterior
        Of the tables as they were measured.
    places : tuple of ndarray of int
        Of every attribute: the measured code of each given one.
    """

    posterior: ProductPosterior
    places: tuple[Longs, ...]

    @property
    def log_shares(self) -> Array:
        """Logarithms of the class shares, (k,)."""
        return self.posterior.log_shares

    def log_odds(self, codes: AnyInts) -> Array:
        """Return log probabilities up to a constant of each record, shape (b, k)."""
        return self.posterior.log_odds(self._measured(codes))

    def probabilities(self, codes: AnyInts) -> Array:
        """Return class probabilities, averaged over what noise leaves unknown, (b, k)."""
        return self.posterior.probabilities(self._measured(codes))

    def margin_widths(
        self, codes: AnyInts, first: AnyInts, second: AnyInts, level: float
    ) -> tuple[Array, Array]:
        """Return how far the log odds between two classes may be below and above, each (b,)."""
        return self.posterior.margin_widths(self._measured(codes), first, second, level)

    def believed(self, factor: float) -> "CoarserTables":
        """Return the tables whose evidence counts so many times as much."""
        return replace(self, posterior=self.posterior.believed(factor))

    def _measured(self, codes: AnyInts) -> Longs:
        """Return the measured codes of records, (b, d)."""
        columns = [place[codes[:, i]] for i, place in enumerate(self.places)]
        return np.stack(columns, axis=1)

    def __repr__(self) -> str:
        return f"CoarserTables({self.posterior!r})"
