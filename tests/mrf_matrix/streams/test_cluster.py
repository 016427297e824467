"""Partitions on any Dask scheduler: the same counts, also where a worker dies."""

import os
import pickle
import signal
from pathlib import Path

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pytest
from dask import delayed
from distributed import Client, LocalCluster

from mrf_matrix import load_dataset, tune
from mrf_matrix.domain import DomainError
from mrf_matrix.mechanisms import count_cells
from mrf_matrix.streams import cluster, count_dask
from mrf_matrix.study import compare

CAR = load_dataset("car")
TARGET = CAR.domain.required_target().name
FRAME = CAR.frame("pandas").assign(**{TARGET: CAR.y})
WHOLE = count_cells(CAR.codes, CAR.labels, CAR.domain.sizes, 4)

SEARCH = {
    "epsilon": 1,
    "n_records": 1728,
    "space": {"max_depth": [1, 2], "n_trees": [4], "strategy": ["identity"]},
}
STUDY = {
    "kind": ["matrix", "naive_bayes"],
    "n_trees": 4,
    "max_depth": 2,
    "epsilons": [1.0],
    "n_splits": 2,
    "n_draws": 1,
    "strategy": "identity",
}


def assert_whole(counts):
    np.testing.assert_array_equal(counts.codes, WHOLE.codes)
    np.testing.assert_array_equal(counts.counts, WHOLE.counts)
    assert counts.domain == CAR.domain


def collections(folder):
    frame = dd.from_pandas(FRAME, npartitions=7)
    array = da.from_array(FRAME.to_numpy(), chunks=(300, 3))
    FRAME[:1000].to_parquet(folder / "a.parquet")
    FRAME[1000:].to_csv(folder / "b.csv", index=False)
    return {
        "frame": frame,
        "pair of frames": (frame[list(CAR.domain.names)], frame[TARGET]),
        "array": array,
        "pair of arrays": (array[:, :-1], array[:, -1].rechunk(123)),
        "delayed": [delayed(FRAME[i : i + 200]) for i in range(0, 2000, 200)],
        "delayed pairs": [delayed((CAR.X, CAR.y))],
        "paths": [folder / "a.parquet", str(folder / "b.csv")],
    }


@pytest.mark.parametrize(("scheduler", "dense"), [("synchronous", True), ("threads", False)])
def test_every_collection_counts_alike(scheduler, dense, tmp_path, monkeypatch):
    dense_entries = "mrf_matrix.mechanisms.tally.DENSE_ENTRIES"
    monkeypatch.setattr(dense_entries, 2**24 if dense else 0)
    with dask.config.set(scheduler=scheduler):
        for collection in collections(tmp_path).values():
            assert_whole(count_dask(collection, CAR.domain))
        assert not count_dask([], CAR.domain).counts.size


def test_a_partition_that_does_not_fit_is_named():
    wrong = [delayed(FRAME[:9]), delayed(FRAME.assign(safety="unheard"))]
    with dask.config.set(scheduler="synchronous"), pytest.raises(DomainError, match="Partition 1"):
        count_dask(wrong, CAR.domain)
    for collection in ("records.csv", FRAME, 3):
        with pytest.raises(TypeError, match="expected a Dask frame"):
            count_dask(collection, CAR.domain)


def killed_once(part, mark):
    """Return a partition; the first time, die before."""
    if not Path(mark).exists():
        Path(mark).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return part


def limits(dask_worker):
    memory = dask_worker.memory_manager
    return memory.memory_spill_fraction, memory.data.fast.n, len(memory.data)


def seen_limits(part, seen):
    """Write down the worker's limits while it counts."""
    from distributed import get_worker

    fraction, size, _ = limits(get_worker())
    Path(seen).write_text(f"{fraction} {size > 2**60}")
    return part


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of a worker that is killed
def test_two_processes_one_of_which_dies(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[3])  # workers import what this file defines
    told = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(**told, silence_logs=50) as local, Client(local) as client:
        before = client.run(limits)
        mark, seen = tmp_path / "mark", tmp_path / "seen"
        parts = [delayed(FRAME[i : i + 100]) for i in range(0, 1728, 100)]
        parts[5] = delayed(killed_once)(FRAME[500:600], str(mark))
        parts[9] = delayed(seen_limits)(FRAME[900:1000], str(seen))
        assert_whole(count_dask(parts, CAR.domain, client))
        assert mark.exists()
        assert seen.read_text() == "False True"  # nothing was spilled meanwhile
        client.wait_for_workers(2)
        after = client.run(limits)
        assert set(after.values()) == set(before.values())  # no task is left, and limits are back
        assert_whole(count_dask(dd.from_pandas(FRAME, npartitions=5), CAR.domain))
        with pytest.raises(DomainError, match="Partition 0"):
            count_dask([delayed(FRAME.assign(safety="unheard"))], CAR.domain, client)
        tuned, studied = (
            tune(CAR.domain, **SEARCH, client=client),
            compare(CAR, **STUDY, client=client),
        )
        with pytest.raises(ValueError, match="both given"):
            tune(CAR.domain, **SEARCH, client=client, n_jobs=2)
        with pytest.raises(ValueError, match="expected 'research'"):
            compare(CAR, **STUDY, client=client, noise="exact")
    alone = tune(CAR.domain, **SEARCH)
    assert [one.design for one in tuned.trials] == [one.design for one in alone.trials]
    assert [one.value for one in tuned.trials] == [one.value for one in alone.trials]
    assert studied.scores == compare(CAR, **STUDY).scores


# Internals ----------------------------------------------------------------------------------------


def test_sums_leave_their_parts_alone():
    parts = [cluster.partial_table(FRAME[i::3], i, CAR.domain, "error") for i in range(3)]
    before = [part.table.copy() for part in parts]
    total = cluster._sum_tables(parts)
    np.testing.assert_array_equal(total.table, sum(before))
    for part, table in zip(parts, before, strict=True):
        np.testing.assert_array_equal(part.table, table)
    assert repr(pickle.loads(pickle.dumps(total))) == "PartialTable(private)"
