"""Forests from elsewhere: multi-way trees from decision paths, and fitted scikit-learn trees."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.arrays import Ints, Longs
from mrf_matrix.base.provenance import Provenance
from mrf_matrix.domain import Domain
from mrf_matrix.domain.columns import checked_codes, plain_array
from mrf_matrix.forests.forest import UNSTATED, Forest, forest_from_levels
from mrf_matrix.forests.nodes import ForestError, threshold_pattern


def forest_from_paths(
    paths: NDArray[np.integer[Any]],
    tree_id: NDArray[np.integer[Any]] | None,
    domain: Domain,
    *,
    provenance: Provenance = UNSTATED,
    source: str = "decision paths",
) -> Forest:
    """Rebuild a forest of multi-way splits from its decision paths.

    Parameters
    ----------
    paths : ndarray of int, shape (o, d)
        The code that each path fixes per attribute, -1 where the attribute is free.
    tree_id : ndarray of int, shape (o,), or None
        The tree of each path; None for a single tree. Trees keep the order of their ids.
    domain : Domain
        The public domain.
    provenance : Provenance, optional
        Where the paths came from, see `Forest`; unknown unless it is stated.
    source : str, default="decision paths"
        What the forest says it comes from.

    Returns
    -------
    Forest
        Trees with exactly these paths. Leaves are numbered left to right in the rebuilt trees,
        which need not be the order of `paths`.

    Raises
    ------
    ValueError
        If the shapes or codes do not fit the domain.
    ForestError
        If the paths of a tree are not the leaves of a tree of multi-way splits over the domain.

    Notes
    -----
    An attribute that every path of a (sub)tree fixes can be its root: the paths with each of its
    codes partition a slice of the domain, and are themselves a tree. The lowest such index is
    taken, level by level for all trees at once. The largest array is that of the paths.

    Examples
    --------
    >>> import numpy as np
    >>> domain = Domain.from_sizes([2, 3])
    >>> forest = forest_from_paths(np.array([[0, -1], [1, 0], [1, 1], [1, 2]]), None, domain)
    >>> forest
    Forest(1 tree, 4 leaves, depth 2, over 2 attributes, decision paths)
    """
    left, group = _checked_paths(paths, tree_id, domain)
    sizes = np.asarray(domain.sizes, dtype=np.int64)
    attributes: list[Ints] = []
    n_groups = int(group.max()) + 1
    while n_groups:
        split, rows = _split(left, group, n_groups)
        attributes.append(split)
        chosen = split[group[rows]]
        fan = np.where(split >= 0, sizes[split], 0)
        start = np.cumsum(fan) - fan
        below = start[group[rows]] + left[rows, chosen]
        left, n_groups = left[rows], int(fan.sum())
        left[np.arange(len(rows)), chosen] = -1
        _check_all_codes(below, n_groups, start, split, domain)
        order = np.argsort(below, kind="stable")
        left, group = left[order], below[order]
    return forest_from_levels(domain, attributes, provenance=provenance, source=source)


def _checked_paths(
    paths: NDArray[Any], tree_id: NDArray[Any] | None, domain: Domain
) -> tuple[Longs, Longs]:
    given = checked_codes(paths, domain.sizes, domain.names, least=-1, argument="paths")
    if not len(given):
        raise ValueError("paths is empty: expected at least one path.")
    one_tree = np.zeros(len(given), dtype=np.int64)
    ids = one_tree if tree_id is None else plain_array("tree_id", tree_id)
    if ids.shape != (len(given),):
        raise ValueError(f"tree_id has shape {ids.shape}: expected ({len(given)},), one a path.")
    tree = np.unique(ids, return_inverse=True)[1]
    order = np.argsort(tree, kind="stable")
    return given[order].astype(np.int64), tree[order].astype(np.int64)


def _split(left: Longs, group: Longs, n_groups: int) -> tuple[Ints, Longs]:
    begin = np.searchsorted(group, np.arange(n_groups))
    members = np.bincount(group, minlength=n_groups)
    fixed = np.add.reduceat(left >= 0, begin, axis=0, dtype=np.int64)
    whole = fixed == members[:, np.newaxis]
    split = np.where(whole.any(axis=1), whole.argmax(axis=1), -1).astype(np.int32)
    stuck = np.flatnonzero((split < 0) & (members > 1))
    if len(stuck):
        row = left[begin[stuck[0]]]
        raise ForestError(
            f"{members[stuck[0]]} paths, among them one that goes on with {row.tolist()}, fix no "
            f"attribute in common: they are not the leaves of a tree of multi-way splits."
        )
    return split, np.flatnonzero(split[group] >= 0)


def _check_all_codes(
    below: Longs, n_groups: int, start: Longs, split: Ints, domain: Domain
) -> None:
    """Check that every code of every split attribute has a path."""
    missing = np.flatnonzero(np.bincount(below, minlength=n_groups) == 0)
    if len(missing):
        inner = np.flatnonzero(split >= 0)
        node = inner[np.searchsorted(start[inner], missing[0], side="right") - 1]
        raise ForestError(
            f"no path holds code {missing[0] - start[node]} of attribute "
            f"{domain.names[split[node]]!r} where another code of it has one: the paths do not "
            f"partition the domain."
        )


EXACT_FLOAT32 = 1 << 24  # scikit-learn's trees read float32, which holds every integer up to here

Tree = tuple[Any, Longs]


def from_sklearn(
    estimator: object, domain: Domain, *, provenance: Provenance | None = None
) -> Forest:
    """Return the forest of a scikit-learn estimator that was fitted on encoded records.

    A scikit-learn node sends ``x <= threshold`` to the left. Codes are integers, so the codes
    below ``floor(threshold) + 1`` go left: the same routing, exactly.

    Parameters
    ----------
    estimator : fitted scikit-learn estimator
        A decision tree or extra tree, or an ensemble of them, classifier or regressor:
        random forest, extra trees, bagging (also of forests; also over drawn features), AdaBoost,
        gradient boosting, isolation forest, random trees embedding. Fitted on
        ``domain.encode(X)``.
    domain : Domain
        The public domain of the codes.
    provenance : Provenance, optional
        What is known of the records that it was fitted on: ``Provenance.public("forest", why)``
        where they are public, ``Provenance.spent(budget)`` where it was fitted privately. It is
        quoted in every claim as the caller's word. By default the trees are read off records.

    Returns
    -------
    Forest
        Trees in the estimator's order (gradient boosting: stage by stage, class by class). Row r of
        its path matrix is the indicator of its r-th leaf, left to right, in scikit-learn's
        ``decision_path``. Values of leaves are not taken over.

    Raises
    ------
    TypeError
        If the estimator is not made of scikit-learn's binary trees.
    ValueError
        If it was fitted on another number of features, or splits outside the domain's codes.
    sklearn.exceptions.NotFittedError
        If it is not fitted.

    Notes
    -----
    **The structure was learned from the records it was fitted on**, so nothing private may be
    released over it, and planning without data refuses it, unless ``provenance=`` says otherwise.
    The largest array is the nodes' (a few of int64).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> codes = np.array([[0, 0], [1, 2], [2, 1], [3, 2]])
    >>> tree = DecisionTreeClassifier(random_state=0).fit(codes, [0, 0, 1, 1])
    >>> forest = from_sklearn(tree, Domain.from_sizes([4, 3]))
    >>> forest
    Forest(1 tree, 2 leaves, depth 1, over 2 attributes, DecisionTreeClassifier, data-dependent)
    >>> forest.apply(codes).ravel()
    array([0, 0, 1, 1], dtype=int32)
    """
    _check_domain(domain)
    name = type(estimator).__name__
    trees = list(_trees_of(estimator, np.arange(domain.n_attributes), name))
    left, right, attribute, cut, roots = _join_trees(trees)
    _check_cuts(attribute, cut, domain, name)
    attributes, patterns = _split_levels(left, right, attribute, cut, roots, domain)
    known = Provenance.from_records("forest") if provenance is None else provenance
    return forest_from_levels(domain, attributes, patterns, provenance=known, source=name)


def _check_domain(domain: Domain) -> None:
    if not isinstance(domain, Domain):
        raise TypeError(
            f"domain is {type(domain).__name__}: expected the Domain that encoded the records."
        )
    largest = max(domain.sizes)
    if largest > EXACT_FLOAT32:
        raise ValueError(
            f"domain has an attribute of {largest} codes: scikit-learn's trees read float32, "
            f"exact up to {EXACT_FLOAT32} codes. Bin it more coarsely."
        )


def _trees_of(estimator: object, features: Longs, name: str) -> Iterator[Tree]:
    """Yield scikit-learn's tree arrays, and the attribute that each of its features is."""
    from sklearn.utils.validation import check_is_fitted

    if not hasattr(estimator, "fit"):
        raise TypeError(f"estimator is {name}: expected a fitted scikit-learn tree or forest.")
    check_is_fitted(estimator)
    seen = getattr(estimator, "n_features_in_", None)
    if seen is not None and seen != len(features):
        raise ValueError(
            f"{type(estimator).__name__} was fitted on {seen} features: expected "
            f"{len(features)}, one an attribute. Fit it on domain.encode(X)."
        )
    if hasattr(estimator, "tree_"):
        yield estimator.tree_, features
        return
    members = getattr(estimator, "estimators_", None)
    if members is None:
        raise TypeError(
            f"estimator is {name}, which keeps no binary trees (tree_ or estimators_): expected a "
            f"decision tree, random forest, extra trees, bagging or gradient boosting of them."
        )
    # Ensembles are sequences themselves: NumPy must not unpack a list of them.
    flat = members.ravel().tolist() if isinstance(members, np.ndarray) else list(members)
    drawn = getattr(estimator, "estimators_features_", None)
    for number, member in enumerate(flat):
        chosen = features if drawn is None else features[np.asarray(drawn[number])]
        yield from _trees_of(member, chosen, name)


