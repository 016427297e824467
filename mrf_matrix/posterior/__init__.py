"""Posteriors of releases: tables measured at once, one after another, or labels alone."""

from typing import TYPE_CHECKING

from mrf_matrix.base.front_door import front_door

if TYPE_CHECKING:
    from mrf_matrix.posterior.block_fit import BlockTable as BlockTable
    from mrf_matrix.posterior.block_fit import ClassTotals as ClassTotals
    from mrf_matrix.posterior.class_shares import CURVATURE_CAP as CURVATURE_CAP
    from mrf_matrix.posterior.class_shares import RESIDUAL_CAP as RESIDUAL_CAP
    from mrf_matrix.posterior.class_shares import UNITS as UNITS
    from mrf_matrix.posterior.class_shares import CodeShares as CodeShares
    from mrf_matrix.posterior.class_shares import Link as Link
    from mrf_matrix.posterior.class_shares import counted_shares as counted_shares
    from mrf_matrix.posterior.class_shares import curvature_units as curvature_units
    from mrf_matrix.posterior.class_shares import residual_units as residual_units
    from mrf_matrix.posterior.class_states import SCALES as SCALES
    from mrf_matrix.posterior.class_states import ClassStates as ClassStates
    from mrf_matrix.posterior.class_states import SumOfEffects as SumOfEffects
    from mrf_matrix.posterior.class_states import add_first_table as add_first_table
    from mrf_matrix.posterior.class_states import penalties_of_scales as penalties_of_scales
    from mrf_matrix.posterior.class_states import scale_states as scale_states
    from mrf_matrix.posterior.class_states import sum_of_effects as sum_of_effects
    from mrf_matrix.posterior.label_posterior import CellShares as CellShares
    from mrf_matrix.posterior.label_posterior import LabelPosterior as LabelPosterior
    from mrf_matrix.posterior.label_posterior import PooledPosterior as PooledPosterior
    from mrf_matrix.posterior.product import ProductPosterior as ProductPosterior
    from mrf_matrix.posterior.product_fit import class_totals as class_totals
    from mrf_matrix.posterior.product_fit import product_posterior as product_posterior
    from mrf_matrix.posterior.residual_blocks import Smoothness as Smoothness
    from mrf_matrix.posterior.residual_posterior import PoolingSettings as PoolingSettings
    from mrf_matrix.posterior.residual_posterior import ResidualPosterior as ResidualPosterior
    from mrf_matrix.posterior.residual_posterior import ResidualState as ResidualState
    from mrf_matrix.posterior.residual_posterior import Score as Score
    from mrf_matrix.posterior.residual_posterior import estimated_total as estimated_total
    from mrf_matrix.posterior.residual_posterior import intercept as intercept
    from mrf_matrix.posterior.residual_posterior import intercepts as intercepts
    from mrf_matrix.posterior.residual_posterior import margin as margin
    from mrf_matrix.posterior.residual_posterior import shrunk_counts as shrunk_counts

__getattr__, __dir__, __all__ = front_door(__name__)
