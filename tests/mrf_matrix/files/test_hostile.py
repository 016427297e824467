"""Release files from an untrusted hand: a clear ReleaseFileError, no code, little memory."""

import json

import numpy as np
import pytest
from damage import bit_flips, change, missing_keys, npy, unzip, wrong_values
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mrf_matrix import ZCDP, Domain, PureDP, load_release, measure, save_release
from mrf_matrix.files import ReleaseFileError
from mrf_matrix.mechanisms import count_cells, reconstruct
from strategies.operator_files import encode
from strategies.operators import (
    Dense,
    Gram,
    Identity,
    Kronecker,
    Marginals,
    Product,
    RowKronecker,
    RowScaled,
    Scaled,
    Stack,
)

SIZES = (2, 3)
RNG = np.random.default_rng(8)
PATHS = RowKronecker.from_masks(
    [np.array([[1, 0], [0, 1]]), np.ones((2, 3))], groups=np.array([0, 0])
)
STRATEGY = Stack(
    [Scaled(2, Identity(6, SIZES)), PATHS, Dense(RNG.normal(size=(2, 6)), SIZES),
     Marginals(SIZES, [(0,)], [0.5])]
)  # fmt: skip
HOSTILE = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
DOMAIN = Domain.from_sizes(SIZES, n_classes=2)


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """Return a release file's bytes, and what it answers."""
    path = tmp_path_factory.mktemp("good") / "one.release"
    codes = np.stack([RNG.integers(0, size, 50) for size in SIZES], axis=1)
    counts = count_cells(codes, RNG.integers(0, 2, 50), SIZES, 2)
    release = measure(STRATEGY, counts, PureDP(1))
    save_release(release, path, DOMAIN)
    return path.read_bytes(), reconstruct(release, np.eye(6))


@pytest.fixture
def read(reader):
    """Load bytes or members as a release file."""
    return reader(load_release, "one.release")


def data_of(members):
    return json.loads(members["release.json"])


def with_data(members, data):
    return members | {"release.json": json.dumps(data).encode()}


def measured(matrix, sizes=SIZES, **claims):
    """Return the members of a file that claims to have measured an integer matrix."""
    tree, arrays = encode(matrix, "strategy/")
    strategy = {
        "method": "given", "matrix": tree, "recovery": None, "scale": "1",
        "sensitivity": claims.pop("sensitivity", "1"), "is_lossy": False,
    }  # fmt: skip
    data = {
        "format": "mrf_matrix.release", "schema_version": 2, "is_private": True,
        "noise": "exact", "noise_scale": "1", "budget": {"epsilon": "1"},
        "neighboring": "add_remove", "sizes": list(sizes), "n_classes": 1,
        "strategy": strategy, "measured": None, "domain": None,
    }  # fmt: skip
    data |= claims
    if "provenance" not in data:  # that of an honest writer, of the figures that are claimed
        paid = {name: data[name] for name in ("budget", "neighboring", "noise")}
        paid |= {"what": "a measurement", "condition": "", "identity": "0" * 32}
        known = {"declared": ["domain"], "read_off": [], "unknown": [], "released": [paid]}
        data["provenance"] = known
    arrays["answers"] = np.zeros((matrix.shape[0], 1), np.int64)
    members = {f"{name}.npy": npy(array) for name, array in arrays.items()}
    return {"release.json": json.dumps(data).encode(), **members}


def usable(release):
    """Print and ask a release, whatever became of it."""
    assert str(release)
    assert release._repr_html_()
    if release.matrix.shape[1] == 6:
        assert reconstruct(release, release.matrix).shape == release.answers.shape


# -- claims ---------------------------------------------------------------------------------------


def test_an_honest_file_of_this_kind_is_read(read):
    assert read(measured(Identity(6, SIZES))).is_private
    assert read(measured(Dense(2 * np.eye(6, dtype=int)), sensitivity="2", noise_scale="2"))
    assert read(measured(Identity(6), noise_scale="3", sensitivity="2")).noise_scale == 3


