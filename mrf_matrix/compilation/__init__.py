"""Forest -> T; records -> Q; T and Q -> workload W; records and forest -> C = T D."""

from mrf_matrix.compilation.paths import leaf_counts, path_matrix, path_matrix_from_codes
from mrf_matrix.compilation.queries import (
    leaf_incidence,
    prediction_workload,
    query_codes,
    query_matrix,
)

__all__ = [
    "leaf_counts",
    "leaf_incidence",
    "path_matrix",
    "path_matrix_from_codes",
    "prediction_workload",
    "query_codes",
    "query_matrix",
]
