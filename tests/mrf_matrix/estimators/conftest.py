"""What tests of private choices share: how far the law of a choice moves between neighbours."""

import numpy as np
import pytest


@pytest.fixture(scope="session")
def largest_loss():
    """Return the largest log ratio of an outcome's probabilities, over pairs of neighbours.

    Of a law (the probabilities of all outcomes, from data) and of pairs of data.
    """

    def found(law, pairs):
        return float(max(np.abs(np.log(law(one) / law(other))).max() for one, other in pairs))

    return found
