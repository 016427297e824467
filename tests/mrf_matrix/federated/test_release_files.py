"""Releases of shares in files: carried whole, and refused where they claim too much."""

import json
import zipfile
from fractions import Fraction

import numpy as np
import pytest

from mrf_matrix import (
    RandomTrees,
    from_release,
    load_dataset,
    load_release,
    save_model,
    save_release,
)
from mrf_matrix.federated import federate, release_of
from mrf_matrix.files import ReleaseFileError
from mrf_matrix.files.container import ModelFileError
from mrf_matrix.mechanisms import ZCDP, PureDP
from strategies.operators import Identity

CAR = load_dataset("car")
SIZES = CAR.domain.sizes


def release(budget, contributors=6, **options):
    strategy = Identity(int(np.prod(SIZES)), SIZES)
    design = federate(strategy, budget, parties=7, dropouts=2, n_classes=4, **options)
    drawn = np.arange(design.length)
    return release_of(design, drawn, SIZES, contributors=contributors, domain=CAR.domain)


@pytest.mark.parametrize(
    "made",
    [release(PureDP(1)), release(PureDP(1), colluders=2), release(ZCDP(Fraction(1, 10)))],
    ids=["pure", "colluders", "zcdp"],
)
def test_releases_of_shares_go_into_files_and_back(tmp_path, made):
    save_release(made, tmp_path / "shared.mrf")
    again = load_release(tmp_path / "shared.mrf")
    assert np.array_equal(again.answers, made.answers)
    assert again.law == made.law
    assert again.quorum == made.quorum
    assert again.statement == made.statement
    assert again.is_private


def rewritten(path, change):
    with zipfile.ZipFile(path) as old:
        members = {name: old.read(name) for name in old.namelist()}
    data = json.loads(members["release.json"])
    change(data)
    members["release.json"] = json.dumps(data).encode()
    with zipfile.ZipFile(path, "w") as new:
        for name, content in members.items():
            new.writestr(name, content)


@pytest.mark.parametrize(
    ("budget", "change"),
    [
        (PureDP(1), {"shape": "1/2"}),
        (PureDP(1), {"shape": "3"}),
        (PureDP(1), {"colluders": 4}),
        (PureDP(1), {"parties": "7"}),
        (PureDP(1), {"dropouts": 9}),
        (ZCDP(1), {"contributors": 4}),
        (ZCDP(1), {"contributors": 8}),
        (ZCDP(1), {"dropouts": 3}),
    ],
)
def test_files_that_claim_more_than_their_noise_gives_are_refused(tmp_path, budget, change):
    path = tmp_path / "shared.mrf"
    save_release(release(budget), path)
    rewritten(path, lambda data: None)
    load_release(path)
    rewritten(path, lambda data: data["shares"].update(change))
    with pytest.raises(ReleaseFileError):
        load_release(path)


def test_shares_without_a_quorum_and_exact_noise_with_one_are_refused(tmp_path):
    path = tmp_path / "shared.mrf"
    for change in (lambda data: data.pop("shares"), lambda data: data.update(noise="exact")):
        save_release(release(PureDP(1)), path)
        rewritten(path, change)
        with pytest.raises(ReleaseFileError):
            load_release(path)


def test_forests_follow_from_a_federated_release_and_say_on_whom_they_rest(tmp_path):
    model = from_release(release(PureDP(1)), forest=RandomTrees(4, 2), random_state=0)
    assert model.predict(CAR.X).shape == (len(CAR.X),)
    assert "conditional on at least 5 parties of 7" in model.privacy_report_.statement
    with pytest.raises(ModelFileError, match="save_release"):
        save_model(model, tmp_path / "model.mrf")
