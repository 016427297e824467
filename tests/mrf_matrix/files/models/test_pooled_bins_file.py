"""The file of a pooled forest whose tables hold neighbouring codes together."""

import json
import re

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from mrf_matrix import (
    Domain,
    LabelTreeClassifier,
    PooledForestClassifier,
    PosteriorForestClassifier,
    load_model,
    save_model,
)
from mrf_matrix.files.models import ModelFileError

N = 900
DOMAIN = Domain.from_sizes([10, 3, 8], n_classes=2)
RNG = np.random.default_rng(3)
RECORDS = RNG.integers(0, DOMAIN.sizes, size=(N, 3))
Y = (RNG.random(N) < RECORDS[:, 0] / 9).astype(int)
COMMON = {"n_records": N, "random_state": 0}


@pytest.fixture(scope="module")
def fitted():
    return PooledForestClassifier(DOMAIN, epsilon=1, **COMMON).fit(RECORDS, Y)


def test_the_file_predicts_identically_and_holds_both_domains(fitted, tmp_path):
    save_model(fitted, tmp_path / "m")
    loaded = load_model(tmp_path / "m")
    assert loaded.domain_ == DOMAIN
    assert loaded.tables_.domain_.sizes == (5, 3, 4)
    assert_array_equal(loaded.predict_proba(RECORDS), fitted.predict_proba(RECORDS))
    assert_array_equal(loaded.vote_intervals(RECORDS), fitted.vote_intervals(RECORDS))
    assert loaded.privacy_report_ == fitted.privacy_report_


def test_a_file_whose_tables_have_all_codes_is_refused(fitted, tmp_path, unzipped, reader):
    """Honest parts, with tables over the tree's codes, are none of one pooled forest."""
    save_model(fitted, tmp_path / "m")
    members = unzipped((tmp_path / "m").read_bytes())
    shares = fitted.plan_.tree.budget.exact, fitted.plan_.tables.budget.exact
    made = (
        LabelTreeClassifier(DOMAIN, epsilon=shares[0], **COMMON).fit(RECORDS, Y),
        PosteriorForestClassifier(DOMAIN, epsilon=shares[1], **COMMON).fit(RECORDS, Y),
    )
    data = json.loads(members["model.json"])
    kept = {"model.json": members["model.json"]}
    for part, model in zip(("tree", "tables"), made, strict=True):
        save_model(model, tmp_path / part)
        inner = unzipped((tmp_path / part).read_bytes())
        data[part] = json.loads(inner.pop("model.json"))
        kept |= {f"{part}/{name}": content for name, content in inner.items()}
    kept["model.json"] = json.dumps(data).encode()
    read = reader(load_model, "model.mrf")
    with pytest.raises(ModelFileError, match=re.escape("fewer bins of tables of two classes")):
        read(kept)
    assert read(members).domain_ == DOMAIN, "the positive control"
