"""What counting on a cluster will take: bytes moved, memory a worker, seconds, before any data."""

from dataclasses import dataclass
from math import ceil
from time import perf_counter

from mrf_matrix.domain import Domain
from mrf_matrix.mechanisms.tally import (
    DENSE_ENTRIES,
    PENDING_KEYS,
    Table,
    merged_tables,
    word_groups,
)
from mrf_matrix.streams.cluster import SPLIT, PartialTable, partial_table
from mrf_matrix.streams.counting import checked_domain

READING = 2**28
"""Bytes that a worker needs for a part of a file while it reads (measured with pyarrow)."""


@dataclass(frozen=True)
class Throughput:
    """What one core of the cluster does, measured on a sample of the data.

    Attributes
    ----------
    seconds_a_record : float
        To read and count one record.
    seconds_a_byte : float
        To add one byte of a table of counts to another.
    network : float
        Bytes a second between two workers.
    seconds_a_task : float
        What Dask takes for a task, whatever it does.
    """

    seconds_a_record: float
    seconds_a_byte: float
    network: float = 1e9
    seconds_a_task: float = 1e-3


@dataclass(frozen=True)
class ClusterCost:
    """The expected cost of one count.

    Attributes
    ----------
    bytes_moved : int
        Between workers and to the parent, at most: every table is sent once.
    memory : int
        Bytes that each worker needs at most.
    seconds : float
    """

    bytes_moved: int
    memory: int
    seconds: float


def cluster_cost(
    domain: Domain, n_records: int, n_partitions: int, n_workers: int, throughput: Throughput
) -> ClusterCost:
    r"""Return what `count_dask` will take.

    With P partitions, W workers of one thread and tables of B bytes summed four at a time,

    .. math::

        \text{seconds} = \lceil P / W \rceil \Bigl( \frac{N}{P} r + t \Bigr)
            + \Bigl( \frac{S}{W} + \log_4 P \Bigr) \Bigl( 4 B a + \frac{3 B}{\nu} + t \Bigr),

    where S is the number of sums, r the seconds a record, a those a byte added, ν the network and
    t the seconds a task.

    Parameters
    ----------
    domain : Domain
        With its classes.
    n_records : int
        How many there may be: a public guess, for planning.
    n_partitions, n_workers : int
    throughput : Throughput
        Of `measure_throughput`, or known otherwise.

    Raises
    ------
    ValueError
        If a number is not positive.

    Examples
    --------
    >>> domain = Domain.from_sizes([4, 4, 4, 3, 3, 3, 5, 6], n_classes=4)
    >>> core = Throughput(seconds_a_record=50e-9, seconds_a_byte=0.2e-9)
    >>> cost = cluster_cost(domain, 10**11, 4000, 100, core)
    >>> round(cost.seconds), cost.bytes_moved // 10**9, cost.memory // 10**6
    (50, 8, 278)
    """
    for name, number in (
        ("n_records", n_records),
        ("n_partitions", n_partitions),
        ("n_workers", n_workers),
    ):
        if number < 1:
            raise ValueError(f"{name}={number!r}: expected a positive number.")
    table = table_bytes(domain, ceil(n_records / n_partitions), n_records)
    sums, levels, left = 0, 0, n_partitions
    while left > 1:
        left = ceil(left / SPLIT)
        sums, levels = sums + left, levels + 1
    once = throughput.seconds_a_task
    counting = n_records / n_partitions * throughput.seconds_a_record + once
    adding = SPLIT * table * throughput.seconds_a_byte
    adding += (SPLIT - 1) * table / throughput.network + once
    seconds = ceil(n_partitions / n_workers) * counting + (sums / n_workers + levels) * adding
    waiting = 0 if is_dense(domain) else 8 * PENDING_KEYS * n_words(domain)
    memory = READING + (SPLIT + 2) * table + waiting
    return ClusterCost((n_partitions + sums) * table, memory, seconds)


def table_bytes(domain: Domain, records: int, all_records: int) -> int:
    """Return the bytes of a table of counts: dense, or at most so many keys.

    `records`: in a partition; `all_records`: in all of them: a sum of tables may hold as many keys.
    """
    pairs = domain.size * checked_domain(domain).n_classes
    if is_dense(domain):
        return 8 * pairs
    return 8 * (n_words(domain) + 1) * min(pairs, max(records, all_records))


def is_dense(domain: Domain) -> bool:
    """Whether counts are a table of all cells and classes."""
    return domain.size * domain.n_classes <= DENSE_ENTRIES


def n_words(domain: Domain) -> int:
    """Return how many numbers a key has."""
    return len(word_groups([*domain.sizes, domain.n_classes]))


def measure_throughput(
    sample: object, domain: Domain, *, network: float = 1e9, seconds_a_task: float = 1e-3
) -> Throughput:
    """Time one core on a sample: read and counted once to warm up, once on the clock.

    Parameters
    ----------
    sample : batch or path
        Best a file like those of the cluster, of some million records. Public, or the owner's own:
        the times depend on how many records there are.
    domain : Domain
    network, seconds_a_task : float
        See `Throughput`.

    Raises
    ------
    ValueError
        If the sample holds no record.
    """
    known = checked_domain(domain)
    _counted(sample, known)
    start = perf_counter()
    found = _counted(sample, known)
    counting = perf_counter() - start
    table = found.table
    records = 0 if table is None else n_counted(table)
    if table is None or not records:
        raise ValueError("sample holds no record: expected some million of them.")
    start = perf_counter()
    merged_tables([table] * SPLIT)
    adding = perf_counter() - start
    size = table[0].nbytes + table[1].nbytes if isinstance(table, tuple) else table.nbytes
    return Throughput(counting / records, adding / (SPLIT * size), network, seconds_a_task)


def n_counted(table: Table) -> int:
    """Return how many records a table holds: **private**."""
    return int((table[1] if isinstance(table, tuple) else table).sum())


def _counted(sample: object, domain: Domain) -> PartialTable:
    found = partial_table(sample, 0, domain, "ignore")
    if found.error is not None:
        raise ValueError(f"sample: {found.error}")
    return found
