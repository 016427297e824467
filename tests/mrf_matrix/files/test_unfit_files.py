"""Files that no reader takes: of another kind, size or version, or with texts that act."""

import io
import json
import os
import re
import unicodedata
import zipfile
from functools import partial
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from command_line import run, told
from damage import ACTING, HARMLESS, change, unzip, zip_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse

import mrf_matrix
import strategies
from mrf_matrix import (
    Attribute,
    Domain,
    MatrixForestClassifier,
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
from mrf_matrix.domain import DomainError
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


# Texts that act on who reads them -----------------------------------------------------------------


ACTED = Domain(
    [Attribute("a", categories=["x", "y", "z"]), Attribute("b", edges=[0, 1, 2])],
    target=Attribute("c", categories=["no", "yes"]),
)
RECORDS = {"a": ["x", "y", "z", "x"], "b": [0.5, 1.5, 0.5, 1.5]}
TARGETS = ["no", "yes", "yes", "no"]
ACTS = ["\x1b]0;owned\x07", "\x1b[2J", "\x9b31m", "\u202e", "\x7f", "\n", "\x00"]
HIDDEN = ("Cc", "Cs", "Zl", "Zp")
"""Categories of Unicode that act on a screen, or that no screen shows."""
HOSTILE = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def is_plain(text):
    """Whether a text acts on no terminal: neither controls, directions nor what is hidden in it."""
    joiners = {"\u200c", "\u200d"}  # which words and pictures are written with
    kinds = {one: unicodedata.category(one) for one in set(text) - joiners}
    return not any(kind in HIDDEN or kind == "Cf" for kind in kinds.values())


def save_of_matrix(path):
    model = MatrixForestClassifier(ACTED, n_trees=2, max_depth=1, strategy="identity")
    save_model(model.fit(RECORDS, TARGETS), path)


def save_of_posterior(path):
    save_model(PosteriorForestClassifier(ACTED, n_records=10).fit(RECORDS, TARGETS), path)


def save_of_release(path):
    release = PosteriorForestClassifier(ACTED, n_records=10).fit(RECORDS, TARGETS).release_
    save_release(release, path, ACTED)


def save_of_ledger(path):
    ledger = PrivacyLedger.open(path, epsilon=1)
    ledger.charge(PureDP(0.5), "leaf counts", neighboring="add_remove")


KINDS = {
    "matrix model": (save_of_matrix, load_model, "model.json"),
    "posterior model": (save_of_posterior, load_model, "model.json"),
    "release": (save_of_release, load_release, "release.json"),
    "ledger": (save_of_ledger, PrivacyLedger.open, None),
    "domain": (ACTED.save, Domain.load, None),
}


@pytest.fixture(scope="module", params=KINDS)
def kind(request, tmp_path_factory):
    """Return the JSON of an honest file, and what reads it with other JSON."""
    save, load, member = KINDS[request.param]
    path = tmp_path_factory.mktemp("acting") / "file"
    save(path)
    content = path.read_bytes()
    if member is None:
        data, others = json.loads(content), None
    else:
        with zipfile.ZipFile(io.BytesIO(content)) as file:
            others = {name: file.read(name) for name in file.namelist()}
        data = json.loads(others.pop(member))

    def read(changed):
        text = json.dumps(changed)
        if others is None:
            path.write_text(text)
        else:
            with zipfile.ZipFile(path, "w") as file:
                for name, part in {member: text, **others}.items():
                    file.writestr(name, part)
        return load(path)

    return data, read


def refusal(read, record):
    """Return what a reader says against a record; None if it takes it."""
    try:
        read(record)
    except ValueError as error:
        return str(error)
    return None


def texts(data, path=()):
    """Yield the path and value of every text of a JSON document."""
    if isinstance(data, str):
        yield path, data
    elif isinstance(data, dict | list):
        for key, value in data.items() if isinstance(data, dict) else enumerate(data):
            yield from texts(value, (*path, key))


def test_every_text_of_a_file_is_checked(kind):
    data, read = kind
    assert refusal(read, data) is None  # the control
    for number, (path, text) in enumerate(texts(data)):
        act = ACTS[number % len(ACTS)]
        said = refusal(read, change(data, path, text[:1] + act + text[1:]))
        assert said is not None, path
        assert is_plain(said), path


@HOSTILE
@given(data=st.data())
def test_mutated_texts_are_refused_or_harmless(kind, data):
    record, read = kind
    path, text = data.draw(st.sampled_from(list(texts(record))))
    place = data.draw(st.integers(0, len(text)))
    odd = data.draw(st.text(st.characters(), min_size=1, max_size=3))
    said = refusal(read, change(record, path, text[:place] + odd + text[place:]))
    assert is_plain(odd if said is None else said)


def test_a_key_that_acts_is_refused_and_named_harmless(kind):
    data, read = kind
    act = "format" if "charges" in data else "x\x1b[2J"  # a ledger takes keys it does not know
    said = refusal(read, {**data, act: "\x1b[2J"})
    assert said is not None
    assert is_plain(said)


@pytest.mark.parametrize("command", ["predict", "ledger", "fit"])
def test_errors_of_the_command_line_are_escaped(tmp_path, command):
    name = tmp_path / "evil\x1b]0;owned\x07"
    name.write_bytes(b"no file of ours")
    arguments = {
        "predict": [name, "monks_1"],
        "ledger": [name],
        "fit": ["monks_1", "--ledger", name, "--output", tmp_path / "m.mrf"],
    }[command]
    done = run(command, *map(str, arguments))
    assert done.exit_code == 1
    assert "owned" in done.output
    assert "\x1b" not in done.output


# Which text acts ---------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ACTING)
def test_no_attribute_has_a_name_or_category_that_acts(text):
    around = f"yes{text}no"
    with pytest.raises(DomainError, match="control characters") as refused:
        Attribute(around, size=2)
    assert is_plain(str(refused.value))
    with pytest.raises(DomainError, match="control characters") as refused:
        Attribute("a", categories=["ok", around])
    assert is_plain(str(refused.value))
    record = Domain.from_sizes([2], n_classes=2).to_dict()
    record["target"] = {"name": "c", "categories": [around, "no"]}
    with pytest.raises(DomainError, match=r"target: .*control characters"):
        Domain.from_dict(record)


@pytest.mark.parametrize("text", HARMLESS)
def test_names_and_categories_of_any_language_are_taken(text):
    assert Attribute(text, categories=[text]).labels == (text,)
