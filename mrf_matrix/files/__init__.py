"""What every part needs that writes a file or shows a stranger's text."""

from typing import TYPE_CHECKING

from mrf_matrix.base.front_door import front_door

if TYPE_CHECKING:
    from mrf_matrix.files.container import MAX_BYTES as MAX_BYTES
    from mrf_matrix.files.container import Container as Container
    from mrf_matrix.files.container import ContainerError as ContainerError
    from mrf_matrix.files.container import one_line as one_line
    from mrf_matrix.files.container import write_container as write_container
    from mrf_matrix.files.fields import checked_object as checked_object
    from mrf_matrix.files.fields import checked_version as checked_version
    from mrf_matrix.files.fields import fraction_of as fraction_of
    from mrf_matrix.files.fields import line_of_text as line_of_text
    from mrf_matrix.files.fields import one_of as one_of
    from mrf_matrix.files.fields import whole_of as whole_of
    from mrf_matrix.files.release_claims import ReleaseFileError as ReleaseFileError
    from mrf_matrix.files.release_files import load_release as load_release
    from mrf_matrix.files.release_files import save_release as save_release

__getattr__, __dir__, __all__ = front_door(
    __name__,
    {
        "container": (
            "MAX_BYTES",
            "Container",
            "ContainerError",
            "one_line",
            "write_container",
        ),
        "fields": (
            "checked_object",
            "checked_version",
            "fraction_of",
            "line_of_text",
            "one_of",
            "whole_of",
        ),
        "release_claims": ("ReleaseFileError",),
        "release_files": (
            "load_release",
            "save_release",
        ),
    },
)
