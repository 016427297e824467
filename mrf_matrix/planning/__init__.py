"""What a release will cost in error, known before any private record is read."""

from mrf_matrix.planning.expected_error import ExpectedError, direct_error, expected_error

__all__ = ["ExpectedError", "direct_error", "expected_error"]
