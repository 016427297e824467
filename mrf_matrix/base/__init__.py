"""Shared foundations: atomic files, safe text for terminals, and checks of processes."""

from mrf_matrix.base.checks import (
    NoiseProcessError,
    check_parent_process,
    escape_controls,
    is_plain_line,
)
from mrf_matrix.base.files import check_writable, whole_file

__all__ = [
    "NoiseProcessError",
    "check_parent_process",
    "check_writable",
    "escape_controls",
    "is_plain_line",
    "whole_file",
]
