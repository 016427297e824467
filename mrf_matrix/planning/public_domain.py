"""A public domain by name, without reading any record."""

from pathlib import Path

from mrf_matrix.datasets.registry import BUILT_IN, unknown_name
from mrf_matrix.domain import Domain, DomainError


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
