"""Counts of records that arrive in batches: D = Σ Dᵢ, exactly, in bounded memory."""

from collections.abc import Sequence

import numpy as np

from mrf_matrix.base.file_format import PLAIN, FileFormat
from mrf_matrix.compilation import leaf_counts, path_matrix
from mrf_matrix.domain import Domain, as_domain
from mrf_matrix.forests import Forest
from mrf_matrix.mechanisms import CellCounts, CellTally, LeafCounts
from mrf_matrix.streams.blocks import Progress, code_blocks
from strategies.operators import check_allocation


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
    >>> from mrf_matrix.forests.sources.random_trees import RandomTrees
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
