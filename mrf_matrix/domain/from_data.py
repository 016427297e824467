"""A domain taken from records: for non-private work only."""

from typing import Literal

import numpy as np

from mrf_matrix.base.arrays import Array, Values
from mrf_matrix.base.checks import DomainError, PrivacyLeakWarning, short_repr, warn_caller
from mrf_matrix.domain.attribute import Attribute
from mrf_matrix.domain.columns import Column, as_any_column, as_frame, as_table, read_columns
from mrf_matrix.domain.texts import is_missing

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
    classes = distinct_values(as_any_column(name, labels))
    return attributes, Attribute(name, categories=classes).read_off()


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


def distinct_values(column: Column) -> list[object]:
    """Return the distinct values that are not missing, sorted by type and value."""
    present = column.values if column.missing is None else column.values[~column.missing]
    if column.levels is not None:
        found = [column.levels[i] for i in np.unique(present[present >= 0]).tolist()]
    elif present.dtype == object:
        found = list({(type(v), v): v for v in present.tolist() if not is_missing(v)}.values())
    else:
        found = [v for v in np.unique(present).tolist() if not is_missing(v)]
    return sorted(found, key=lambda v: (type(v).__name__, v))


def has_missing(column: Column) -> bool:
    if column.missing is not None and column.missing.any():
        return True
    if column.levels is not None:
        return bool((column.values < 0).any())
    if column.values.dtype.kind == "f":
        return bool(np.isnan(column.values).any())
    return column.values.dtype == object and any(map(is_missing, column.values.tolist()))


def attribute_from_column(column: Column, max_bins: int, max_categories: int) -> Attribute:
    """Return the attribute of one column: distinct values, or quantile bins of numbers."""
    values = distinct_values(column)
    if not values:
        raise DomainError(f"Column {short_repr(column.name)} has no values to take a domain from.")
    missing: Literal["category", "error"] = "category" if has_missing(column) else "error"
    if all(isinstance(v, int | float) and not isinstance(v, bool) for v in values):
        edges = inner_edges(column, values, max_bins)
        return Attribute(column.name, edges=edges, outside="open", missing=missing)
    if len(values) > max_categories:
        raise DomainError(
            f"Column {short_repr(column.name)} has more than max_categories={max_categories} "
            f"distinct values. Drop or group it, or raise max_categories."
        )
    return Attribute(column.name, categories=values, missing=missing)


def inner_edges(column: Column, distinct: list[object], max_bins: int) -> list[float]:
    """Return edges between the values where there are few, else the inner quantiles.

    Outer bins are open, so that numbers seen later have a code.
    """
    few: Array = np.asarray(distinct, dtype=np.float64)
    few = few[np.isfinite(few)]
    if not len(few):
        raise DomainError(
            f"Column {short_repr(column.name)} has no finite values to take a domain from."
        )
    if len(few) == 1 or max_bins == 1:
        return [float(few[0])]
    if len(few) <= max_bins:
        return [float(edge) for edge in np.unique(few[:-1] + np.diff(few) / 2)]
    kept = [v for v in present_values(column).tolist() if not is_missing(v) and np.isfinite(v)]
    quantiles = np.quantile(np.asarray(kept, dtype=np.float64), np.arange(1, max_bins) / max_bins)
    return [float(edge) for edge in np.unique(quantiles)]


def present_values(column: Column) -> Values:
    return column.values if column.missing is None else column.values[~column.missing]
