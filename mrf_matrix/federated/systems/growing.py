"""Forests that several parties grow and adjust together, or each alone. Not private."""

from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from mrf_matrix.base.arrays import Array, Bools, Longs
from mrf_matrix.base.checks import check_integer, one_word
from mrf_matrix.base.work import bounded_jobs
from mrf_matrix.compilation import leaf_counts
from mrf_matrix.domain import Domain
from mrf_matrix.forests import Forest, concatenate
from mrf_matrix.forests.forest import RandomState
from mrf_matrix.forests.grown_trees import GrownTrees
from mrf_matrix.forests.growth.grow import bare_roots, grow_forest, grow_further

Part = tuple[NDArray[Any], NDArray[Any]]  # one party's records: codes (n, d) and class codes (n,)

Centres = Sequence[NDArray[Any] | None] | None


def grow_collaboratively(
    domain: Domain,
    parts: Sequence[Part],
    trees: GrownTrees,
    *,
    n_passes: int = 1,
    centres: Centres = None,
    random_state: RandomState = None,
    n_jobs: int | None = None,
) -> Forest:
    """Grow every tree at every party in turn.

    The m trees are cut into k subsets. In round r party i grows subset ``(i + r) mod k`` further:
    it draws a bootstrap of its records for each tree, sends them down, and splits the leaves that
    they reach. After k rounds every party has grown every tree once. What travels are splits. A
    single party grows the centralised forest.

    Parameters
    ----------
    domain : Domain
        With a target.
    parts : sequence of (codes, labels)
        A party without records passes trees on as they are.
    trees : GrownTrees
        The law of growing and the number m of trees, for instance
        ``BreimanTrees(100, "entropy", min_points=1)``.
    n_passes : int, default=1
        How often every party grows every tree.
    centres : sequence of (ndarray or None), optional
        Raw values of the codes.
    random_state : int, Generator or None
        Equal seeds give equal forests, whatever `n_jobs`.
    n_jobs : int, optional
        Threads, each following subsets of trees from party to party.

    Returns
    -------
    Forest
        Without counts in its leaves, see `adjusted_leaves`. **Not private**: every split was
        chosen from one party's raw records.

    Raises
    ------
    ValueError
        If no party has a record.
    """
    check_integer("n_passes", n_passes, 1)
    _check_parts(parts)
    k = len(parts)
    subsets = [len(part) for part in np.array_split(np.arange(trees.n_trees), k)]
    generators = np.random.default_rng(random_state).spawn(k)

    def grow_subset(subset: int) -> Forest:
        forest = bare_roots(domain, subsets[subset], f"{trees.growth.source} of {k} parties")
        for turn in range(n_passes * k):
            codes, labels = parts[(subset - turn) % k]
            if len(codes):
                forest = grow_further(
                    forest,
                    codes,
                    labels,
                    trees.growth,
                    centres=centres,
                    nominal=trees.nominal,
                    random_state=generators[subset],
                )
        return forest

    filled = [subset for subset in range(k) if subsets[subset]]
    return concatenate(
        Parallel(n_jobs=bounded_jobs(n_jobs), prefer="threads")(map(delayed(grow_subset), filled))
    )


def grow_separately(
    domain: Domain,
    parts: Sequence[Part],
    trees: GrownTrees,
    *,
    trees_per_party: int | None = None,
    centres: Centres = None,
    random_state: RandomState = None,
    n_jobs: int | None = None,
) -> tuple[Forest, Array]:
    """Grow each party's own trees of its own records, and put all of them together.

    Parameters
    ----------
    domain, parts, trees, centres, random_state, n_jobs
        As in `grow_collaboratively`. A single part is the centralised forest.
    trees_per_party : int, optional
        Trees of each party; by default the m trees are divided among those that have records.

    Returns
    -------
    forest : Forest
    shares : ndarray of shape (o, c)
        Each leaf's share of every class among the points that its tree was grown of; classes that
        a party lacks have 0. **Not private.**

    Raises
    ------
    ValueError
        If no party has a record.
    """
    _check_parts(parts)
    present = [part for part in parts if len(part[0])]
    if trees_per_party is None:
        numbers = [len(part) for part in np.array_split(np.arange(trees.n_trees), len(present))]
    else:
        check_integer("trees_per_party", trees_per_party, 1)
        numbers = [trees_per_party] * len(present)
    generators = np.random.default_rng(random_state).spawn(len(present))
    grown = [
        grow_forest(
            domain,
            codes,
            labels,
            trees.growth,
            number,
            centres=centres,
            nominal=trees.nominal,
            random_state=generator,
            n_jobs=n_jobs,
        )
        for (codes, labels), number, generator in zip(present, numbers, generators, strict=True)
        if number
    ]
    counts = np.concatenate([one.parent_counts for one in grown])
    return concatenate([one.forest for one in grown]), class_shares(counts)


def class_shares(counts: Longs) -> Array:
    """Return rows of counts divided by their sums; rows without a count stay 0."""
    return np.asarray(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1))


def _check_parts(parts: Sequence[Part]) -> None:
    if not any(len(codes) for codes, _ in parts):
        raise ValueError("parts holds no record: expected at least one party with records.")


Aggregate = Literal["all", "reached", "pooled"]


