"""What one leaf may say against a class at most: a factor of 21, as documented."""

import numpy as np
import pytest

from mrf_matrix.voting.evidence import odds_logs

PRIORS = (np.array([0.5, 0.5]), np.array([0.9, 0.1]), np.array([0.2, 0.3, 0.5]))


@pytest.mark.parametrize("prior", PRIORS, ids=str)
def test_a_leaf_that_is_certain_of_a_class_is_taken_for_a_21st_prior(prior):
    """p(c | l) is ``20/21 share + 1/21 prior``: by hand, not through the constant."""
    for sure in range(len(prior)):
        share = np.eye(len(prior))[[sure]]
        mixed = (20 * share + prior) / 21
        assert odds_logs(share, prior) == pytest.approx(np.log(mixed / prior))
        others = np.arange(len(prior)) != sure
        assert np.exp(odds_logs(share, prior)[0, others]) == pytest.approx(1 / 21)


def test_a_silent_leaf_says_nothing():
    for prior in PRIORS:
        assert odds_logs(prior[None], prior) == pytest.approx(0)
