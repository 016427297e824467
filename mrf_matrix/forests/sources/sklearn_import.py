"""Fitted scikit-learn trees and forests as a `Forest`."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.arrays import Ints, Longs
from mrf_matrix.base.provenance import Provenance
from mrf_matrix.domain import Domain
from mrf_matrix.forests.assembly import branch_pool, forest_from_levels, threshold_pattern
from mrf_matrix.forests.forest import Forest

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
    left, right, attribute, cut, roots = _joined(trees)
    _check_cuts(attribute, cut, domain, name)
    attributes, patterns = _by_level(left, right, attribute, cut, roots, domain)
    known = Provenance.from_records("forest") if provenance is None else provenance
    return forest_from_levels(
        domain, attributes, patterns, branch_pool(domain.sizes), provenance=known, source=name
    )


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


def _joined(trees: list[Tree]) -> tuple[Longs, Longs, Longs, Longs, Longs]:
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


def _by_level(
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
