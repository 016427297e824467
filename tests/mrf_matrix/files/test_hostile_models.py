"""Files from an untrusted hand: a clear ModelFileError, and neither code, memory nor a crash."""

import io
import json
import os
import pickle
import struct
import zipfile

import numpy as np
import pytest
from damage import bit_flips, fitting, npy, truncations, zip_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mrf_matrix import (
    MatrixForestClassifier,
    PrivateNaiveBayesClassifier,
    load_dataset,
    load_model,
    save_model,
)
from mrf_matrix.files import ModelFileError

MODEL = "model.json"
DATA = load_dataset("monks_1")
HOSTILE = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """Return a model file's bytes and what it predicts."""
    path = tmp_path_factory.mktemp("good") / "model.mrf"
    model = MatrixForestClassifier(
        DATA.domain, n_trees=3, max_depth=2, n_ensembles=2, strategy="identity", random_state=0
    ).fit(DATA.X, DATA.y)
    save_model(model, path)
    return path.read_bytes(), model.predict(DATA.X)


@pytest.fixture
def read(reader):
    """Load bytes or members as a model file."""
    return reader(load_model, "model.mrf")


def with_model(members, **changes):
    return fitting_members(
        members | {MODEL: json.dumps(json.loads(members[MODEL]) | changes).encode()}
    )


def with_plan(members, **changes):
    return with_model(members, plan=json.loads(members[MODEL])["plan"] | changes)


def fitting_members(members):
    """Give members the digest that fits them, where they can have one."""
    arrays = {
        name.removesuffix(".npy"): np.load(io.BytesIO(content), allow_pickle=False)
        for name, content in members.items() if name.endswith(".npy")
    }  # fmt: skip
    data = fitting(json.loads(members[MODEL]), arrays)
    return members | {MODEL: json.dumps(data).encode()}


def with_arrays(members, arrays, number=0, **changes):
    """Put arrays in place of an ensemble's trees, with shapes to match."""
    plan = json.loads(members[MODEL])["plan"]
    put = {}
    for name, array in arrays.items():
        put[f"ensemble_{number}/{name}.npy"] = npy(np.asarray(array, dtype="<i4"))
        plan["ensembles"][number]["shapes"][name] = [len(array)]
    return with_model(members | put, plan=plan, **changes)


# -- damage ---------------------------------------------------------------------------------------


@HOSTILE
@given(data=st.data())
def test_truncated_files_are_refused(good, read, data):
    with pytest.raises(ModelFileError, match=r"model\.mrf"):
        read(data.draw(truncations(good[0])))


@HOSTILE
@given(data=st.data())
def test_flipped_bits_are_noticed_or_change_nothing(good, read, data):
    try:
        loaded = read(data.draw(bit_flips(good[0], 3)))
    except ModelFileError:
        return
    assert np.array_equal(loaded.predict(DATA.X), good[1])


def test_every_byte_of_the_directory_may_be_wrong(read, tmp_path):
    """Of a file of few members."""
    model = PrivateNaiveBayesClassifier(DATA.domain).fit(DATA.X, DATA.y)
    save_model(model, tmp_path / "few.mrf")
    whole, expected = (tmp_path / "few.mrf").read_bytes(), model.predict(DATA.X)
    for place in range(whole.rindex(b"PK\x01\x02") - 200, len(whole)):
        content = bytearray(whole)
        content[place] ^= 0xFF
        try:
            loaded = read(bytes(content))
        except ModelFileError:
            continue
        assert np.array_equal(loaded.predict(DATA.X), expected)


@HOSTILE
@given(content=st.binary(max_size=300), tail=st.booleans())
def test_random_bytes_are_refused(read, content, tail):
    with pytest.raises(ModelFileError):
        read(content + b"PK\x05\x06" + bytes(18) if tail else content)


# -- wrong content --------------------------------------------------------------------------------


@HOSTILE
@given(data=st.data())
def test_any_number_of_the_trees_may_be_wrong(members, read, data):
    shapes = json.loads(members[MODEL])["plan"]["ensembles"][0]["shapes"]
    name = data.draw(st.sampled_from(sorted(shapes)))
    key = f"ensemble_0/{name}.npy"
    array = np.load(io.BytesIO(members[key]))
    for _ in range(data.draw(st.integers(1, 4))):
        array[data.draw(st.integers(0, len(array) - 1))] = data.draw(
            st.one_of(st.integers(-2, 40), st.sampled_from([2**31 - 1, -(2**31)]))
        )
    try:
        loaded = read(fitting_members(members | {key: npy(array)}))
    except ModelFileError:
        return
    assert loaded.predict(DATA.X).shape == DATA.y.shape


