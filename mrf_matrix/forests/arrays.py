"""Forests of arrays from anyone: checked before they are believed.

Trees take bounded work before they are believed to be trees: `Forest` checks that arrays are trees
in time and memory that are modest for any honest arrays. Dishonest ones can claim overlapping
children, or branch tables that add up to far more than the file: those are refused here first.
"""

from collections.abc import Mapping

import numpy as np

from mrf_matrix.base.arrays import Values
from mrf_matrix.base.fields import FieldError
from mrf_matrix.base.provenance import Provenance
from mrf_matrix.domain import Domain
from mrf_matrix.forests.forest import Forest
from mrf_matrix.forests.nodes import ARRAYS as FOREST_ARRAYS
from mrf_matrix.forests.nodes import Nodes, concatenated_ranges, rising_windows
from mrf_matrix.forests.partition import check_parentage, check_shapes

MAX_DEPTH = 1000
MAX_TABLE_ENTRIES = 2**24
"""Most entries of branch tables that are not runs, each distinct table once."""


def checked_forest(
    domain: Domain, arrays: Mapping[str, Values], source: str, provenance: Provenance
) -> Forest:
    """Return the forest of arrays from a file.

    `domain`: over the attributes that the forest sees; `arrays`: the five arrays of a `Forest`;
    `source`: the forest's source, in words; `provenance`: of all that the file holds.

    Raises FieldError, ForestError if the arrays are no trees over the domain, deeper than 1000
    splits, or would take much more memory to check than they take themselves.
    """
    nodes = Nodes(domain, *(np.asarray(arrays[name]).astype(np.int32) for name in FOREST_ARRAYS))
    if max(domain.sizes) > len(nodes.branches):
        raise FieldError("branches is shorter than the codes of an attribute.")
    check_shapes(nodes)
    _check_tables(nodes)
    children, n_nodes, n_trees = int(nodes.n_children.sum()), nodes.n_nodes, nodes.n_trees
    if children != n_nodes - n_trees:
        raise FieldError(
            f"{children} children for {n_nodes} nodes and {n_trees} roots: expected every node to "
            f"be a root or the child of one node."
        )
    check_parentage(nodes)
    _check_depth(nodes)
    # Whether some leaf is reached by no cell makes no difference to what is predicted.
    kept = {name: getattr(nodes, name) for name in FOREST_ARRAYS}
    return Forest(domain, **kept, provenance=provenance, source=source, allow_empty=True)


def _check_tables(nodes: Nodes) -> None:
    """Bound the entries that `count_children` reads: all distinct tables that are no runs."""
    width, pattern = np.asarray(nodes.domain.sizes, dtype=np.int64), nodes.pattern
    length = np.where(nodes.attribute < 0, width.max(), width[nodes.attribute])
    end = np.minimum(pattern + length, len(nodes.branches))  # beyond: refused by count_children
    other = ~rising_windows(nodes.branches, pattern, end)
    tables = np.unique(np.stack([pattern[other].astype(np.int64), length[other]]), axis=1)
    if int(tables[1].sum()) > MAX_TABLE_ENTRIES:
        raise FieldError(
            f"its branch tables have {int(tables[1].sum())} entries: expected at most "
            f"{MAX_TABLE_ENTRIES}."
        )


def _check_depth(nodes: Nodes) -> None:
    level, n_children = nodes.roots.astype(np.int64), nodes.n_children
    for _ in range(MAX_DEPTH + 1):
        inner = level[n_children[level] > 0]
        if not len(inner):
            return
        level = concatenated_ranges(nodes.first_child[inner], n_children[inner])
    raise FieldError(f"its trees are deeper than {MAX_DEPTH} splits, or run in circles.")
