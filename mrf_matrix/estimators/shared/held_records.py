"""Private data that several tables are taken from: records in memory where they may be held."""

from dataclasses import dataclass, replace

import numpy as np

from mrf_matrix.base.provenance import Provenance
from mrf_matrix.base.shown import PrivateValue
from mrf_matrix.domain import Domain
from mrf_matrix.domain.attribute import coarser_codes
from mrf_matrix.estimators.shared.given_counts import (
    CountedTables,
    GivenCounts,
    GivenStream,
    is_small,
)
from mrf_matrix.estimators.shared.given_data import EncodedRecords, GivenRecords, PrivateData
from mrf_matrix.forests import Forest
from mrf_matrix.mechanisms import CellCounts
from mrf_matrix.mechanisms.counts.cells import check_private_allocation
from mrf_matrix.mechanisms.counts.counts import needs_records
from mrf_matrix.streams.blocks import code_blocks

HELD = 1 << 27
"""Bytes of codes that may be held of counted data: a fit from them takes five times that."""


@dataclass(frozen=True)
class Serving:
    """What private data can give, known in public."""

    records: bool  # every record by itself, as residuals need
    tables: bool  # tables of any attributes that are asked for later, as screening needs

    @classmethod
    def by(cls, data: PrivateData, n_records: int | None) -> "Serving":
        """Tell by what kind of data they are and by the public number of records alone.

        Counts and streams are held as records only where their public number says that they fit:
        memory does not grow with what is private.
        """
        if isinstance(data, GivenRecords):
            return cls(True, True)
        if isinstance(data, HeldData):
            return cls(isinstance(data.source, EncodedRecords), True)
        width = 4 * (data.domain.n_attributes + 1)
        if n_records is not None and n_records * width <= HELD:
            return cls(True, True)
        if isinstance(data, GivenCounts):
            return cls(False, isinstance(data.counts, CellCounts))
        return cls(False, is_small(data.domain))


ALL = Serving(True, True)


@dataclass(frozen=True, eq=False, repr=False)
class HeldData(PrivateValue):
    """Data that were read, and may be asked for tables again and again."""

    domain: Domain
    source: EncodedRecords | CountedTables
    provenance: Provenance

    def over(self, coarser: Domain) -> "HeldData":
        """Return the same data over a coarser domain, with codes of their own."""
        if coarser == self.domain:
            return self
        if isinstance(self.source, CountedTables):
            return replace(self, domain=coarser, source=self.source.over(self.domain, coarser))
        attributes = self.domain.attributes, coarser.attributes
        check_private_allocation("coarser codes of the records", self.source.codes.shape, 4)
        codes = coarser_codes(*attributes, self.source.codes)
        return replace(
            self, domain=coarser, source=replace(self.source, domain=coarser, codes=codes)
        )

    def check_records(self, what: str) -> None:
        """Refuse what needs every record by itself, where there are counts alone."""
        if isinstance(self.source, CountedTables):
            raise needs_records(what)

    def tables(self, asked: object, leaves: Forest | None = None) -> EncodedRecords | CountedTables:
        """Return what tables are taken from."""
        return self.source


def held(data: PrivateData, *, records: bool) -> HeldData:
    """Return data that can be asked again: as records, or as counts of all cells.

    `records`: whether every record is needed by itself, see `Serving`: 4 N (d + 1) bytes.

    Raises TypeError if all that is known are counts of leaves.
    """
    if isinstance(data, GivenCounts) and not isinstance(data.counts, CellCounts):
        raise needs_records("this forest")
    if records and isinstance(data, GivenStream):
        return HeldData(data.domain, _read(data), data.provenance)
    if records and isinstance(data, GivenCounts):
        return HeldData(data.domain, _written_out(data), data.provenance)
    source = data.tables([tuple(range(data.domain.n_attributes))])
    if not isinstance(source, EncodedRecords | CountedTables):
        raise needs_records("this forest")
    return HeldData(data.domain, source, data.provenance)


def _written_out(data: GivenCounts) -> EncodedRecords:
    """Return a record for each that was counted."""
    assert isinstance(data.counts, CellCounts)
    rows, labels = np.nonzero(data.counts.counts)
    times = data.counts.counts[rows, labels]
    shape = int(times.sum(dtype=np.float64)), data.domain.n_attributes + 1
    check_private_allocation("records written out", shape, 4)
    codes = np.repeat(data.counts.codes[rows].astype(np.int32), times, axis=0)
    return EncodedRecords(data.domain, codes, np.repeat(labels.astype(np.int32), times))


def _read(data: GivenStream) -> EncodedRecords:
    """Read all batches once."""
    blocks = list(
        code_blocks(data.batches, data.domain, data.extra, data.progress, data.file_format)
    )
    if not any(len(block[-1]) for block in blocks):
        raise ValueError("batches hold no record: expected at least one record to train on.")
    columns = [np.concatenate(column) for column in zip(*blocks, strict=True)]
    codes = np.stack(columns[:-1], axis=1)
    return EncodedRecords(data.domain, codes, columns[-1])
