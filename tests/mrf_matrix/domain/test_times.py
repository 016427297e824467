"""Dates and times are read alike in whatever holds them, and are no numbers."""

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from mrf_matrix import Attribute, Domain
from mrf_matrix.domain import DomainError


def test_dates_are_those_on_the_wall_with_and_without_zones():
    domain = Domain([Attribute("t", edges=["2020-01-01", "2020-01-02", "2020-01-03"])])
    texts = ["2020-01-01T00:30+02:00", "2020-01-02T23:30+02:00", "2020-01-02"]
    times = [dt.datetime.fromisoformat(one) for one in texts[:2]]
    aware = pd.Series(pd.to_datetime(pd.Series(texts[:2])))
    assert domain.encode({"t": texts}).ravel().tolist() == [0, 1, 1]
    for held in (times, aware, aware.dt.tz_localize(None), pl.Series(aware), pa.array(aware)):
        assert domain.encode({"t": held}).ravel().tolist() == [0, 1]


@pytest.mark.parametrize("mark", ["1900-01-01", "19000101", 19000101])
def test_a_mark_that_is_a_date_is_that_date_in_every_form(mark):
    edges = ["2020-01-01", "2020-01-02"]
    attribute = Attribute(
        "t", edges=edges, outside="open", missing="category", missing_values=[mark, 99]
    )
    domain, day = Domain([attribute]), dt.date(1900, 1, 1)
    for held in (
        ["1900-01-01", "19000101", " 1900-01-01T00:00 ", "99"], [19000101, 19000101.0, 99],
        np.array([19000101, 99]), np.array([19000101.0, np.nan]), [day, dt.datetime(1900, 1, 1)],
        np.array([day, None], "M8[D]"), pd.to_datetime(pd.Series([day])), pl.Series([day, None]),
        pa.array([day]), pa.array([day]).dictionary_encode(),
    ):  # fmt: skip
        assert set(domain.encode({"t": held}).ravel()) == {attribute.missing_code}, held
    assert domain.encode({"t": [20200101, 19000102]}).ravel().tolist() == [1, 0]


def test_dates_that_are_numbers_may_be_missing():
    edges = ["2020-01-01", "2020-01-02"]
    domain = Domain([Attribute("t", edges=edges, missing="category")])
    for values in ([20200101, None], [None, None]):
        truth = [0 if one else 1 for one in values]
        for held in (
            pd.Series(values, dtype=float), pd.Series(values, dtype="Int64"),
            pl.Series(values, dtype=pl.Int64), pa.array(values, pa.int32()),
            np.ma.masked_array([20200101, 5], mask=[one is None for one in values]), values,
        ):  # fmt: skip
            assert domain.encode({"t": held}).ravel().tolist() == truth


def test_the_last_moment_of_a_day_lies_on_it():
    domain = Domain([Attribute("t", edges=["2020-01-01", "2020-01-02", "2020-01-03"])])
    text = "2020-01-01T23:59:59.999999999"
    for held in ([text], np.array([text], "M8[ns]"), pd.Series([pd.Timestamp(text)])):
        assert domain.encode({"t": held}).tolist() == [[0]]


TIMES = [np.array([3], "M8[ns]"), np.array([3], "m8[ns]"), pd.Series([dt.timedelta(3)])]


@pytest.mark.parametrize("values", [*TIMES, pl.Series([[1]], dtype=pl.Array(pl.Int64, 1))])
@pytest.mark.parametrize("known", [{"size": 9}, {"edges": [0, 9]}], ids=["size", "edges"])
def test_times_and_lists_are_no_numbers(values, known):
    with pytest.raises(DomainError):
        Domain([Attribute("a", **known)]).encode({"a": values})


def test_one_moment_in_two_zones_is_two_times_on_the_wall():
    domain = Domain([Attribute("t", edges=["2019-12-31", "2020-01-01", "2020-01-02"])])
    texts = ["2020-01-01T00:30+02:00", "2019-12-31T22:30+00:00"]
    times = [dt.datetime.fromisoformat(one) for one in texts]
    assert times[0] == times[1]
    for held in (texts, times, times[::-1], np.array(times, dtype=object)):
        alone = [domain.encode({"t": [one]}).item() for one in held]
        assert sorted(alone) == [0, 1]
        assert domain.encode({"t": held}).ravel().tolist() == alone
