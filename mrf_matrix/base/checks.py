"""Numbers that a user states: trees, records, levels, shares; and seeds."""

from collections.abc import Sequence
from numbers import Integral
from typing import TypeVar

import numpy as np

from mrf_matrix.base.shown import shown

Word = TypeVar("Word", bound=str)

Seed = int | np.random.Generator | None
"""What NumPy makes a generator of."""


def whole_number(name: str, value: object, least: int = 1) -> int:
    """Return a whole number of at least ``least``, or refuse by name.

    Raises ValueError naming the parameter, what was got and what was expected.
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        kind = "a positive integer" if least == 1 else f"an integer of at least {least}"
        raise ValueError(f"{name}={shown(value)}: expected {kind}.")
    return int(value)


def one_word(name: str, value: object, allowed: Sequence[Word]) -> Word:
    """Return one of a few words, or refuse by name."""
    for word in allowed:
        if isinstance(value, str) and value == word:
            return word
    raise ValueError(f"{name}={shown(value)}: expected one of {', '.join(map(repr, allowed))}.")


def checked_level(level: object) -> float:
    """Return a level between 0 and 1, or refuse by name."""
    if isinstance(level, float | np.floating) and 0 < level < 1:
        return float(level)
    raise ValueError(f"level={shown(level)}: expected a number between 0 and 1, such as 0.95.")


def structure_generator(random_state: object) -> np.random.Generator:
    """Return the generator of the public structure from any scikit-learn random state.

    Raises
    ------
    ValueError
        If it is none.
    """
    if isinstance(random_state, np.random.Generator):
        return random_state
    try:
        if random_state is np.random or isinstance(random_state, np.random.RandomState):
            return np.random.default_rng(random_state.randint(2**31 - 1))
        if random_state is None or isinstance(random_state, int | np.integer):
            return np.random.default_rng(random_state)
    except ValueError:
        pass  # a negative number: refused below
    raise ValueError(
        f"random_state={shown(random_state)}: expected None, a whole number that is not negative, "
        f"a RandomState or a Generator."
    )
