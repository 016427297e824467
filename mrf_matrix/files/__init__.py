"""Files of releases and models: containers of JSON and arrays."""

from typing import TYPE_CHECKING

from mrf_matrix.base.front_door import front_door

if TYPE_CHECKING:
    from mrf_matrix.files.container import ModelFileError as ModelFileError
    from mrf_matrix.files.container import ReleaseFileError as ReleaseFileError
    from mrf_matrix.files.container import write_container as write_container
    from mrf_matrix.files.model_file import check_fits_a_file as check_fits_a_file
    from mrf_matrix.files.release_files import load_release as load_release
    from mrf_matrix.files.release_files import save_release as save_release

__getattr__, __dir__, __all__ = front_door(__name__)
