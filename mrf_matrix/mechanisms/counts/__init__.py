"""Records as exact counts of cells."""

from mrf_matrix.mechanisms.counts.counting import count_cells
from mrf_matrix.mechanisms.counts.counts import CellCounts, PrivateDataError
from mrf_matrix.mechanisms.counts.leaf_table import LeafCounts
from mrf_matrix.mechanisms.counts.merging import merge_counts
from mrf_matrix.mechanisms.counts.tally import CellTally

__all__ = [
    "CellCounts",
    "CellTally",
    "LeafCounts",
    "PrivateDataError",
    "count_cells",
    "merge_counts",
]
