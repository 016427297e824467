"""Files of strangers and of other versions: refused before they are read, as what they are."""

import json
import os
import re
import zipfile
from functools import partial
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from command_line import run, told
from damage import unzip, zip_of
from scipy import sparse

import mrf_matrix
import strategies
from mrf_matrix import (
    Domain,
    PrivacyLedger,
    PureDP,
    count_stream,
    load_dataset,
    load_model,
    load_release,
    measure,
    save_model,
    save_release,
    tune,
)
from mrf_matrix.estimators import LabelTreeClassifier, PosteriorForestClassifier
from mrf_matrix.mechanisms import count_cells
from mrf_matrix.study import compare
from strategies.operators import Identity

TWO = {"attributes": [{"name": "a", "size": 2}], "target": {"name": "y", "size": 2}}
DOMAIN = Domain.from_dict(TWO)


def searched(file):
    space = {"kind": ["tables"], "n_blocks": [1]}
    return tune(DOMAIN, epsilon=1, n_records=100, space=space, resume=file)


def checked(file):
    done = run("domain", "check", file)
    if done.exit_code:
        raise ValueError(told(done))


READERS = {
    "domain": ("d.json", Domain.load),
    "domain check": ("d.json", checked),
    "model": ("m.mrf", load_model),
    "release": ("r.mrf", load_release),
    "ledger": ("l.json", PrivacyLedger.open),
    "operator": ("s.npz", strategies.Strategy.load),
    "records": ("x.csv", lambda file: load_dataset(file, DOMAIN)),
    "packed records": ("x.csv.gz", lambda file: load_dataset(file, DOMAIN)),
    "table of records": ("x.parquet", lambda file: load_dataset(file, DOMAIN)),
    "stream": ("x.csv", lambda file: count_stream(file, DOMAIN)),
    "stream of tables": ("x.parquet", lambda file: count_stream(file, DOMAIN)),
    "trials": ("t.json", searched),
    "fits": ("c.json", lambda file: compare("monks_1", epsilons=[1], resume=file)),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_what_is_no_regular_file_is_refused_at_once(tmp_path, reader, kind):
    name, read = READERS[reader]
    file = tmp_path / name
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "device":
        file.symlink_to("/dev/zero")
    else:
        file.mkdir()
    with pytest.raises(
        ValueError, match=r"regular file|expected files|no such file|is a directory"
    ):
        read(file)


@pytest.mark.parametrize(
    "reader", ["domain", "domain check", "model", "release", "ledger", "operator", "trials", "fits"]
)
def test_a_file_larger_than_any_is_not_read(tmp_path, reader):
    name, read = READERS[reader]
    file = tmp_path / name
    with file.open("wb") as opened:
        opened.truncate(3 * 1024**3)  # takes no room
    with pytest.raises(ValueError, match=r"more than|memory cap"):
        read(file)


@pytest.mark.parametrize("options", [("--weights",), ("--groups",)])
def test_lists_of_numbers_are_regular_files(options):
    done = run("plan", "monks_1", *options, "/dev/zero")
    assert done.exit_code == 2
    assert "is a device: expected a regular file" in done.output


def test_a_model_has_nothing_before_it(tmp_path):
    data = load_dataset("monks_1")
    fitted = PosteriorForestClassifier(data.domain, epsilon=1).fit(data.X, data.y)
    save_model(fitted, tmp_path / "m.mrf")
    save_release(fitted.release_, tmp_path / "r.mrf")
    for name, read in (("m.mrf", load_model), ("r.mrf", load_release)):
        file = tmp_path / name
        read(file)
        file.write_bytes(b"#!/bin/sh\n" + file.read_bytes())
        with pytest.raises(ValueError, match="begins with something else"):
            read(file)


def test_arrays_are_as_long_as_their_headers_say(tmp_path):
    file = tmp_path / "s.npz"
    found = strategies.evaluate(np.tri(6), sparse.eye_array(6))
    found.save(file)
    assert strategies.Strategy.load(file).loss == 21.0
    with np.load(file) as held:
        parts = dict(held)
    text = BytesIO()
    np.lib.format.write_array_header_1_0(
        text, {"descr": "<f8", "fortran_order": False, "shape": (10**12,)}
    )
    with zipfile.ZipFile(tmp_path / "bad.npz", "w") as archive:
        for name, array in parts.items():
            member = BytesIO()
            np.lib.format.write_array(member, array)
            archive.writestr(f"{name}.npy", member.getvalue())
        archive.writestr("more.npy", text.getvalue() + bytes(80))
    with pytest.raises(ValueError, match="not as long as it declares"):
        strategies.Strategy.load(tmp_path / "bad.npz")


UNFIT = {
    "deep": ("[" * 100_000, "nested too deeply"),
    "long number": ('{"attributes": [{"name": "a", "edges": [0, ' + "9" * 5000 + "]}]}", "digits"),
    "infinite": ('{"attributes": [{"name": "a", "edges": [0, 1e400]}]}', "no finite number"),
    "repeated": ('{"attributes": [], "attributes": []}', "repeated keys"),
    "huge size": (
        '{"attributes": [{"name": "a", "size": ' + "9" * 30 + "}]}",
        "at most 2147483647",
    ),
    "huge edge": ('{"attributes": [{"name": "a", "edges": [0, ' + "9" * 400 + "]}]}", "finite"),
    "long name": ('{"attributes": [{"name": "' + "n" * 10**6 + '", "size": 2}]}', "5000"),
    "nested category": (
        '{"attributes": [{"name": "a", "categories": [' + json.dumps(["x" * 99] * 9999) + "]}]}",
        "of type list",
    ),
}


@pytest.mark.parametrize("kind", UNFIT)
def test_what_a_domain_file_cannot_be_is_said_in_few_words(tmp_path, kind):
    text, told = UNFIT[kind]
    (tmp_path / "d.json").write_text(text)
    for done in (run("domain", "check", tmp_path / "d.json"), run("plan", tmp_path / "d.json")):
        assert done.exit_code == 1
        assert told in " ".join(done.output.split())
        assert len(done.output) < 4000


def test_the_last_year_of_dates_is_a_range_like_others():
    ends = ["9990-01-01", "9999-12-31"]
    made = Domain.from_dict({"attributes": [{"name": "day", "range": ends, "step": "year"}]})
    assert made.sizes == (10,)


@pytest.mark.parametrize("read", [READERS["records"][1], READERS["stream"][1]])
def test_a_record_without_an_end_is_refused(tmp_path, read):
    file = tmp_path / "x.csv"
    with file.open("wb") as opened:
        opened.write(b"a,y\n")
        opened.truncate(2**25)
    with pytest.raises(ValueError, match="a record has more than 16777216 characters"):
        read(file)


def test_a_lock_is_a_regular_file(tmp_path):
    ledger = PrivacyLedger.open(tmp_path / "l.json", epsilon=1)
    Path(tmp_path / "l.json.lock").unlink()
    os.mkfifo(tmp_path / "l.json.lock")
    with pytest.raises(ValueError, match="regular file"):
        ledger.charge(PureDP(1), "a release", "add_remove")


# Other versions -----------------------------------------------------------------------------------


SIZES = (3, 2)
PLAIN = Domain.from_sizes(SIZES, n_classes=2)
X = np.random.default_rng(0).integers(0, SIZES, size=(60, 2))
Y = X[:, 1]


def model_of(make, **given):
    return lambda path: save_model(make(PLAIN, random_state=0, **given).fit(X, Y), path)


def write_release(path):
    counts = count_cells(X, Y, SIZES, 2)
    save_release(measure(Identity(6, SIZES), counts, PureDP(1)), path, PLAIN)


FORMATS = {
    "mrf_matrix.learned_model": (model_of(LabelTreeClassifier), load_model),
    "mrf_matrix.release": (write_release, load_release),
    "mrf_matrix.ledger": (lambda path: PrivacyLedger.open(path, epsilon=1), PrivacyLedger.open),
    "mrf_matrix.domain": (PLAIN.save, Domain.load),
}
"""What writes an honest file of each format, and what reads it."""


def test_every_format_is_among_these():
    sources = Path(mrf_matrix.__file__).parent.rglob("*.py")
    named = [re.findall(r'FORMAT = "(.*)"', source.read_text()) for source in sources]
    assert {kind for kinds in named for kind in kinds} == set(FORMATS)


BOTH = partial(PrivacyLedger.open, epsilon=1, delta=1e-6)
LATEST = FORMATS | {"mrf_matrix.ledger": (BOTH, PrivacyLedger.open)}
"""What writes the latest version, of formats of which two are written."""

EARLIER = ["mrf_matrix.ledger"]
"""Formats of which there was another version."""


@pytest.fixture
def read_as(tmp_path):
    """Return the function that reads an honest file of a format with another version's number."""

    def read_file(kind, step):
        (write, read), path = (LATEST if step > 0 else FORMATS)[kind], tmp_path / "file"
        write(path)
        read(path)
        content = path.read_bytes()
        is_zip = zipfile.is_zipfile(path)
        members = unzip(content) if is_zip else {".json": content}
        [name] = [name for name in members if name.endswith(".json")]
        data = json.loads(members[name])
        known = data["schema_version"]
        assert data["format"] == kind
        other = data | {"schema_version": known + step, "of_another_version": 0}
        odd = json.dumps(other).encode()
        path.write_bytes(zip_of(members | {name: odd}) if is_zip else odd)
        with pytest.raises(
            ValueError, match=f"schema_version={known + step}: .* reads {known}"
        ) as e:
            read(path)
        return str(e.value)

    return read_file


@pytest.mark.parametrize("kind", FORMATS)
def test_a_later_version_is_refused_by_its_version(kind, read_as):
    assert "a later one may read it" in read_as(kind, +1)


@pytest.mark.parametrize("kind", EARLIER)
def test_an_earlier_version_is_refused_by_its_version(kind, read_as):
    assert "An earlier one wrote it" in read_as(kind, -1)