DOUBLE = Dense(2 * np.eye(6, dtype=int))
LIES = {
    "sensitivity": (DOUBLE, {}, "sensitivity=1"),
    "noise": (DOUBLE, {"sensitivity": "2"}, "noise of scale 1"),
    "budget": (Identity(6), {"budget": {"epsilon": "1/2"}}, "noise of scale 1"),
    "relation": (Identity(6), {"neighboring": "replace_one"}, "noise of scale 1"),
    "Gaussian": (Identity(6), {"budget": {"rho": "1/3"}}, "noise of scale 1"),
    "squares": (DOUBLE, {"budget": {"rho": "1/2"}, "sensitivity": "2"}, "sensitivity=2"),
    "just": (Identity(6), {"noise_scale": str(1 - 2**-40)}, "fraction as text"),
    "barely": (Identity(6), {"noise_scale": f"{2**40 - 1}/{2**40}"}, "noise of scale 1"),
    "zero": (Identity(6), {"sensitivity": "0"}, "sensitivity=0"),
    "zeros": (Dense(np.zeros((1, 6), int)), {}, "sensitivity=1"),
}  # fmt: skip


@pytest.mark.parametrize("lie", LIES)
def test_more_privacy_than_the_noise_gives_is_refused_by_name(read, lie):
    matrix, claims, message = LIES[lie]
    with pytest.raises(ReleaseFileError, match=message):
        read(measured(matrix, **claims))


@pytest.mark.parametrize(
    "changes",
    [
        {"noise": "none"},
        {"noise": "research"},
        {"is_private": False},
        {"is_private": 1},
        {"budget": {"epsilon": "inf"}},
        {"noise": "none", "is_private": False},
        {"noise": "none", "is_private": False, "budget": {"epsilon": "inf"}},
        {"noise": "exact", "is_private": True, "budget": {"epsilon": "inf"}, "noise_scale": "0"},
    ],
)
def test_labels_must_agree(read, changes):
    with pytest.raises(ReleaseFileError, match=r"noise|sampler"):
        read(measured(Identity(6), **changes))


def test_labels_of_no_noise_and_research_noise_stay(read):
    none = {"noise": "none", "budget": {"rho": "inf"}, "noise_scale": "0"}
    for claims in (none, {"noise": "research"}):
        loaded = read(measured(Identity(6), is_private=False, **claims))
        assert loaded.statement.startswith("NOT A PRIVATE RELEASE")


def test_rows_said_to_be_disjoint_must_be(read):
    """Groups of disjoint rows bound the sensitivity where the domain cannot be enumerated."""
    sizes = (10,) * 30
    masks = [np.ones((5, 10), bool) for _ in sizes]
    lying = RowKronecker(RowKronecker.from_masks(masks).bits, sizes, np.zeros(5, np.int64))
    assert lying.integer_sensitivity("l1") == 1
    with pytest.raises(ReleaseFileError, match="share a cell"):
        read(measured(lying, sizes))


BIG = 2**61
WRAPPING = {
    "stack": Stack([Dense(np.full((1, 6), BIG - 1))] * 8),
    "row scaled": RowScaled(np.array([2**40] * 6), Dense(np.full((6, 6), 2**30))),
    "scaled": Scaled(2**40, Scaled(2**30, Dense(np.eye(6, dtype=int)))),
    "product": Product(Dense(np.full((2, 6), 2**40)), Dense(np.full((6, 6), 2**30))),
    "kronecker": Kronecker([Dense(np.full((2, 2), 2**40)), Dense(np.full((3, 3), 2**30))]),
    "one entry": Dense(np.full((1, 6), -(2**63))),
    "column": Dense(np.full((16, 6), 2**60)),
    "squares": Dense(np.full((1, 6), 2**32)),
}


@pytest.mark.parametrize("budget", [{"epsilon": "1"}, {"rho": "1/2"}])
@pytest.mark.parametrize("name", WRAPPING)
def test_sums_that_wrap_around_are_refused(read, name, budget):
    with pytest.raises(ReleaseFileError):
        read(measured(WRAPPING[name], budget=budget))


