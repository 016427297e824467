"""A data set: records, their public domain, and where they come from."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from mrf_matrix.base.arrays import Codes, Values
from mrf_matrix.base.display import FRAMES, Frame
from mrf_matrix.domain import Domain
from mrf_matrix.domain.encoding import as_doubles
from mrf_matrix.domain.serialization import readable_count


class DatasetInfo(NamedTuple):
    """A row of :func:`list_datasets`; ``n_cells`` is the size of the data set's domain."""

    name: str
    n_records: int
    n_attributes: int
    n_classes: int
    n_cells: int
    source: str
    licence: str

    @classmethod
    def of(
        cls, name: str, domain: Domain, n_records: int, source: str, licence: str
    ) -> "DatasetInfo":
        """Return the row of a set, loaded or not."""
        sizes = (n_records, domain.n_attributes, domain.n_classes, domain.size)
        return cls(name, *sizes, source, licence)

    def to_dict(self) -> dict[str, object]:
        """Return the row as JSON-ready data."""
        return self._asdict()


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Records with their public domain.

    Attributes
    ----------
    name : str
        Name of the set.
    domain : Domain
        Attributes and target. Public.
    columns : mapping of str to ndarray
        Values of every attribute, as they were before encoding.
    y : ndarray of shape (N,)
        Classes, as they were before encoding.
    codes : ndarray of int32 of shape (N, d)
        Codes of the records.
    labels : ndarray of int32 of shape (N,)
        Codes of the classes.
    source : str
        Who published the set, and how it came here.
    licence : str
        Terms of use as the publisher states them.
    """

    name: str
    domain: Domain
    columns: Mapping[str, Values]
    y: Values
    codes: Codes
    labels: Codes
    source: str
    licence: str

    def __post_init__(self) -> None:
        """Make the columns read-only, and doubles of short floats, as frames of lists hold them."""
        columns = {name: as_doubles(values) for name, values in self.columns.items()}
        object.__setattr__(self, "columns", MappingProxyType(columns))

    @property
    def n_records(self) -> int:
        """Number of records, N."""
        return len(self.labels)

    @cached_property
    def X(self) -> Any:
        """Records as a frame of the first installed library: pandas, polars or pyarrow.

        Without any of them, an object array of shape (N, d).
        """
        installed = [library for library in FRAMES if find_spec(library)]
        return self.frame(installed[0]) if installed else self.array()

    def frame(self, native: Frame) -> Any:
        """Return the records as a frame of ``"pandas"``, ``"polars"`` or ``"pyarrow"``."""
        import narwhals as nw

        lists = {name: values.tolist() for name, values in self.columns.items()}
        return nw.from_dict(lists, backend=native).to_native()

    def array(self) -> Values:
        """Return the records as an object array of shape (N, d)."""
        table = np.empty(self.codes.shape, dtype=object)
        for i, name in enumerate(self.domain.names):
            table[:, i] = self.columns[name]
        return table

    @property
    def info(self) -> DatasetInfo:
        """The set in one row of a table."""
        return DatasetInfo.of(self.name, self.domain, self.n_records, self.source, self.licence)

    def __repr__(self) -> str:
        """Write the sizes, not the records."""
        cells = readable_count(self.domain.size)
        return (
            f"Dataset({self.name!r}: {self.n_records} records, {self.domain.n_attributes} "
            f"attributes, {self.domain.n_classes} classes, {cells} cells)"
        )


def dataset_of_columns(
    name: str, domain: Domain, columns: Mapping[str, Values], y: Values, source: str, licence: str
) -> Dataset:
    wanted = {attribute: columns[attribute] for attribute in domain.names}
    return Dataset(
        name, domain, wanted, y, domain.encode(wanted), domain.encode_target(y), source, licence
    )
