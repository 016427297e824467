"""The file of a pooled forest: predicts to the last bit, and claims no more than both its parts."""

import json
import re
from fractions import Fraction

import numpy as np
import pytest
from sklearn.base import clone

from mrf_matrix import (
    Domain,
    LabelTreeClassifier,
    PooledForestClassifier,
    PosteriorForestClassifier,
    PrivateForestClassifier,
    load_model,
    save_model,
)
from mrf_matrix.base.provenance import Spending, parts_of
from mrf_matrix.estimators import ReleasedPooledForestClassifier
from mrf_matrix.estimators.pooled.report import pooled_report
from mrf_matrix.files.models import ModelFileError
from mrf_matrix.files.models.pooled_file import POOLED_VERSION
from mrf_matrix.mechanisms import ZCDP, PureDP
from mrf_matrix.study import importance

MODEL, ARRAYS = "model.json", ("tree/", "tables/")
SIZES = (3, 2, 4, 2, 3)
DOMAIN = Domain.from_sizes(SIZES, n_classes=2)
N = 600
GENERATOR = np.random.default_rng(0)
X = GENERATOR.integers(0, SIZES, size=(N, 5))
Y = (GENERATOR.random(N) < np.where(X[:, 0] + X[:, 1] > 1, 0.8, 0.3)).astype(int)
DESIGNS = {
    "pure": {},
    "zCDP": {"rho": 0.1},
    "approximate": {"epsilon": 1, "delta": 1e-6},
    "no noise": {"epsilon": float("inf")},
    "labels alone": {"epsilon": 0.05},
    "large": {"epsilon": 7},
    "a third": {"epsilon": Fraction(1, 3)},
    "unknown number": {"n_records": None},
    "replace one": {"neighboring": "replace_one"},
}
INSIDE = {
    "pure, inside": {"epsilon": 0.5},
    "approximate, inside": {"epsilon": 0.5, "delta": 1e-6},
    "replace one, inside": {"neighboring": "replace_one"},
}
"""Those that are written inside of a private forest."""


def fitted(kind=PooledForestClassifier, domain=DOMAIN, **changes):
    return kind(**{"domain": domain, "n_records": N, "random_state": 0} | changes).fit(X, Y)


@pytest.fixture
def read(reader):
    """Load members as a model file."""
    return reader(load_model, "model.mrf")


@pytest.mark.parametrize("design", [*DESIGNS, *INSIDE])
def test_a_loaded_forest_predicts_identically(tmp_path, design):
    kind = PooledForestClassifier if design in DESIGNS else PrivateForestClassifier
    model, allowed = fitted(kind, **(DESIGNS | INSIDE)[design]), {}
    if design == "no noise":
        allowed = {"allow_nonprivate": True}
    save_model(model, tmp_path / "m", **allowed)
    loaded = load_model(tmp_path / "m")
    inside = loaded if kind is PooledForestClassifier else loaded.forest_
    assert isinstance(inside, ReleasedPooledForestClassifier)
    assert np.array_equal(loaded.predict(X), model.predict(X))
    assert np.array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert np.array_equal(loaded.vote_intervals(X), model.vote_intervals(X))
    assert loaded.privacy_report_ == model.privacy_report_
    assert importance(loaded) == importance(model)
    assert clone(loaded) is loaded
    with pytest.raises(TypeError, match=kind.__name__):
        loaded.fit(X, Y)
    save_model(loaded, tmp_path / "again", **allowed)
    assert (tmp_path / "again").read_bytes() == (tmp_path / "m").read_bytes()


def test_parts_are_those_that_were_fitted(tmp_path):
    model = fitted()
    save_model(model, tmp_path / "m")
    loaded = load_model(tmp_path / "m")
    assert loaded.export_text() == model.export_text()
    assert loaded.tree_.plan_.steps == model.plan_.tree.steps
    for one in ("tree_", "tables_"):
        part, before = getattr(loaded, one), getattr(model, one)
        assert np.array_equal(part.predict_proba(X), before.predict_proba(X))
        assert part.privacy_report_ == before.privacy_report_
    with pytest.raises(ValueError, match="tree was changed"):
        loaded.set_params(tree=None).predict(X)


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """Return a model file's bytes and what it predicts."""
    path = tmp_path_factory.mktemp("good") / "model.mrf"
    model = fitted()
    save_model(model, path)
    return path.read_bytes(), model.predict(X)


