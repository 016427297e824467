"""Records that come in batches, from files or a cluster: counted where they are, added exactly."""

from mrf_matrix.streams.cluster import count_dask
from mrf_matrix.streams.counting import count_leaves, count_stream, count_tables, partial_counts
from mrf_matrix.streams.files import data_files

__all__ = [
    "count_dask",
    "count_leaves",
    "count_stream",
    "count_tables",
    "data_files",
    "partial_counts",
]
