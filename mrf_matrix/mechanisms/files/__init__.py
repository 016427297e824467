"""The container of every file that a stranger may have written: JSON and arrays, no pickles."""

from mrf_matrix.mechanisms.files.container import (
    MAX_BYTES,
    Container,
    ContainerError,
    one_line,
    write_container,
)
from mrf_matrix.mechanisms.files.fields import checked_object, checked_version, line_of_text

__all__ = [
    "MAX_BYTES",
    "Container",
    "ContainerError",
    "checked_object",
    "checked_version",
    "line_of_text",
    "one_line",
    "write_container",
]
