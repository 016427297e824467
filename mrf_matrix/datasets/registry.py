"""Data sets by name."""

from difflib import get_close_matches
from os import PathLike, fspath
from pathlib import Path
from typing import Literal

from mrf_matrix.base.files import PLAIN, FileFormat, checked_format
from mrf_matrix.datasets.built_in import (
    BALANCE_SCALE,
    CAR_EVALUATION,
    MONKS,
    NURSERY,
    SCIKIT_SETS,
    TIC_TAC_TOE,
    BuiltIn,
)
from mrf_matrix.datasets.dataset import Dataset, DatasetInfo
from mrf_matrix.datasets.files import is_data_file, read_file
from mrf_matrix.datasets.tables import PREFIX, Table, fetch_columns, resolve_domain, table_of
from mrf_matrix.domain import Domain, DomainError

RULE_SETS = (CAR_EVALUATION, NURSERY, BALANCE_SCALE, TIC_TAC_TOE, *MONKS)
BUILT_IN: dict[str, BuiltIn] = {
    **{item.name: item for item in RULE_SETS},
    **{item.name: item for item in SCIKIT_SETS},
}


def list_datasets() -> list[DatasetInfo]:
    """Return one row for every data set that comes with the package.

    Examples
    --------
    >>> list_datasets()[0][:5]
    ('car', 1728, 6, 4, 1728)
    """
    return [item.info for item in BUILT_IN.values()]


def load_dataset(
    name: object,
    domain: "Domain | str | PathLike[str] | None" = None,
    *,
    target: str | None = None,
    extra: Literal["error", "ignore"] = "error",
    drop_missing: bool = False,
    file_format: FileFormat = PLAIN,
) -> Dataset:
    """Return a data set with its public domain.

    Parameters
    ----------
    name : str or path
        A name of :func:`list_datasets`; the path of a CSV file (``.csv``, ``.csv.gz``, header
        row) or Parquet file; or ``openml:NAME``, ``openml:NAME@VERSION``, ``openml:ID``.
        Or the records themselves: a frame or a mapping of columns, the classes among them.
    domain : Domain, path of a domain file, or "from_data"
        Required for files and OpenML; ``"from_data"`` is for non-private work and warns. For the
        built-in sets it replaces their own domain.
    target : str, optional
        With ``domain="from_data"``: the column of the classes (a file's last one if not told).
        Otherwise the domain says it.
    extra : {"error", "ignore"}
        What happens to columns that the domain does not name.
    drop_missing : bool
        Drop records with a missing value that the domain has no code for.
    file_format : FileFormat
        How CSV and TSV files are written: separator, decimal mark and encoding.

    Raises
    ------
    DomainError
        If the name is unknown, the domain is missing, or the records do not fit it.

    Examples
    --------
    >>> load_dataset("car")
    Dataset('car': 1728 records, 6 attributes, 4 classes, 1,728 cells)
    """
    text, told = checked_source(name), checked_format(file_format)
    if not isinstance(text, str):
        known = resolve_domain(domain, "records")
        return table_of(text, known).fit(known, target, extra, drop_missing)
    if text in BUILT_IN and domain is None:
        if target is not None:
            raise DomainError(f"target={target!r}; {text} comes with its own. Give a domain too.")
        return BUILT_IN[text].load()
    known = resolve_domain(domain, text)
    return read_table(text, known, told).fit(known, target, extra, drop_missing)


def checked_source(name: object) -> object:
    """Return a name or a path that can be read as text, and records as they are."""
    text = fspath(name) if isinstance(name, str | PathLike) else name
    if text is None or isinstance(text, bool | int | float | bytes):
        raise DomainError(f"name={name!r}; expected a name, a path, 'openml:NAME', or a frame.")
    is_text = isinstance(text, str) and not text.startswith(PREFIX) and not is_data_file(text)
    if is_text and text not in BUILT_IN:
        raise DomainError(unknown_name(str(text)))
    return text


def read_table(text: str, domain: Domain | None, file_format: FileFormat = PLAIN) -> Table:
    if text in BUILT_IN:
        data = BUILT_IN[text].load()
        own = data.domain.required_target().name
        return Table(text, {**data.columns, own: data.y}, own, data.source, data.licence)
    if text.startswith(PREFIX):
        columns, own, source, licence = fetch_columns(text)
        return Table(text.removeprefix(PREFIX), columns, own, source, licence)
    file = Path(text)
    label = file.name.split(".")[0]
    columns = read_file(file, domain, file_format)
    return Table(label, columns, None, f"File {file.name}", "not stated")


def unknown_name(text: str) -> str:
    """Say which names there are; of a file, that it is of no kind that holds records."""
    if Path(text).exists():
        return (
            f"{text!r} is there, but of no kind that records are read from: expected CSV (.csv), "
            "TSV (.tsv) or Parquet (.parquet), told by the ending."
        )
    close = get_close_matches(text.lower().replace("-", "_").replace(" ", "_"), BUILT_IN, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return (
        f"No data set {text!r}.{hint} Known are {', '.join(BUILT_IN)}; besides them CSV and "
        "Parquet files (x.csv with a domain file) and 'openml:NAME'."
    )


def public_domain(name: str) -> tuple[Domain, str]:
    """Return the domain of a domain file (JSON) or of a built-in data set, and a short name.

    Only schemas are read: the data sets' domains are written down in the library.

    Raises DomainError if it is neither.

    >>> public_domain("car")[0].size
    1728
    """
    if name in BUILT_IN:
        return BUILT_IN[name].domain, name
    file = Path(name)
    if file.suffix.lower() == ".json":
        if not file.exists():
            raise DomainError(f"No domain file {name!r}: expected a file that Domain.save wrote.")
        return Domain.load(file), file.stem
    if file.suffix:
        raise DomainError(
            f"{name!r} is a data file: planning reads no records. Expected a domain file in JSON "
            f"(Domain.save) or a data set's name."
        )
    raise DomainError(unknown_name(name) + " For planning, give a domain file in JSON.")


def public_records(name: str) -> int | None:
    """Return the published number of records of a built-in data set; None for files."""
    return BUILT_IN[name].info.n_records if name in BUILT_IN else None
