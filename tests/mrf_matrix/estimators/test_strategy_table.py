"""Families that cannot serve a workload are rows that say why; bugs are not rows."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from mrf_matrix import Domain, RandomTrees, path_matrix
from mrf_matrix.cli.compare_tables import strategy_table
from mrf_matrix.study import comparison
from mrf_matrix.study.comparison import strategy_rows
from strategies import MemoryCapError, RowSpaceError, select

FOREST = RandomTrees(4, 2).grow(Domain.from_sizes([3, 3, 2]), 0)
SELECTED = select(path_matrix(FOREST), method="workload_itself")


def refusing(error):
    def refuse(workload, method, norm):
        if method == "identity":
            raise error
        return select(workload, norm, method=method)

    return refuse


@pytest.mark.parametrize("kind", [MemoryCapError, RowSpaceError])
def test_a_refusal_is_a_row_that_says_why(kind, monkeypatch):
    monkeypatch.setattr(comparison, "select", refusing(kind("too many\n  cells")))
    rows = strategy_rows(FOREST, SELECTED, [1.0, 2.0], "add_remove")
    (refused,) = [row for row in rows if row.note is not None]
    assert refused.note == "too many cells"
    assert refused.name.startswith("identity")
    assert np.isnan(refused.loss)
    assert json.loads(json.dumps(refused.to_dict()))["loss"] is None
    assert len(rows) == 6
    table = strategy_table(SimpleNamespace(strategies=rows, epsilons=(1.0, 2.0)))
    assert table.row_count == 5
    assert "too many cells" not in str(table.caption)
    assert refused.name in str(table.caption)
    assert [row.name for row in rows if row.is_selected] == ["selected: workload_itself"]


@pytest.mark.parametrize("bug", [ValueError("x"), TypeError("x"), KeyError("x")])
def test_a_bug_surfaces(bug, monkeypatch):
    monkeypatch.setattr(comparison, "select", refusing(bug))
    with pytest.raises(type(bug)):
        strategy_rows(FOREST, SELECTED, [1.0], "add_remove")
