"""Benchmark: a million records with twenty attributes (pytest --benchmark-only)."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from mrf_matrix.domain import Attribute, Domain

N, WIDTH = 1_000_000, 20
CATEGORIES = ["vhigh", "high", "med", "low", "5more", "small", "big"]
NAMES = [f"c{i}" for i in range(WIDTH)]
TEXT = Domain([Attribute(name, categories=CATEGORIES) for name in NAMES])
NUMBERS = Domain([Attribute(name, edges=range(11)) for name in NAMES])


def text_columns() -> dict[str, Any]:
    generator = np.random.default_rng(0)
    words = np.array(CATEGORIES, dtype=object)
    return {name: words[generator.integers(0, len(words), N)] for name in NAMES}


def records(form: str) -> tuple[Domain, Any]:
    if form == "floats":
        return NUMBERS, np.random.default_rng(0).uniform(0, 10, (N, WIDTH))
    columns = text_columns()
    if form == "objects":
        return TEXT, np.column_stack(list(columns.values()))
    if form == "fixed-width text":
        return TEXT, np.column_stack(list(columns.values())).astype("U5")
    if form.startswith("pandas"):
        frame = pd.DataFrame(columns)
        return TEXT, frame.astype("category") if form.endswith("category") else frame
    polars = pl.DataFrame({name: values.tolist() for name, values in columns.items()})
    return TEXT, polars.to_arrow() if form == "arrow" else polars


FORMS = ["floats", "objects", "fixed-width text", "pandas", "pandas category", "polars", "arrow"]


@pytest.mark.parametrize("form", FORMS)
def test_encode_a_million_records(form: str, benchmark: Any) -> None:
    domain, table = records(form)
    codes = benchmark.pedantic(domain.encode, args=(table,), rounds=3)
    assert codes.shape == (N, WIDTH)
