"""What counts and releases know of the domain that they belong to."""

from typing import Protocol

from mrf_matrix.base.fields import JsonObject
from mrf_matrix.base.provenance import DOMAIN, NOTHING, Provenance


class Named(Protocol):
    """An attribute, of which its name is known."""

    @property
    def name(self) -> str:
        """Its name."""


class PublicDomain(Protocol):
    """What a release needs to know of the domain that it carries."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of codes of each attribute."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the attributes."""

    @property
    def target(self) -> "Named | None":
        """The classes, or None."""

    @property
    def n_classes(self) -> int:
        """Number of classes, where there is a target."""

    @property
    def provenance(self) -> Provenance:
        """Where it came from: declared, or read off records."""

    def to_dict(self) -> JsonObject:
        """Return it as JSON-ready data."""


def counted_over(domain: PublicDomain | None, carried: Provenance) -> Provenance:
    """Return the provenance of counts: of their domain, and of the counts that they are made of.

    With sizes alone the domain is what a caller declared.
    """
    if domain is None:
        return carried if carried != NOTHING else DOMAIN
    return carried | domain.provenance
