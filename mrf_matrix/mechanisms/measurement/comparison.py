"""Whether two mechanisms measure the same, by their integers."""

import numpy as np

from mrf_matrix.mechanisms.measurement.mechanism import Mechanism
from strategies.operator_files import encode


def same_measurement(one: Mechanism, other: Mechanism) -> bool:
    """Say whether two mechanisms measure the same integers for the same budget."""
    if (one.budget, one.neighboring) != (other.budget, other.neighboring):
        return False
    (tree, arrays), (second, found) = (encode(each.rounded.matrix, "") for each in (one, other))
    same = tree == second and one.rounded.scale == other.rounded.scale
    return same and all(np.array_equal(values, found[name]) for name, values in arrays.items())
