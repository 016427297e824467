"""Oracles for forests: a router one could check by hand, and random forests of every kind."""

from dataclasses import dataclass, field
from random import Random

import numpy as np
import pytest
from grown_sources import records_to_grow_from
from hypothesis import strategies as st

from mrf_matrix.domain import Domain
from mrf_matrix.forests import Forest, branch_pool, subset_patterns


@dataclass
class Node:
    """A node object: what the library never uses, and the oracle does."""

    attribute: int = -1
    table: list[int] = field(default_factory=list)
    children: list["Node"] = field(default_factory=list)


def random_node(draw: Random, sizes: list[int], codes: list[list[int]], depth: int) -> Node:
    usable = [i for i, left in enumerate(codes) if len(left) > 1]
    if depth == 0 or not usable or draw.random() < 0.15:
        return Node()
    i = draw.choice(usable)
    fan = draw.randint(2, len(codes[i]))
    kind = draw.choice(["multiway", "threshold", "subset"])
    if kind == "multiway" and len(codes[i]) == sizes[i]:
        fan, table = sizes[i], list(range(sizes[i]))
    elif kind == "threshold":
        cut = draw.choice(codes[i][1:])
        fan, table = 2, [int(code >= cut) for code in range(sizes[i])]
    else:
        table = [draw.randrange(fan) for _ in range(sizes[i])]
        for branch, code in enumerate(draw.sample(codes[i], fan)):
            table[code] = branch
    node = Node(i, table)
    for branch in range(fan):
        below = [list(left) for left in codes]
        below[i] = [code for code in codes[i] if table[code] == branch]
        node.children.append(random_node(draw, sizes, below, depth - 1))
    return node


def as_forest(sizes: list[int], trees: list[Node], draw: Random) -> Forest:
    """Number siblings consecutively, families and roots in a random order."""
    families = [[root] for root in trees]
    for family in families:
        families.extend(node.children for node in family if node.children)
    draw.shuffle(families)
    nodes = [node for family in families for node in family]
    number = {id(node): i for i, node in enumerate(nodes)}
    inner = [node for node in nodes if node.children]
    pool, starts = subset_patterns(branch_pool(sizes), [np.array(n.table) for n in inner])
    pattern = dict(zip(map(id, inner), starts, strict=True))
    return Forest(
        domain=Domain.from_sizes(sizes),
        roots=np.array([number[id(root)] for root in trees]),
        attribute=np.array([node.attribute for node in nodes]),
        first_child=np.array(
            [number[id(n.children[0])] if n.children else number[id(n)] for n in nodes]
        ),
        pattern=np.array([pattern.get(id(node), 0) for node in nodes]),
        branches=pool,
    )


@st.composite
def forests(draw: st.DrawFn) -> Forest:
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    random = Random(draw(st.integers(0, 2**32)))
    n_trees = draw(st.integers(1, 4))
    depth = draw(st.integers(0, 5))
    codes = [list(range(size)) for size in sizes]
    trees = [random_node(random, sizes, codes, depth) for _ in range(n_trees)]
    return as_forest(sizes, trees, random)


@pytest.fixture(scope="session")
def any_forest() -> st.SearchStrategy[Forest]:
    """Return the hypothesis strategy of random forests of every kind of split."""
    return forests()


class SlowForest:
    """A forest's meaning, walked node by node."""

    def __init__(self, forest: Forest) -> None:
        self.forest = forest
        self.leaves: list[int] = []
        self.tree_of_leaf: list[int] = []
        self.depth = [-1] * forest.n_nodes
        self.parent = [-1] * forest.n_nodes
        for tree, root in enumerate(forest.roots.tolist()):
            self._visit(root, tree, 0)

    def _visit(self, node: int, tree: int, depth: int) -> None:
        self.depth[node] = depth
        if self.forest.attribute[node] < 0:
            self.leaves.append(node)
            self.tree_of_leaf.append(tree)
            return
        for child in self.children(node):
            self.parent[child] = node
            self._visit(child, tree, depth + 1)

    def children(self, node: int) -> list[int]:
        size = self.forest.domain.sizes[self.forest.attribute[node]]
        return sorted({self.child(node, code) for code in range(size)})

    def child(self, node: int, code: int) -> int:
        f = self.forest
        return int(f.first_child[node] + f.branches[f.pattern[node] + code])

    def route(self, record: list[int]) -> list[int]:
        """Return the leaf number of one record in each tree."""
        reached = []
        for root in self.forest.roots.tolist():
            node = root
            while self.forest.attribute[node] >= 0:
                node = self.child(node, record[self.forest.attribute[node]])
            reached.append(self.leaves.index(node))
        return reached


@pytest.fixture(scope="session")
def slow() -> type[SlowForest]:
    """Return the oracle's class."""
    return SlowForest


@pytest.fixture(scope="session")
def all_cells():
    """Return the function that lists every cell of a domain as codes."""

    def cells(sizes: tuple[int, ...]) -> np.ndarray:
        return np.stack(np.unravel_index(np.arange(np.prod(sizes)), sizes), axis=1)

    return cells


@pytest.fixture(scope="session")
def data():
    return records_to_grow_from()
