"""The Identity on merged cells."""

import numpy as np
import pytest

from strategies import evaluate, select
from strategies.operators import Grouping, Identity, RowKronecker


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_merged_cells_cost_less(norm: str) -> None:
    workload = np.array([[1.0, 1.0, 1.0, 2.0], [0.0, 0.0, 0.0, 1.0]])
    strategy = select(workload, norm, method="identity")
    assert isinstance(strategy.matrix, Grouping)
    assert strategy.matrix.shape == (2, 4)
    assert strategy.sensitivity == 1.0
    assert strategy.loss == 1.0 + 4.0 + 1.0
    assert strategy.method == "identity"
    assert evaluate(workload, np.eye(4), norm).loss == 3.0 + 4.0 + 1.0
    assert evaluate(workload, strategy.matrix.to_dense(), norm).loss == pytest.approx(strategy.loss)
    assert strategy.row_errors(workload) == pytest.approx([5.0, 1.0])


def test_distinct_columns_stay_cells() -> None:
    strategy = select(np.tri(5), method="identity")
    assert isinstance(strategy.matrix, Identity)
    assert strategy.loss == 15.0


def test_huge_domains() -> None:
    paths = RowKronecker.from_masks([np.array([[1, 0], [0, 1]])] * 90)
    strategy = select(paths, method="identity")
    assert strategy.matrix.shape == (2**90, 2**90)
    assert strategy.matrix.sizes == (2,) * 90
    assert strategy.loss == 2.0
