r"""What a residual forest says of every class, as a pool asks for it.

Of two classes its log odds are those of the second, of several there is a score for each. Here both
are log probabilities up to a constant, beside the class shares that its first release tells.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import log_softmax
from scipy.stats import norm

from mrf_matrix.base.arrays import Array
from mrf_matrix.posterior.residuals.posterior import Codes, ResidualPosterior
from mrf_matrix.posterior.residuals.several import SeveralPosterior


@dataclass(frozen=True, eq=False)
class ResidualEvidence:
    """Log probabilities of all classes by tables of residuals.

    Attributes
    ----------
    posterior : ResidualPosterior or SeveralPosterior
        What the releases imply.
    """

    posterior: ResidualPosterior | SeveralPosterior

    @property
    def _is_of_two(self) -> bool:
        return isinstance(self.posterior, ResidualPosterior)

    @property
    def log_shares(self) -> Array:
        """Logarithms of the released class shares, (k,)."""
        bases = [one.base for one in self.posterior.columns]
        return np.asarray(log_softmax([0.0, *bases] if self._is_of_two else bases))

    def log_odds(self, codes: Codes) -> Array:
        """Return log probabilities up to a constant of each record, shape (b, k)."""
        scores = [one.log_odds(codes) for one in self.posterior.columns]
        return np.stack([np.zeros(len(codes)), *scores] if self._is_of_two else scores, axis=1)

    def probabilities(self, codes: Codes) -> Array:
        """Return class probabilities, shape (b, k)."""
        return self.posterior.probabilities(codes)

    def margin_widths(
        self, codes: Codes, first: Codes, second: Codes, level: float
    ) -> tuple[Array, Array]:
        """Return how far the log odds between two classes may be below their mean, and above.

        Both are the same, (b,): normal quantiles at `level`, as if tables were apart.
        """
        variances = np.stack([one.variances(codes) for one in self.posterior.columns], axis=1)
        rows = np.arange(len(codes))
        if self._is_of_two:
            found = variances[:, 0]
        else:
            found = variances[rows, first] + variances[rows, second]
        widths = float(norm.ppf(0.5 + level / 2)) * np.sqrt(found)
        return widths, widths

    def __repr__(self) -> str:
        return f"ResidualEvidence({len(self.posterior.columns[0].blocks)} tables)"
