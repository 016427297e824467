"""The generator of the public structure, from any random state that scikit-learn knows."""

import numpy as np

from mrf_matrix.base.shown import shown


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
