"""Counts of records that arrive in batches of any form: D = Σ Dᵢ, exactly, in bounded memory."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import replace
from os import PathLike
from typing import TypeGuard

import numpy as np

from mrf_matrix.base.arrays import Codes
from mrf_matrix.base.files import PLAIN, FileFormat, checked_format
from mrf_matrix.compilation import leaf_counts, path_matrix
from mrf_matrix.domain import Domain, DomainError, as_domain
from mrf_matrix.domain.columns import (
    as_any_column,
    as_frame,
    read_columns,
    without_repeats,
)
from mrf_matrix.domain.encoding import encode_column
from mrf_matrix.forests import Forest
from mrf_matrix.mechanisms import CellCounts, CellTally, LeafCounts
from mrf_matrix.streams.files import ReadColumns, data_files, file_columns, n_records_of
from strategies.operators import check_allocation

Progress = Callable[[int, int | None], None]
BLOCK = 2**16
"""Records that are encoded and counted at a time: their columns stay in the processor's cache."""


def code_blocks(
    batches: object,
    domain: Domain,
    extra: str = "error",
    progress: Progress | None = None,
    file_format: FileFormat = PLAIN,
) -> Iterator[list[Codes]]:
    """Yield blocks of records as codes: a column for each attribute, and that of the classes.

    `batches`, `file_format`: see `count_stream`; `domain`: with its target; `extra` {"error",
    "ignore"}.

    Raises DomainError if a batch does not fit the domain.
    """
    attributes = [*domain.attributes, domain.required_target()]
    told = checked_format(file_format)
    done, total = 0, _total(batches)
    for number, batch in enumerate(_iterate_batches(batches)):
        for columns in _columns(batch, domain, extra, number, told):
            try:
                _check_lengths(columns)
                pairs = zip(attributes, columns, strict=True)
                block = [encode_column(attribute, column) for attribute, column in pairs]
            except DomainError as error:
                raise _locate_error(error, batch, number) from None
            yield block
            done += len(block[-1])
            if progress is not None:
                progress(done, total)


def _locate_error(error: DomainError, batch: object, number: int) -> DomainError:
    """Return an error that says in which batch it was; which record is private."""
    what = str(batch) if _is_path(batch) else f"Batch {number}"
    return DomainError(f"{what}: {error}", values=error.values)


def _is_path(batch: object) -> TypeGuard[str | PathLike[str]]:
    return isinstance(batch, str | PathLike)


def _is_pair(batch: object) -> TypeGuard[tuple[object, object]]:
    return isinstance(batch, tuple) and len(batch) == 2


def _is_column(values: object) -> bool:
    named = getattr(getattr(values, "dtype", None), "names", None)
    return len(getattr(values, "shape", ())) == 1 and named is None


def _is_single(batches: object) -> bool:
    if isinstance(batches, Mapping | np.ndarray) or _is_record_batch(batches):
        return True
    if _is_pair(batches):
        return _is_column(batches[1])  # no batch is one
    if isinstance(batches, list | tuple):
        return False
    return as_frame(without_repeats(batches, ())) is not None


def _iterate_batches(batches: object) -> Iterator[object]:
    if _is_path(batches) or _is_single(batches):
        batches = [batches]
    if not isinstance(batches, Iterable):
        raise DomainError(
            f"batches is of type {type(batches).__name__}: expected an iterable of frames, arrays "
            f"or pairs (X, y), or the path of a CSV or Parquet file or of a folder of them."
        )
    for batch in batches:
        if _is_path(batch):
            yield from data_files(batch)
        else:
            yield batch


def _total(batches: object) -> int | None:
    """Return the number of all records, where files alone are given and say it."""
    paths = [batches] if _is_path(batches) else batches
    if not isinstance(paths, list | tuple) or not all(map(_is_path, paths)):
        return None
    known = [n_records_of(file) for path in paths for file in data_files(path)]
    return None if None in known else sum(n for n in known if n is not None)


def _columns(
    batch: object, domain: Domain, extra: str, number: int, file_format: FileFormat
) -> Iterator[ReadColumns]:
    target = domain.required_target()
    if _is_path(batch):
        yield from _cut_blocks(file_columns(batch, domain, file_format))
        return
    if isinstance(batch, list) and not batch:
        return
    try:
        X, y = batch if _is_pair(batch) else _split_classes(batch, domain)
        names = domain.names if y is not None else (*domain.names, target.name)
        table = _table(without_repeats(X, names, extra))
        size = _length(table if y is None else y)
        for start in range(0, max(size, 1), BLOCK):
            block = slice(start, start + BLOCK)
            part = _rows(table, block)
            if y is None:
                yield read_columns(part, names, extra)
            else:
                if size != _length(table):
                    raise DomainError("X and y differ in length; expected one class a record.")
                classes = as_any_column(target.name, _flatten(_rows(y, block)))
                yield [*read_columns(part, names, extra), classes]
    except DomainError as error:
        raise _locate_error(error, batch, number) from None


