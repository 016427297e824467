"""Balance Scale: to which side a scale tips (Siegler 1976); torque is weight times distance."""

from functools import partial

import numpy as np

from mrf_matrix.base.arrays import AnyInts, Codes
from mrf_matrix.datasets.rules import RuleSet, label_all_cells
from mrf_matrix.domain import Attribute, Domain

DOMAIN = Domain(
    [
        Attribute(name, categories=range(1, 6))
        for name in ("left_weight", "left_distance", "right_weight", "right_distance")
    ],
    target=Attribute("class", categories=["L", "B", "R"]),
)


def side(
    left_weight: Codes,
    left_distance: Codes,
    right_weight: Codes,
    right_distance: Codes,
) -> AnyInts:
    """Return 0 (left), 1 (balanced) or 2 (right) for codes 0 .. 4 that stand for 1 .. 5."""
    left = (left_weight + 1) * (left_distance + 1)
    right = (right_weight + 1) * (right_distance + 1)
    return np.asarray(1 + np.sign(right - left))


BALANCE_SCALE = RuleSet(
    "balance_scale",
    DOMAIN,
    partial(label_all_cells, DOMAIN, side),
    625,
    "Siegler 1976 (UCI, doi:10.24432/C5488X)",
)
