"""Records of a few nodes, in the order that split search wants: by node, then by class."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.arrays import Array, Longs
from mrf_matrix.forests.growth.impurity import Impurity


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
        """Items of every node and slot, shape (n_nodes, n_slots)."""
        counts = np.bincount(self.group, minlength=self.n_nodes * self.n_slots)
        return counts.reshape(self.n_nodes, self.n_slots)

    @cached_property
    def total(self) -> Longs:
        """Structure points of every node."""
        return np.asarray(self.counts[:, : self.n_classes].sum(axis=1))

    @cached_property
    def start(self) -> Longs:
        """First item of every node."""
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
        """What ``sum f`` on the left and on the right change by as each item moves to the left.

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
