"""Car Evaluation: the hierarchical decision model of Bohanec and Rajkovic (1988), written out.

CAR(PRICE(buying, maint), TECH(COMFORT(doors, persons, lug_boot), safety)). Every concept is a
table over the values below it, worst value 0. The tables are the smallest that give the published
labels: two combinations share a value exactly when no car tells them apart.
"""

from functools import partial

import numpy as np

from mrf_matrix.base.arrays import AnyInts, Codes
from mrf_matrix.datasets.rules import RuleSet, label_all_cells
from mrf_matrix.domain import Attribute, Domain

DOMAIN = Domain(
    [
        Attribute("buying", categories=["vhigh", "high", "med", "low"]),
        Attribute("maint", categories=["vhigh", "high", "med", "low"]),
        Attribute("doors", categories=["2", "3", "4", "5more"]),
        Attribute("persons", categories=["2", "4", "more"]),
        Attribute("lug_boot", categories=["small", "med", "big"]),
        Attribute("safety", categories=["low", "med", "high"]),
    ],
    target=Attribute("class", categories=["unacc", "acc", "good", "vgood"]),
)

# fmt: off
PRICE = np.array([
    # maint: vhigh, high, med, low
    [0, 0, 1, 1],  # buying vhigh
    [0, 1, 1, 1],  # high
    [1, 1, 2, 3],  # med
    [1, 2, 3, 3],  # low
])
COMFORT = np.array([
    # lug_boot small, med, big, for persons: 2, 4, more
    [[0, 0, 0], [1, 1, 2], [0, 1, 2]],  # doors 2
    [[0, 0, 0], [1, 1, 2], [1, 2, 2]],  # 3
    [[0, 0, 0], [1, 2, 2], [1, 2, 2]],  # 4
    [[0, 0, 0], [1, 2, 2], [1, 2, 2]],  # 5more
])
TECH = np.array([
    # safety: low, med, high
    [0, 0, 0],  # COMFORT 0
    [0, 1, 2],  # 1
    [0, 2, 3],  # 2
])
UNACC, ACC, GOOD, VGOOD = range(4)
CAR = np.array([
    # TECH: 0, 1, 2, 3
    [UNACC, UNACC, UNACC, UNACC],  # PRICE 0
    [UNACC, UNACC, ACC,   ACC],    # 1
    [UNACC, ACC,   ACC,   VGOOD],  # 2
    [UNACC, ACC,   GOOD,  VGOOD],  # 3
])
# fmt: on


def car_class(*codes: Codes) -> AnyInts:
    """Return the class code of cars given by the codes of the attributes, in their order."""
    buying, maint, doors, persons, lug_boot, safety = codes
    tech = TECH[COMFORT[doors, persons, lug_boot], safety]
    return np.asarray(CAR[PRICE[buying, maint], tech])


CAR_EVALUATION = RuleSet(
    "car",
    DOMAIN,
    partial(label_all_cells, DOMAIN, car_class),
    1728,
    "Bohanec and Rajkovic 1988 (UCI, doi:10.24432/C5JP48)",
)
