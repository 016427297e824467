"""A fitted classifier of one ensemble: its forest, strategy, release and leaf values by name."""

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.estimators.training.trained_ensemble import TrainedEnsemble
from mrf_matrix.forests import Forest
from mrf_matrix.mechanisms import Release
from strategies import Strategy

Array = NDArray[np.float64]


class OnlyEnsemble:
    """Attributes of the only ensemble, where there is one."""

    @property
    def forest_(self) -> Forest:
        """Structure of the only ensemble's forest."""
        return self._only("forest_").forest

    @property
    def strategy_(self) -> Strategy | None:
        """Strategy of the only ensemble; None for the baselines."""
        return self._only("strategy_").strategy

    @property
    def release_(self) -> Release:
        """Noisy measurement of the only ensemble."""
        return self._only("release_").release

    @property
    def leaf_values_(self) -> Array:
        """Noisy class counts of the only ensemble's leaves, shape (o, k)."""
        return self._only("leaf_values_").leaf_values

    @property
    def leaf_variances_(self) -> Array:
        """Noise variance of the only ensemble's leaf values, known without data, shape (o,)."""
        return self._only("leaf_variances_").leaf_variances

    def _only(self, name: str) -> TrainedEnsemble:
        ensembles: tuple[TrainedEnsemble, ...] = getattr(self, "ensembles_", ())
        if len(ensembles) != 1:
            raise AttributeError(
                f"{type(self).__name__} has no {name}: it is not fitted, or has several "
                f"ensembles. Look at each of ensembles_."
            )
        return ensembles[0]
