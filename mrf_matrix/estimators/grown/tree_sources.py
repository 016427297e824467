"""What grows the trees of a forest that learns from public records, and what it asks for."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from inspect import signature
from typing import Protocol, TypeVar

from mrf_matrix.domain import Domain
from mrf_matrix.forests import Forest, Grown

Trees = TypeVar("Trees")


class TreeSource(Protocol):
    """Anything that grows trees; the names of the arguments of `grow` say from what.

    It may ask for ``domain``, ``codes`` and ``labels`` of the records, ``random_state``,
    ``centres`` (the raw values of the codes) and ``n_jobs``.
    """

    @property
    def grow(self) -> Callable[..., Forest | Grown]:
        """Grow a forest, or one with the class counts of its leaves."""


def source_of(estimator: object, source: type[Trees], **others: object) -> Trees:
    """Return the source whose parameters are those of an estimator, by name, but for `others`."""
    held = vars(estimator)
    named = {one.name: held[one.name] for one in fields(source) if one.name in held}  # type: ignore[arg-type]
    return source(**named | others)


def grown_from(source: TreeSource, given: Mapping[str, object]) -> Forest | Grown:
    """Return the trees that a source grows from what it asks for."""
    asked = signature(source.grow).parameters
    return source.grow(**{name: value for name, value in given.items() if name in asked})


def text_attributes(domain: Domain) -> tuple[int, ...]:
    """Return the attributes whose categories are texts: they are taken to have no order."""
    return tuple(
        i
        for i, attribute in enumerate(domain.attributes)
        if attribute.categories is not None
        and not isinstance(attribute.categories, range)
        and any(isinstance(value, str) for value in attribute.categories)
    )
