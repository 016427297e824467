"""Checks of a path source's public parameters."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from mrf_matrix.base.shown import shown


def check_integer(name: str, value: object, least: int) -> None:
    """Refuse a parameter that is no integer of at least `least`.

    Raises
    ------
    TypeError, ValueError
        Naming the parameter, what was got and what was expected.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name}={shown(value)}: expected an integer of at least {least}.")
    if value < least:
        raise ValueError(f"{name}={value}: expected at least {least}.")


def check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    """Refuse a parameter that is none of the choices.

    Raises
    ------
    ValueError
        Naming the parameter, what was got and the choices.
    """
    if value not in choices:
        raise ValueError(f"{name}={shown(value)}: expected one of {', '.join(map(repr, choices))}.")


def attribute_choice(attributes: Any) -> tuple[str | int, ...] | None:
    """Return names or indices of attributes as a tuple; None stays None.

    Raises
    ------
    TypeError
        If a single name is given in place of a sequence.
    """
    if attributes is None:
        return None
    if isinstance(attributes, str):
        raise TypeError(
            f"attributes={shown(attributes)}: expected a sequence of names or indices, "
            f"for example [{attributes!r}]."
        )
    return tuple(attributes)
