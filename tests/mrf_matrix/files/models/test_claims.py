"""A model file cannot claim what its own content contradicts; what it can, the docs say."""

import json
import zipfile

import numpy as np
import pytest

from mrf_matrix import MatrixForestClassifier, load_dataset, load_model, save_model
from mrf_matrix.estimators import PosteriorForestClassifier

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


def matrix(**parameters):
    settings = {"epsilon": 50, "n_trees": 4, "max_depth": 2, "strategy": "identity"} | parameters
    return MatrixForestClassifier(DATA.domain, random_state=0, **settings).fit(DATA.X, DATA.y)


@pytest.fixture
def read(reader):
    return reader(load_model, "again.mrf")


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