@pytest.fixture(scope="module")
def composed(tmp_path_factory, unzipped):
    """Return the function that writes the file of a tree and tables that were fitted apart."""
    folder = tmp_path_factory.mktemp("parts")

    def written(tree, tables, delta=0.0):
        members = {}
        for prefix, model in zip(ARRAYS, (tree, tables), strict=True):
            save_model(model, folder / "part", allow_nonprivate=True)
            for name, content in unzipped((folder / "part").read_bytes()).items():
                members[prefix + name] = content
        parts = {one.strip("/"): json.loads(members.pop(one + MODEL)) for one in ARRAYS}
        report = pooled_report(tree.privacy_report_, tables.privacy_report_, delta)
        head = {
            "format": "mrf_matrix.pooled_model",
            "schema_version": POOLED_VERSION,
            "delta": delta,
        }
        data = head | parts | {"report": report.to_dict()}
        return members | {MODEL: json.dumps(data).encode()}

    return written


WHOLE = PureDP(20)


def apart(of_tree, of_tables, whole=WHOLE):
    """Return a tree and tables that were fitted apart, as parts of one charge."""
    with parts_of(Spending(whole, "add_remove", "exact")):
        return (
            fitted(LabelTreeClassifier, **of_tree),
            fitted(PosteriorForestClassifier, **of_tables),
        )


HALF = {"epsilon": 0.5}


def test_parts_that_share_as_planned_are_read_wherever_they_were_fitted(composed, read):
    """The positive control of what is refused below."""
    for half, whole in ((HALF, PureDP(1)), ({"rho": 0.04}, ZCDP(0.08))):
        tree, tables = apart(half, half, whole)
        loaded = read(composed(tree, tables))
        assert loaded.privacy_report_.statement.startswith("Private release")
        assert repr(whole) in loaded.privacy_report_.statement
        assert np.array_equal(loaded.tree_.predict_proba(X), tree.predict_proba(X))
        assert np.array_equal(loaded.tables_.predict_proba(X), tables.predict_proba(X))


TWICE, SEEDED = {"neighboring": "replace_one"}, {"noise": "research", "noise_state": 0}
OTHER = Domain.from_sizes(SIZES, n_classes=3)
RENAMED = Domain(DOMAIN.attributes[::-1], target=DOMAIN.target)
SHARES, UNLIKE = "the budget that the tree leaves", "the neighbours and the noise of the tree"
APART = {
    "more for the tree": ({"epsilon": 0.6}, {"epsilon": 0.4}, SHARES),
    "more for the tables": ({"epsilon": 0.4}, {"epsilon": 0.6}, SHARES),
    "half where a tenth is planned": ({"epsilon": 10}, {"epsilon": 10}, SHARES),
    "another law": (HALF, {"rho": 0.5}, "a budget of the tree's kind"),
    "one of no noise": (HALF, {"epsilon": float("inf")}, UNLIKE),
    "tables of fewer neighbours": (HALF | TWICE, HALF, UNLIKE),
    "a tree of fewer neighbours": (HALF, HALF | TWICE, UNLIKE),
    "seeded tables": (HALF, HALF | SEEDED, UNLIKE),
    "a seeded tree": (HALF | SEEDED, HALF, UNLIKE),
    "other classes": (HALF, HALF | {"domain": OTHER}, "domain: expected the same"),
    "other names": (HALF | {"domain": RENAMED}, HALF, "domain: expected the same"),
}
"""Honest parts that are none of one pooled forest: of the tree, of the tables, and the refusal."""


@pytest.mark.parametrize("what", APART)
def test_parts_of_different_forests_are_refused_by_name(composed, read, what):
    of_tree, of_tables, message = APART[what]
    members = composed(*apart(of_tree, of_tables))
    with pytest.raises(ModelFileError, match=re.escape(message)):
        read(members)


def renamed(members, old, new):
    return {new if name == old else name: content for name, content in members.items()}


ANY = b"\x93NUMPY"
MEMBERS = {
    "no counts": (lambda m: {k: v for k, v in m.items() if k != "tree/counts.npy"}, "arrays"),
    "no answers": (
        lambda m: {k: v for k, v in m.items() if k != "tables/answers.npy"},
        "arrays of its release",
    ),
    "an array more of the tree": (lambda m: m | {"tree/more.npy": ANY}, "other arrays"),
    "an array more of the tables": (
        lambda m: m | {"tables/more.npy": ANY},
        "arrays of its release",
    ),
    "an array of neither": (lambda m: m | {"more.npy": ANY}, "no arrays of its parts"),
    "an array of a third": (lambda m: m | {"trees/counts.npy": ANY}, "no arrays of its parts"),
    "counts without prefix": (
        lambda m: renamed(m, "tree/counts.npy", "counts.npy"),
        "no arrays of its parts",
    ),
    "counts of the tables": (
        lambda m: renamed(m, "tree/counts.npy", "tables/counts.npy"),
        "arrays",
    ),
    "answers without prefix": (
        lambda m: renamed(m, "tables/answers.npy", "answers.npy"),
        "no arrays of its parts",
    ),
}


@pytest.mark.parametrize("what", MEMBERS)
def test_arrays_that_are_not_those_of_the_parts_are_refused_by_name(members, read, what):
    assert {"tree/counts.npy", "tables/answers.npy", MODEL} <= set(members)
    change, message = MEMBERS[what]
    with pytest.raises(ModelFileError, match=message):
        read(change(members))


