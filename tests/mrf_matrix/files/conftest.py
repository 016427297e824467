"""What tests of saved files share: ways to damage an honest file, and what reading may cost.

A test module gives a fixture `good` whose first part is the bytes of an honest file.
"""

import io
import tracemalloc
import zipfile
from copy import deepcopy

import pytest
from hypothesis import strategies as st

NUMBERS = [2**31, 2**63, 10**400, -(2**70), 1e300, 0.5]
FRACTIONS = ["inf", "1/0", "1e9999999", "-1", "1/3", "9" * 5000, "²", "0"]
TEXTS = ["x", "\x1b[31m", "__import__('os')"]
RECORDS = [{}, {"name": "x"}, {"epsilon": "2"}, {"kind": "identity", "n": 6}]
LISTS = [[], [[]], [0, 0], [[0]], ["a"]]
ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 9),
    st.sampled_from(NUMBERS),
    st.text(max_size=5),
    st.sampled_from([*FRACTIONS, *TEXTS]),
    st.sampled_from([*RECORDS, *LISTS]),
)
"""Values of JSON that a reader does not expect."""


def unzip(content):
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        return {name: file.read(name) for name in file.namelist()}


def zip_of(members, method=zipfile.ZIP_DEFLATED):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as file:
        for name, content in members.items() if isinstance(members, dict) else members:
            file.writestr(name, content)
    return buffer.getvalue()


def places(data, path=()):
    """Yield the path of every value of a JSON document."""
    yield path
    if isinstance(data, dict | list):
        for key, value in data.items() if isinstance(data, dict) else enumerate(data):
            yield from places(value, (*path, key))


def change(data, path, value):
    if not path:
        return value
    copy = deepcopy(data)
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return copy


def remove(data, path):
    copy = deepcopy(data)
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    del inner[path[-1]]
    return copy


@st.composite
def truncations(draw, content):
    return content[: draw(st.integers(0, len(content) - 1))]


@st.composite
def bit_flips(draw, content, most):
    damaged = bytearray(content)
    for _ in range(draw(st.integers(1, most))):
        damaged[draw(st.integers(0, len(damaged) - 1))] ^= 1 << draw(st.integers(0, 7))
    return bytes(damaged)


@st.composite
def wrong_values(draw, data):
    path = draw(st.sampled_from(list(places(data))))
    return change(data, path, draw(ODD))


@st.composite
def missing_keys(draw, data):
    path = draw(st.sampled_from([p for p in places(data) if p and isinstance(p[-1], str)]))
    return path, remove(data, path)


@pytest.fixture(scope="session")
def unzipped():
    """Return the function from a file's bytes to its members by name."""
    return unzip


@pytest.fixture(scope="session")
def zipped():
    """Return the function from members, by name or as pairs, to a file's bytes."""
    return zip_of


@pytest.fixture(scope="session")
def changed():
    """Return the function that copies JSON data with the value at a path replaced."""
    return change


@pytest.fixture(scope="session")
def truncated():
    """Return the hypothesis strategy of a file cut short, of its bytes."""
    return truncations


@pytest.fixture(scope="session")
def flipped():
    """Return the hypothesis strategy of bytes with at most so many bits flipped."""
    return bit_flips


@pytest.fixture(scope="session")
def one_wrong():
    """Return the hypothesis strategy of JSON data with any one value replaced."""
    return wrong_values


@pytest.fixture(scope="session")
def one_missing():
    """Return the hypothesis strategy of a key's path, and JSON data without that key."""
    return missing_keys


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
