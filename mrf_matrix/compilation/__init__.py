"""Forest -> T; records -> Q; T and Q -> workload W."""

from mrf_matrix.compilation.path_matrix import path_matrix, path_matrix_from_codes

__all__ = ["path_matrix", "path_matrix_from_codes"]
