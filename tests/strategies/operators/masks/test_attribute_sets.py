"""Sets within sets, against every pair, by either route."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from strategies.operators.masks import packed_masks as attribute_sets


@pytest.mark.parametrize("meeting", [0.0, np.inf])
def test_contained_sets_are_those_of_every_pair(monkeypatch, meeting: float) -> None:
    monkeypatch.setattr(attribute_sets, "MEETING", meeting)
    random = np.random.default_rng(0)
    inner, outer = random.random((20, 6)) < 0.3, random.random((15, 6)) < 0.6
    inner[3] = False
    expected = [[not (one & ~other).any() for other in outer] for one in inner]
    assert_array_equal(attribute_sets.contained(inner, outer).toarray(), expected)
