"""Read a model file from anyone: checked before it is believed, never executed."""

from os import PathLike, fspath

from mrf_matrix.base.fields import one_line
from mrf_matrix.base.files import opened_regular
from mrf_matrix.estimators.shared.model_face import ReleasedClassifier
from mrf_matrix.files.container import MAX_BYTES, Container, ModelFileError, bytes_at_most
from mrf_matrix.files.model_file import model_of


def load_model(path: "str | PathLike[str]", *, max_bytes: int = MAX_BYTES) -> ReleasedClassifier:
    """Return the forest of a model file, ready to predict.

    The file may come from anyone: nothing in it is executed, sizes are checked before memory is
    taken, and trees, values and texts are checked before they are used. The report must agree with
    all that the file holds; that noise was drawn remains the writer's word.

    Parameters
    ----------
    path : str or path
        A file of `save_model`.
    max_bytes : int, default=128 MiB
        Most bytes of the arrays, unpacked; checking takes some ten times as much memory.

    Raises
    ------
    ModelFileError
        If the file is no model, is damaged, of a later version, or too large.
    FileNotFoundError
        If there is no such file.
    """
    where = fspath(path)
    try:
        with opened_regular(path, bytes_at_most(max_bytes)) as file:
            container = Container(file, "model", max_bytes)
            return ReleasedClassifier(model_of(container))
    except (ValueError, TypeError, KeyError, ArithmeticError, RecursionError) as error:
        raise ModelFileError(f"{where}: {one_line(error)}") from error
