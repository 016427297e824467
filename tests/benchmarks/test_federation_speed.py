"""A federation of many parties in one process: keys, noise, masks, signatures, the opened sum.

Run ``pytest tests/benchmarks/test_federation_speed.py --benchmark-only`` with one thread.
"""

import numpy as np
import pytest

pytest.importorskip("cryptography")

from mrf_matrix.federated import Network, federate, run_federation
from mrf_matrix.mechanisms import PureDP, count_cells
from strategies.operators import Identity


@pytest.mark.parametrize(
    ("parties", "integers", "dropouts"), [(10, 100_000, 3), (100, 100_000, 20), (300, 1_000, 60)]
)
def test_seconds_of_a_federation(benchmark, parties, integers, dropouts):
    """The goal: 100 parties with 100,000 integers each, t = 1, in under 30 s."""
    rng = np.random.default_rng(0)
    codes = rng.integers(integers, size=(parties, 1000, 1))
    classes = np.zeros(1000, dtype=int)
    parts = [count_cells(one, classes, (integers,), 1) for one in codes]
    design = federate(
        Identity(integers), PureDP(1), parties=parties, dropouts=dropouts, n_classes=1
    )
    network = Network(dict.fromkeys(range(0, dropouts, 2), "masked"))
    found = benchmark.pedantic(
        run_federation, (design, parts), {"network": network}, rounds=1, iterations=1
    )
    assert len(found.contributors) == parties - len(network.absent)
    benchmark.extra_info["sent by a party"] = sum(found.bytes_up.values())
