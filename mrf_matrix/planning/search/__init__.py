"""Tuning without data."""

from typing import TYPE_CHECKING

from mrf_matrix.base.front_door import front_door

if TYPE_CHECKING:
    from mrf_matrix.planning.search.design_search import tune as tune
    from mrf_matrix.planning.search.objectives import ExpectedLoss as ExpectedLoss
    from mrf_matrix.planning.search.objectives import FlipProbability as FlipProbability
    from mrf_matrix.planning.search.objectives import LipschitzBound as LipschitzBound
    from mrf_matrix.planning.search.objectives import RelativeError as RelativeError
    from mrf_matrix.planning.search.search_space import default_space as default_space
    from mrf_matrix.planning.search.trials import Trial as Trial
    from mrf_matrix.planning.search.tuning import Tuning as Tuning

__getattr__, __dir__, __all__ = front_door(
    __name__,
    {
        "design_search": ("tune",),
        "objectives": (
            "ExpectedLoss",
            "FlipProbability",
            "LipschitzBound",
            "RelativeError",
        ),
        "search_space": ("default_space",),
        "trials": ("Trial",),
        "tuning": ("Tuning",),
    },
)
