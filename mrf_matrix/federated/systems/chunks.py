"""The split of a training table in which every party sees few of the classes."""

from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.arrays import Longs
from mrf_matrix.base.checks import check_integer, one_word
from mrf_matrix.forests.forest import RandomState

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
