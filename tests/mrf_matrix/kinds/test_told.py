"""What models tell of how they came about: blocks, screening, the coins of studies."""

import numpy as np
import pytest

from mrf_matrix import (
    Domain,
    MatrixForestClassifier,
    PrivateForestClassifier,
    load_model,
    save_model,
)
from mrf_matrix.estimators import PosteriorForestClassifier

RESEARCH = {"noise": "research", "noise_state": 0, "random_state": 0}
GIVEN, ASKED, CHOSEN = (
    "blocks were given",
    "blocks of all attributes were asked for",
    "domain alone",
)


def report_of(model, sizes, k, n=400):
    rng = np.random.default_rng(0)
    codes = np.stack([rng.integers(0, size, n) for size in sizes], axis=1)
    return model.fit(codes, rng.integers(0, k, n)).report_.to_html()


@pytest.mark.parametrize(
    ("design", "said"),
    [
        ({"blocks": [[0], [1, 2]]}, GIVEN),
        ({"n_blocks": 2}, f"2 {ASKED}"),
        ({}, f"{CHOSEN}, for hundreds to ten thousand records"),
        ({"n_records": 500}, f"{CHOSEN}, for the public number of 500 records"),
    ],
    ids=str,
)
def test_it_is_told_how_blocks_were_chosen(design, said):
    sizes = (3, 2, 2)
    model = PosteriorForestClassifier(Domain.from_sizes(sizes, 2), **design, **RESEARCH)
    told = report_of(model, sizes, 2)
    assert said in told
    assert sum(one in told for one in (GIVEN, ASKED, CHOSEN)) == 1


@pytest.mark.parametrize(
    ("sizes", "options"),
    [([3] * 40, {"epsilon": 0.004, "n_records": 140_000}), ([3, 2], {"epsilon": 5})],
    ids=["screened", "not"],
)
def test_it_is_told_what_screening_came_to(sizes, options, tmp_path):
    model = PrivateForestClassifier(Domain.from_sizes(sizes, 6), **options, **RESEARCH)
    told = report_of(model, sizes, 4)
    assert (model.plan_.screening is not None) == ("n_records" in options)
    assert ("screening kept" in told) == ("n_records" in options)
    assert "few attributes do not tell enough" not in told
    assert model.forest_plan_.kind.name == "tables"
    assert "the domain and the classes" in told
    structure = "the forest&#x27;s structure"  # of blocks that records chose it is not public
    assert (structure in told) == ("n_records" not in options)
    assert ("the shares of all choices" in told) == ("n_records" in options)
    if model.plan_.screening is None:
        return
    save_model(model, tmp_path / "model.mrf", allow_nonprivate=True)
    of_file, own = (one.model_.plan for one in (load_model(tmp_path / "model.mrf"), model))
    assert of_file.steps[-1] == own.steps[-1], "what follows is of the tables that were kept"


def test_ensembles_of_a_study_throw_coins_of_their_own():
    """Where each record is counted in one tree only; a private release keeps no seed of them."""
    same = {"n_ensembles": 8, "max_features": 2, "n_trees": 8, "allocation": "disjoint"}
    domain = Domain.from_sizes([3, 2, 2], 2)
    coins = MatrixForestClassifier(domain, **same, **RESEARCH).plan().coins
    assert len(set(coins)) == 8
    assert max(coins) > 2**58, "of all seeds of 63 bits"
    assert MatrixForestClassifier(domain, **same, random_state=0).plan().coins == ()
