"""A fitted classifier of one ensemble: its forest, strategy, release and leaf values by name."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.choosing.forest_choice import ForestChoice
from mrf_matrix.estimators.shared.kept_release import keeping
from mrf_matrix.estimators.training.trained_ensemble import TrainedEnsemble
from mrf_matrix.forests import Forest
from mrf_matrix.mechanisms import Release
from strategies import Strategy

Array = NDArray[np.float64]


class OnlyEnsemble:
    """Attributes of the only ensemble, where there is one, and of what was chosen."""

    choice_: ForestChoice

    @property
    def chosen_depth_(self) -> int:
        """Depth that ``max_depth="auto"`` chose."""
        if not hasattr(self, "choice_"):
            raise AttributeError("chosen_depth_: nothing was chosen. Fit with max_depth='auto'.")
        return self.choice_.depth

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
        """Noisy measurement of the only ensemble: at hand as soon as it was made."""
        kept: Release | None = self.__dict__.get("_release_")
        return self._only("release_").release if kept is None else kept

    @contextmanager
    def _keeping(self, release: Release) -> Iterator[None]:
        """Keep a release that is to become a part of `ensembles_` within the block."""
        earlier = ("ensembles_", "choice_", "privacy_report_")
        forest = "RandomTrees(128, 1)"
        with keeping(self, "_release_", release, earlier, forest=forest):
            yield
        del self.__dict__["_release_"]

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
