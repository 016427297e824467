"""Tests may share modules beside them, and car evaluation."""

import sys
from pathlib import Path

import pytest

from mrf_matrix import load_dataset

sys.path.insert(0, str(Path(__file__).parent))
pytest.register_assert_rewrite("claims_machine")  # what it asserts is read by its controls


@pytest.fixture(scope="session")
def car():
    return load_dataset("car")
