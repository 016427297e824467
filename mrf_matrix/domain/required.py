"""The domain that private work cannot do without."""

from os import PathLike

from mrf_matrix.base.provenance import NOTHING, Provenance
from mrf_matrix.base.shown import shown
from mrf_matrix.domain.attribute import READ_OFF
from mrf_matrix.domain.domain import Domain

DomainOrPath = Domain | str | PathLike[str] | None
"""A domain, the path of its file, or "from_data"."""


def will_be_read_off(domain: object) -> bool:
    """Whether a domain as it was given, `"from_data"`, is to be taken from the records by `fit`."""
    return isinstance(domain, str) and not domain.endswith(".json")


def domain_provenance(domain: object) -> Provenance:
    """Return the provenance of a domain as it was given: itself, its file, or ``"from_data"``."""
    if will_be_read_off(domain):
        return READ_OFF
    found = as_domain(domain)
    return found.provenance if isinstance(found, Domain) else NOTHING


def as_domain(domain: object) -> object:
    """Return the domain of a domain file where a path is given; anything else as it is.

    A text is a path if it ends in ``.json``.
    """
    if isinstance(domain, PathLike) or (isinstance(domain, str) and domain.endswith(".json")):
        return Domain.load(domain)
    return domain


def required_domain(domain: object) -> Domain:
    """Return a public domain with classes, or refuse.

    Raises
    ------
    ValueError
        If there is none, or it names no target classes.
    TypeError
        If it is something else.
    """
    if domain is None:
        raise ValueError(
            "domain=None: a private forest needs a public domain (attributes, their codes, the "
            "classes). Pass a Domain or the path of a domain file, or 'from_data' for non-private "
            "work on public records."
        )
    domain = as_domain(domain)
    if not isinstance(domain, Domain):
        what = shown(domain) if isinstance(domain, str) else f"of type {type(domain).__name__}"
        raise TypeError(
            f"domain={what}: expected a Domain or the path of a domain file (.json); only fit "
            "takes 'from_data' too."
        )
    if domain.target is None:
        raise ValueError(
            "domain has no target: the classes are public and must be named. Give its target an "
            "attribute with the classes as categories."
        )
    return domain
