"""Matrices in files: our own by structure, and those that other tools read and write.

By its ending a file is NumPy's (``.npy``), SciPy's (``.npz``), Matrix Market (``.mtx``) or text
(``.csv``); any other ending is our own form, a zip of JSON and arrays that keeps structures, so
that a matrix over a huge domain stays small. No file is run: pickles are refused.
"""

import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import io, sparse

from strategies.operator_files.codec import VALUES, read_operator, write_operator
from strategies.operator_files.fields import OperatorFileError
from strategies.operators import MatrixLike, MemoryCapError, Operator, as_operator, check_allocation
from strategies.problem.strategy import FORMAT, Strategy

LONGEST_REASON = 300  # characters


def save(matrix: "MatrixLike | Strategy", path: "str | os.PathLike[str]") -> None:
    """Write a matrix, or a strategy with its loss and bound, to a file.

    Parameters
    ----------
    matrix : Operator, ndarray, scipy sparse or Strategy
    path : str or path
        ``.npy``, ``.npz``, ``.mtx`` and ``.csv`` hold entries alone, for other tools. Any other
        ending keeps the structure, and of a strategy all that it says.

    Raises
    ------
    OperatorFileError
        If a structure has no form in files.
    MemoryCapError
        If entries were asked for that exceed the memory cap.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import numpy as np
    >>> import strategies
    >>> with TemporaryDirectory() as folder:
    ...     strategies.save(np.tri(3), folder + "/prefix.csv")
    ...     strategies.save(strategies.operators.Identity(2**100), folder + "/cells.operator")
    ...     print(strategies.load(folder + "/prefix.csv").toarray())
    ...     print(strategies.load(folder + "/cells.operator").shape == (2**100, 2**100))
    [[1. 0. 0.]
     [1. 1. 0.]
     [1. 1. 1.]]
    True
    """
    place = Path(path)
    if place.suffix.lower() not in WRITERS:
        if isinstance(matrix, Strategy):
            matrix.save(place)
        else:
            write_operator(as_operator(matrix), {}, place)
        return
    operator = matrix.matrix if isinstance(matrix, Strategy) else as_operator(matrix)
    WRITERS[place.suffix.lower()](operator, place)


def load(path: "str | os.PathLike[str]") -> "Operator | Strategy":
    """Return the matrix or the strategy of a file, which may come from anyone and any tool.

    The loss and the bound of a strategy are the writer's word: `evaluate` computes them anew. What
    was measured with such a matrix elsewhere is no release of ours: nothing here calls it private.

    Raises
    ------
    OperatorFileError
        If it is no such file, or does not hold together.
    MemoryCapError
        If its entries exceed the memory cap.
    """
    place = Path(path)
    if not place.is_file():
        raise FileNotFoundError(f"path={os.fspath(path)!r}: no file there.")
    check_allocation(f"the file {place}", (place.stat().st_size,), 1)
    read = READERS.get(place.suffix.lower())
    if read is None or (place.suffix.lower() == ".npz" and _is_ours(place)):
        operator, values = read_operator(place)
        return Strategy.load(place) if values.get("format") == FORMAT else operator
    try:
        return as_operator(read(place), place.name)
    except (MemoryCapError, MemoryError):
        raise
    except Exception as error:
        raise OperatorFileError(
            f"{place} holds no matrix of real numbers: {str(error)[:LONGEST_REASON]}"
        ) from error


def _is_ours(place: Path) -> bool:
    return zipfile.is_zipfile(place) and f"{VALUES}.npy" in zipfile.ZipFile(place).namelist()


WRITERS: dict[str, Callable[[Operator, Path], None]] = {
    ".npy": lambda operator, place: np.save(place, operator.to_dense(), allow_pickle=False),
    ".npz": lambda operator, place: sparse.save_npz(place, sparse.csr_array(operator.to_sparse())),
    ".mtx": lambda operator, place: io.mmwrite(place, operator.compact(), symmetry="general"),
    ".csv": lambda operator, place: np.savetxt(
        place, operator.to_dense(), delimiter=",", fmt="%.17g"
    ),
}


def _read_arrays(place: Path) -> Any:
    """Return SciPy's sparse matrix, or the one array of NumPy's archive."""
    with np.load(place, allow_pickle=False) as archive:
        unpacked = sum(one.file_size for one in zipfile.ZipFile(place).infolist())
        check_allocation(f"arrays of {place}", (unpacked,), 1)
        names = archive.files
        if "format" in names:
            return sparse.load_npz(place)
        if len(names) != 1:
            raise OperatorFileError(f"{len(names)} arrays: expected one matrix.")
        return archive[names[0]]


def _read_market(place: Path) -> Any:
    rows, columns, entries, form, *_ = io.mminfo(place)
    check_allocation(f"entries of {place}", (entries if form == "coordinate" else rows * columns,))
    return io.mmread(place, spmatrix=False)


READERS: dict[str, Callable[[Path], Any]] = {
    ".npy": lambda place: np.load(place, allow_pickle=False),
    ".npz": _read_arrays,
    ".mtx": _read_market,
    ".csv": lambda place: np.loadtxt(place, delimiter=",", ndmin=2, encoding="utf-8"),
}
