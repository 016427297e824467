"""The file of a tree of labels: predicts to the last bit, and claims no more than its plan."""

import json
import re
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone

from mrf_matrix import (
    Attribute,
    Domain,
    LabelTreeClassifier,
    PrivateForestClassifier,
    load_model,
    save_model,
)
from mrf_matrix.estimators import ReleasedLabelTreeClassifier
from mrf_matrix.files.container import bytes_of
from mrf_matrix.files.models import ModelFileError
from mrf_matrix.labels.depth import COUNTED_FROM

MODEL = "model.json"
SIZES = (3, 2, 4, 2)
GENERATOR = np.random.default_rng(0)
X = GENERATOR.integers(0, SIZES, size=(300, 4))
Y = (GENERATOR.random(300) < np.where(X[:, 0] + X[:, 1] > 1, 0.8, 0.3)).astype(int)
DESIGNS = {
    "pure": {"n_records": 300, "epsilon": 0.1},
    "four cells": {"n_records": 300, "epsilon": 0.05},
    "a faint signal": {"n_records": 300, "epsilon": 0.01},
    "many classes": {"k": 12, "n_records": 300, "epsilon": 0.05},
    "no noise": {"epsilon": float("inf")},
    "unknown number": {},
    "zCDP": {"rho": 0.001, "n_records": 300},
    "approximate": {"epsilon": 0.2, "delta": 1e-6, "n_records": 300},
    "replace one": {"neighboring": "replace_one", "n_records": 300, "epsilon": 0.2},
    "five classes": {"k": 5, "n_records": 300, "epsilon": 0.2},
    "counts": {"n_records": 300, "epsilon": 3},
    "counts under zCDP": {"rho": 0.5, "n_records": 300},
    "counts by delta": {"epsilon": 1, "delta": 0.3, "n_records": 300},
    "counts, replace one": {"neighboring": "replace_one", "n_records": 300, "epsilon": 3},
    "counts, zCDP, replace one": {"neighboring": "replace_one", "n_records": 300, "rho": 1},
    "counts of five classes": {"k": 5, "n_records": 300, "epsilon": 3},
}
"""Some so noisy that cells have their labels alone."""


def fitted(k=2, **parameters):
    domain = Domain.from_sizes(SIZES, n_classes=k)
    labels = Y if k == 2 else (Y + X[:, 2]) % k
    return LabelTreeClassifier(domain, random_state=0, **parameters).fit(X, labels)


@pytest.fixture
def read(reader):
    """Load members as a model file."""
    return reader(load_model, "model.mrf")


@pytest.mark.parametrize("design", DESIGNS)
def test_a_loaded_tree_predicts_identically(tmp_path, design):
    model = fitted(**DESIGNS[design])
    save_model(model, tmp_path / "m", allow_nonprivate=design == "no noise")
    loaded = load_model(tmp_path / "m")
    assert isinstance(loaded, ReleasedLabelTreeClassifier)
    assert np.array_equal(loaded.predict(X), model.predict(X))
    assert np.array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert np.array_equal(loaded.vote_intervals(X), model.vote_intervals(X))
    assert loaded.privacy_report_ == model.privacy_report_
    assert loaded.plan_.steps == model.plan_.steps
    assert loaded.tree_.cuts == model.tree_.cuts
    assert loaded.plan_.cuts == model.tree_.cuts
    assert loaded.tree_.labels.tolist() == model.tree_.labels.tolist()
    assert np.array_equal(loaded.tree_.counts, model.tree_.counts)
    assert loaded.export_text() == model.export_text()
    assert clone(loaded) is loaded
    with pytest.raises(TypeError, match="LabelTreeClassifier"):
        loaded.fit(X, Y)
    save_model(loaded, tmp_path / "again", allow_nonprivate=design == "no noise")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "m").read_bytes()


def test_designs_are_flat_and_deep_with_counts_and_without():
    trees = {design: fitted(**DESIGNS[design]).tree_ for design in DESIGNS}
    assert trees["four cells"].n_cells == 4
    assert trees["unknown number"].n_cells == trees["no noise"].n_cells == 32
    assert trees["counts under zCDP"].n_cells == 8
    counted = {design for design, tree in trees.items() if tree.counts is not None}
    assert counted == {"no noise", "unknown number", *(one for one in DESIGNS if "counts" in one)}


