"""What counts and releases know of the domain that they belong to."""

from typing import Protocol

from mrf_matrix.base.fields import JsonObject


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
    def is_read_off(self) -> bool:
        """Whether it was taken from records, so that nothing over it is private."""

    def to_dict(self) -> JsonObject:
        """Return it as JSON-ready data."""
