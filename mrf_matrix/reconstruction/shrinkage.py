"""Leaves shrunk toward their ancestors, by how much of what they say can be noise.

Top-down, with p the class shares of a node's parent, already shrunk, c the node's noisy counts, n
its number of records and ``r = c - (Σ c) p`` what it says beyond its parent::

    shares = p + w r / n        w = τ² n² / (τ² n² + noise of r [+ n · sampling])

The noise of r is known exactly from the mechanism; τ², how far shares of nodes of a level really
lie from their parents', is estimated from all nodes of the level together,
``τ² = max(0, Σ (r² - noise [- n · sampling]) / Σ n²)``: empirical Bayes by the method of moments
(Morris, 1983). Numbers of records are shrunk alike, toward the parent's times the share of its
cells. Only the release and public things enter.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from mrf_matrix.base.arrays import AnyInts, Array, Bools, Longs
from mrf_matrix.forests import Forest, leaf_masks
from mrf_matrix.forests.nodes import concatenated_ranges
from mrf_matrix.mechanisms import Release
from mrf_matrix.mechanisms.statement import Claim
from mrf_matrix.reconstruction.constraints import with_known_totals
from mrf_matrix.reconstruction.estimate import Estimate, combine
from mrf_matrix.reconstruction.feasible_tables import project_to_simplex
from strategies.operators import RowKronecker, check_allocation
from strategies.operators.base.arrays import plain_floats


@dataclass(frozen=True, eq=False)
class NodeAnswers:
    """Unbiased class counts of every node, their noise, and the nodes' public widths."""

    counts: Array  # shape (nodes, k)
    variances: Array  # shape (nodes,): exact noise variance of each node's count, in every class
    parts: Array  # shape (nodes,): share of its parent's cells that a node holds, 1 for roots
    claim: Claim | None = None  # of the releases behind the counts; None where they are not known


def node_matrix(forest: Forest) -> RowKronecker:
    """Return the 0/1 matrix whose row v marks the cells of node v, shape (nodes, n).

    A node is the smallest box around its leaves: per attribute, the codes that some leaf below
    it holds. The masks take ``nodes * sum(sizes)`` bytes.

    >>> from mrf_matrix.domain import Domain
    >>> from mrf_matrix.forests import RandomTrees
    >>> forest = RandomTrees(n_trees=1, max_depth=1, attributes=[0]).grow(Domain.from_sizes([2]))
    >>> node_matrix(forest).to_dense()
    array([[1., 1.],
           [1., 0.],
           [0., 1.]])
    """
    return RowKronecker.from_masks(_node_masks(forest))


def leaf_sums(forest: Forest) -> sparse.csr_array:
    """Return the 0/1 matrix that adds leaves up to nodes, shape (nodes, n_leaves)."""
    start, end = _leaf_ranges(forest)
    lengths = end - start
    ends = np.concatenate([[0], np.cumsum(lengths)])
    entries = (np.ones(ends[-1]), concatenated_ranges(start, lengths), ends)
    return sparse.csr_array(entries, shape=(forest.n_nodes, forest.n_leaves))


def answers_from_releases(
    forest: Forest, releases: Release | Sequence[Release], class_totals: object = None
) -> NodeAnswers:
    """Ask every node of the releases by least squares; equal nodes are asked once.

    Raises RowSpaceError if the releases do not determine some node.
    """
    nodes = node_matrix(forest)
    distinct, number, _ = nodes.unique_rows()
    if class_totals is None:
        found = combine(releases, distinct)
    else:
        found = with_known_totals(releases, distinct, class_totals=class_totals)
    assert found.variances is not None  # of least squares, always
    parts = parts_of_parents(forest)
    return NodeAnswers(found.values[number], found.variances[number], parts, found.claim)