def swapped(data):
    return data | {"tree": data["tables"], "tables": data["tree"]}


def with_report(**changes):
    return lambda data: data | {"report": data["report"] | changes}


def claiming_half(data):
    """Return the data with a report that claims half of the budget, wherever it is named."""
    report = data["report"]
    text = json.dumps(report).replace("epsilon=1)", "epsilon=0.5)")
    less = json.loads(text.replace('"epsilon": "1"', '"epsilon": "1/2"'))
    return data | {"report": less}


def without_tables(data):
    """Return the data with the report of the tree in place of that of both."""
    return data | {"report": data["tree"]["report"]}


def with_records(data):
    """Return the data with a public number at which the tree would have a third."""
    return data | {"tree": data["tree"] | {"n_records": 1500}}


JSON = {
    "parts swapped": (swapped, "format"),
    "a tree of two files": (lambda data: data | {"tree": [data["tree"]]}, "tree: expected an obj"),
    "no tree": (lambda data: data | {"tree": None}, "tree: expected an object"),
    "tables a text": (lambda data: data | {"tables": "x"}, "tables: expected an object"),
    "no tables": (lambda data: {k: v for k, v in data.items() if k != "tables"}, "'tables'"),
    "a third part": (lambda data: data | {"more": {}}, "unknown keys"),
    "a version of tomorrow": (lambda data: data | {"schema_version": 4}, "schema_version=4"),
    "more records": (with_records, SHARES),
    "delta of one": (lambda data: data | {"delta": 1.0}, "delta"),
    "a delta that is not reported": (lambda data: data | {"delta": 1e-6}, "report"),
    "half of the budget": (with_report(budget="PureDP(epsilon=0.5)"), "report: budget"),
    "half of the claim": (claiming_half, "The file claims more privacy"),
    "the tree's report": (without_tables, "report"),
    "no measurements": (with_report(measurements=[]), "report"),
    "another relation": (with_report(neighboring="replace_one"), "report: neighboring"),
    "no noise": (with_report(noise="none"), "report: noise"),
}


@pytest.mark.parametrize("what", JSON)
def test_what_does_not_agree_is_refused_by_name(members, read, what):
    change, message = JSON[what]
    data = change(json.loads(members[MODEL]))
    with pytest.raises(ModelFileError, match=re.escape(message)):
        read(members | {MODEL: json.dumps(data).encode()})


def test_notes_are_the_writers_word(members, read):
    """The positive control: a file is not refused because it was changed."""
    data = with_report(notes=["a note"])(json.loads(members[MODEL]))
    loaded = read(members | {MODEL: json.dumps(data).encode()})
    assert loaded.privacy_report_.notes == ("a note",)


@pytest.mark.filterwarnings("ignore::mrf_matrix.PrivacyLeakWarning")
@pytest.mark.parametrize("part", ["tree", "tables", None])
def test_what_denies_of_a_part_is_claimed_of_no_whole(tmp_path, unzipped, read, part):
    """Domains that were read off the records: each part says so, and so must the report of both."""
    model = PooledForestClassifier("from_data", n_records=N, random_state=0).fit(X, Y)
    public = Domain.from_dict(model.domain_.to_dict() | {"is_read_off": False})
    private = PooledForestClassifier(public, n_records=N, random_state=0).fit(X, Y)
    for one, path in ((model, "m"), (private, "p")):
        save_model(one, tmp_path / path, allow_nonprivate=True)
    assert load_model(tmp_path / "m").privacy_report_ == model.privacy_report_
    [denies, claims] = [unzipped((tmp_path / path).read_bytes()) for path in "mp"]
    data = [json.loads(one[MODEL]) for one in (denies, claims)]
    if part is None:
        assert read(claims).privacy_report_.statement.startswith("Private release")
        return
    with pytest.raises(ModelFileError, match="domain: expected the same"):
        read(claims | {MODEL: json.dumps(data[1] | {part: data[0][part]}).encode()})
    holds = data[0][part] if part == "tree" else data[0][part]["release"]
    assert holds["domain"].pop("is_read_off")  # as a writer who edits files may do
    mixed = data[1] | {part: data[0][part]}
    arrays = {k: v for k, v in claims.items() if not k.startswith(f"{part}/")}
    arrays |= {k: v for k, v in denies.items() if k.startswith(f"{part}/")}
    with pytest.raises(ModelFileError, match="report"):
        read(arrays | {MODEL: json.dumps(mixed).encode()})
    mixed["report"] = data[0]["report"] | {"public": mixed["report"]["public"]}
    with pytest.raises(ModelFileError, match="report"):  # parts of two charges are no whole
        read(arrays | {MODEL: json.dumps(mixed).encode()})
