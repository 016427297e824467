"""The three MONK's problems (Thrun et al. 1991) over all 432 robots, without label noise."""

from functools import partial

import numpy as np

from mrf_matrix.base.arrays import AnyInts, Codes
from mrf_matrix.datasets.rules import RuleSet, label_all_cells
from mrf_matrix.domain import Attribute, Domain

DOMAIN = Domain(
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
        DOMAIN,
        partial(label_all_cells, DOMAIN, rule),
        432,
        "Thrun et al. 1991 (UCI, doi:10.24432/C5R30R)",
    )
    for number, rule in enumerate((first_problem, second_problem, third_problem), start=1)
)
