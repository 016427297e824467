"""Expected errors, flips and their coefficients: numbers known without data."""

from mrf_matrix.error.expected_errors import (
    ExpectedError,
    direct_error,
    expected_error,
    smallest_release_budget,
)

__all__ = ["ExpectedError", "direct_error", "expected_error", "smallest_release_budget"]
