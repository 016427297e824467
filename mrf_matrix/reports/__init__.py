"""What a person reads about a fit."""

from mrf_matrix.reports.privacy_report import PrivacyReport

__all__ = [
    "PrivacyReport",
]