def test_the_stack_does_wrap_in_integers(read):
    """The negative control: without the second computation the file would be believed."""
    wrapping = Stack([Dense(np.full((1, 6), 2**60))] * 17)
    assert wrapping.integer_sensitivity("l1") == 2**60
    assert wrapping.sensitivity("l1") == 17 * 2**60
    with pytest.raises(ReleaseFileError, match="in integers"):
        read(measured(wrapping, sensitivity=str(2**60)))


@pytest.mark.parametrize(
    "matrix", [Dense(np.eye(6)), Scaled(0.5, Identity(6)), Gram(np.eye(6)), Dense([[1e300] * 6])]
)
def test_only_integers_are_measured(read, matrix):
    with pytest.raises(ReleaseFileError, match="integers"):
        read(measured(matrix))


def test_what_answers_are_recovered_with_must_round_to_what_was_measured(read, tmp_path):
    counts = count_cells(np.zeros((4, 2), int), np.zeros(4, int), SIZES, 1)
    strategy = Dense(RNG.normal(size=(8, 3)) @ RNG.integers(-2, 3, (3, 6)))
    save_release(measure(strategy, counts, PureDP(1)), tmp_path / "honest")
    content = (tmp_path / "honest").read_bytes()
    assert read(content).mechanism.rounded.recovery.shape == (8, 6)
    honest = unzip(content)
    for path, value in (
        (("strategy", "recovery", "weight"), 1e5),
        (("strategy", "recovery", "weight"), 1e-300),
        (("strategy", "recovery"), data_of(honest)["strategy"]["recovery"]["inner"]),
    ):
        with pytest.raises(ReleaseFileError, match="recovery"):
            read(with_data(honest, change(data_of(honest), path, value)))
    with pytest.raises(ReleaseFileError, match="recovery"):
        read(honest | {"recovery/0.npy": npy(np.full((8, 6), 1e200))})


# -- damage ---------------------------------------------------------------------------------------


@HOSTILE
@given(data=st.data())
def test_flipped_bits_are_noticed_or_change_nothing(good, read, data):
    try:
        loaded = read(data.draw(bit_flips(good[0], 3)))
    except ReleaseFileError:
        return
    assert np.array_equal(reconstruct(loaded, np.eye(6)), good[1])


@HOSTILE
@given(data=st.data())
def test_any_value_of_the_json_may_be_wrong(members, read, data):
    try:
        loaded = read(with_data(members, data.draw(wrong_values(data_of(members)))))
    except ReleaseFileError:
        return
    usable(loaded)
    assert loaded.variance >= 1.8  # what epsilon=1 and a sensitivity of at least 1 need


@HOSTILE
@given(data=st.data())
def test_any_key_of_the_json_may_be_missing(members, read, data):
    path, rest = data.draw(missing_keys(data_of(members)))
    try:
        usable(read(with_data(members, rest)))
    except ReleaseFileError:
        return
    assert path[0] == "domain"  # options that have a default


@HOSTILE
@given(data=st.data())
def test_any_number_of_the_strategy_may_be_wrong(members, read, data):
    name = data.draw(st.sampled_from(sorted(set(members) - {"release.json"})))
    try:
        loaded = read(members | {name: data.draw(bit_flips(members[name], 4))})
    except ReleaseFileError:
        return
    usable(loaded)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("format",), "pickle", "format"),
        (("schema_version",), 3, "a later one may read it"),
        (("schema_version",), True, "schema_version"),
        (("surprise",), 1, "keys"),
        (("budget",), {"epsilon": "1e999999999"}, "fraction"),
        (("budget",), {"epsilon": "1/0"}, "divides by zero"),
        (("budget",), {"delta": "1"}, "budget"),
        (("strategy", "method"), "\x1b[2J", "method"),
        (("strategy", "scale"), "0", "scale"),
        (("strategy", "matrix"), {"kind": "pickle"}, "kind"),
        (("measured", "measured_on"), "tomorrow", "isoformat"),
        (("measured", "sampler"), "x\x1b", "sampler"),
        (("measured", "sampler"), "   ", "sampler"),
        (("measured", "sampler"), "numpy 2.3.1", "which draws 'research' noise"),
        (("measured", "sampler"), "nothing", "noise='exact': expected 'opendp'"),
        (("sizes",), [3, 2], "same attributes in the same order"),
        (("domain", "attributes"), [{"name": "a", "size": 6}], "domain has attributes"),
        (("domain", "target"), {"name": "y", "size": 5}, "5 classes"),
        (("n_classes",), 3, "answers"),
        (("n_classes",), 2**40, "n_classes"),
    ],
)
def test_wrong_fields_are_named(members, read, path, value, message):
    with pytest.raises(ReleaseFileError, match=message):
        read(with_data(members, change(data_of(members), path, value)))