def _cut_blocks(parts: Iterator[ReadColumns]) -> Iterator[ReadColumns]:
    for columns in parts:
        for start in range(0, max(len(columns[0].values), 1), BLOCK):
            block = slice(start, start + BLOCK)
            yield [
                replace(
                    one,
                    values=one.values[block],
                    missing=None if one.missing is None else one.missing[block],
                )
                for one in columns
            ]


def _split_classes(batch: object, domain: Domain) -> tuple[object, object]:
    """Return records and classes of a plain array, whose last column holds them."""
    if not isinstance(batch, np.ndarray) or batch.dtype.names is not None:
        return batch, None
    width = domain.n_attributes + 1
    if batch.ndim != 2 or batch.shape[1] != width:
        raise DomainError(
            f"The array has the wrong shape; expected (N, {width}), the classes in the last "
            f"column, or a pair (X, y)."
        )
    return batch[:, :-1], batch[:, -1]


def _table(X: object) -> object:
    """Return records in a form whose rows can be taken: frames through narwhals."""
    if _is_record_batch(X):
        from pyarrow import Table

        X = Table.from_batches([X])
    if isinstance(X, Mapping | np.ndarray | list | tuple):
        return X
    frame = as_frame(X)
    return X if frame is None else frame


def _is_record_batch(batch: object) -> bool:
    return type(batch).__name__ == "RecordBatch" and hasattr(batch, "schema")


def _length(table: object) -> int:
    if isinstance(table, Mapping):
        return max((len(values) for values in table.values()), default=0)
    return len(table) if isinstance(table, Sized) else 0


def _rows(table: object, block: slice) -> object:
    if isinstance(table, Mapping):
        return {name: _rows(values, block) for name, values in table.items()}
    if hasattr(table, "iloc"):
        return table.iloc[block]
    return table[block] if hasattr(table, "__getitem__") else table


def _flatten(labels: object) -> object:
    if isinstance(labels, np.ndarray) and labels.ndim == 2 and labels.shape[1] == 1:
        return labels[:, 0]
    return labels


def _check_lengths(columns: ReadColumns) -> None:
    lengths = {len(column.values) for column in columns}
    if len(lengths) != 1:
        raise DomainError("Columns differ in length; expected one value a record in each.")


def count_stream(
    batches: object,
    domain: Domain | str,
    *,
    extra: str = "error",
    progress: Progress | None = None,
    file_format: FileFormat = PLAIN,
) -> CellCounts:
    """Count the records of each class in each occupied cell, batch by batch.

    The same, bit for bit, as counting all records at once, however they are divided and in
    whatever order they come; empty batches change nothing. Every record counts: a batch given
    twice is counted twice.

    Parameters
    ----------
    batches : iterable of batches, a single batch, or a path
        A batch is a frame (pandas, polars, Arrow table or record batch), mapping or structured
        array with the domain's columns and its target's; an array of shape (N, d + 1) whose last
        column holds the classes; a pair ``(X, y)``; or the path of a CSV or Parquet file, or of a
        folder of them.
    domain : Domain
        The public schema, with the target's classes.
    extra : {"error", "ignore"}
        What happens to columns that the domain does not name. Files may have them: only the
        domain's columns are read.
    progress : callable, optional
        Called with the number of records counted so far, and that of all where files say it.
        **Both are private**: for the owner's own screen.
    file_format : FileFormat
        How CSV and TSV files are written: separator, decimal mark and encoding.

    Returns
    -------
    CellCounts
        Private; it remembers the domain. For `fit_counts`, `measure`, or adding to others.

    Raises
    ------
    DomainError
        If a batch does not fit the domain; it says which batch.

    Notes
    -----
    Where cells times classes are at most 2**24, the counts are a table of 8 bytes each; otherwise
    sorted keys of the occupied pairs (16 bytes or more each, twice that while they are merged).
    Besides them there are a block of some 10**5 records, and the batch itself.

    Examples
    --------
    >>> import numpy as np
    >>> domain = Domain.from_sizes([2, 2], n_classes=2)
    >>> counts = count_stream([np.array([[0, 1, 0]]), np.array([[1, 0, 1], [0, 1, 1]])], domain)
    >>> counts
    CellCounts(private, 2 attributes, 2 classes)
    >>> counts.counts
    array([[1, 1],
           [0, 1]])
    """
    everything = tuple(range(checked_domain(domain).n_attributes))
    return count_tables(
        batches, domain, [everything], extra=extra, progress=progress, file_format=file_format
    )[0]