def test_cuts_without_order_are_read_however_many_were_drawn(tmp_path):
    """Of five codes not all ways are found for every seed: nothing may rest on how many were."""
    names = [Attribute(name, categories=[*"abcde"]) for name in ("one", "other")]
    domain = Domain(names, target=Attribute("y", size=2))
    codes = np.random.default_rng(0).integers(0, 5, (200, 2))
    records, y = np.array([*"abcde"])[codes], codes[:, 0] % 2
    models = [LabelTreeClassifier(domain, epsilon=1, random_state=seed) for seed in range(60)]
    counts = [len(model.plan().cuts) for model in models]
    assert len(set(counts)) > 1
    for count in set(counts):
        model = models[counts.index(count)].fit(records, y)
        save_model(model, tmp_path / "m")
        loaded = load_model(tmp_path / "m")
        assert loaded.tree_.cuts == model.tree_.cuts
        assert np.array_equal(loaded.predict(records), model.predict(records))


def test_cuts_of_the_most_codes_fit_into_a_file(tmp_path):
    size = 1 << 16
    domain = Domain.from_sizes([size, size], n_classes=2)
    codes = np.random.default_rng(0).integers(0, size, (200, 2))
    model = LabelTreeClassifier(domain, epsilon=1, n_records=200, random_state=0)
    model.fit(codes, codes[:, 0] % 2)
    assert model.tree_.n_cells == 8
    save_model(model, tmp_path / "m")
    assert load_model(tmp_path / "m").tree_.cuts == model.tree_.cuts


@pytest.mark.parametrize("epsilon", [0.1, 0.6])
def test_a_private_forest_of_labels_is_a_file_too(tmp_path, epsilon):
    domain = Domain.from_sizes(SIZES, n_classes=2)
    model = PrivateForestClassifier(domain, epsilon=epsilon, n_records=300, random_state=0)
    model.fit(X, Y)
    assert (model.forest_.tree_.counts is None) == (epsilon == 0.1)
    save_model(model, tmp_path / "m")
    loaded = load_model(tmp_path / "m")
    assert isinstance(loaded.forest_, ReleasedLabelTreeClassifier)
    assert np.array_equal(loaded.predict_proba(X), model.predict_proba(X))
    save_model(loaded, tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "m").read_bytes()


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """Return a model file's bytes and what it predicts."""
    path = tmp_path_factory.mktemp("good") / "model.mrf"
    model = fitted(n_records=300)
    save_model(model, path)
    return path.read_bytes(), model.predict(X)


def cut(attribute=0, upper=None, **more):
    return {"attribute": attribute, "upper": [1] if upper is None else upper, **more}


def with_cut(one):
    """Return the cuts of a deep tree with one of another kind in their middle."""
    return {"cuts": [*[cut()] * 3, one, *[cut(2, [1, 2])] * 3]}


CUTS = {
    "too few": ({"cuts": [cut()] * 6}, "cuts has 6 entries"),
    "too many": ({"cuts": [cut()] * 8}, "cuts has 8 entries"),
    "none": ({"cuts": []}, "cuts has 0 entries"),
    "no list": ({"cuts": {"0": cut()}}, "expected a list"),
    "of an earlier form": ({"cuts": [[0, [1]]] * 7}, "expected an object"),
    "attribute unknown": (with_cut(cut(4)), "attribute=4"),
    "attribute below": (with_cut(cut(-1)), "attribute=-1"),
    "attribute false": (with_cut(cut(False)), "attribute=False"),
    "attribute a text": (with_cut(cut("x0")), "attribute="),
    "attribute a fraction": (with_cut(cut(0.0)), "attribute=0.0"),
    "nothing above": (with_cut(cut(0, [])), "upper: expected some codes"),
    "nothing below": (with_cut(cut(0, [0, 1, 2])), "upper=0"),
    "the first code above": (with_cut(cut(0, [0])), "upper=0"),
    "a code twice": (with_cut(cut(0, [1, 1])), "each after the one before"),
    "codes falling": (with_cut(cut(0, [2, 1])), "each after the one before"),
    "a code of another attribute": (with_cut(cut(0, [3])), "upper=3"),
    "a huge code": (with_cut(cut(0, [2**31 - 1])), "upper=2147483647"),
    "a code beyond numbers": (with_cut(cut(0, [10**400])), "upper="),
    "a code below": (with_cut(cut(0, [-1])), "upper=-1"),
    "a code true": (with_cut(cut(0, [True])), "upper=True"),
    "a code a fraction": (with_cut(cut(0, [1.0])), "upper=1.0"),
    "codes as sides": (with_cut(cut(0, [False, True, True])), "upper=False"),
    "codes no list": (with_cut(cut(0, 1)), "expected a list"),
    "codes a text": (with_cut(cut(0, "1")), "expected a list"),
    "too many codes": (with_cut(cut(0, [1] * 100_001)), "100001 entries"),
    "no codes": (with_cut({"attribute": 0}), "'upper' is missing"),
    "more than a cut": (with_cut(cut(label=1)), "unknown keys"),
    "labels few": ({"labels": [0] * 7}, "labels has 7 entries"),
    "labels many": ({"labels": [0] * 9}, "labels has 9 entries"),
    "a label unknown": ({"labels": [*[0] * 7, 2]}, "labels=2"),
    "a label below": ({"labels": [*[0] * 7, -1]}, "labels=-1"),
    "a label true": ({"labels": [*[0] * 7, True]}, "labels=True"),
}


