"""Fixtures every part of the suite may use."""

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")  # workers share the cores; they begin after this

settings.register_profile(
    "quick", max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("long", settings.get_profile("quick"), max_examples=500)
settings.load_profile("quick")  # pytest's option --hypothesis-profile comes after


def pytest_collection_finish() -> None:
    """Keep the garbage collector off what was collected: it would walk all of it, each time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def wait_for_no_disk() -> Iterator[None]:
    """Leave files to the page cache: no test cuts the power, and thousands of files are written."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield


SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """Return the folder of reference data beside the checkout; skip where there is none."""
    if not SHARED.is_dir():
        pytest.skip(
            "needs the papers' data sets and reference forests: ../shared/data, ../shared/workloads"
        )
    return SHARED


@pytest.fixture(autouse=True)
def close_pictures() -> Iterator[None]:
    """Close what a test has drawn: pyplot keeps every figure, and warns of the twentieth."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
