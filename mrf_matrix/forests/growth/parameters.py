"""Checks that the rules of growth share: refuse by name."""

from math import isnan

import numpy as np

from mrf_matrix.base.shown import shown


def check_sharpness(name: str, value: object) -> float:
    """Return a number from 0 to infinity, or refuse by name."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise TypeError(f"{name}={shown(value)}: expected a number from 0 to float('inf').")
    if isnan(value) or value < 0:
        raise ValueError(f"{name}={value}: expected a number from 0 to float('inf').")
    return float(value)


def check_probability(name: str, value: object) -> None:
    """Refuse what is no probability."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ValueError(f"{name}={shown(value)}: expected a probability from 0 to 1.")