@pytest.mark.parametrize("what", CUTS)
def test_a_tree_that_is_none_is_refused_by_name(members, read, modest, what):
    change, message = CUTS[what]
    data = json.loads(members[MODEL]) | change
    with pytest.raises(ModelFileError, match=re.escape(message)):
        read(members | {MODEL: json.dumps(data).encode()})


@pytest.mark.parametrize(("attribute", "upper"), [(0, [1]), (0, [1, 2]), (1, [1]), (2, [1, 3])])
def test_any_tree_of_the_plan_is_read_and_written_to_the_same_bytes(
    members, read, tmp_path, attribute, upper
):
    """The positive control of what is refused."""
    change = with_cut(cut(attribute, upper)) | {"labels": [0, 1, 1, 0, 1, 0, 0, 1]}
    data = json.loads(members[MODEL]) | change
    loaded = read(members | {MODEL: json.dumps(data).encode()})
    assert loaded.tree_.cuts[3].attribute == attribute
    assert np.isfinite(loaded.predict_proba(X)).all()
    assert np.isfinite(loaded.vote_intervals(X)).all()
    assert np.flatnonzero(loaded.tree_.cuts[3].upper).tolist() == upper
    save_model(loaded, tmp_path / "m")
    save_model(load_model(tmp_path / "m"), tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "m").read_bytes()
    with zipfile.ZipFile(tmp_path / "m") as written:
        assert json.loads(written.read(MODEL)) == data


def test_an_earlier_file_is_refused_by_its_version(members, read):
    """The first had two attributes that all of the four cells shared, the second no counts."""
    data = json.loads(members[MODEL])
    first = data | {"schema_version": 1, "labels": [0, 1, 0, 1]}
    del first["cuts"]
    first |= {"attributes": [0, 1], "upper": [[1, 2], [1]]}
    with pytest.raises(ModelFileError, match=r"schema_version=1: .* reads 7\. An earlier one"):
        read(members | {MODEL: json.dumps(first).encode()})
    second = json.dumps(data | {"schema_version": 2}).encode()
    with pytest.raises(ModelFileError, match=r"schema_version=2: .* reads 7\. An earlier one"):
        read({MODEL: second})


def with_size(data, size):
    """Say that an attribute that is cut has so many codes."""
    data["domain"]["attributes"][0] = {"name": "x0", "size": size}


def with_classes(data, size):
    data["domain"]["target"] = {"name": "class", "size": size}


HUGE = {
    "codes": (with_size, 2**31 - 1, "that can be cut"),
    "some codes": (with_size, (1 << 16) + 1, "that can be cut"),
    "classes": (with_classes, 2**31 - 1, "classes"),
    "some classes": (with_classes, 12_000, "12000 classes"),
}


@pytest.mark.parametrize("what", HUGE)
def test_huge_domains_are_refused_before_they_are_written_out(members, read, modest, what):
    data = json.loads(members[MODEL]) | with_cut(cut())
    change, size, message = HUGE[what]
    change(data, size)
    with pytest.raises(ModelFileError, match=message):
        read(members | {MODEL: json.dumps(data).encode()})


