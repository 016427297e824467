"""Benchmarks may share modules beside them."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def at_hand(request, name):
    """Skip a test of a rivals' data set that is neither generated nor beside the checkout."""
    from rival_data import available

    if not available(name):
        request.getfixturevalue("shared_dir")