def adjusted_leaves(forest: Forest, parts: Sequence[Part], aggregate: str = "all") -> Array:
    """Return each leaf's class probabilities: the mean of what the parties find in it.

    Party i sends down all of its records. In a leaf they have class shares ``p_i``, which it
    reports where it has records; "averaging across all clients" can be read in three ways, ::

        all       sum of p_i over k, a party that does not reach the leaf counting as 0
        reached   mean of p_i over the parties that reach it
        pooled    mean weighted by their numbers of records: shares of all records together

    Parameters
    ----------
    forest : Forest
        Over a domain with a target; grown by the parties, or any other.
    parts : sequence of (codes, labels)
    aggregate : {"all", "reached", "pooled"}, default="all"
        "all" is what the poster says to the letter, and agrees with its table. Its vectors sum
        to the share of parties that reach the leaf.

    Returns
    -------
    ndarray of shape (o, c)
        A leaf without any record has the vector of the nearest node above that has some. Leaves
        that the parties grew have records. **Not private**: shares in small leaves are records.

    Notes
    -----
    The largest arrays are (nodes, c) of doubles, three of them, whatever the number of parties.
    """
    one_word("aggregate", aggregate, get_args(Aggregate))
    k = forest.domain.n_classes
    total = np.zeros((forest.n_nodes, k))
    weight = np.zeros(forest.n_nodes)
    for codes, labels in parts:
        if not len(codes):
            continue
        counts = node_counts(forest, leaf_counts(forest, codes, labels, k))
        total += counts if aggregate == "pooled" else class_shares(counts)
        weight += counts.sum(axis=1) if aggregate == "pooled" else counts.any(axis=1)
    place = _nearest_reached(forest, weight > 0)
    divisor = np.full_like(weight, len(parts)) if aggregate == "all" else np.maximum(weight, 1)
    return np.asarray(total[place] / divisor[place, None])


def node_counts(forest: Forest, counts: Longs) -> Longs:
    """Return the class counts of all nodes from those of the leaves."""
    found = np.zeros((forest.n_nodes, counts.shape[1]), dtype=np.int64)
    found[forest.leaves] = counts
    for level in reversed(forest.levels[1:]):
        np.add.at(found, forest.parent[level], found[level])
    return found


def _nearest_reached(forest: Forest, is_reached: Bools) -> Longs:
    """Return for each leaf itself or the nearest node above that a record reaches."""
    place = forest.leaves.astype(np.int64)
    for _ in range(forest.max_depth):
        place = np.where(
            is_reached[place] | (forest.parent[place] < 0), place, forest.parent[place]
        )
    return np.asarray(place)


Shuffle = Literal["classes", "chunks"]


def most_chunks(n_classes: int, chunks: int, n_clients: int) -> int:
    """Return ``M = ceil(c alpha / k)``, the most chunks, hence classes, of one client.

    Examples
    --------
    Pendigits and Letter as the poster splits them:

    >>> most_chunks(10, 2, 10), most_chunks(26, 1, 10)
    (2, 3)
    """
    return -(-n_classes * chunks // n_clients)


def deal_chunks(
    labels: NDArray[Any],
    n_clients: int,
    chunks: int,
    random_state: RandomState = None,
    *,
    shuffle: str = "classes",
) -> Longs:
    """Return the client of each record, by the α-chunk split.

    Each class is shuffled and cut into α chunks whose sizes differ by one record at most. The
    chunks of all classes are put in one list and dealt in turn: chunk i goes to client
    ``i mod k``.

    Parameters
    ----------
    labels : ndarray of shape (N,)
        The class of each record; any values.
    n_clients : int
        k.
    chunks : int
        α, chunks a class.
    random_state : int, Generator or None
    shuffle : {"classes", "chunks"}, default="classes"
        What is shuffled of the list. "classes": classes come in random order, each with its
        chunks together, so that with ``α <= k`` no two chunks of a class meet at one client.
        "chunks": all chunks; a client of two chunks of one class then has nothing to split.

    Returns
    -------
    ndarray of int64, shape (N,)
        0 to k - 1. A client has at most `most_chunks` chunks, and none where there are fewer
        chunks than clients.

    Raises
    ------
    TypeError, ValueError
        If `n_clients` or `chunks` is no positive integer, or `shuffle` is unknown.

    Examples
    --------
    >>> client = deal_chunks(np.repeat([0, 1, 2], 4), n_clients=2, chunks=2, random_state=0)
    >>> np.bincount(client)
    array([6, 6])
    """
    check_integer("n_clients", n_clients, 1)
    check_integer("chunks", chunks, 1)
    one_word("shuffle", shuffle, get_args(Shuffle))
    generator = np.random.default_rng(random_state)
    classes, label = np.unique(labels, return_inverse=True)
    order = generator.permutation(len(label))
    order = order[np.argsort(label[order], kind="stable")]
    size = np.bincount(label, minlength=len(classes))
    size, rank = size[label[order]], np.arange(len(order)) - (np.cumsum(size) - size)[label[order]]
    least, longer = np.divmod(size, chunks)
    in_longer = rank < longer * (least + 1)
    chunk = np.where(
        in_longer,
        rank // (least + 1),
        longer + (rank - longer * (least + 1)) // np.maximum(least, 1),
    )
    place = np.arange(len(classes) * chunks).reshape(-1, chunks)
    moved = generator.permutation(place.size if shuffle == "chunks" else len(classes))
    dealt = (moved if shuffle == "chunks" else place[moved].ravel()) % n_clients
    client = np.empty(len(order), dtype=np.int64)
    client[order] = dealt[label[order] * chunks + chunk]
    return client
