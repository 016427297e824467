"""Benchmarks may share modules beside them."""

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "reproduction")]


@pytest.fixture
def at_hand(request, name):
    """Skip a test of a rivals' data set that is neither generated nor beside the checkout."""
    from rival_data import available

    if not available(name):
        request.getfixturevalue("shared_dir")