def answers_from_leaves(forest: Forest, values: object, variances: object) -> NodeAnswers:
    """Add up leaf values whose noises are independent, as where every leaf was measured itself.

    Raises ValueError if there is not one row and one variance for each leaf, or a variance is
    negative.
    """
    counts = plain_floats("leaf_values", values)
    noise = plain_floats("variances", variances)
    o = forest.n_leaves
    if counts.ndim != 2 or len(counts) != o or not np.isfinite(counts).all():
        raise ValueError(
            f"leaf_values has shape {counts.shape}: expected ({o}, k) finite numbers, a row for "
            f"each leaf."
        )
    noise = np.broadcast_to(noise, (o,)) if noise.ndim == 0 else noise
    if noise.shape != (o,) or not np.isfinite(noise).all() or (noise < 0).any():
        raise ValueError(
            f"leaf_variances has shape {noise.shape}: expected one for all leaves or ({o},), "
            f"finite and not negative."
        )
    sums = leaf_sums(forest)
    return NodeAnswers(
        np.asarray(sums @ counts), np.asarray(sums @ noise), parts_of_parents(forest)
    )


def parts_of_parents(forest: Forest) -> Array:
    """Return the share of its parent's cells that each node holds, shape (nodes,)."""
    parts = np.ones(forest.n_nodes)
    parents = np.maximum(forest.parent, 0)
    for mask in _node_masks(forest):
        width = mask.sum(axis=1, dtype=np.float64)
        above = np.where(forest.parent < 0, width, width[parents])
        parts *= np.divide(width, above, out=np.zeros_like(width), where=above > 0)
    return parts


def _leaf_ranges(forest: Forest) -> tuple[Longs, Longs]:
    """Return the first leaf below each node and the one after its last."""
    start = forest.leaf_index.astype(np.int64)
    end = start + 1
    for level in reversed(forest.levels):
        inner = level[forest.n_children[level] > 0]
        first = forest.first_child[inner]
        start[inner] = start[first]
        end[inner] = end[first + forest.n_children[inner] - 1]
    return start, end


def _node_masks(forest: Forest) -> list[Bools]:
    """Return the codes of each node, per attribute: those of its children together."""
    check_allocation("masks of the nodes", (forest.n_nodes, sum(forest.domain.sizes)), 1)
    return [_codes_below(forest, mask) for mask in leaf_masks(forest)]


def _codes_below(forest: Forest, of_leaves: Bools) -> Bools:
    """Return the codes that some leaf below each node holds, (nodes, codes)."""
    masks = np.zeros((forest.n_nodes, of_leaves.shape[1]), dtype=bool)
    masks[forest.leaves] = of_leaves
    for level in reversed(forest.levels):
        inner = level[forest.n_children[level] > 0]
        if len(inner):
            fan = forest.n_children[inner]
            below = concatenated_ranges(forest.first_child[inner], fan)
            masks[inner] = np.logical_or.reduceat(masks[below], np.cumsum(fan) - fan, axis=0)
    return masks


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ShrunkLeaves(Estimate):
    """Leaf values shrunk toward their ancestors.

    Parameters
    ----------
    shares : ndarray of shape (n_leaves, k)
        Class shares of each leaf: not negative, summing to 1.
    weights : ndarray of shape (nodes,)
        Weight w of each node's own shares against its parent's.
    signals : ndarray of shape (levels,)
        τ of each level: how far class shares lie from the parents', root mean square. Level 0
        is the root against the prior.
    """

    shares: Array
    weights: Array
    signals: Array


