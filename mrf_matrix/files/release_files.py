"""A release in a file, with its public domain: our own format, safe to read from anyone."""

from dataclasses import replace
from os import PathLike, fspath
from pathlib import Path

from mrf_matrix.base.fields import FieldError, one_line
from mrf_matrix.base.files import open_regular
from mrf_matrix.domain import Domain
from mrf_matrix.files.container import (
    MAX_BYTES,
    Container,
    ContainerError,
    ReleaseFileError,
    largest_file,
    write_container,
)
from mrf_matrix.files.release_record import content_of, release_of
from mrf_matrix.mechanisms import Release
from mrf_matrix.mechanisms.measurement.release import checked_release
from strategies.operator_files import OperatorFileError

KIND = "release"


def save_release(
    release: Release,
    path: "str | PathLike[str]",
    domain: Domain | None = None,
    *,
    allow_nonprivate: bool = False,
) -> None:
    """Write a release to a file that `load_release` reads.

    The file is a zip of JSON and ``.npy`` arrays: noisy answers, integer strategy by its
    structure, budget, neighbouring relation, noise law, provenance and domain. It holds no
    record, no raw count and no seed.

    Parameters
    ----------
    release : Release
    path : str or path
        By custom it ends in ``.release``. An old file is replaced, whole or not at all.
    domain : Domain, optional
        The public domain that was measured, with the classes as its target; by default the one
        that the release carries, if any.
    allow_nonprivate : bool, default=False
        Write a release that is not private all the same: without noise its answers are counts
        of records, and research noise can be subtracted by whoever knows its seed. The file
        says so, and so does the release that is read from it.

    Raises
    ------
    ReleaseFileError
        If the release is not private and that was not allowed, or its strategy has a structure
        without a form in files, or is too large.
    TypeError, ValueError
        If it is no release, or the domain is not the one that was measured.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import numpy as np
    >>> from mrf_matrix import Domain, PureDP, load_release, measure, reconstruct, save_release
    >>> from mrf_matrix.mechanisms import count_cells
    >>> counts = count_cells(np.array([[0], [2], [2]]), np.zeros(3, int), sizes=(3,), n_classes=1)
    >>> release = measure(np.eye(3), counts, PureDP(1))
    >>> with TemporaryDirectory() as folder:
    ...     save_release(release, folder + "/three.release", Domain.from_sizes([3], n_classes=1))
    ...     loaded = load_release(folder + "/three.release")
    >>> bool((reconstruct(loaded, [[1, 1, 1]]) == reconstruct(release, [[1, 1, 1]])).all())
    True
    >>> loaded.domain.sizes
    (3,)
    """
    checked_release(release)
    if domain is not None:
        if not isinstance(domain, Domain):
            raise TypeError(f"domain is of type {type(domain).__name__}: expected a Domain.")
        release = replace(release, domain=domain)
    if not release.mechanism.is_proved:
        raise ReleaseFileError(
            f"release: its privacy is the claim of {release.mechanism.author}, which has no form "
            f"in files and no reader could check. Expected the noise that calibrate(...) gives "
            f"without law=, of a strategy of ours."
        )
    if not release.is_private and not allow_nonprivate:
        raise ReleaseFileError(
            f"{release.statement} Expected exact noise of a finite budget, or "
            f"allow_nonprivate=True."
        )
    try:
        data, arrays = content_of(release)
        write_container(Path(path), KIND, data, arrays)
    except (ContainerError, FieldError, OperatorFileError) as error:
        raise ReleaseFileError(f"the release cannot be written: {error}") from error


def load_release(path: "str | PathLike[str]", *, max_bytes: int = MAX_BYTES) -> Release:
    """Return the release of a file, ready to be asked.

    The file may come from anyone: nothing in it is executed, sizes are checked before memory is
    taken, and the strategy's sensitivity is computed again and held against the noise and the
    budget, so that a file cannot claim more privacy than its noise gives. Whether that noise was
    drawn at all, and from which records, is the writer's word.

    Parameters
    ----------
    path : str or path
        A file of `save_release`.
    max_bytes : int, default=128 MiB
        Most bytes of the arrays, unpacked; checking takes some ten times as much memory, and at
        most what ``strategies.operators.memory_cap`` allows for one array.

    Returns
    -------
    Release
        Its `domain` is the one that was saved, or None.

    Raises
    ------
    ReleaseFileError
        If the file is no release, is damaged, of a later version, too large, or claims what its
        content does not support.
    FileNotFoundError
        If there is no such file.
    """
    where = fspath(path)
    try:
        with open_regular(path, largest_file(max_bytes)) as file:
            release, plain = release_of(Container(file, KIND, max_bytes))
        return replace(release, domain=None if plain is None else Domain.from_dict(plain))
    except (ValueError, TypeError, KeyError, ArithmeticError, RecursionError) as error:
        raise ReleaseFileError(f"{where}: {one_line(error)}") from error
