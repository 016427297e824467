"""Estimators of a workload's answers from releases: post-processing, at no cost in privacy."""

from typing import TYPE_CHECKING

from mrf_matrix.base.front_door import front_door

if TYPE_CHECKING:
    from mrf_matrix.reconstruction.constraints import equal_to as equal_to
    from mrf_matrix.reconstruction.constraints import least_squares as least_squares
    from mrf_matrix.reconstruction.constraints import nearest_on_simplex as nearest_on_simplex
    from mrf_matrix.reconstruction.constraints import (
        nonnegative_least_squares as nonnegative_least_squares,
    )
    from mrf_matrix.reconstruction.constraints import rising as rising
    from mrf_matrix.reconstruction.constraints import with_known_totals as with_known_totals
    from mrf_matrix.reconstruction.estimate import Estimate as Estimate
    from mrf_matrix.reconstruction.estimate import combine as combine
    from mrf_matrix.reconstruction.estimate import vote_noise_share as vote_noise_share
    from mrf_matrix.reconstruction.feasible_tables import project_to_simplex as project_to_simplex
    from mrf_matrix.reconstruction.shrinkage import ShrunkLeaves as ShrunkLeaves
    from mrf_matrix.reconstruction.shrinkage import shrink_leaves as shrink_leaves

__getattr__, __dir__, __all__ = front_door(__name__)
