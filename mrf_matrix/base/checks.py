"""Counts that a user states: trees, ensembles, blocks, records."""

from numbers import Integral

from mrf_matrix.base.shown import shown


def whole_number(name: str, value: object, least: int = 1) -> int:
    """Return a whole number of at least ``least``, or refuse by name.

    Raises
    ------
    ValueError
        Naming the parameter, what was got and what was expected.
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        kind = "a positive integer" if least == 1 else f"an integer of at least {least}"
        raise ValueError(f"{name}={shown(value)}: expected {kind}.")
    return int(value)
