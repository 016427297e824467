"""Tables of records, in memory or from OpenML, fitted to a domain; and what does not fit."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from mrf_matrix.base.arrays import Bools, Values
from mrf_matrix.base.checks import SEE_VALUES, short_repr
from mrf_matrix.base.fields import FieldError, list_of
from mrf_matrix.base.files import PLAIN, FileFormat
from mrf_matrix.datasets.dataset import Dataset, dataset_of_columns
from mrf_matrix.datasets.files import (
    PARQUET_ENDINGS,
    csv_chunks,
    header_hint,
    header_of,
    read_parquet,
)
from mrf_matrix.domain import Attribute, Domain, DomainError
from mrf_matrix.domain.columns import (
    as_any_column,
    as_frame,
    check_columns,
    check_repeats,
    object_array,
    series_values,
    without_repeats,
)
from mrf_matrix.domain.encoding import encode_column
from mrf_matrix.domain.serialization import (
    MAX_ATTRIBUTES,
    attribute_from_dict,
    domain_json,
    domain_object,
)

Columns = Mapping[str, Values]


@dataclass(frozen=True, eq=False)
class Table:
    """Records and classes by column name, before any domain."""

    label: str  # name of the data set made of it
    columns: Columns  # all columns, the classes among them
    target: str | None  # name of the column of classes, as far as its publisher says
    # source, licence: as for :class:`Dataset`
    source: str
    licence: str

    def fit(
        self, domain: Domain | None, target: str | None, extra: str, drop_missing: bool
    ) -> Dataset:
        """Return the data set under a domain, or under one taken from the records."""
        if domain is None:
            known = domain_of_columns(self.columns, target or self.target)
        else:
            known = domain
            own = known.required_target().name
            if target not in (None, own):
                raise DomainError(f"target={target!r}, but the domain's target is {own!r}.")
        if extra not in ("error", "ignore"):
            raise DomainError(f"extra={short_repr(extra)}; expected 'error' or 'ignore'.")
        wanted = [*known.names, known.required_target().name]
        check_columns(list(self.columns), wanted, extra, self.label)
        kept = without_missing(known, self.columns) if drop_missing else self.columns
        y = kept[known.required_target().name]
        return dataset_of_columns(self.label, known, kept, y, self.source, self.licence)


def table_of(records: object, domain: Domain | None = None) -> Table:
    """Return the table of a frame or a mapping of columns, the classes among them.

    Raises TypeError if the records have no names of columns.
    """
    if isinstance(records, Mapping):
        columns = {
            str(name): object_array(str(name), values)
            if isinstance(values, list | tuple)
            else np.asanyarray(values)
            for name, values in records.items()
        }
    else:
        used = None if domain is None else [*domain.names, domain.required_target().name]
        frame = as_frame(without_repeats(records, used))
        if frame is None:
            raise TypeError(
                f"records of type {type(records).__name__}: expected a frame or a mapping of "
                f"columns, the classes among them, whose names the domain knows."
            )
        columns = {name: series_values(frame[name]) for name in frame.columns}
    return Table("records", columns, None, "given in memory", "not stated")


def resolve_domain(domain: "Domain | str | PathLike[str] | None", what: str) -> Domain | None:
    """Return the domain given or read from a file; None where it is to be taken from the data.

    Raises DomainError if no domain is given: it is never taken from records silently.
    """
    if isinstance(domain, Domain):
        return domain
    if domain is None:
        raise DomainError(
            f"{what} needs a public domain: give a domain file in JSON (`mrf-matrix domain new` "
            "writes one) or a Domain. It is never taken from the records silently; for non-private "
            "work there is domain='from_data'."
        )
    if domain == "from_data":
        return None
    if isinstance(domain, str | PathLike):
        return Domain.load(domain)
    raise DomainError(
        f"domain is of type {type(domain).__name__}; expected a Domain, the path of a "
        "domain file, or 'from_data'."
    )


def domain_of_columns(columns: Columns, target: str | None) -> Domain:
    """Take a domain from the columns, with its warning; without a word the target is the last."""
    names = list(columns)
    if len(names) < 2 or (target is not None and target not in names):
        raise DomainError(
            f"target={short_repr(target)}; expected one of two or more columns.", values=names
        )
    name = names[-1] if target is None else target
    records = {key: values for key, values in columns.items() if key != name}
    found = Domain.from_data(records, columns[name])
    return replace(found, target=replace(found.required_target(), name=name))


def without_missing(domain: Domain, columns: Columns) -> Columns:
    attributes = [*domain.attributes, domain.required_target()]
    kept = np.ones(len(columns[attributes[0].name]), dtype=bool)
    for attribute in attributes:
        if attribute.missing_code is None:
            kept &= ~is_absent(columns[attribute.name])
    return {a.name: columns[a.name][kept] for a in attributes}


def is_absent(values: Values) -> Bools:
    if values.dtype.kind == "f":
        return np.asarray(np.isnan(values))
    if values.dtype != object:
        return np.zeros(len(values), dtype=bool)
    return np.array([v is None or (isinstance(v, float) and v != v) for v in values.tolist()], bool)


PREFIX = "openml:"


def fetch_columns(name: str) -> tuple[dict[str, Values], str, str, str]:
    """Return the columns of an OpenML set with its target's name, its source and its licence.

    `name`: ``openml:NAME``, ``openml:NAME@VERSION`` or ``openml:ID``.

    Raises DomainError if the name is empty, the set is sparse, or it has not exactly one target.
    """
    from sklearn.datasets import fetch_openml

    key = name.removeprefix(PREFIX)
    bunch = fetch_openml(
        **openml_arguments(key), as_frame=find_spec("pandas") is not None, parser="auto"
    )
    if hasattr(bunch.data, "tocsr"):
        raise DomainError(f"{name} is sparse; expected a table of attributes.")
    columns = named_columns(bunch)
    targets = list(bunch.target_names or ())
    if len(targets) != 1:
        raise DomainError(f"{name} has the targets {targets}; expected exactly one.")
    details: Mapping[str, Any] = bunch.details or {}
    source = f"OpenML {details.get('id', key)}: {bunch.url}"
    return columns, targets[0], source, str(details.get("licence", "not stated"))


def openml_arguments(key: str) -> dict[str, object]:
    name, _, version = key.partition("@")
    if not name:
        raise DomainError(f"'{PREFIX}{key}'; expected e.g. 'openml:mushroom' or 'openml:24'.")
    if name.isdecimal():
        return {"data_id": int(name)}
    if version and not version.isdecimal():
        raise DomainError(f"'{PREFIX}{key}': version {version!r}; expected an integer.")
    return {"name": name, "version": int(version) if version else "active"}


def named_columns(bunch: Any) -> dict[str, Values]:
    """Return features and target by name, from a frame or from arrays."""
    if bunch.frame is not None:
        import narwhals as nw

        frame = nw.from_native(bunch.frame, eager_only=True)
        return {name: series_values(frame[name]) for name in frame.columns}
    columns = {name: bunch.data[:, i] for i, name in enumerate(bunch.feature_names)}
    return columns | {bunch.target_names[0]: np.asarray(bunch.target)}


def domain_problems(path: "str | PathLike[str]") -> list[str]:
    """Return everything that is wrong with a domain file, an entry each; none if it is valid."""
    try:
        data = domain_json(path)
    except DomainError as error:
        return [str(error)]
    try:
        given = domain_object(data, "the file")
        items = list_of(given["attributes"], "attributes", MAX_ATTRIBUTES)
    except FieldError as error:
        return [f"{path} is no domain: {error}"]
    named = [(f"attribute {number}", item) for number, item in enumerate(items)]
    if given.get("target") is not None:
        named.append(("target", given["target"]))
    problems = []
    for where, item in named:
        try:
            attribute_from_dict(item, where)
        except (FieldError, DomainError) as error:
            problems.append(str(error))
    if not problems:
        try:
            Domain.from_dict(data)
        except DomainError as error:
            problems.append(str(error))
    return problems


def record_problems(
    path: "str | PathLike[str]", domain: Domain, file_format: FileFormat = PLAIN
) -> list[str]:
    """Return everything that keeps a CSV, TSV or Parquet file from a domain, by column.

    The file is read to its end; of a column the first problem of each kind is told. No entry holds
    a value, a place or a number of records, but that a problem is there is told of the records.
    """
    file = Path(path)
    header = header_of(file, file_format)
    wanted = [*domain.attributes, *([domain.target] if domain.target else [])]
    check_repeats(header, [one.name for one in wanted], str(file))
    there = set(header)
    absent = [one.name for one in wanted if one.name not in there]
    problems = {f"{file} lacks the column {short_repr(name)}.": None for name in absent}
    if absent and (hint := header_hint(file, absent, file_format)):
        problems[f"{file}:{hint}"] = None
    present = [one for one in wanted if one.name in there]
    try:
        for columns in _parts(file, file_format):
            for attribute in present:
                problem = _problem(attribute, columns[attribute.name], file_format.decimal)
                if problem is not None:
                    problems[problem] = None
    except DomainError as error:  # of the file itself: nothing after it can be read
        problems[str(error)] = None
    return list(problems)


def _parts(file: Path, file_format: FileFormat) -> Iterator[dict[str, object]]:
    if file.name.lower().endswith(PARQUET_ENDINGS):
        yield dict(read_parquet(file))
    else:
        for texts in csv_chunks(file, file_format):
            yield dict(texts)


def _problem(attribute: Attribute, values: object, decimal: str) -> str | None:
    try:
        column = as_any_column(attribute.name, values)
        if isinstance(values, tuple):  # text of a CSV file
            column = replace(column, source="text", decimal=decimal)
        encode_column(attribute, column)
    except DomainError as error:
        return str(error).removesuffix(SEE_VALUES).strip()
    return None
