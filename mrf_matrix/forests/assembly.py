"""Put trees that were grown level by level into one `Forest`."""

from collections.abc import Sequence

import numpy as np

from mrf_matrix.base.arrays import Ints
from mrf_matrix.domain import Domain
from mrf_matrix.domain.readable import readable_count
from mrf_matrix.forests.branches import LEAF_PATTERN
from mrf_matrix.forests.checks import count_children
from mrf_matrix.forests.forest import Forest

MOST_NODES = 1 << 24
"""Nodes a path source may grow: 200 MB of arrays, and a few times that while they are made."""


def check_growth(n_nodes: int, remedy: str) -> None:
    """Refuse a level that would take a forest beyond `MOST_NODES`, before it is allocated.

    Raises
    ------
    ValueError
        If ``n_nodes`` exceeds the limit.
    """
    if n_nodes > MOST_NODES:
        raise ValueError(
            f"the forest would have more than {readable_count(n_nodes)} nodes, above the limit of "
            f"{MOST_NODES:,}: {remedy}."
        )


def forest_from_levels(
    domain: Domain,
    attribute: Sequence[Ints],
    pattern: Sequence[Ints],
    branches: Ints,
    *,
    data_dependent: bool = False,
    budget_spent: object | None = None,
    source: str = "",
    allow_empty: bool = False,
) -> Forest:
    """Return the forest whose levels are given, every level's nodes in the order of their parents.

    Numbering nodes level by level, the children of the inner nodes follow each other, so that
    ``first_child`` is the number of trees plus a running sum of branches.

    Parameters
    ----------
    domain : Domain
        The public domain.
    attribute, pattern : sequences of ndarray
        Per level, each node's attribute (-1: a leaf) and where its table starts in `branches`.
    branches : ndarray
        The pool of branch tables.
    data_dependent, budget_spent, source, allow_empty
        As in `Forest`.
    """
    attributes = np.concatenate(attribute).astype(np.int32, copy=False)
    leaf = attributes < 0
    patterns = np.where(leaf, LEAF_PATTERN, np.concatenate(pattern)).astype(np.int32, copy=False)
    n_trees = len(attribute[0])
    n_children = count_children(domain.sizes, attributes, patterns, branches)
    start = n_trees + np.cumsum(n_children) - n_children
    return Forest(
        domain=domain,
        roots=np.arange(n_trees, dtype=np.int32),
        attribute=attributes,
        first_child=np.where(leaf, np.arange(len(attributes)), start).astype(np.int32),
        pattern=patterns,
        branches=branches,
        data_dependent=data_dependent,
        budget_spent=budget_spent,
        source=source,
        allow_empty=allow_empty,
    )
