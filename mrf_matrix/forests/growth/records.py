"""Encoded records in the layout that growing and the search for splits read."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.arrays import AnyInts, Array, Longs
from mrf_matrix.base.checks import PrivateValue
from mrf_matrix.domain import Domain
from mrf_matrix.domain.columns import checked_codes, plain_array
from mrf_matrix.forests.growth.growth import Impurity


@dataclass(frozen=True, eq=False)
class Items:
    """Structure points of consecutive nodes, sorted by (node, slot).

    A slot is a class; where a rule also counts estimation points on either side of a cut, they
    come as one more slot, ``n_classes``, which impurities ignore.
    """

    record: NDArray[Any]  # (i,): which record each item is; a bootstrap repeats records
    node: Longs  # (i,): its node, 0..n_nodes-1, non-decreasing
    slot: Longs  # (i,): its slot, non-decreasing within a node
    n_nodes: int
    n_classes: int
    n_slots: int
    impurity: Impurity

    def __len__(self) -> int:
        return len(self.node)

    @cached_property
    def group(self) -> Longs:
        """(node, slot) as one number, non-decreasing."""
        return self.node * self.n_slots + self.slot

    @cached_property
    def counts(self) -> Longs:
        counts = np.bincount(self.group, minlength=self.n_nodes * self.n_slots)
        return counts.reshape(self.n_nodes, self.n_slots)

    @cached_property
    def total(self) -> Longs:
        return np.asarray(self.counts[:, : self.n_classes].sum(axis=1))

    @cached_property
    def start(self) -> Longs:
        sizes = self.counts.sum(axis=1)
        return np.asarray(np.cumsum(sizes) - sizes)

    @cached_property
    def is_class(self) -> NDArray[np.bool_] | None:
        """Which items have a class; None when all do."""
        return self.slot < self.n_classes if self.n_slots > self.n_classes else None

    @cached_property
    def parent_terms(self) -> Array:
        """``sum_c f(count of class c)`` of every node."""
        return np.asarray(self.impurity.terms(self.counts[:, : self.n_classes]).sum(axis=1))

    @cached_property
    def moves(self) -> tuple[Array, Array]:
        """Changes of ``sum f`` on the left and on the right as each item moves to the left.

        The r-th item of a class with c items changes them by ``f(r+1) - f(r)`` and
        ``f(c-r-1) - f(c-r)``. These depend on the attribute only through the order in which the
        items of one class move, and a sort by (group, code) leaves every group in its place: so
        they are the same for all attributes.
        """
        counts = self.counts.ravel()
        rank = np.arange(len(self)) - (np.cumsum(counts) - counts)[self.group]
        remaining = counts[self.group] - rank
        term = self.impurity.terms(np.arange(int(counts.max(initial=0)) + 2))
        left, right = term[rank + 1] - term[rank], term[remaining - 1] - term[remaining]
        if self.is_class is not None:
            left, right = left * self.is_class, right * self.is_class
        return left, right


@dataclass(frozen=True, eq=False, repr=False)
class Records(PrivateValue):
    """Codes by attribute, records sorted by class.

    Records of one class follow each other, so that points listed by tree and record are sorted
    by (node, class) at the root, and stay so at every level.
    """

    columns: NDArray[np.int32]  # (d, N)
    labels: NDArray[np.int32]  # (N,): class codes, non-decreasing
    sizes: tuple[int, ...]
    n_classes: int
    # the raw value of each code, where a threshold between two codes shall lie halfway between
    # their values rather than between their numbers
    centres: tuple[NDArray[np.float64] | None, ...]
    # (d,): attributes whose codes have no order: their cuts are "this code or not"
    nominal: NDArray[np.bool_]

    @classmethod
    def of(
        cls,
        domain: Domain,
        codes: NDArray[Any],
        labels: NDArray[Any],
        centres: Sequence[NDArray[Any] | None] | None = None,
        nominal: NDArray[np.bool_] | None = None,
    ) -> "Records":
        """Check and sort encoded records.

        Raises ValueError if the domain has no target, there is no record, or codes or labels do not
        fit.
        """
        codes = checked_codes(codes, domain.sizes, domain.names)
        labels = checked_labels(labels, len(codes), domain.n_classes)
        if not len(codes):
            raise ValueError("codes holds no records: expected at least one to grow from.")
        order = np.argsort(labels, kind="stable")
        return cls(
            columns=np.ascontiguousarray(codes[order].T, dtype=np.int32),
            labels=labels[order].astype(np.int32),
            sizes=domain.sizes,
            n_classes=domain.n_classes,
            centres=tuple(centres) if centres is not None else (None,) * domain.n_attributes,
            nominal=np.zeros(domain.n_attributes, dtype=np.bool_) if nominal is None else nominal,
        )

    @property
    def n_records(self) -> int:
        return len(self.labels)

    @property
    def n_attributes(self) -> int:
        return len(self.columns)

    @cached_property
    def _flat(self) -> NDArray[np.int32]:
        return self.columns.ravel()

    def column(self, attribute: int, record: NDArray[Any]) -> NDArray[np.int32]:
        return np.asarray(np.take(self.columns[attribute], record, mode="clip"))

    def codes_at_nodes(self, attribute: Longs, items: Items) -> tuple[NDArray[np.int32], int]:
        """Return the items' codes in their nodes' attributes, and one more than the largest."""
        codes = self.codes_by_node(attribute, items.node, items.record)
        return codes, int(codes.max(initial=0)) + 1

    def codes_by_node(
        self, attribute: Longs, node: NDArray[Any], record: NDArray[Any]
    ) -> NDArray[np.int32]:
        place = (attribute * self.n_records)[node] + record
        return np.asarray(np.take(self._flat, place, mode="clip"))

    def goes_right(
        self, attribute: Longs, threshold: Longs, node: NDArray[Any], record: NDArray[Any]
    ) -> NDArray[np.bool_]:
        codes = self.codes_by_node(attribute, node, record)
        limit = threshold[node]
        if not self.nominal.any():
            return np.asarray(codes >= limit)
        equal, above = codes == limit, codes >= limit
        return np.asarray(np.where(self.nominal[attribute][node], equal, above))

    def middle_code(self, attribute: Longs, low: Longs, high: Longs) -> Longs:
        """Return the first code on the right of a cut between `low` and `high`: the middle."""
        threshold = low + (high - low + 1) // 2
        wide = high > low + 1
        for i in np.unique(attribute[wide]).tolist():
            centres = self.centres[i]
            if centres is None:
                continue
            rows = np.flatnonzero(wide & (attribute == i))
            a, b = centres[low[rows]], centres[high[rows]]
            middle = a + (b - a) / 2
            above = np.searchsorted(centres, middle, side="right")
            threshold[rows] = np.clip(above, low[rows] + 1, high[rows])
        return threshold


def checked_labels(labels: object, n_records: int, n_classes: int | None = None) -> AnyInts:
    """Return class codes as integers, shape (N,), each from 0 to ``n_classes - 1`` if told.

    Raises ValueError if their shape, type or range is wrong.
    """
    given = plain_array("labels", labels)
    if given.shape != (n_records,) or given.dtype.kind not in "iu":
        raise ValueError(
            f"labels has the wrong shape, or type {given.dtype}: expected integers, one class code "
            f"a record (domain.encode_target(y))."
        )
    if n_classes is not None and n_records and (given.min() < 0 or given.max() >= n_classes):
        raise ValueError(
            f"labels leave the classes: expected 0 to {n_classes - 1}. "
            f"Encode them with domain.encode_target(y)."
        )
    return given
