"""What tests of curators share."""

import pytest

from mrf_matrix.release.curator import Live


@pytest.fixture
def guarded(monkeypatch):
    """Return a count of verbs of `Live` at work."""
    inside = []
    for name in ("_prepare", "_take_measurement", "_take_choice"):
        verb = getattr(Live, name)

        def opened(self, *args, verb=verb):
            inside.append(1)
            try:
                return verb(self, *args)
            finally:
                inside.pop()

        monkeypatch.setattr(Live, name, opened)
    return inside