def count_tables(
    batches: object,
    domain: Domain | str,
    feature_sets: Sequence[Sequence[int]],
    *,
    extra: str = "error",
    progress: Progress | None = None,
    file_format: FileFormat = PLAIN,
) -> list[CellCounts]:
    """Count records in the cells of several sets of attributes, in one pass.

    Parameters
    ----------
    batches, domain, extra, progress, file_format
        See `count_stream`.
    feature_sets : sequence of sequences of int
        Positions of the attributes of each table.

    Returns
    -------
    list of CellCounts
        One for each set; they know their part of the domain, `Domain.select`.
    """
    known = checked_domain(domain)
    everything = tuple(range(known.n_attributes))
    parts = [known if tuple(kept) == everything else known.select(kept) for kept in feature_sets]
    tallies = [CellTally(part.sizes, part.n_classes) for part in parts]
    for *columns, labels in code_blocks(batches, known, extra, progress, file_format):
        for tally, kept in zip(tallies, feature_sets, strict=True):
            tally.add([columns[i] for i in kept], labels)
    return [tally.counts(part) for tally, part in zip(tallies, parts, strict=True)]


def partial_counts(
    X: object, y: object, domain: Domain | str, *, extra: str = "error"
) -> CellCounts:
    """Count one batch of records and classes, to be added to others by ``+`` or `merge_counts`.

    Parameters
    ----------
    X : frame or array of shape (N, d)
        Records, in the domain's terms.
    y : array of shape (N,)
        Their classes.
    domain, extra
        See `count_stream`.

    Examples
    --------
    >>> domain = Domain.from_sizes([3], n_classes=2)
    >>> (partial_counts([[0], [2]], [0, 1], domain) + partial_counts([[2]], [1], domain)).counts
    array([[1, 0],
           [0, 2]])
    """
    return count_stream([(X, y)], domain, extra=extra)


def count_leaves(
    batches: object,
    forest: Forest,
    *,
    extra: str = "error",
    progress: Progress | None = None,
    file_format: FileFormat = PLAIN,
) -> LeafCounts:
    """Count the records of each class in each leaf of a public forest, batch by batch.

    For domains too large for counts of cells: memory is that of the leaves, whatever the domain.

    Parameters
    ----------
    batches, extra, progress, file_format
        See `count_stream`.
    forest : Forest
        Public, over the whole domain with its classes.

    Returns
    -------
    LeafCounts
        Private. For `fit_counts` or `measure` where nothing but these leaves is measured.

    Raises
    ------
    DomainError
        As `count_stream`.

    Examples
    --------
    >>> import numpy as np
    >>> from mrf_matrix.forests.random_trees import RandomTrees
    >>> domain = Domain.from_sizes([2], n_classes=2)
    >>> forest = RandomTrees(n_trees=1, max_depth=1).grow(domain)
    >>> count_leaves([np.array([[0, 0], [1, 0]]), np.array([[1, 1]])], forest).counts
    array([[1, 0],
           [1, 1]])
    """
    if not isinstance(forest, Forest):
        raise TypeError(f"forest is of type {type(forest).__name__}: expected a Forest.")
    known = checked_domain(forest.domain)
    check_allocation("leaf counts", (forest.n_leaves, known.n_classes))
    counts = np.zeros((forest.n_leaves, known.n_classes), dtype=np.int64)
    for *columns, labels in code_blocks(batches, known, extra, progress, file_format):
        counts += leaf_counts(forest, np.stack(columns, axis=1), labels, known.n_classes)
    return LeafCounts(path_matrix(forest), counts, known, forest.provenance)


def checked_domain(domain: object) -> Domain:
    """Return a domain with classes, or refuse.

    Raises TypeError if it is no domain; DomainError if it has no target.
    """
    domain = as_domain(domain)
    if not isinstance(domain, Domain):
        raise TypeError(
            f"domain is of type {type(domain).__name__}: expected a Domain. It is public, and "
            f"never taken from the records."
        )
    domain.required_target()
    return domain
