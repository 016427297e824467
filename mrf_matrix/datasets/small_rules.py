"""Rules of one line: the Balance Scale, and the three MONK's problems without label noise.

To which side a scale tips (Siegler 1976): torque is weight times distance. The MONK's problems
(Thrun et al. 1991) are over all 432 robots.
"""

from functools import partial

import numpy as np

from mrf_matrix.base.arrays import AnyInts, Codes
from mrf_matrix.datasets.rules import RuleSet, label_all_cells
from mrf_matrix.domain import Attribute, Domain

SCALES = Domain(
    [
        Attribute(name, categories=range(1, 6))
        for name in ("left_weight", "left_distance", "right_weight", "right_distance")
    ],
    target=Attribute("class", categories=["L", "B", "R"]),
)


def side(*codes: Codes) -> AnyInts:
    """Return 0 (left), 1 (balanced) or 2 (right) for codes 0 .. 4 that stand for 1 .. 5."""
    left_weight, left_distance, right_weight, right_distance = (code + 1 for code in codes)
    left, right = left_weight * left_distance, right_weight * right_distance
    return np.asarray(1 + np.sign(right - left))


BALANCE_SCALE = RuleSet(
    "balance_scale",
    SCALES,
    partial(label_all_cells, SCALES, side),
    625,
    "Siegler 1976 (UCI, doi:10.24432/C5488X)",
)


ROBOTS = Domain(
    [
        Attribute(f"a{i}", categories=range(1, size + 1))
        for i, size in enumerate((3, 3, 2, 3, 4, 2), start=1)
    ],
    target=Attribute("class", categories=[0, 1]),
)


def first_problem(*a: Codes) -> AnyInts:
    """Return 1 where a1 = a2 or a5 = 1."""
    return np.asarray((a[0] == a[1]) | (a[4] == 0)).astype(np.int32)


def second_problem(*a: Codes) -> AnyInts:
    """Return 1 where exactly two of the six attributes are 1."""
    return np.asarray((np.array(a) == 0).sum(axis=0) == 2).astype(np.int32)


def third_problem(*a: Codes) -> AnyInts:
    """Return 1 where (a5 = 3 and a4 = 1) or (a5 is not 4 and a2 is not 3)."""
    return np.asarray(((a[4] == 2) & (a[3] == 0)) | ((a[4] != 3) & (a[1] != 2))).astype(np.int32)


MONKS = tuple(
    RuleSet(
        f"monks_{number}",
        ROBOTS,
        partial(label_all_cells, ROBOTS, rule),
        432,
        "Thrun et al. 1991 (UCI, doi:10.24432/C5R30R)",
    )
    for number, rule in enumerate((first_problem, second_problem, third_problem), start=1)
)
