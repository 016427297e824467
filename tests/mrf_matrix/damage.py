"""Ways to damage an honest file: bytes, members of a zip, values and keys of its JSON."""

import io
import json
import zipfile
from copy import deepcopy
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from hypothesis import strategies as st

from mrf_matrix import load_model
from mrf_matrix.files import write_container
from mrf_matrix.release.plan import RecordedTranscript

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


def npy(array):
    """Return an array as a file of NumPy's."""
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.ascontiguousarray(array), version=(1, 0))
    return buffer.getvalue()


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


def parts_of(path):
    """Return the JSON of a model file, and its arrays by name."""
    with zipfile.ZipFile(path) as file:
        names = [one for one in file.namelist() if one.endswith(".npy")]
        read = np.lib.format.read_array
        arrays = {one.removesuffix(".npy"): read(io.BytesIO(file.read(one))) for one in names}
        return json.loads(file.read("model.json")), arrays


@cache
def honest_parts(model):
    """Return what a model writes; it stays whatever is done to the model afterwards."""
    with TemporaryDirectory() as folder:
        model.save(Path(folder) / "honest.mrf", allow_nonprivate=True)
        return parts_of(Path(folder) / "honest.mrf")


def fitting(data, arrays):
    """Give the JSON the digest that fits, where it can have one."""
    rest = {name: one for name, one in arrays.items() if name != "answers"}
    try:
        record = RecordedTranscript(data["noise"], data["outcomes"], arrays["answers"], None)
        data["digest"] = record.digest(data["plan"], rest)
    except (TypeError, KeyError, ValueError, AttributeError):
        pass
    return data


def rewritten(model, folder, change, *, fits=True):
    """Return the model of a file that somebody changed.

    `change` takes JSON and arrays, and changes them in place or returns other JSON.
    """
    data, arrays = deepcopy(honest_parts(model))
    found = change(data, arrays)
    data = data if found is None else found
    arrays["answers"] = arrays["answers"].astype("<i8")
    write_container(folder / "after.mrf", "model", fitting(data, arrays) if fits else data, arrays)
    return load_model(folder / "after.mrf")


# Changes of a model's JSON ------------------------------------------------------------------------


def plan(*path, **values):
    """Return the change of some values of the plan, or of a part within it."""

    def change(data):
        found = data["plan"]
        for one in path:
            found = found[one]
        assert set(values) <= set(found)
        found.update(values)

    return change


def choices(data):
    return [one for one in data["outcomes"] if "chosen" in one]


def announced(data):
    return [one["announced"] for one in data["outcomes"] if "announced" in one]


def follows(place, *path, **values):
    """Return the change of some values of a plan that was announced."""

    def change(data):
        found = announced(data)[place]["plan"]
        for one in path:
            found = found[one]
        assert set(values) <= set(found)
        found.update(values)

    return change


def chosen(place, *numbers):
    """Return the change of what a choice came to."""
    return lambda data: choices(data)[place].update(chosen=list(numbers))


def told(place, at, number):
    """Return the change of one number of what a choice came to."""
    return lambda data: choices(data)[place]["chosen"].__setitem__(at, number)


def swapped(one, other):
    """Return the change that swaps what two choices came to."""

    def change(data):
        first, second = choices(data)[one], choices(data)[other]
        first["chosen"], second["chosen"] = second["chosen"], first["chosen"]

    return change


def twice(one, other):
    """Return the change that makes a choice come to what another did."""
    return lambda data: choices(data)[other].update(choices(data)[one])


def cuts(change):
    """Return a change of the cuts."""
    return lambda data: change(data["plan"]["cuts"])


# Texts that act on a terminal or a page, and words of any language that do not --------------------


ACTING = [
    "\x00", "\x07", "\t", "\n", "\r", "\x1b[31m", "\x1b]0;owned\x07", "\x7f",  # C0 and DEL
    "\x85", "\x9b2J", "\x9d0;x\x9c",  # C1, of which \x9b is a terminal's CSI
    "\u202a", "\u202e", "\u2066", "\u2069", "\u200e", "\u200f", "\u061c",  # direction
    "\u200b", "\ufeff", "\u2028", "\u2029", "\ud800", "\U000e0041",  # hidden, lines, surrogate, tag
]  # fmt: skip
HARMLESS = [
    "<=50K",
    "a b",
    "größer",
    "日本\u3000語",
    "1\u00a0000 €",
    "می\u200cخواهم",
    "👨\u200d👩",
    "'\"[bold]",
]
