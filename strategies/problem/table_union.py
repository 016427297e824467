"""Unions of Kronecker products read as tables: which attributes each restricts, and how."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from strategies.operators import Array, Operator
from strategies.operators.base.arrays import Bools, Longs
from strategies.operators.base.operator import cached_per_value
from strategies.operators.kronecker import kronecker_blocks
from strategies.problem.problem import Problem

LARGEST = 2600  # codes of an attribute up to which its Gram is built
MOST_SETS = 2**16  # pairs of a table and a set of attributes below it
DIGITS = 11  # to which Grams of one scale are compared
EVEN = 1e-13  # relative spread of equal entries


@dataclass(frozen=True, eq=False)
class Kind:
    """One way in which tables restrict an attribute."""

    number: int  # kinds of equal Grams have one number; of equal rows, for the largest error
    gram: Array  # (n, n), of mean diagonal 1
    rows: Operator  # the factor with that Gram, up to its scale
    scale: float  # of the rows: the Gram is theirs over its square

    @cached_property
    def is_plain(self) -> bool:
        """Whether the Gram is the identity: every code by itself."""
        return bool(np.allclose(self.gram, np.eye(len(self.gram)), rtol=0.0, atol=1e-12))

    @cached_property
    def classes(self) -> Longs:
        """The class of every code: codes with equal rows of the Gram are interchangeable."""
        labels = np.unique(self.gram.round(DIGITS), axis=0, return_inverse=True)[1]
        return np.asarray(labels.ravel(), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class TableUnion:
    """Tables ``w_T ⊗ (W_Ti for i in T, the row of ones elsewhere)`` on top of each other.

    Attributes without a restriction in any table are left out; those that remain are numbered
    anew.
    """

    domain_sizes: tuple[int, ...]  # of all attributes
    attributes: tuple[int, ...]  # those that some table restricts
    kinds: tuple[tuple[Kind, ...], ...]  # of every attribute
    tables: tuple[tuple[int, ...], ...]
    kind: Longs  # (tables, attributes): which of an attribute's kinds a table has
    weights: Array  # (tables,)

    @property
    def count(self) -> int:
        return len(self.attributes)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        return tuple(self.domain_sizes[i] for i in self.attributes)

    @cached_property
    def sets_below(self) -> tuple[tuple[tuple[int, ...], ...], ...]:
        """The sets of attributes below every table."""
        return tuple(
            tuple(s for k in range(len(t) + 1) for s in combinations(t, k)) for t in self.tables
        )

    @cached_property
    def index(self) -> dict[tuple[int, ...], int]:
        return {s: n for n, s in enumerate(dict.fromkeys(s for b in self.sets_below for s in b))}

    @property
    def sets(self) -> tuple[tuple[int, ...], ...]:
        return tuple(self.index)

    @cached_property
    def pairs(self) -> tuple[Longs, Longs]:
        """Sets and tables above them: two arrays of numbers."""
        found = [(self.index[s], t) for t, below in enumerate(self.sets_below) for s in below]
        of_set, of_table = np.array(found, dtype=np.int64).T
        return of_set, of_table

    @cached_property
    def set_members(self) -> Bools:
        return np.array([[i in s for i in range(self.count)] for s in self.sets], dtype=bool)

    @cached_property
    def table_members(self) -> Bools:
        return np.array([[i in t for i in range(self.count)] for t in self.tables], dtype=bool)

    @cached_property
    def moving_attributes(self) -> tuple[int, ...]:
        """The attributes along which some table has other rows than single codes."""
        every = range(self.count)
        return tuple(i for i in every if not all(kind.is_plain for kind in self.kinds[i]))

    @cached_property
    def twin(self) -> tuple[int, ...]:
        """The first attribute that may change places with each: the tables stay the same."""
        label = [[kind.number for kind in kinds] for kinds in self.kinds]

        def swapped_tables(swap: dict[int, int]) -> list[tuple[float, tuple[tuple[int, int], ...]]]:
            every = zip(self.weights.tolist(), self.tables, self.kind, strict=True)
            return sorted(
                (w, tuple(sorted((swap.get(i, i), label[i][k[i]]) for i in t))) for w, t, k in every
            )

        twin, whole = list(range(self.count)), swapped_tables({})
        for i in range(self.count):
            for j in range(i):
                alike = twin[j] == j and label[i] == label[j] and self.sizes[i] == self.sizes[j]
                if alike and swapped_tables({i: j, j: i}) == whole:
                    twin[i] = j
                    break
        return tuple(twin)


def table_union(workload: Operator, is_total: bool = True) -> TableUnion | None:
    """Read a workload as a union of tables, None where it is none or too large.

    >>> from strategies.operators import Identity, Kronecker, PrefixSums, Stack
    >>> one, two = PrefixSums(3), Identity(2)
    >>> union = table_union(Stack([Kronecker([one, two]), Kronecker([PrefixSums(3), two])]))
    >>> union.tables, union.kinds[0][0].gram.shape, len(union.kinds[0])
    (((0, 1), (0, 1)), (3, 3), 1)
    """
    blocks = [pair for pair in kronecker_blocks(workload) or () if pair[0]]
    if not blocks or any(len(f.sizes or ()) > 1 for _, block in blocks for f in block.factors):
        return None
    widths = {tuple(factor.shape[1] for factor in block.factors) for _, block in blocks}
    sizes = next(iter(widths))
    if len(widths) > 1 or max(sizes) > LARGEST:
        return None
    factors = {id(factor): factor for _, block in blocks for factor in block.factors}
    kinds = distinct_kinds(list(factors.values()), is_total)
    by_factor = dict(zip(factors, kinds, strict=True))
    tables, weights, chosen = [], [], []
    for weight, block in blocks:
        parts = [by_factor[id(factor)] for factor in block.factors]
        weights.append(abs(weight) * float(np.prod([part.scale for part in parts])))
        tables.append([i for i, part in enumerate(parts) if part.number >= 0])
        chosen.append(parts)
    if sum(2.0 ** len(table) for table in tables) > MOST_SETS or not any(tables):
        return None
    return number_kinds(sizes, tables, chosen, np.asarray(weights))


def number_kinds(
    sizes: tuple[int, ...], tables: list[list[int]], chosen: list[list[Kind]], weights: Array
) -> TableUnion:
    """Return the union with restricted attributes, and the kinds of each, in their own order."""
    attributes = sorted({i for table in tables for i in table})
    place = {i: n for n, i in enumerate(attributes)}
    kinds, kind = [], np.zeros((len(tables), len(attributes)), dtype=np.int64)
    for i in attributes:
        mine = {parts[i].number: parts[i] for table, parts in zip(tables, chosen, strict=True)
                if i in table}  # fmt: skip
        order = sorted(mine)
        kinds.append(tuple(mine[number] for number in order))
        for t, (table, parts) in enumerate(zip(tables, chosen, strict=True)):
            if i in table:
                kind[t, place[i]] = order.index(parts[i].number)
    renumbered = tuple(tuple(place[i] for i in table) for table in tables)
    return TableUnion(sizes, tuple(attributes), tuple(kinds), renumbered, kind, weights)


def distinct_kinds(factors: Sequence[Operator], is_total: bool) -> list[Kind]:
    """Return the kind of every factor: number -1 for multiples of the total, else by its Gram.

    For the largest error by its rows too, told by a random sum of each; of multiples the longest.
    """
    numbers: dict[tuple[bytes, ...], int] = {}
    result = []
    for factor in factors:
        gram = factor.gram_dense().astype(np.float64)
        n = len(gram)
        scale = float(np.sqrt(np.trace(gram) / n))
        gram = gram / scale**2
        number = -1
        if np.ptp(gram) > EVEN * n:
            probe = np.random.default_rng(0).normal(size=n) / scale
            told = [gram] if is_total else [gram, factor.matmat(probe)]
            key = tuple((one.round(DIGITS) + 0.0).tobytes() for one in told)
            number = numbers.setdefault(key, len(numbers))
        elif not is_total:
            scale = float(np.sqrt(factor.row_squares().max() / n))
        result.append(Kind(number, gram, factor, scale))
    return result


@cached_per_value
def problem_union(problem: Problem) -> TableUnion | None:
    """Return the workload as a union of several tables, None where it is none.

    None for plain tables too, and for ordered cells, which have closed forms or rules of their own.
    """
    known = problem.energies
    if known is not None and known.is_invariant:
        return None
    union = table_union(problem.workload, problem.is_total)
    several = union is not None and len(union.tables) > 1 and union.count > 1
    return union if several else None
