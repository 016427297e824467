"""Private data as records in memory, whatever they came as."""

from dataclasses import dataclass

import numpy as np

from mrf_matrix.domain import Domain
from mrf_matrix.estimators.shared.given_data import (
    EncodedRecords,
    GivenCounts,
    GivenStream,
    PrivateData,
    needs_records,
)
from mrf_matrix.forests import Forest
from mrf_matrix.mechanisms import CellCounts
from mrf_matrix.streams.blocks import code_blocks


@dataclass(frozen=True, eq=False)
class HeldRecords:
    """Encoded records that several forests may be fitted from."""

    encoded: EncodedRecords

    @property
    def domain(self) -> Domain:
        """The public domain."""
        return self.encoded.domain

    def check_records(self, what: str) -> None:
        """Accept: here they are."""

    def tables(self, asked: object, leaves: Forest | None = None) -> EncodedRecords:
        """Return the records."""
        return self.encoded


def held(data: PrivateData) -> HeldRecords:
    """Return data as records: counts are written out, and a stream is read into memory.

    The largest array is the codes, 4 N d bytes.

    Raises
    ------
    TypeError
        If all that is known are counts of leaves.
    """
    if isinstance(data, GivenStream):
        return HeldRecords(_read(data))
    if not isinstance(data, GivenCounts):
        found = data.tables([])
        if isinstance(found, EncodedRecords):
            return HeldRecords(found)
        raise needs_records("this forest")
    if not isinstance(data.counts, CellCounts):
        raise needs_records("this forest")
    rows, labels = np.nonzero(data.counts.counts)
    times = data.counts.counts[rows, labels]
    codes = np.repeat(data.counts.codes[rows], times, axis=0)
    written = np.repeat(labels, times).astype(np.int32)
    return HeldRecords(EncodedRecords(data.domain, codes.astype(np.int32), written))


def _read(data: GivenStream) -> EncodedRecords:
    """Read all batches once."""
    blocks = list(code_blocks(data.batches, data.domain, data.extra, data.progress))
    if not any(len(block[-1]) for block in blocks):
        raise ValueError("batches hold no record: expected at least one record to train on.")
    columns = [np.concatenate(column) for column in zip(*blocks, strict=True)]
    codes = np.stack(columns[:-1], axis=1)
    return EncodedRecords(data.domain, codes, columns[-1])
