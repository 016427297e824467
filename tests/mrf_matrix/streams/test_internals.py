"""Sums of partitions, by their parts."""

import pickle

import numpy as np

from mrf_matrix import load_dataset
from mrf_matrix.streams import cluster

CAR = load_dataset("car")
TARGET = CAR.domain.required_target().name
FRAME = CAR.frame("pandas").assign(**{TARGET: CAR.y})


def test_sums_leave_their_parts_alone():
    parts = [cluster.partial_table(FRAME[i::3], i, CAR.domain, "error") for i in range(3)]
    before = [part.table.copy() for part in parts]
    total = cluster._sum_tables(parts)
    np.testing.assert_array_equal(total.table, sum(before))
    for part, table in zip(parts, before, strict=True):
        np.testing.assert_array_equal(part.table, table)
    assert repr(pickle.loads(pickle.dumps(total))) == "PartialTable(private)"