def shrink_leaves(
    forest: Forest,
    releases: Release | Sequence[Release] | None = None,
    *,
    leaf_values: object = None,
    leaf_variances: object = None,
    class_totals: object = None,
    prior: object = None,
    sampling_variance: bool = False,
    noise_share: float = 1.0,
) -> ShrunkLeaves:
    """Estimate every leaf's class counts by empirical Bayes along its path from the root.

    Parameters
    ----------
    forest : Forest
        Any forest over the releases' domain, grown without looking at the records, or with a
        budget of its own.
    releases : Release or sequence of Release, optional
        Must determine every leaf. Class totals and inner nodes that were measured themselves
        count: nodes are answered by generalised least squares, each with its exact variance.
    leaf_values : array-like of shape (n_leaves, k), optional
        Unbiased leaf values with independent noise, in place of releases.
    leaf_variances : float or array-like of shape (n_leaves,), optional
        Their noise variances.
    class_totals : array-like of shape (k,), optional
        Public records of each class; with releases only.
    prior : array-like of shape (k,), optional
        Public class shares that the root is shrunk toward; equal by default.
    sampling_variance : bool, default=False
        Estimate the *probabilities* behind the records instead of their counts: a leaf of few
        records is then shrunk even without noise.
    noise_share : float, default=1.0
        Part of the noise, from 0 to 1, that weights are set against; signals are still cleaned
        of all of it. 1 is for leaves on their own. Votes of many trees average noise out and
        keep the bias, so they are served better by less shrinkage: see `vote_noise_share`.

    Returns
    -------
    ShrunkLeaves
        Without variances: shrinkage is biased by design. Without noise and sampling variance the
        values are exactly the leaf counts.

    Raises
    ------
    RowSpaceError
        If the releases do not determine some leaf.
    TypeError, ValueError
        If an argument is not of the kind described.

    Notes
    -----
    The parent's shares are taken as given, except that the noise which parent and child share is
    counted once: the covariance of a child's and its parent's count is taken as the parent's
    variance times the child's part of its siblings' variances, which is exact for independent
    and for exchangeable siblings.

    Examples
    --------
    >>> from mrf_matrix.domain import Domain
    >>> from mrf_matrix.forests import RandomTrees
    >>> forest = RandomTrees(n_trees=1, max_depth=1).grow(Domain.from_sizes([4]))
    >>> noisy = [[52.0, 1], [48, -3], [51, 2], [49, 4]]
    >>> shrunk = shrink_leaves(forest, leaf_values=noisy, leaf_variances=16.0)
    >>> shrunk.shares.round(2).tolist()  # what differs between leaves is noise
    [[0.98, 0.02], [0.98, 0.02], [0.98, 0.02], [0.98, 0.02]]
    """
    if not isinstance(forest, Forest):
        raise TypeError(f"forest is {type(forest).__name__}: expected a Forest.")
    nodes = _node_answers(forest, releases, leaf_values, leaf_variances, class_totals)
    return shrink_nodes(
        forest, nodes, prior=prior, sampling_variance=sampling_variance, noise_share=noise_share
    )


def shrink_nodes(
    forest: Forest,
    nodes: NodeAnswers,
    *,
    prior: object = None,
    sampling_variance: bool = False,
    noise_share: float = 1.0,
) -> ShrunkLeaves:
    classes = nodes.counts.shape[1]
    base = _checked_prior(prior, classes)
    _check_noise_share(noise_share)
    totals = _shrunk_totals(forest, nodes, noise_share)
    shares, weights, signals = _shrunk_shares(
        forest, nodes, totals, base, sampling_variance, noise_share
    )
    leaves = forest.leaves
    values = totals[leaves, None] * shares[leaves]
    if not sampling_variance:
        exact = nodes.variances[leaves] == 0
        values[exact] = nodes.counts[leaves[exact]]
    return ShrunkLeaves(
        values=values,
        variances=None,
        method="hierarchical shrinkage",
        note="Biased toward the ancestors: the expected error depends on the data.",
        shares=shares[leaves],
        weights=weights,
        signals=signals,
        claim=nodes.claim,
    )


def _node_answers(
    forest: Forest,
    releases: Release | Sequence[Release] | None,
    values: object,
    variances: object,
    class_totals: object,
) -> NodeAnswers:
    if (releases is None) == (values is None) or (values is None) != (variances is None):
        raise ValueError(
            "releases, leaf_values, leaf_variances: expected either releases, or leaf_values "
            "with leaf_variances."
        )
    if releases is not None:
        return answers_from_releases(forest, releases, class_totals)
    if class_totals is not None:
        raise ValueError("class_totals was given with leaf_values: expected it with releases.")
    return answers_from_leaves(forest, values, variances)


def _checked_prior(prior: object, classes: int) -> Array:
    if prior is None:
        return np.full(classes, 1 / classes)
    given = plain_floats("prior", prior)
    if given.shape != (classes,) or not (given >= 0).all() or not np.isclose(given.sum(), 1):
        raise ValueError(
            f"prior={prior!r}: expected {classes} shares, not negative, that sum to 1."
        )
    return given


