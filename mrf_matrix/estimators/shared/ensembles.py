"""What classifiers add to the ensembles of a plan: the seed of the structure, and its cost."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from mrf_matrix.base.shown import shown
from mrf_matrix.forests.sources.ensembles import Ensemble


def structure_notes(ensembles: Sequence[Ensemble]) -> tuple[str, ...]:
    """Return what structures cost beside the release, and where trees are less deep than asked."""
    spent = [one.forest.budget_spent for one in ensembles if one.forest.budget_spent is not None]
    depths = {one.depth_note: None for one in ensembles if one.depth_note is not None}
    return (*(f"the forest's structure cost {cost} more, before this" for cost in spent), *depths)


def structure_generator(random_state: Any) -> np.random.Generator:
    """Return the generator of the public structure from any scikit-learn random state.

    Raises
    ------
    ValueError
        If it is none.
    """
    if isinstance(random_state, np.random.Generator):
        return random_state
    try:
        if random_state is None or isinstance(random_state, int | np.integer):
            return np.random.default_rng(random_state)
        drawn = check_random_state(random_state).randint(2**31 - 1)
    except ValueError as error:
        raise ValueError(
            f"random_state={shown(random_state)}: expected None, a whole number that is "
            f"not negative, a "
            f"RandomState or a Generator."
        ) from error
    return np.random.default_rng(drawn)
