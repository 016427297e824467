"""Forest -> T: one row a root-to-leaf path, one column a cell of the domain."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.arrays import plain_array
from mrf_matrix.domain import Domain
from mrf_matrix.forests import Forest, leaf_masks
from mrf_matrix.forests.codes import checked_codes
from strategies.operators import RowKronecker, check_allocation


def path_matrix(forest: Forest) -> RowKronecker:
    """Compile a forest into its decision-path matrix T.

    ``T[r, cell]`` is 1 where the cell reaches leaf r: the row is the Kronecker product over
    attributes of the 0/1 vector of codes that lead there.

    Parameters
    ----------
    forest : Forest

    Returns
    -------
    RowKronecker of shape (n_leaves, domain.size)
        Row r is leaf r of ``forest.apply``; `groups` holds the tree of every row, whose leaves
        partition the domain, so the L1 sensitivity is the number of trees.

    Raises
    ------
    MemoryCapError
        If the unpacked masks (n_leaves x sum of sizes bytes, the largest array) exceed the
        memory cap. The result takes an eighth of that.

    References
    ----------
    Tajima, Wu, Houmansadr (2025), "Matrix Representation of Random Forests".

    Examples
    --------
    >>> from mrf_matrix.domain import Domain
    >>> from mrf_matrix.forests import RandomTrees
    >>> forest = RandomTrees(n_trees=1, max_depth=1, attributes=[1]).grow(
    ...     Domain.from_sizes([2, 3])
    ... )
    >>> path_matrix(forest).to_dense()
    array([[1., 0., 0., 1., 0., 0.],
           [0., 1., 0., 0., 1., 0.],
           [0., 0., 1., 0., 0., 1.]])
    """
    if not isinstance(forest, Forest):
        raise TypeError(f"forest is {type(forest).__name__}: expected a Forest.")
    check_allocation("masks of the paths", (forest.n_leaves, sum(forest.domain.sizes)), 1)
    matrix = RowKronecker.from_masks(leaf_masks(forest))
    # A validated forest's trees partition the domain: their rows need no check for overlaps.
    return replace(matrix, groups=forest.leaf_tree.astype(np.int64))


def path_matrix_from_codes(
    paths: NDArray[np.integer[Any]],
    sizes: Sequence[int] | Domain,
    tree_id: NDArray[np.integer[Any]] | None = None,
) -> RowKronecker:
    """Compile decision paths, given as one code an attribute, into T.

    Parameters
    ----------
    paths : ndarray of int, shape (o, d)
        The code that each path fixes per attribute, -1 where the attribute is free.
    sizes : sequence of int, or Domain
        The attributes' sizes.
    tree_id : ndarray of int, shape (o,), optional
        The tree of each path. Paths of one tree must not share a cell (checked); with it the
        sensitivity is known even where the cells cannot be enumerated.

    Returns
    -------
    RowKronecker of shape (o, product of the sizes)
        Row r is path r.

    Raises
    ------
    ValueError
        If shapes or codes do not fit, or two paths of a tree overlap.
    MemoryCapError
        If the unpacked masks (o x sum of sizes bytes) exceed the memory cap.

    Examples
    --------
    >>> T = path_matrix_from_codes(np.array([[0, -1], [1, 0], [1, 1]]), [2, 2])
    >>> T.to_dense()
    array([[1., 1., 0., 0.],
           [0., 0., 1., 0.],
           [0., 0., 0., 1.]])
    """
    widths = domain_sizes(sizes)
    given = checked_codes(paths, widths, least=-1, argument="paths")
    check_allocation("masks of the paths", (len(given), sum(widths)), 1)
    masks = [
        (column[:, np.newaxis] < 0) | (column[:, np.newaxis] == np.arange(width))
        for column, width in zip(given.T, widths, strict=True)
    ]
    trees = None if tree_id is None else plain_array("tree_id", tree_id)
    return RowKronecker.from_masks(masks, trees)


def domain_sizes(domain: Sequence[int] | Domain) -> tuple[int, ...]:
    """Return the attributes' sizes of a domain, or of a sequence of positive integers.

    Raises ValueError if there are no sizes, or one is not positive.
    """
    if isinstance(domain, Domain):
        return domain.sizes
    sizes = tuple(int(size) for size in domain)
    if not sizes or min(sizes) < 1:
        raise ValueError(f"sizes={sizes}: expected positive sizes, one an attribute.")
    return sizes
