"""Fixtures every part of the suite may use."""

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """Return the folder of reference data beside the checkout; skip where there is none."""
    if not SHARED.is_dir():
        pytest.skip("the papers' reference data is not beside this checkout")
    return SHARED