def test_a_missing_file_is_called_missing(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_model(tmp_path / "nothing.mrf")


# -- code -----------------------------------------------------------------------------------------


class Trap:
    """Runs when it is unpickled."""

    def __reduce__(self):
        return os.mkdir, ("sprung",)


def test_a_pickled_array_is_refused_and_not_run(members, read, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    buffer = io.BytesIO()
    np.save(buffer, np.array([Trap()], dtype=object), allow_pickle=True)
    for name in ("ensemble_0/roots.npy", MODEL):
        with pytest.raises(ModelFileError):
            read(members | {name: buffer.getvalue()})
    with pytest.raises(ModelFileError):
        read(pickle.dumps(Trap()))
    assert not (tmp_path / "sprung").exists()
    pickle.loads(pickle.dumps(Trap()))  # the negative control: a pickle runs it
    assert (tmp_path / "sprung").exists()


# -- memory and time ------------------------------------------------------------------------------


def test_a_zip_bomb_is_refused_before_it_is_unpacked(members, read, modest):
    with io.BytesIO() as buffer:
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
            for name, content in members.items():
                if name != "ensemble_0/roots.npy":
                    file.writestr(name, content)
            with file.open("ensemble_0/roots.npy", "w") as member:
                for _ in range(200):
                    member.write(bytes(2**20))
        content = buffer.getvalue()
    assert len(content) < 2**20
    with pytest.raises(ModelFileError, match="unpacks to"):
        read(content)


def test_a_bomb_that_declares_a_small_size_is_refused(members, read, modest):
    honest = members["ensemble_0/roots.npy"]
    big = honest + bytes(2**24)
    content = bytearray(zip_of({**members, "ensemble_0/roots.npy": big}))
    while (place := content.find(struct.pack("<L", len(big)))) >= 0:
        content[place : place + 4] = struct.pack("<L", len(honest))
    with pytest.raises(ModelFileError):
        read(bytes(content))


def test_a_directory_of_many_members_is_refused_before_it_is_read(good, read):
    content = bytearray(good[0])
    for offset, form, value in ((-14, "<H", 65535), (-12, "<H", 65535), (-10, "<L", 2**30)):
        odd = bytearray(content)
        struct.pack_into(form, odd, len(content) + offset, value)
        with pytest.raises(ModelFileError):
            read(bytes(odd))


def test_a_64_bit_directory_is_refused(good, read):
    content = good[0][:-22] + b"PK\x06\x07" + bytes(16) + good[0][-22:]
    with pytest.raises(ModelFileError, match="64-bit"):
        read(content)


def test_the_cap_is_an_argument(good, read):
    with pytest.raises(ModelFileError, match="max_bytes=100"):
        read(good[0], max_bytes=100)


# -- arrays that are no trees ---------------------------------------------------------------------

WIDE = {"attributes": [{"name": "a", "size": 2000}], "target": {"name": "c", "size": 2}}


def replaced(members, arrays, domain=WIDE):
    """Return the members of a file of one ensemble of these arrays over a domain."""
    plan = json.loads(members[MODEL])["plan"]
    one = plan["ensembles"][0] | {"features": [0], "source": ""}
    rest = {k: v for k, v in members.items() if not k.startswith("ensemble_1")}
    return with_arrays(with_plan(rest, ensembles=[one]), arrays, domain=domain)


def test_children_that_overlap_are_refused_in_little_memory(members, read, modest):
    nodes, codes = 40_000, 2000
    arrays = {
        "roots": [0],
        "attribute": np.where(np.arange(nodes) < nodes - 2001, 0, -1),
        "first_child": np.where(
            np.arange(nodes) < nodes - 2001, np.minimum(np.arange(nodes) + 1, nodes - 2000),
            np.arange(nodes),
        ),
        "pattern": np.where(np.arange(nodes) < nodes - 2001, codes, 0),
        "branches": [0] * codes + list(range(codes)),
    }  # fmt: skip
    with pytest.raises(ModelFileError, match="children"):
        read(replaced(members, arrays))


def test_tables_that_add_up_to_more_than_the_file_are_refused(members, read, modest):
    nodes, codes = 20_001, 2000
    inner = np.arange(nodes) < nodes // 2
    pool = np.concatenate([np.zeros(codes), np.arange(nodes + codes) % 2])
    arrays = {
        "roots": [0],
        "attribute": np.where(inner, 0, -1),
        "first_child": np.where(inner, 2 * np.arange(nodes) + 1, np.arange(nodes)),
        "pattern": np.where(inner, codes + np.arange(nodes), 0),
        "branches": pool,
    }
    with pytest.raises(ModelFileError, match="branch tables"):
        read(replaced(members, arrays))


def chain(depth):
    """Return a tree that splits the same two codes again and again, one node a level."""
    nodes = 2 * depth + 1
    inner = (np.arange(nodes) % 2 == 1) | (np.arange(nodes) == 0)
    inner &= np.arange(nodes) < 2 * depth - 1
    return {
        "roots": [0],
        "attribute": np.where(inner, 0, -1),
        "first_child": np.where(
            inner, np.where(np.arange(nodes) == 0, 1, np.arange(nodes) + 2), np.arange(nodes)
        ),
        "pattern": np.where(inner, 2, 0),
        "branches": [0, 0, 0, 1],
    }


def test_endless_depth_is_refused_and_a_modest_one_is_read(members, read, modest):
    two = WIDE | {"attributes": [{"name": "a", "size": 2}]}
    with pytest.raises(ModelFileError) as modest_one:  # by its strategy, of another domain
        read(replaced(members, chain(50), two))
    assert "deeper" not in str(modest_one.value)
    with pytest.raises(ModelFileError, match="deeper than"):
        read(replaced(members, chain(100_000), two))


# What is refused of a file with a digest that fits ------------------------------------------------


def with_shape(shape):
    def changed(members):
        plan = json.loads(members[MODEL])["plan"]
        plan["ensembles"][0]["shapes"]["roots"] = shape
        return with_model(members, plan=plan)

    return changed


def with_domain(**changes):
    return lambda members: with_model(
        members, domain=json.loads(members[MODEL])["domain"] | changes
    )


def endless_codes(members):
    known = json.loads(members[MODEL])["domain"]["attributes"]
    return with_domain(attributes=[{"name": a["name"], "size": 2**31 - 1} for a in known])(members)


CIRCLE = {
    "roots": [0],
    "attribute": [-1, 0, 0, -1, -1],
    "first_child": [0, 2, 1, 3, 4],
    "pattern": [0, 2, 2, 0, 0],
    "branches": [0, 0, 0, 1],
}
LONE = {"attributes": [{"name": "a", "size": 2}]}
OTHERS = "../escaped.npy", "/tmp/escaped.npy", "ensemble_7/roots.npy", "run.py"
CHANGED = {
    "another format": (lambda m: with_model(m, format="pickle"), "format"),
    "a later version": (lambda m: with_model(m, schema_version=10**6), "a later one may read it"),
    "a version of a truth": (lambda m: with_model(m, schema_version=True), "schema_version"),
    "a surprise": (lambda m: with_model(m, surprise=1), "keys"),
    "no target": (lambda m: with_model(m, domain=LONE), "target"),
    "texts that act": (lambda m: with_model(m, notes=["Private \x1b[2J release"]), "notes"),
    "a member twice": (lambda m: [*m.items(), next(iter(m.items()))], "repeated"),
    "huge JSON": (lambda m: m | {MODEL: b" " * 2**24}, r"model\.json"),
    "deep lists": (lambda m: m | {MODEL: b"[" * 200_000}, "."),
    "deep objects": (lambda m: m | {MODEL: b'{"a":' * 200_000}, "."),
    "endless classes": (
        with_domain(target={"name": "class", "size": 2**31 - 1}),
        "at most 65536 classes",
    ),
    "endless codes": (endless_codes, "branches"),
    "trees in circles": (lambda m: replaced(m, CIRCLE, WIDE | LONE), "."),
    **{
        f"shape {shape}": (with_shape(shape), ".")
        for shape in ([2**31 - 1], [2**40], [0], [-1], [1, 1], [True], [1.0], "x")
    },
    **{f"member {n}": (lambda m, n=n: m | {n: b"x"}, "other arrays than") for n in OTHERS},
}


@pytest.mark.filterwarnings("ignore:Duplicate name:UserWarning")
@pytest.mark.parametrize("what", CHANGED)
def test_what_no_writer_writes_is_refused_by_name(members, read, modest, what, tmp_path):
    change, message = CHANGED[what]
    with pytest.raises(ModelFileError, match=message):
        read(change(members))
    assert {path.name for path in tmp_path.iterdir()} == {"model.mrf"}


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_compressions_are_refused(members, read, method):
    with pytest.raises(ModelFileError, match="compression"):
        read(zip_of(members, method))
