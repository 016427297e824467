"""A model file cannot claim what its own content contradicts; what it can, the docs say."""

import json
import re
import zipfile
from fractions import Fraction

import numpy as np
import pytest

from mrf_matrix import MatrixForestClassifier, load_dataset, load_model, save_model
from mrf_matrix.estimators import PosteriorForestClassifier
from mrf_matrix.files.container import ModelFileError, bytes_of

MODEL = "model.json"
DATA = load_dataset("monks_1")
PURE = "Private release: PureDP(epsilon=50) under add_remove neighbours"


def members_of(model, folder, **options):
    save_model(model, folder / "model.mrf", allow_nonprivate=True, **options)
    with zipfile.ZipFile(folder / "model.mrf") as file:
        return {name: file.read(name) for name in file.namelist()}


def posterior(**parameters):
    settings = {"epsilon": 50, "n_blocks": 3, "random_state": 0} | parameters
    return PosteriorForestClassifier(DATA.domain, **settings).fit(DATA.X, DATA.y)


@pytest.fixture(autouse=True)
def leaves_alone(monkeypatch):
    """Write forests whose strategies are too large for a file."""
    monkeypatch.setattr("mrf_matrix.files.models.model_file.MOST_BYTES", 1 << 9)


def matrix(**parameters):
    settings = {"epsilon": 50, "n_trees": 4, "max_depth": 2, "strategy": "identity"} | parameters
    return MatrixForestClassifier(DATA.domain, random_state=0, **settings).fit(DATA.X, DATA.y)


@pytest.fixture
def read(reader):
    return reader(load_model, "again.mrf")


def with_report(members, **changes):
    model = json.loads(members[MODEL])
    return members | {MODEL: json.dumps(model | {"report": model["report"] | changes}).encode()}


def replaced_everywhere(members, old, new):
    """Replace a text wherever the report has it: a forger who is thorough about words."""
    model = json.loads(members[MODEL])
    text = json.dumps(model["report"]).replace(old, new)
    assert text != json.dumps(model["report"])
    amount = re.compile(r"\((\w+)=(.*)\)")
    (kind, was), (_, now) = (amount.search(one).groups() for one in (old, new))
    text = text.replace(f'"{kind}": "{was}"', f'"{kind}": "{Fraction(now)}"')
    return members | {MODEL: json.dumps(model | {"report": json.loads(text)}).encode()}


# -- kinds that have a plan: the report follows from it -------------------------------------------


def test_notes_are_the_writers_word(tmp_path, read):
    members = members_of(posterior(), tmp_path)
    changed = json.loads(members[MODEL]) | {"notes": ["made in a hurry"]}
    loaded = read(members | {MODEL: json.dumps(changed).encode()})
    assert loaded.privacy_report_.notes == ("made in a hurry",)


@pytest.mark.filterwarnings("ignore::mrf_matrix.domain.PrivacyLeakWarning")
def test_a_report_may_deny_what_its_release_claims(tmp_path, read):
    model = PosteriorForestClassifier("from_data", n_blocks=3, random_state=0).fit(DATA.X, DATA.y)
    members = members_of(model, tmp_path)
    assert read(members).privacy_report_ == model.privacy_report_
    assert "read off the records" in read(members).privacy_report_.statement


@pytest.mark.parametrize("make", [posterior, matrix])
def test_displays_of_what_is_no_private_release_say_so(tmp_path, read, make):
    for other in ({"noise": "research"}, {"epsilon": np.inf}):
        loaded = read(members_of(make(**other), tmp_path))
        assert "NOT A PRIVATE RELEASE" in repr(loaded)
        assert "NOT A PRIVATE RELEASE" in loaded.privacy_report_._repr_html_()
        assert "NOT A PRIVATE RELEASE" in str(loaded.privacy_report_)
    assert "NOT" not in repr(read(members_of(make(), tmp_path)))


# -- matrix forests: no release, but nothing in the file may contradict the rest ------------------


def test_the_words_of_a_matrix_forest_agree(tmp_path, read):
    members = members_of(matrix(), tmp_path)
    report = read(members).privacy_report_
    assert report.statement.startswith(PURE)  # the control
    for name, value in (
        ("statement", report.statement.replace("50", "0.01")),
        ("statement", "Perfectly safe."),
        ("budget", "PureDP(epsilon=0.01)"),
        ("budget", "PureDP(epsilon=-1)"),
        ("budget", "a little"),
        ("neighboring", "replace_one"),
        ("noise", "research"),
        ("noise", "none"),
        ("expected_rms_per_leaf", 1.01 * report.expected_rms_per_leaf + 0.1),
        ("expected_rms_per_leaf", None),
        ("measurements", []),
        ("law", "discrete Laplace noise of scale 1000"),
        ("n_answers", 1),
        ("measured", "nothing"),
    ):
        with pytest.raises(ModelFileError, match="report"):
            read(with_report(members, **{name: value}))


def test_a_smaller_budget_needs_more_noise_than_the_law_has(tmp_path, read):
    members = members_of(matrix(), tmp_path)
    with pytest.raises(ModelFileError, match=r"law .* needs"):
        read(replaced_everywhere(members, "PureDP(epsilon=50)", "PureDP(epsilon=0.01)"))
    gaussian = members_of(matrix(epsilon=None, rho=5), tmp_path)
    with pytest.raises(ModelFileError, match=r"law .* needs"):
        read(replaced_everywhere(gaussian, "ZCDP(rho=5)", "ZCDP(rho=0.5)"))
    assert read(replaced_everywhere(gaussian, "ZCDP(rho=5)", "ZCDP(rho=6)"))  # claims less: true


@pytest.mark.parametrize("other", [{"noise": "research", "noise_state": 0}, {"epsilon": np.inf}])
def test_research_noise_and_none_are_not_relabelled_by_a_word(tmp_path, read, other):
    members = members_of(matrix(**other), tmp_path)
    assert read(members).privacy_report_.noise != "exact"
    with pytest.raises(ModelFileError, match="report"):
        read(with_report(members, statement=f"{PURE}, exact discrete Laplace noise of scale 1."))
    if "noise" not in other:
        with pytest.raises(ModelFileError, match="report"):
            read(with_report(members, noise="exact"))


def test_noise_that_is_not_there_is_not_claimed(tmp_path, read):
    members = members_of(matrix(), tmp_path)
    shape = json.loads(members[MODEL])["ensembles"][0]["shapes"]["node_variances"]
    members["ensemble_0/node_variances.npy"] = bytes_of(np.zeros(shape))
    with pytest.raises(ModelFileError, match="node_variances"):
        read(members)


def test_the_budgets_of_ensembles_add_up(tmp_path, read):
    members = members_of(matrix(n_ensembles=3, budget_shares=[1, 2, 4]), tmp_path)
    assert read(members).privacy_report_.budget == "PureDP(epsilon=50)"
    with pytest.raises(ModelFileError, match="add up to"):
        read(replaced_everywhere(members, "PureDP(epsilon=50)", "PureDP(epsilon=49)"))
    measured = json.loads(members[MODEL])["report"]["measurements"]
    measured[0]["budget"] = re.sub(r"=.*\)", "=1/7)", measured[0]["budget"])
    with pytest.raises(ModelFileError, match="needs"):
        read(with_report(members, measurements=measured))
