"""Cells of counts: checks on codes, cell numbers, and what is known of the domain."""

from collections.abc import Sequence
from math import prod
from numbers import Integral
from typing import Protocol

import numpy as np

from mrf_matrix.base.arrays import AnyInts, Codes, Longs, plain_array
from mrf_matrix.base.fields import JsonObject
from mrf_matrix.base.provenance import DOMAIN, NOTHING, Provenance
from strategies.operators import MemoryCapError, fits


def flat_cells(codes: AnyInts, sizes: tuple[int, ...]) -> Longs:
    """Return cell numbers in C order, for a domain of less than 2**63 cells."""
    if prod(sizes) > np.iinfo(np.int64).max:
        raise ValueError(
            f"a domain of {prod(sizes)} cells has no 64-bit cell numbers: expected a strategy "
            f"that knows the domain's sizes (its `sizes` attribute)."
        )
    return np.asarray(np.ravel_multi_index(tuple(codes.T), sizes), dtype=np.int64)


def distinct_cells(codes: AnyInts, sizes: tuple[int, ...]) -> tuple[AnyInts, Longs]:
    """Return the distinct rows of codes and, for each record, which of them is its own.

    The largest arrays are one number a record, and one byte a cell where the domain has at most
    four cells a record.
    """
    if prod(sizes) > np.iinfo(np.int64).max:
        rows, index = np.unique(codes, axis=0, return_inverse=True)
        return rows, index.ravel()
    keys = flat_cells(codes, sizes)
    if prod(sizes) <= 4 * len(keys):  # one pass instead of a sort
        present = np.zeros(prod(sizes), dtype=bool)
        present[keys] = True
        cells = np.flatnonzero(present)
        index = (np.cumsum(present) - 1)[keys]
    else:
        cells, index = np.unique(keys, return_inverse=True)
    rows = np.stack(np.unravel_index(cells, sizes), axis=1).astype(np.int32)
    return rows, index.ravel().astype(np.int64)


def check_private_allocation(what: str, shape: tuple[int, ...], itemsize: int = 8) -> None:
    """Refuse, by name, an array above the memory cap whose size is private, and do not tell it.

    Raises MemoryCapError.
    """
    if not fits(shape, itemsize):
        raise MemoryCapError(
            f"{what}, whose number is private, take more than the memory cap. Use a smaller domain "
            f"or fewer records, or raise the cap with strategies.operators.memory_cap(bytes)."
        )


def summed_cells(codes: AnyInts, counts: Longs, sizes: tuple[int, ...]) -> tuple[Codes, Longs]:
    """Return distinct cells in C order with the sums of their counts, those without any left out.

    `codes` (N', d): cells, which may repeat; `counts` (N', k).
    """
    cells, index = distinct_cells(codes, sizes)
    check_private_allocation("counts of the occupied cells", (len(cells), counts.shape[1]))
    table = np.zeros((counts.shape[1], len(cells)), dtype=np.int64)
    for row, column in zip(table, counts.T, strict=True):
        np.add.at(row, index, column)
    occupied = table.any(axis=0)
    return cells[occupied].astype(np.int32), np.ascontiguousarray(table[:, occupied].T)


def checked_sizes(sizes: Sequence[int]) -> tuple[int, ...]:
    values = tuple(sizes)
    bad = [s for s in values if isinstance(s, bool) or not isinstance(s, Integral) or s < 1]
    if not values or bad:
        raise ValueError(f"sizes={values!r}: expected one positive integer for each attribute.")
    return tuple(int(size) for size in values)


def _integers(name: str, values: object) -> AnyInts:
    array = plain_array(name, values)
    if array.dtype.kind not in "iu":
        raise TypeError(
            f"{name} has type {array.dtype}: expected integer codes; encode records with "
            f"Domain.encode and labels with Domain.encode_target."
        )
    return array


def checked_counts(counts: object, rows: int, expected: str) -> Longs:
    """Return private counts of shape (rows, k) as int64 that nobody can write to, or refuse."""
    given = plain_array("counts", counts)
    if given.ndim != 2 or len(given) != rows or not given.shape[1]:
        raise ValueError(
            f"counts has the wrong shape: expected {expected} and a column for each class."
        )
    if given.dtype.kind not in "iu" or (given.size and given.min() < 0):
        raise ValueError(f"counts of type {given.dtype}: expected integers, none of them negative.")
    if given.size and given.dtype.kind == "u" and given.max() > np.iinfo(np.int64).max:
        raise ValueError("counts of 2**63 or more: expected numbers of records, which are fewer.")
    own = given.astype(np.int64)
    own.flags.writeable = False
    return own


def checked_codes(codes: object, sizes: tuple[int, ...]) -> AnyInts:
    array = _integers("codes", codes)
    if array.ndim != 2 or array.shape[1] != len(sizes):
        raise ValueError(
            f"codes has the wrong shape: expected (N, {len(sizes)}), a column for each attribute "
            f"of the domain."
        )
    for i, (column, size) in enumerate(zip(array.T, sizes, strict=True)):
        if len(column) and (column.min() < 0 or column.max() >= size):
            raise ValueError(
                f"codes of attribute {i} leave the domain: expected 0 to {size - 1} only."
            )
    return array


def checked_labels(labels: object, records: int, n_classes: int) -> Longs:
    array = _integers("labels", labels)
    if array.shape != (records,):
        raise ValueError("labels has the wrong shape: expected (N,), one for each record.")
    if records and (array.min() < 0 or array.max() >= n_classes):
        raise ValueError(f"labels leave the classes: expected 0 to {n_classes - 1} only.")
    return array.astype(np.int64, copy=False)


class HasName(Protocol):
    """An attribute, of which its name is known."""

    @property
    def name(self) -> str: ...


class PublicDomain(Protocol):
    """What a release needs to know of the domain that it carries."""

    @property
    def sizes(self) -> tuple[int, ...]: ...

    @property
    def names(self) -> tuple[str, ...]: ...

    @property
    def target(self) -> "HasName | None": ...

    @property
    def n_classes(self) -> int: ...

    @property
    def provenance(self) -> Provenance: ...

    def to_dict(self) -> JsonObject: ...


def provenance_of_counts(domain: PublicDomain | None, carried: Provenance) -> Provenance:
    """Return the provenance of counts: of their domain, and of the counts that they are made of.

    With sizes alone the domain is what a caller declared.
    """
    if domain is None:
        return carried if carried != NOTHING else DOMAIN
    return carried | domain.provenance
