"""Records as exact counts of cells."""

from mrf_matrix.mechanisms.counts.counting import count_cells
from mrf_matrix.mechanisms.counts.counts import CellCounts, PrivateDataError

__all__ = [
    "CellCounts",
    "PrivateDataError",
    "count_cells",
]
