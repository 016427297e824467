"""Expected errors, flips and their coefficients: numbers known without data."""

from mrf_matrix.error.expected_error import ExpectedError, direct_error, expected_error

__all__ = [
    "ExpectedError",
    "direct_error",
    "expected_error",
]
