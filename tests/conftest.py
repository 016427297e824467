"""Fixtures every part of the suite may use."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """Return the folder of reference data beside the checkout; skip where there is none."""
    if not SHARED.is_dir():
        pytest.skip("the papers' reference data is not beside this checkout")
    return SHARED


@pytest.fixture(autouse=True)
def close_pictures() -> Iterator[None]:
    """Close what a test has drawn: pyplot keeps every figure, and warns of the twentieth."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
