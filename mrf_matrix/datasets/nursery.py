"""Nursery: the hierarchical decision model of Olave, Rajkovic and Bohanec (1989), written out.

NURSERY(EMPLOY(parents, has_nurs), STRUCT_FINAN(STRUCTURE(form, children), housing, finance),
SOC_HEALTH(social, health)). Every concept is a table over the values below it, best value 0. The
tables are the smallest that give the published labels.
"""

from functools import partial

import numpy as np

from mrf_matrix.base.arrays import AnyInts, Codes
from mrf_matrix.datasets.rules import RuleSet, label_all_cells
from mrf_matrix.domain import Attribute, Domain

DOMAIN = Domain(
    [
        Attribute("parents", categories=["usual", "pretentious", "great_pret"]),
        Attribute(
            "has_nurs", categories=["proper", "less_proper", "improper", "critical", "very_crit"]
        ),
        Attribute("form", categories=["complete", "completed", "incomplete", "foster"]),
        Attribute("children", categories=["1", "2", "3", "more"]),
        Attribute("housing", categories=["convenient", "less_conv", "critical"]),
        Attribute("finance", categories=["convenient", "inconv"]),
        Attribute("social", categories=["nonprob", "slightly_prob", "problematic"]),
        Attribute("health", categories=["recommended", "priority", "not_recom"]),
    ],
    target=Attribute(
        "class", categories=["not_recom", "recommend", "very_recom", "priority", "spec_prior"]
    ),
)

# fmt: off
EMPLOY = np.array([
    # has_nurs: proper, less_proper, improper, critical, very_crit
    [0, 1, 1, 2, 3],  # parents usual
    [1, 1, 2, 3, 3],  # pretentious
    [2, 2, 3, 3, 3],  # great_pret
])
STRUCTURE = np.array([
    # children: 1, 2, 3, more
    [0, 1, 2, 2],  # form complete
    [1, 1, 2, 2],  # completed
    [1, 2, 2, 2],  # incomplete
    [2, 2, 2, 2],  # foster
])
STRUCT_FINAN = np.array([
    # finance convenient, inconv, for housing: convenient, less_conv, critical
    [[0, 1], [1, 1], [1, 1]],  # STRUCTURE 0
    [[1, 1], [1, 1], [2, 2]],  # 1
    [[1, 2], [2, 2], [2, 2]],  # 2
])
SOC_HEALTH = np.array([
    # health: recommended, priority, not_recom
    [0, 1, 2],  # social nonprob
    [0, 1, 2],  # slightly_prob
    [1, 1, 2],  # problematic
])
NOT, REC, VERY, PRIO, SPEC = range(5)
NURSERY_CLASS = np.array([
    [   # SOC_HEALTH 0; STRUCT_FINAN: 0, 1, 2
        [REC,  VERY, PRIO],  # EMPLOY 0
        [VERY, VERY, PRIO],  # 1
        [PRIO, PRIO, PRIO],  # 2
        [PRIO, PRIO, SPEC],  # 3
    ],
    [   # SOC_HEALTH 1
        [PRIO, PRIO, PRIO],
        [PRIO, PRIO, PRIO],
        [PRIO, PRIO, SPEC],
        [PRIO, SPEC, SPEC],
    ],
    [[NOT, NOT, NOT]] * 4,  # SOC_HEALTH 2
])
# fmt: on


def nursery_class(*codes: Codes) -> AnyInts:
    """Return the class code of applications given by the codes of the attributes, in order."""
    parents, has_nurs, form, children, housing, finance, social, health = codes
    means = STRUCT_FINAN[STRUCTURE[form, children], housing, finance]
    soc_health = SOC_HEALTH[social, health]
    return np.asarray(NURSERY_CLASS[soc_health, EMPLOY[parents, has_nurs], means])


NURSERY = RuleSet(
    "nursery",
    DOMAIN,
    partial(label_all_cells, DOMAIN, nursery_class),
    12960,
    "Olave, Rajkovic and Bohanec 1989 (UCI, doi:10.24432/C5P88W)",
)