def _check_noise_share(noise_share: object) -> None:
    if not isinstance(noise_share, int | float | np.number) or not 0 <= noise_share <= 1:
        raise ValueError(f"noise_share={noise_share!r}: expected a number from 0 to 1.")


def _shrunk_totals(forest: Forest, nodes: NodeAnswers, noise_share: float) -> Array:
    """Return the number of records of every node: not negative, children summing to parents."""
    own = nodes.counts.sum(axis=1)
    classes = nodes.counts.shape[1]
    totals, weights = np.zeros(len(own)), np.ones(len(own))
    totals[forest.roots] = np.maximum(own[forest.roots], 0.0)
    for level in forest.levels[1:]:
        parent, part = forest.parent[level], nodes.parts[level]
        above = totals[parent]
        expected = above * part
        noise = classes * _own_noise(forest, nodes.variances, level, part, weights[parent])
        spread = above**2 * part * (1 - part)
        rest = own[level] - expected
        signal = _signal(rest**2 - noise, spread)
        weights[level] = _weight(signal * spread, noise_share * noise)
        raw = np.maximum(expected + weights[level] * rest, 0.0)
        sums = np.bincount(parent, raw, minlength=forest.n_nodes)[parent]
        scale = np.divide(above, sums, out=np.zeros_like(sums), where=sums > 0)
        totals[level] = np.where(sums > 0, raw * scale, expected)
    return totals


def _shrunk_shares(
    forest: Forest,
    nodes: NodeAnswers,
    totals: Array,
    prior: Array,
    sampling: bool,
    noise_share: float,
) -> tuple[Array, Array, Array]:
    """Return class shares (nodes, k), weights (nodes,) and the signal of every level."""
    classes = nodes.counts.shape[1]
    shares, weights = np.empty_like(nodes.counts), np.zeros(len(totals))
    signals = np.zeros(len(forest.levels))
    for depth, level in enumerate(forest.levels):
        n, own = totals[level], nodes.counts[level]
        if depth == 0:
            base, noise = np.tile(prior, (len(level), 1)), nodes.variances[level]
        else:
            parent = forest.parent[level]
            base, above = shares[parent], totals[parent]
            part = np.divide(n, above, out=np.zeros_like(n), where=above > 0)
            noise = _own_noise(forest, nodes.variances, level, part, weights[parent])
        squares = (base**2).sum(axis=1)
        noise = noise * (classes - 2 + classes * squares) / classes
        if sampling:
            noise = noise + n * (1 - squares) / classes
        rest = own - own.sum(axis=1, keepdims=True) * base
        signal = min(_signal((rest**2).mean(axis=1) - noise, n**2), 1.0)
        weights[level] = _weight(signal * n**2, noise_share * noise)
        moved = np.divide(weights[level], n, out=np.zeros_like(n), where=n > 0)
        shares[level] = project_to_simplex(base + moved[:, None] * rest, axis=1)
        signals[depth] = np.sqrt(signal)
    return shares, weights, signals


def _own_noise(
    forest: Forest, variances: Array, level: AnyInts, part: Array, weight: Array
) -> Array:
    """Return the variance of ``child - part · weight · parent``: the noise in what a child adds.

    ``s² - 2 f cov + f² s_parent²`` with ``f = part · weight`` and the covariance of the note above.
    """
    parent = forest.parent[level]
    own, above = variances[level], variances[parent]
    siblings = np.bincount(parent, own, minlength=forest.n_nodes)[parent]
    shared = np.divide(own * above, siblings, out=np.zeros_like(own), where=siblings > 0)
    shift = part * weight
    return np.asarray(np.maximum(own - 2 * shift * shared + shift**2 * above, 0.0))


def _signal(excess: Array, squares: Array) -> float:
    """Return ``max(0, Σ excess / Σ squares)``, 0 where there is nothing to divide by."""
    scale = float(squares.sum())
    return max(0.0, float(excess.sum()) / scale) if scale > 0 else 0.0


def _weight(signal: Array, noise: Array) -> Array:
    """Return ``signal / (signal + noise)``, 1 where there is no noise."""
    return np.divide(signal, signal + noise, out=np.ones_like(noise), where=noise > 0)
