"""Counting beside a blocked bincount and polars' group-by; the cluster's model at two sizes.

Run with ``pytest tests/benchmarks/test_counting.py --benchmark-only -s``. Ratios of one run, for
times of a shared machine mean nothing; each is the best of several rounds.
"""

from time import perf_counter, process_time
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from cluster_cost import cluster_cost, measure_throughput

from mrf_matrix import Domain, count_stream
from mrf_matrix.domain import Attribute
from mrf_matrix.estimators import PosteriorForestClassifier
from mrf_matrix.streams import count_dask

SIZES, K, N = (4, 4, 4, 3, 3, 3, 5, 6), 4, 5_000_000
DOMAIN = Domain.from_sizes(SIZES, n_classes=K)


@pytest.fixture(scope="module")
def columns():
    generator = np.random.default_rng(0)
    names = [*DOMAIN.names, "class"]
    return {
        name: generator.integers(0, size, N, dtype=np.uint8)
        for name, size in zip(names, (*SIZES, K), strict=True)
    }


def blocked_bincount(columns):
    """Count by NumPy alone: Horner's rule and a bincount, block by block, nothing checked."""
    entries, block = DOMAIN.size * K, 2**16
    table = np.zeros(entries, dtype=np.int64)
    for start in range(0, N, block):
        keys = np.zeros(min(block, N - start), dtype=np.int32)
        for column, size in zip(columns.values(), (*SIZES, K), strict=True):
            keys *= size
            keys += column[start : start + block]
        table += np.bincount(keys, minlength=entries)
    return table


def best(function, *arguments, rounds=5, clock=perf_counter):
    times = []
    for _ in range(rounds):
        start = clock()
        function(*arguments)
        times.append(clock() - start)
    return min(times)


def test_counting_in_memory(benchmark, columns):
    benchmark.pedantic(count_stream, (columns, DOMAIN), rounds=5, warmup_rounds=1)
    own = {"clock": process_time}  # neither has threads
    ratio = best(count_stream, columns, DOMAIN, **own) / best(blocked_bincount, columns, **own)
    frame = pl.DataFrame(columns)
    ahead = best(lambda: frame.group_by(frame.columns).len(), rounds=3) / benchmark.stats["min"]
    print(f"\n{ratio:.2f} of a blocked bincount; polars' group-by takes {ahead:.1f} times as long")
    assert ratio < 2.5
    assert ahead > 1


def test_fit_from_a_file(benchmark, columns, tmp_path):
    pl.DataFrame(columns).write_parquet(tmp_path / "x.parquet")
    paths = 4 * [tmp_path / "x.parquet"]
    model = PosteriorForestClassifier(DOMAIN, random_state=0)
    benchmark.pedantic(model.fit_stream, (paths,), rounds=1, warmup_rounds=1)
    told = {"rounds": 3, "clock": process_time}
    ratio = best(model.fit_stream, paths, **told) / best(count_stream, paths, DOMAIN, **told)
    print(f"\nfit takes {ratio:.2f} of reading and counting")
    assert ratio < 1.5


def test_the_clusters_model_at_two_sizes(benchmark, columns, tmp_path):
    from distributed import Client, LocalCluster

    frame, found = pl.DataFrame(columns), []
    for number in range(8):
        frame[number::8].write_parquet(tmp_path / f"{number}.parquet")
    told = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    with LocalCluster(**told) as local, Client(local) as client:
        for parts in (8, 32):
            paths = [tmp_path / f"{i % 8}.parquet" for i in range(parts)]
            cores = client.run(measure_throughput, tmp_path / "0.parquet", DOMAIN).values()
            core = max(cores, key=lambda one: one.seconds_a_record)
            taken = best(count_dask, paths, DOMAIN, client, rounds=3)
            expected = cluster_cost(DOMAIN, parts * N // 8, parts, 2, core).seconds
            found.append(taken / expected)
            print(f"\n{parts} partitions: {taken:.2f} s, expected {expected:.2f} s")
    benchmark.pedantic(measure_throughput, (tmp_path / "0.parquet", DOMAIN), rounds=1)
    assert all(0.4 < ratio < 2.5 for ratio in found)


# Encoding -----------------------------------------------------------------------------------------


ENCODED_N, WIDTH = 1_000_000, 20
CATEGORIES = ["vhigh", "high", "med", "low", "5more", "small", "big"]
NAMES = [f"c{i}" for i in range(WIDTH)]
TEXT = Domain([Attribute(name, categories=CATEGORIES) for name in NAMES])
NUMBERS = Domain([Attribute(name, edges=range(11)) for name in NAMES])


def text_columns() -> dict[str, Any]:
    generator = np.random.default_rng(0)
    words = np.array(CATEGORIES, dtype=object)
    return {name: words[generator.integers(0, len(words), ENCODED_N)] for name in NAMES}


def records(form: str) -> tuple[Domain, Any]:
    if form == "floats":
        return NUMBERS, np.random.default_rng(0).uniform(0, 10, (ENCODED_N, WIDTH))
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
    assert codes.shape == (ENCODED_N, WIDTH)
