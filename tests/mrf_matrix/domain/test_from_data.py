"""A domain from records works, and always says that it is not private."""

import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from mrf_matrix.domain import Domain, DomainError, PrivacyLeakWarning

COLUMNS: dict[str, list[Any]] = {
    "text": ["b", "a", None, "b"] * 10,
    "flag": [True, False, True, True] * 10,
    "few": [3, 1, 3, 1] * 10,
    "many": [float(i) for i in range(40)],
}


@pytest.mark.parametrize("make", [dict, pd.DataFrame, pl.DataFrame, pa.table])
def test_from_data_fits_its_records(make: Any) -> None:
    records = make(COLUMNS)
    with pytest.warns(PrivacyLeakWarning, match="nothing that uses it is differentially private"):
        domain = Domain.from_data(records, ["n", "p"] * 20, max_bins=4)
    assert domain.names == tuple(COLUMNS)
    assert domain.sizes == (3, 2, 2, 4)
    assert domain.attributes[2].labels == ("(-inf, 2.0)", "[2.0, inf)")
    assert domain.attributes[0].labels == ("a", "b", "(missing)")
    assert domain.classes == ("n", "p")
    codes = domain.encode(records)
    assert np.bincount(codes[:, 3]).tolist() == [10, 10, 10, 10]
    later = {"text": ["a"], "flag": [True], "few": [99], "many": [-5.5]}
    assert domain.encode(later).tolist() == [[0, 1, 1, 0]]


def test_arrays_get_names() -> None:
    with pytest.warns(PrivacyLeakWarning):
        domain = Domain.from_data(np.arange(20.0).reshape(10, 2), max_bins=3)
    assert domain.names == ("x0", "x1")
    assert domain.target is None
    with pytest.warns(PrivacyLeakWarning):
        assert Domain.from_data([[1, "a"], [2, "b"]]).sizes == (2, 2)


@pytest.mark.parametrize(
    ("records", "options", "words"),
    [
        ({"a": [None, None]}, {}, "no values"),
        ({"a": [str(i) for i in range(99)]}, {}, "more than max_categories=64 distinct"),
        ({"a": [float("inf")]}, {}, "no finite values"),
        ({"a": [1]}, {"max_bins": 0}, "max_bins=0"),
        ({"a": [1]}, {"max_categories": True}, "max_categories=True"),
        (np.zeros(3), {}, "1 dimensions; expected two"),
    ],
)
def test_what_has_no_domain(records: Any, options: dict[str, Any], words: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        with pytest.raises(DomainError, match=words):
            Domain.from_data(records, **options)


def test_a_target_called_class_does_not_clash() -> None:
    with pytest.warns(PrivacyLeakWarning):
        domain = Domain.from_data({"class": [1, 2]}, [0, 1])
    assert domain.target is not None
    assert domain.target.name == "target"
