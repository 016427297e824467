"""Tests may share modules beside them."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
pytest.register_assert_rewrite("claims_machine")  # what it asserts is read by its controls
