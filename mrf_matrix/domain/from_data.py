"""A domain taken from records: for non-private work only."""

from collections.abc import Iterable
from typing import Any, Literal

import numpy as np

from mrf_matrix.base.arrays import Array
from mrf_matrix.base.checks import DomainError, PrivacyLeakWarning, short_repr, warn_caller
from mrf_matrix.domain.attribute import Attribute, is_missing
from mrf_matrix.domain.columns import Column, as_any_column, as_frame, as_table, read_columns

REMEDY = (
    "The domain was taken from the records, so nothing that uses it is differentially private. "
    "For private work write the domain down from public knowledge (docs: How to write a domain)."
)


def attributes_from_data(
    records: object, labels: object = None, max_bins: int = 8, max_categories: int = 64
) -> tuple[list[Attribute], Attribute | None]:
    for option, value in (("max_bins", max_bins), ("max_categories", max_categories)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise DomainError(f"{option}={short_repr(value)}; expected a positive integer.")
    warn_caller(REMEDY, PrivacyLeakWarning)
    columns = read_columns(records, column_names(records))
    attributes = [
        attribute_from_column(column, max_bins, max_categories).read_off() for column in columns
    ]
    if labels is None:
        return attributes, None
    name = "class" if "class" not in {column.name for column in columns} else "target"
    present, _ = present_values(as_any_column(name, labels))
    return attributes, Attribute(name, categories=distinct_sorted(present)).read_off()


def column_names(records: object) -> list[str]:
    if isinstance(records, dict):
        return list(records)
    if isinstance(records, np.ndarray):
        if records.dtype.names is not None:
            return list(records.dtype.names)
        return [f"x{i}" for i in range(records.shape[-1] if records.ndim == 2 else 0)]
    frame = as_frame(records)
    if frame is not None:
        return list(frame.columns)
    return column_names(as_table(records))


def present_values(column: Column) -> tuple[list[Any], bool]:
    """Return the values of a column that are not missing, and whether others are."""
    values = column.values.tolist()
    if column.levels is not None:
        levels = (*column.levels, None)  # None at position -1
        values = [levels[place] for place in values]
    if column.missing is not None:
        masked = column.missing.tolist()
        values = [None if gone else one for one, gone in zip(values, masked, strict=True)]
    present = [one for one in values if not is_missing(one)]
    return present, len(present) < len(values)


def distinct_sorted(values: Iterable[Any]) -> list[Any]:
    found = {(type(one), one): one for one in values}
    return sorted(found.values(), key=lambda one: (type(one).__name__, one))


def attribute_from_column(column: Column, max_bins: int, max_categories: int) -> Attribute:
    """Return the attribute of one column: distinct values, or quantile bins of numbers."""
    present, has_missing = present_values(column)
    values = distinct_sorted(present)
    if not values:
        raise DomainError(f"Column {short_repr(column.name)} has no values to take a domain from.")
    missing: Literal["category", "error"] = "category" if has_missing else "error"
    if all(isinstance(v, int | float) and not isinstance(v, bool) for v in values):
        finite = np.asarray([one for one in present if np.isfinite(one)], dtype=np.float64)
        if not len(finite):
            raise DomainError(
                f"Column {short_repr(column.name)} has no finite values to take a domain from."
            )
        edges = inner_edges(finite, max_bins)
        return Attribute(column.name, edges=edges, outside="open", missing=missing)
    if len(values) > max_categories:
        raise DomainError(
            f"Column {short_repr(column.name)} has more than max_categories={max_categories} "
            f"distinct values. Drop or group it, or raise max_categories."
        )
    return Attribute(column.name, categories=values, missing=missing)


def inner_edges(values: Array, max_bins: int) -> list[float]:
    """Return edges between the values where there are few, else the inner quantiles.

    Outer bins are open, so that numbers seen later have a code.
    """
    edges = np.unique(values)
    if len(edges) == 1 or max_bins == 1:
        edges = edges[:1]
    elif len(edges) <= max_bins:
        edges = edges[:-1] + np.diff(edges) / 2
    else:
        edges = np.quantile(values, np.arange(1, max_bins) / max_bins)
    return [float(edge) for edge in np.unique(edges)]
