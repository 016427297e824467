"""Trees read from a file: bounded work before they are believed to be trees.

`Forest` checks that arrays are trees, in time and memory that are modest for any honest arrays.
Dishonest ones can claim overlapping children, or branch tables that add up to far more than the
file: those are refused here first.
"""

from collections.abc import Mapping

import numpy as np

from mrf_matrix.base.arrays import Ints, Longs, Values
from mrf_matrix.base.fields import FieldError
from mrf_matrix.domain import Domain
from mrf_matrix.forests import Forest, checks
from mrf_matrix.forests.arrays import concatenated_ranges
from mrf_matrix.forests.checks import rising_windows

FOREST_ARRAYS = ("roots", "attribute", "first_child", "pattern", "branches")
MAX_DEPTH = 1000
MAX_TABLE_ENTRIES = 2**24
"""Most entries of branch tables that are not runs, each distinct table once."""


def checked_forest(domain: Domain, arrays: Mapping[str, Values], source: str) -> Forest:
    """Return the forest of arrays from a file.

    `domain`: over the attributes that the forest sees; `arrays`: the five arrays of a `Forest`;
    `source`: the forest's source, in words.

    Raises FieldError, ForestError if the arrays are no trees over the domain, deeper than 1000
    splits, or would take much more memory to check than they take themselves.
    """
    roots, attribute, first_child, pattern, branches = (
        np.asarray(arrays[name]).astype(np.int32) for name in FOREST_ARRAYS
    )
    if max(domain.sizes) > len(branches):
        raise FieldError("branches is shorter than the codes of an attribute.")
    checks.check_shapes(domain.n_attributes, roots, attribute, first_child, pattern, branches)
    _check_tables(domain, attribute, pattern, branches)
    n_children = checks.count_children(domain.sizes, attribute, pattern, branches)
    if int(n_children.sum()) != len(attribute) - len(roots):
        raise FieldError(
            f"{int(n_children.sum())} children for {len(attribute)} nodes and {len(roots)} roots: "
            f"expected every node to be a root or the child of one node."
        )
    checks.check_parentage(roots, first_child, n_children)
    _check_depth(roots, first_child, n_children)
    # Whether some leaf is reached by no cell makes no difference to what is predicted.
    return Forest(
        domain=domain,
        roots=roots,
        attribute=attribute,
        first_child=first_child,
        pattern=pattern,
        branches=branches,
        source=source,
        allow_empty=True,
    )


def _check_tables(domain: Domain, attribute: Ints, pattern: Ints, branches: Ints) -> None:
    """Bound the entries that `count_children` reads: all distinct tables that are no runs."""
    width = np.asarray(domain.sizes, dtype=np.int64)
    length = np.where(attribute < 0, width.max(), width[attribute])
    end = np.minimum(pattern + length, len(branches))  # beyond: refused by count_children
    other = ~rising_windows(branches, pattern, end)
    tables = np.unique(np.stack([pattern[other].astype(np.int64), length[other]]), axis=1)
    if int(tables[1].sum()) > MAX_TABLE_ENTRIES:
        raise FieldError(
            f"its branch tables have {int(tables[1].sum())} entries: expected at most "
            f"{MAX_TABLE_ENTRIES}."
        )


def _check_depth(roots: Ints, first_child: Ints, n_children: Longs) -> None:
    level = roots.astype(np.int64)
    for _ in range(MAX_DEPTH + 1):
        inner = level[n_children[level] > 0]
        if not len(inner):
            return
        level = concatenated_ranges(first_child[inner], n_children[inner])
    raise FieldError(f"its trees are deeper than {MAX_DEPTH} splits, or run in circles.")
