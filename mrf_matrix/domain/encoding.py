"""From records to codes and back, every attribute by its own rule."""

from collections.abc import Sequence
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike

from mrf_matrix.base.arrays import Codes, Values
from mrf_matrix.domain.attribute import Attribute
from mrf_matrix.domain.columns import as_any_column, read_columns
from mrf_matrix.domain.decoding import checked_codes, decode_column, value_array
from mrf_matrix.domain.errors import DomainError
from mrf_matrix.domain.lookup import encode_column


def encode_records(attributes: Sequence[Attribute], records: object, extra: str) -> Codes:
    """Return the codes of records, shape (N, d), C-contiguous.

    Raises
    ------
    DomainError
        As `encode_columns`.
    """
    columns = encode_columns(attributes, records, extra)
    codes = np.empty((len(attributes), len(columns[0])), dtype=np.int32)
    for row, column in zip(codes, columns, strict=True):
        row[:] = column
    return np.ascontiguousarray(codes.T)


def encode_columns(attributes: Sequence[Attribute], records: object, extra: str) -> list[Codes]:
    """Return the codes of records, one array of shape (N,) for each attribute.

    Raises
    ------
    DomainError
        If columns are missing, repeated or unwanted, their lengths differ, or a value has no
        code.
    """
    columns = read_columns(records, tuple(attribute.name for attribute in attributes), extra)
    lengths = {len(column.values) for column in columns}
    if len(lengths) != 1:
        raise DomainError("Columns differ in length; expected one value a record in each.")
    pairs = zip(attributes, columns, strict=True)
    return [encode_column(attribute, column) for attribute, column in pairs]


def encode_labels(target: Attribute, labels: object) -> Codes:
    """Return the class codes of labels, shape (N,); an array of shape (N, 1) is taken too."""
    if isinstance(labels, np.ndarray) and labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    return encode_column(target, as_any_column(target.name, labels))


def decode_records(
    attributes: Sequence[Attribute], codes: ArrayLike, numeric: str, native: Any
) -> Any:
    """Return what codes of shape (N, d) stand for: a dict of columns, or a frame of a library.

    Raises
    ------
    DomainError
        If the codes are not integers of this shape, each among its attribute's codes.
    """
    sizes = tuple(attribute.size for attribute in attributes)
    names = tuple(attribute.name for attribute in attributes)
    checked = checked_codes(codes, sizes, names)
    columns = {
        attribute.name: decode_column(attribute, checked[:, i], numeric)
        for i, attribute in enumerate(attributes)
    }
    if native is None:
        return columns
    lists = {name: values.tolist() for name, values in columns.items()}
    return nw.from_dict(lists, backend=native).to_native()


def decode_labels(target: Attribute, codes: ArrayLike) -> Values:
    """Return the class of every class code, shape (N,)."""
    column = np.asarray(codes).reshape(-1, 1)
    checked = checked_codes(column, [target.size], [target.name])
    return np.asarray(value_array(target.labels)[checked[:, 0]])
