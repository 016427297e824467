"""Private counts that an estimator has to keep, because its queries come later."""

from collections.abc import Iterator, Sequence
from typing import Any

from mrf_matrix.mechanisms import CellCounts, LeafCounts, PrivateDataError


class PrivateTables:
    """The private tables of a fitted estimator, one for each ensemble: **raw counts**.

    They hold how many records of each class lie in each cell (or leaf), not the records' order.
    Pickling or copying them raises, unless the caller asked for it: whoever gets a copy gets the
    records, and could spend the same budget once more.

    Parameters
    ----------
    tables : sequence of CellCounts
    may_be_pickled : bool, default=False
    """

    def __init__(self, tables: Sequence[CellCounts], may_be_pickled: bool = False) -> None:
        self._tables = tuple(tables)
        self._may_be_pickled = bool(may_be_pickled)

    def __iter__(self) -> Iterator[CellCounts]:
        return iter(self._tables)

    def __repr__(self) -> str:
        return f"PrivateTables(private, {len(self._tables)})"

    def __reduce__(self) -> tuple[Any, ...]:
        if not self._may_be_pickled:
            raise PrivateDataError(
                "the fitted estimator holds private records, for it answers queries that come "
                "later: it is not pickled, copied or sent to another process. Share its "
                "predictions, or set keep_records_in_pickle=True before fit, and then treat the "
                "file like the records themselves."
            )
        return _rebuilt, (tuple((t.codes, t.counts, t.sizes) for t in self._tables),)


def counts_of_cells(counts: CellCounts | LeafCounts) -> CellCounts:
    """Return the counts over cells; refuse those of leaves, which answer no queries.

    Raises ValueError if leaves were counted.
    """
    if not isinstance(counts, CellCounts):
        raise ValueError(
            "counts are those of a forest's leaves, and cells are asked for: expected counts of "
            "cells, from count_stream."
        )
    return counts


def _rebuilt(parts: Sequence[tuple[Any, Any, tuple[int, ...]]]) -> PrivateTables:
    return PrivateTables([CellCounts(*part) for part in parts], may_be_pickled=True)
