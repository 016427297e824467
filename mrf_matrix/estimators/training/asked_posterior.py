"""A posterior that one batch of records asks several things of, each computed once."""

from dataclasses import fields
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.posterior import ProductPosterior

Array = NDArray[np.float64]
Codes = NDArray[np.integer[Any]]


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
    def _kept(self) -> dict[str, Any]:
        return {}

    def log_odds(self, codes: Codes) -> Array:
        """Return the log odds, from memory where the batch is the last one."""
        if self._kept.get("codes") is not codes:
            self._kept.clear()
            self._kept.update(codes=codes, odds=super().log_odds(codes))
        return np.asarray(self._kept["odds"])

    def margin_variances(self, codes: Codes, first: NDArray[Any], second: NDArray[Any]) -> Array:
        """Return the variances; of pairs of classes that were asked before, from memory."""
        pairs = np.sort(np.stack([first, second]), axis=0)
        if self._kept.get("codes") is not codes or "variances" not in self._kept:
            variances = super().margin_variances(codes, first, second)
            self.log_odds(codes)
        else:
            variances = self._kept["variances"].copy()
            new = np.flatnonzero((pairs != self._kept["pairs"]).any(axis=0))
            if len(new):
                variances[new] = super().margin_variances(codes[new], first[new], second[new])
        self._kept.update(pairs=pairs, variances=variances)
        return np.asarray(variances)