def test_attributes_of_many_codes_that_are_not_cut_are_served(members, read, modest):
    data = json.loads(members[MODEL]) | {"cuts": [cut(1)] * 7}
    with_size(data, 2**31 - 1)
    loaded = read(members | {MODEL: json.dumps(data).encode()})
    assert loaded.domain_.sizes[0] == 2**31 - 1
    assert set(loaded.predict(X).tolist()) <= {0, 1}


def test_what_could_not_be_read_is_not_written(tmp_path):
    model = fitted()
    model.plan_ = replace(model.plan_, n_records=10**18)
    with pytest.raises(ModelFileError, match="n_records"):
        save_model(model, tmp_path / "m")
    assert not (tmp_path / "m").exists()


def array(shape=(8, 2), kind="<i8", value=3):
    return bytes_of(np.full(shape, value, dtype=kind))


OTHER = "other arrays than its plan releases"
MISFIT = "array 'counts' is missing or does not have the size"
HEADER = "header does not say <i8 of shape (8, 2)"
BEYOND = "answers: expected whole numbers up to 4611686018427387904"
ARRAYS = {
    "none": ({}, OTHER),
    "another name": ({"answers": array()}, OTHER),
    "one more": ({"counts": array(), "answers": array()}, OTHER),
    "nothing": ({"counts": b""}, MISFIT),
    "too short": ({"counts": array()[:-1]}, MISFIT),
    "too long": ({"counts": array() + b"0"}, MISFIT),
    "of a flat tree": ({"counts": array((4, 2))}, MISFIT),
    "of three classes": ({"counts": array((8, 3))}, MISFIT),
    "shorter numbers": ({"counts": array(kind="<i4")}, MISFIT),
    "transposed": ({"counts": array((2, 8))}, HEADER),
    "in a row": ({"counts": array((16,))}, HEADER),
    "fractions": ({"counts": array(kind="<f8")}, HEADER),
    "no number": ({"counts": array(kind="<f8", value=np.nan)}, HEADER),
    "without signs": ({"counts": array(kind="<u8")}, HEADER),
    "the other way round": ({"counts": array(kind=">i8")}, HEADER),
    "too large": ({"counts": array(value=2**62 + 1)}, BEYOND),
    "too small": ({"counts": array(value=-(2**62) - 1)}, BEYOND),
    "the smallest there is": ({"counts": array(value=-(2**63))}, BEYOND),
}


@pytest.mark.parametrize("what", ARRAYS)
def test_counts_that_are_none_of_the_plan_are_refused_by_name(members, read, modest, what):
    arrays, message = ARRAYS[what]
    with pytest.raises(ModelFileError, match=re.escape(message)):
        read({MODEL: members[MODEL]} | {f"{name}.npy": one for name, one in arrays.items()})


@pytest.mark.parametrize("value", [3, 0, -7, 2**62, -(2**62)])
def test_any_counts_are_read_and_say_something_finite(members, read, value):
    """The positive control of what is refused."""
    assert set(members) == {MODEL, "counts.npy"}
    loaded = read(members | {"counts.npy": array(value=value)})
    assert loaded.tree_.counts.tolist() == [[value] * 2] * 8
    shares = loaded.predict_proba(X)
    assert np.isfinite(shares).all()
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    assert np.isfinite(loaded.vote_intervals(X)).all()
    assert "%" in loaded.export_text()


def test_labels_alone_come_without_arrays(tmp_path, unzipped, read):
    save_model(fitted(**DESIGNS["pure"]), tmp_path / "m")
    members = unzipped((tmp_path / "m").read_bytes())
    assert set(members) == {MODEL}
    assert read(members).tree_.counts is None
    with pytest.raises(ModelFileError, match=OTHER):
        read(members | {"counts.npy": array()})


def test_counts_of_another_budget_are_refused(members, read):
    """What is claimed of labels alone has no counts beside it."""
    data = json.loads(members[MODEL]) | {"n_records": COUNTED_FROM - 1}
    with pytest.raises(ModelFileError, match=OTHER):
        read(members | {MODEL: json.dumps(data).encode()})
    with pytest.raises(ModelFileError, match="report"):
        read({MODEL: json.dumps(data).encode()})
