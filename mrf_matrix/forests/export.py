"""Trees written out: as text for people, and their leaves as one code an attribute."""

from collections.abc import Iterator, Sequence

import numpy as np

from mrf_matrix.base.arrays import Bools, Ints, Longs
from mrf_matrix.domain import Attribute, Domain
from mrf_matrix.forests.nodes import ForestError, Nodes, leaf_masks


def export_text(
    forest: Nodes,
    tree: int = 0,
    max_leaves: int = 100,
    *,
    leaves: Sequence[str] | None = None,
    title: bool = True,
) -> str:
    """Draw one tree as lines of text.

    Parameters
    ----------
    forest : Nodes
        A `Forest`.
    tree : int, default=0
        Which tree.
    max_leaves : int, default=100
        Leaves after which the drawing stops, and says how many it leaves out.
    leaves : sequence of str, optional
        What to write at each leaf, by its number; by default "leaf" and its number.
    title : bool, default=True
        Whether the first line names the tree.

    Returns
    -------
    str
        A line per branch: the attribute and the codes' labels that follow it, and at leaves
        their number.

    Raises
    ------
    ValueError
        If there is no such tree.

    Examples
    --------
    >>> from mrf_matrix.domain import Attribute, Domain
    >>> from mrf_matrix.forests.random_trees import RandomTrees
    >>> weather = Domain([Attribute("outlook", categories=["sunny", "overcast", "rainy"])])
    >>> print(export_text(RandomTrees(n_trees=1, max_depth=1).grow(weather)))
    tree 0
    ├── outlook = sunny: leaf 0
    ├── outlook = overcast: leaf 1
    └── outlook = rainy: leaf 2
    """
    if isinstance(tree, bool) or not isinstance(tree, int | np.integer):
        raise TypeError(f"tree={tree!r}: expected an integer.")
    if not 0 <= tree < forest.n_trees:
        raise ValueError(f"tree={tree}: expected 0 to {forest.n_trees - 1}.")
    root = int(forest.roots[tree])
    if leaves is None:
        leaves = [f"leaf {i}" for i in range(forest.n_leaves)]
    if forest.attribute[root] < 0:
        only = leaves[int(forest.leaf_index[root])]
        return f"tree {tree}: {only}" if title else only
    lines, drawn = [f"tree {tree}"] if title else [], 0
    for line, is_leaf in _lines(forest, root, leaves):
        drawn += is_leaf
        if drawn > max_leaves:
            total = int(np.count_nonzero(forest.leaf_tree == tree))
            lines.append(f"... {total - max_leaves} more leaves; raise max_leaves to see them")
            break
        lines.append(line)
    return "\n".join(lines)


def _lines(forest: Nodes, root: int, leaves: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """Yield the drawing's lines, depth first, from a stack: trees may be deep."""
    stack = [(root, "", "")]
    while stack:
        node, indent, text = stack.pop()
        leaf = int(forest.leaf_index[node])
        if text:
            yield (f"{text}: {leaves[leaf]}", True) if leaf >= 0 else (text, False)
        fan = int(forest.n_children[node])
        for branch in reversed(range(fan)):
            last = branch == fan - 1
            line = indent + ("└── " if last else "├── ") + condition(forest, node, branch)
            below = indent + ("    " if last else "│   ")
            stack.append((int(forest.first_child[node]) + branch, below, line))


def condition(forest: Nodes, node: int, branch: int) -> str:
    attribute = forest.domain.attributes[forest.attribute[node]]
    start = int(forest.pattern[node])
    codes = np.flatnonzero(forest.branches[start : start + attribute.size] == branch)
    return describe_codes(attribute, codes)


def describe_codes(attribute: Attribute, codes: Longs) -> str:
    """Say which labels some codes have, runs of codes as ranges."""
    labels = attribute.labels
    if len(codes) == 1:
        return f"{attribute.name} = {labels[int(codes[0])]}"
    first, last = int(codes[0]), int(codes[-1])
    if len(codes) > 3 and last - first + 1 == len(codes):
        return f"{attribute.name} in {labels[first]} .. {labels[last]}"
    shown = ", ".join(str(labels[int(code)]) for code in codes[:6])
    more = f", ... {len(codes) - 6} more" if len(codes) > 6 else ""
    return f"{attribute.name} in {{{shown}{more}}}"


def describe_path(domain: Domain, masks: Sequence[Bools]) -> str:
    """Return which codes a path leaves of each attribute that it restricts.

    >>> describe_path(Domain.from_sizes([2, 3]), [np.array([1, 1]), np.array([0, 1, 0])])
    'x1 = 1'
    """
    pairs = zip(domain.attributes, masks, strict=True)
    said = [describe_codes(one, np.flatnonzero(mask)) for one, mask in pairs if not np.all(mask)]
    return " & ".join(said) or "all"


def decision_paths(forest: Nodes) -> Ints:
    """Return each leaf as the code it fixes per attribute, -1 where the attribute is free.

    Returns
    -------
    ndarray of int32, shape (n_leaves, d)

    Raises
    ------
    ForestError
        If a leaf holds several codes of an attribute but not all, so that one code cannot say
        it: thresholds and subsets. Use `path_matrix`, or `leaf_masks`, for those.
    """
    masks = leaf_masks(forest)
    paths = np.full((forest.n_leaves, len(masks)), -1, dtype=np.int32)
    for i, mask in enumerate(masks):
        held = mask.sum(axis=1)
        partly = np.flatnonzero((held != 1) & (held != mask.shape[1]))
        if len(partly):
            raise ForestError(
                f"leaf {partly[0]} holds {held[partly[0]]} of the {mask.shape[1]} codes of "
                f"attribute {forest.domain.names[i]!r}: only forests with multi-way splits can "
                f"be written as one code an attribute. Use path_matrix(forest) instead."
            )
        fixed = np.flatnonzero(held < mask.shape[1])
        paths[fixed, i] = mask[fixed].argmax(axis=1)
    return paths
