"""Scikit-learn's sets under public bin edges."""

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from sklearn import datasets as scikit

from mrf_matrix.datasets import load_dataset
from mrf_matrix.datasets.built_in import SCIKIT_SETS

NAMES = [item.name for item in SCIKIT_SETS]


@pytest.mark.parametrize("name", NAMES)
def test_values_and_classes_are_scikit_learns(name: str) -> None:
    data = load_dataset(name)
    bunch = getattr(scikit, f"load_{name}")()
    np.testing.assert_array_equal(np.column_stack(list(data.columns.values())), bunch.data)
    np.testing.assert_array_equal(data.labels, bunch.target)
    assert list(data.domain.classes) == list(bunch.target_names)
    if name != "iris":
        assert list(data.domain.names) == list(bunch.feature_names)


@pytest.mark.parametrize("name", NAMES)
def test_every_bin_is_used(name: str) -> None:
    """Edges in the wrong unit, or swapped between attributes, would leave bins empty."""
    data = load_dataset(name)
    for i, size in enumerate(data.domain.sizes):
        counts = np.bincount(data.codes[:, i], minlength=size)
        # the published cut-offs of iris have a bin, 2 to 3 cm, between two species
        assert counts.min() > 0 or name == "iris", data.domain.names[i]
        assert counts.max() < 0.9 * data.n_records, data.domain.names[i]


@pytest.mark.parametrize("name", ["wine", "breast_cancer"])
def test_edges_lie_within_the_published_range(name: str) -> None:
    """The published range stands in the set's description; no data is needed to choose edges."""
    description = getattr(scikit, f"load_{name}")().DESCR
    data = load_dataset(name)
    table = re.findall(r"^(\S.*?): +([\d.]+) +([\d.]+)", description, flags=re.M)
    ranges = [(float(low), float(high)) for _, low, high in table]
    assert len(ranges) == data.domain.n_attributes
    for attribute, (low, high) in zip(data.domain.attributes, ranges, strict=True):
        edges = attribute.edges or ()
        assert low <= edges[0] < edges[-1] <= high, attribute
        assert attribute.bins[0][0] == -math.inf


def test_iris_has_the_published_cutoffs(shared_dir: Path) -> None:
    schema = json.loads((shared_dir / "data/schemas/iris_schema.json").read_text())
    domain = load_dataset("iris").domain
    assert domain.size == 360
    for attribute, published in zip(domain.attributes, schema["attributes"], strict=False):
        assert attribute.name == published["name"]
        assert attribute.edges == tuple(published["cutoffs"])
        assert attribute.size == len(published["categories"])
