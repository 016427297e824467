"""Records that come in batches, from files or a cluster: counted where they are, added exactly."""

from typing import TYPE_CHECKING

from mrf_matrix.base.front_door import front_door

if TYPE_CHECKING:
    from mrf_matrix.streams.cluster import count_dask as count_dask
    from mrf_matrix.streams.counting import count_leaves as count_leaves
    from mrf_matrix.streams.counting import count_stream as count_stream
    from mrf_matrix.streams.counting import count_tables as count_tables
    from mrf_matrix.streams.counting import partial_counts as partial_counts
    from mrf_matrix.streams.files import data_files as data_files

__getattr__, __dir__, __all__ = front_door(__name__)