# -- memory and other files -----------------------------------------------------------------------


def test_a_domain_that_was_read_off_is_claimed_by_no_release(members, read):
    data = json.loads(members["release.json"])
    data["domain"]["is_read_off"] = True
    with pytest.raises(ReleaseFileError, match="expected a domain that was read off"):
        read(with_data(members, data))
    known = data["provenance"] | {"read_off": ["domain"]}
    with pytest.raises(ReleaseFileError, match="is_private=True: its noise, budget and prov"):
        read(with_data(members, data | {"provenance": known}))
    denied = data | {"provenance": known, "is_private": False}
    assert not read(with_data(members, denied)).is_private


LESS = {
    "a smaller budget": {"budget": {"epsilon": "1/2"}},
    "the other relation": {"neighboring": "replace_one"},
    "another kind": {"budget": {"rho": "1"}},
}


@pytest.mark.parametrize("lie", LESS)
def test_a_charge_that_is_less_than_what_was_measured_is_refused(read, lie):
    data = data_of(measured(Identity(6)))
    (paid,) = data["provenance"]["released"]
    known = data["provenance"] | {"released": [paid | LESS[lie]]}
    with pytest.raises(ReleaseFileError, match=r"no charge in it covers .* more privacy"):
        read(measured(Identity(6), provenance=known))
    more = data["provenance"] | {"released": [paid | {"budget": {"epsilon": "2"}}]}
    assert "epsilon=2" in read(measured(Identity(6), provenance=more)).statement


def test_members_that_are_not_arrays_of_the_release_are_refused(members, read, tmp_path):
    for name in ("../escaped.npy", "strategy/99.npy", "run.py", "recovery/0.npy2"):
        with pytest.raises(ReleaseFileError, match="no arrays of its release"):
            read(members | {name: b"x"})
    assert {path.name for path in tmp_path.iterdir()} == {"one.release"}


def test_a_model_file_is_no_release(members, read):
    members["model.json"] = members.pop("release.json")
    with pytest.raises(ReleaseFileError, match=r"release\.json"):
        read(members)


@pytest.mark.parametrize(
    "tree",
    [
        {"kind": "kronecker", "factors": [{"kind": "identity", "n": 10**9, "sizes": None}] * 900},
        {"kind": "identity", "n": 2**60, "sizes": None},
        {"kind": "transposed", "inner": {"kind": "identity", "n": 2**60, "sizes": None}},
        {"kind": "marginals", "sizes": [2**30] * 900, "attribute_sets": [[]], "weights": [1]},
        {
            "kind": "scaled",
            "weight": 10**4000,
            "inner": {"kind": "identity", "n": 6, "sizes": None},
        },
    ],
)
def test_endless_structures_take_little_memory(members, read, modest, tree):
    data = change(data_of(members), ("strategy", "matrix"), tree)
    rest = {k: v for k, v in members.items() if not k.startswith(("strategy/", "recovery/"))}
    data = change(data, ("strategy", "recovery"), None)
    with pytest.raises(ReleaseFileError):
        read(with_data(rest, data))


def test_zcdp_files_are_held_to_squares(read, tmp_path):
    counts = count_cells(np.zeros((4, 2), int), np.zeros(4, int), SIZES, 1)
    release = measure(Scaled(3, Identity(6, SIZES)), counts, ZCDP(0.5))
    save_release(release, tmp_path / "honest")
    content = (tmp_path / "honest").read_bytes()
    assert read(content).sensitivity == release.sensitivity
    honest = unzip(content)
    for place, value in ((("budget",), {"rho": "1/4"}), (("neighboring",), "replace_one")):
        with pytest.raises(ReleaseFileError, match="more privacy"):
            read(with_data(honest, change(data_of(honest), place, value)))
