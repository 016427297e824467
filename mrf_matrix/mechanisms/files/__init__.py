"""The container of every file that a stranger may have written: JSON and arrays, no pickles."""

from mrf_matrix.mechanisms.files.container import (
    MAX_BYTES,
    Container,
    ContainerError,
    one_line,
    write_container,
)
from mrf_matrix.mechanisms.files.fields import (
    checked_object,
    checked_version,
    fraction_of,
    line_of_text,
    one_of,
    whole_of,
)

__all__ = [
    "MAX_BYTES",
    "Container",
    "ContainerError",
    "checked_object",
    "checked_version",
    "fraction_of",
    "line_of_text",
    "one_line",
    "one_of",
    "whole_of",
    "write_container",
]
