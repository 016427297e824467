"""Forest -> T; records -> Q; T and Q -> workload W; records and forest -> C = T D."""

from mrf_matrix.compilation.matrices import (
    leaf_counts,
    leaf_incidence,
    path_matrix,
    path_matrix_from_codes,
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
