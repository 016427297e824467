"""What marginals are made of, checked: sizes, attribute sets, weights."""

from collections.abc import Sequence
from numbers import Integral

import numpy as np


def checked_sizes(sizes: Sequence[int]) -> tuple[int, ...]:
    """Return attribute sizes as integers, or refuse."""
    if not sizes or any(not isinstance(size, Integral) or size < 1 for size in sizes):
        raise ValueError(f"sizes={sizes!r}: expected one positive integer for each attribute.")
    return tuple(int(size) for size in sizes)


def checked_set(chosen: Sequence[int], d: int) -> tuple[int, ...]:
    """Return an attribute set in order, or refuse."""
    ordered = tuple(sorted(int(i) for i in chosen))
    if len(set(ordered)) != len(ordered) or any(not 0 <= i < d for i in ordered):
        raise ValueError(
            f"attribute set {tuple(chosen)!r}: expected distinct attribute numbers from 0 to "
            f"{d - 1}."
        )
    return ordered


def checked_weights(weights: Sequence[float], count: int) -> tuple[float, ...]:
    """Return one finite weight for each set, integers exact, or refuse."""
    exact = tuple(int(w) if isinstance(w, Integral) else float(w) for w in weights)
    if len(exact) != count or not all(np.isfinite(float(w)) and w >= 0 for w in exact):
        raise ValueError(
            f"weights={weights!r}: expected {count} finite numbers, one for each attribute set, "
            f"none negative."
        )
    return exact