def _join_trees(trees: list[Tree]) -> tuple[Longs, Longs, Longs, Longs, Longs]:
    """Return children (-1: none), attribute (-1: leaf) and cut of all nodes, and the roots."""
    count = np.array([tree.node_count for tree, _ in trees], dtype=np.int64)
    roots = np.cumsum(count) - count
    shift = np.repeat(roots, count)
    left, right = (
        np.concatenate([getattr(tree, side) for tree, _ in trees]).astype(np.int64)
        for side in ("children_left", "children_right")
    )
    inner = left >= 0
    attribute = np.concatenate([features[np.maximum(tree.feature, 0)] for tree, features in trees])
    threshold = np.concatenate([tree.threshold for tree, _ in trees])
    return (
        np.where(inner, left + shift, -1),
        np.where(inner, right + shift, -1),
        np.where(inner, attribute, -1),
        np.where(inner, np.floor(threshold) + 1, 1).astype(np.int64),
        roots,
    )


def _check_cuts(attribute: Longs, cut: Longs, domain: Domain, name: str) -> None:
    size = np.asarray(domain.sizes, dtype=np.int64)[attribute]
    outside = np.flatnonzero((attribute >= 0) & ((cut < 1) | (cut >= size)))
    if len(outside):
        node = int(outside[0])
        raise ValueError(
            f"{name} splits attribute {domain.names[attribute[node]]!r} between codes "
            f"{cut[node] - 1} and {cut[node]}: expected codes 0 to {size[node] - 1}. Fit it on "
            f"domain.encode(X), not on raw values."
        )


def _split_levels(
    left: Longs, right: Longs, attribute: Longs, cut: Longs, roots: Longs, domain: Domain
) -> tuple[list[Ints], list[Ints]]:
    """Return attribute and branch table of the nodes of each level, siblings left to right."""
    pattern: NDArray[np.int32] = threshold_pattern(domain.sizes, cut)
    attributes, patterns, level = [], [], roots
    while len(level):
        attributes.append(attribute[level].astype(np.int32))
        patterns.append(pattern[level])
        inner = level[left[level] >= 0]
        level = np.stack([left[inner], right[inner]], axis=1).ravel()
    return attributes, patterns
