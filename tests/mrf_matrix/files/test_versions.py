"""Files of another version are refused as such, whatever keys they have beside those we know."""

import json
import re
import zipfile
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from damage import unzip, zip_of

import mrf_matrix
from mrf_matrix import (
    Domain,
    PrivacyLedger,
    PureDP,
    load_model,
    load_release,
    measure,
    save_model,
    save_release,
)
from mrf_matrix.estimators import LabelTreeClassifier
from mrf_matrix.mechanisms import count_cells
from strategies.operators import Identity

SIZES = (3, 2)
DOMAIN = Domain.from_sizes(SIZES, n_classes=2)
X = np.random.default_rng(0).integers(0, SIZES, size=(60, 2))
Y = X[:, 1]


def model_of(make, **given):
    return lambda path: save_model(make(DOMAIN, random_state=0, **given).fit(X, Y), path)


def write_release(path):
    counts = count_cells(X, Y, SIZES, 2)
    save_release(measure(Identity(6, SIZES), counts, PureDP(1)), path, DOMAIN)


FORMATS = {
    "mrf_matrix.learned_model": (model_of(LabelTreeClassifier), load_model),
    "mrf_matrix.release": (write_release, load_release),
    "mrf_matrix.ledger": (lambda path: PrivacyLedger.open(path, epsilon=1), PrivacyLedger.open),
    "mrf_matrix.domain": (DOMAIN.save, Domain.load),
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
