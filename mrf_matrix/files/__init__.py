"""What every part needs that writes a file or shows a stranger's text."""

from mrf_matrix.files.container import (
    MAX_BYTES,
    Container,
    ContainerError,
    one_line,
    write_container,
)
from mrf_matrix.files.fields import (
    checked_object,
    checked_version,
    fraction_of,
    line_of_text,
    one_of,
    whole_of,
)
from mrf_matrix.files.release_claims import ReleaseFileError
from mrf_matrix.files.release_files import load_release, save_release

__all__ = [
    "MAX_BYTES",
    "Container",
    "ContainerError",
    "ReleaseFileError",
    "checked_object",
    "checked_version",
    "fraction_of",
    "line_of_text",
    "load_release",
    "one_line",
    "one_of",
    "save_release",
    "whole_of",
    "write_container",
]
