"""Columns of the papers' sets, before any domain, by the names that their files have."""

import re
from collections.abc import Sequence
from dataclasses import replace

from mrf_matrix.datasets.registry import checked_source, read_table
from mrf_matrix.datasets.tables import Table, table_of
from mrf_matrix.domain import DomainError


def source_table(name: object, target: str, aliases: Sequence[str] = ()) -> Table:
    """Return all columns that a name, a path or a frame stands for, before any domain.

    A dash or dot in their names becomes ``_``; the first of the `aliases` that is there becomes
    `target`.
    """
    text = checked_source(name)
    table = read_table(text, None) if isinstance(text, str) else table_of(text)
    columns = {re.sub(r"[-.]", "_", one): values for one, values in table.columns.items()}
    found = next((one for one in (target, *aliases) if one in columns), None)
    if found is None:
        raise DomainError(f"{table.label} has no column {target!r}.", values=list(columns))
    named = {one: values for one, values in columns.items() if one != found}
    return replace(table, columns=named | {target: columns[found]}, target=target)
