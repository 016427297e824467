"""What tests of saved files share: readers of bytes, and what reading may cost.

A test module gives a fixture `good` whose first part is the bytes of an honest file.
"""

import tracemalloc

import pytest
from damage import unzip, zip_of


@pytest.fixture
def members(good):
    """Return the members of the module's honest file, as a dictionary of the test's own."""
    return unzip(good[0])


@pytest.fixture
def reader(tmp_path):
    """Return the function that makes a reader of bytes, or of members, from one of files."""

    def reader_of(load, name):
        def read(content, **options):
            path = tmp_path / name
            path.write_bytes(content if isinstance(content, bytes) else zip_of(content))
            return load(path, **options)

        return read

    return reader_of


@pytest.fixture
def modest():
    """Fail where reading takes more than 64 MB."""
    tracemalloc.start()
    yield
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64e6
