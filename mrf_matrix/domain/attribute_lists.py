"""The attributes that make a domain: checks of a list, and a choice from it."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeGuard

import numpy as np

from mrf_matrix.base.shown import shown
from mrf_matrix.domain.attribute import Attribute
from mrf_matrix.domain.errors import DomainError, name_few, name_some


def is_position(key: object) -> TypeGuard[int]:
    """Whether a key is an integer, and not a boolean."""
    return isinstance(key, int | np.integer) and not isinstance(key, bool)


def checked_attributes(attributes: Iterable[Attribute]) -> tuple[Attribute, ...]:
    """Return attributes as a tuple; refuse none or other objects."""
    if isinstance(attributes, Attribute | str) or not isinstance(attributes, Iterable):
        raise DomainError(f"attributes={shown(attributes)}; expected a list of Attribute.")
    listed = tuple(attributes)
    if not listed:
        raise DomainError("attributes is empty; a domain needs at least one attribute.")
    for item in listed:
        if not isinstance(item, Attribute):
            raise DomainError(
                f"attributes holds {shown(item)} of type {type(item).__name__}; expected "
                "Attribute, e.g. Attribute('age', edges=[25, 40, 60])."
            )
    return tuple(listed)


def check_target(target: object) -> None:
    """Refuse a target that is no attribute."""
    if target is not None and not isinstance(target, Attribute):
        raise DomainError(f"target={shown(target)}; expected an Attribute or None.")


def check_distinct(attributes: Sequence[Attribute]) -> None:
    """Refuse names that occur more than once."""
    counts = Counter(attribute.name for attribute in attributes)
    repeated = [name for name, count in counts.items() if count > 1]
    if repeated:
        raise DomainError(
            f"Attribute names occur more than once: {name_few(repeated)}; rename them."
        )


def chosen_attributes(
    attributes: Sequence[Attribute], which: Iterable[str | int]
) -> list[Attribute]:
    """Return some attributes, by name or position, in the order asked for."""
    by_name = {attribute.name: attribute for attribute in attributes}
    chosen = []
    for key in which:
        if isinstance(key, str) and key in by_name:
            chosen.append(by_name[key])
        elif is_position(key) and -len(by_name) <= key < len(by_name):
            chosen.append(attributes[key])
        else:
            raise DomainError(f"No attribute {shown(key)}; the domain has {name_some(by_name)}.")
    return chosen
