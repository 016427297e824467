"""Operators go through JSON and back: the same to the last bit, or a clear refusal."""

import json
from copy import deepcopy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from strategies import operators as ops
from strategies.operator_files import RULES, OperatorFileError, decode, encode
from strategies.operators import Operator, PIdentity
from strategies.operators.masks import mask_products
from tests.strategies.operators.test_laws import CASES, all_structures

RANDOM = np.random.default_rng(3)
SIZES = (3, 2, 4)
REAL = RANDOM.normal(size=(9, 5))
WHOLE = RANDOM.integers(-3, 4, (5, 6))
TREE = ops.RowKronecker.from_masks(
    [np.eye(3), np.ones((3, 2)), np.ones((3, 4))], groups=np.array([7, 7, 7])
)
OPERATORS: dict[str, Operator] = {name: make().operator for name, make in CASES.items()} | {
    "dense": ops.Dense(REAL),
    "tree": TREE,
    "dense by column": ops.Dense(np.asfortranarray(REAL)),
    "dense of integers and sizes": ops.Dense(WHOLE, (2, 3)),
    "dense part": ops.Dense(REAL[:, ::2]),
    "sparse of integers and sizes": ops.Sparse(sparse.csr_array(WHOLE), (2, 3)),
    "sparse and empty": ops.Sparse(sparse.csr_array((3, 4))),
    "identity beyond memory": ops.Identity(2**100),
    "p-identity with sizes": PIdentity(np.arange(1, 7), sparse.csr_array(WHOLE), (2, 3)),
}


def through_json(operator):
    tree, arrays = encode(operator)
    return decode(json.loads(json.dumps(tree, allow_nan=False)), arrays)[0]


def test_every_structure_has_a_rule_and_a_test():
    assert {rule.structure for rule in RULES} == all_structures()
    assert len({rule.kind for rule in RULES}) == len(RULES)
    kinds = {encode(operator)[0]["kind"] for operator in OPERATORS.values()}
    assert kinds == {rule.kind for rule in RULES}


@pytest.mark.parametrize("name", OPERATORS)
def test_the_same_comes_back_to_the_last_bit(name):
    operator = OPERATORS[name]
    loaded = through_json(operator)
    assert type(loaded) is type(operator)
    assert (loaded.shape, loaded.sizes) == (operator.shape, operator.sizes)
    assert encode(loaded)[0] == encode(operator)[0]
    if operator.shape[1] > 100:
        return
    assert np.array_equal(loaded.to_dense(), operator.to_dense())
    assert loaded.to_sparse().dtype == operator.to_sparse().dtype
    cells, rows = (RANDOM.normal(size=(side, 3)) for side in operator.shape[::-1])
    assert np.array_equal(loaded.matmat(cells), operator.matmat(cells))
    assert np.array_equal(loaded.rmatmat(rows), operator.rmatmat(rows))
    if operator.to_dense().any():
        assert np.array_equal(loaded.least_squares(rows), operator.least_squares(rows))


def test_a_huge_domain_takes_little_room():
    sizes = (10,) * 40
    operator = ops.Stack(
        [
            ops.Scaled(2, ops.Marginals(sizes, [(0, 1), (5,)], [1, 3])),
            ops.RowKronecker.from_masks([RANDOM.random((200, 10)) < 0.5 for _ in sizes]),
            ops.Kronecker([ops.Identity(10)] * 40),
        ]
    )
    tree, arrays = encode(operator)
    assert operator.shape[1] == 10**40
    assert len(json.dumps(tree)) + sum(array.nbytes for array in arrays.values()) < 20_000
    assert decode(tree, arrays)[0].shape == operator.shape


def test_groups_are_checked_to_be_disjoint():
    tree, arrays = encode(TREE)
    assert through_json(TREE).is_partition
    lying = {**arrays, "0": np.full_like(arrays["0"], arrays["0"][0])}
    with pytest.raises(ValueError, match="share a cell"):
        decode(tree, lying)


def test_a_structure_without_a_rule_is_refused_by_name():
    class Foreign(ops.Dense):
        pass

    with pytest.raises(OperatorFileError, match="Foreign, a structure without a rule"):
        encode(ops.Scaled(2, Foreign(REAL)))
    del Foreign


def test_no_array_stands_in_two_places():
    tree, arrays = encode(ops.Dense(REAL))
    twice = {"kind": "stack", "blocks": [tree, tree]}
    with pytest.raises(OperatorFileError, match="of its own"):
        decode(twice, arrays)


def nested(depth):
    tree = {"kind": "identity", "n": 3, "sizes": None}
    for _ in range(depth):
        tree = {"kind": "transposed", "inner": tree}
    return tree


def test_depth_and_number_of_operators_are_capped():
    assert decode(nested(30), {})[0].shape == (3, 3)
    with pytest.raises(OperatorFileError, match="within each other"):
        decode(nested(50), {})
    with pytest.raises(OperatorFileError, match="operators"):
        decode({"kind": "stack", "blocks": [nested(0)] * 4000}, {})
    with pytest.raises(OperatorFileError, match="operators"):
        encode(ops.Stack([ops.Identity(3)] * 4000))
    with pytest.raises(OperatorFileError, match="columns"):
        encode(ops.Sparse(sparse.csr_array((1, 2**27))))


def with_arrays(name, **changes):
    """Return a tree with arrays changed by place."""
    tree, arrays = encode(OPERATORS[name])
    tree = deepcopy(tree)
    for key, values in changes.items():
        place = str(tree[key]["array"])
        arrays[place] = np.asarray(values, dtype=arrays[place].dtype)
        tree[key]["shape"] = list(arrays[place].shape)
    return tree, arrays


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("sparse", {"indices": [0]}),
        ("sparse", {"starts": [0, 2**62]}),
        ("sparse", {"starts": [0, 5, 3, 9]}),
        ("sparse", {"values": [1.0, 2.0], "indices": [1, 0], "starts": [0, 2]}),
        ("sparse", {"values": [1.0, 2.0], "indices": [0, 99], "starts": [0, 2]}),
        ("sparse", {"values": [1.0, 2.0], "indices": [-1, 0], "starts": [0, 2]}),
        ("sparse", {"values": [np.nan, 2.0], "indices": [0, 1], "starts": [0, 2]}),
        ("dense", {"entries": [[np.inf]]}),
        ("grouping", {"labels": [2**62, 0]}),
        ("grouping", {"labels": [0, 2, 2]}),
        ("grouping", {"labels": []}),
        ("paths", {"bits": [[255, 255]]}),
        ("paths", {"bits": [[1]]}),
        ("tree", {"groups": [0, 0, 0, 1]}),
        ("row scaled", {"weights": [1.0]}),
    ],
)
def test_arrays_that_make_no_operator_are_refused(name, changes):
    with pytest.raises(ValueError, match="expected"):
        decode(*with_arrays(name, **changes))


def leaves(depth, attributes, start=0):
    """Return the leaves of a tree that splits two codes a level, as codes with -1 for free."""
    if depth == 0:
        return np.full((1, attributes), -1)
    below = [leaves(depth - 1, attributes, start + 1) for _ in range(2)]
    for code, part in enumerate(below):
        part[:, start] = code
    return np.concatenate(below)


@pytest.mark.parametrize("depth", [3, 11])
def test_leaves_of_a_tree_are_quickly_found_disjoint(depth):
    codes = leaves(depth, 14)
    masks = [(column[:, None] == [0, 1]) | (column < 0)[:, None] for column in codes.T]
    order = RANDOM.permutation(len(codes))
    one = ops.RowKronecker.from_masks([mask[order] for mask in masks])
    spent = []
    groups = np.zeros(len(codes), np.int64)
    one.with_groups(groups, spent.append)
    assert sum(spent) <= len(codes) ** 2 * 28 / (1 if depth < 8 else 3)
    doubled = one.take_rows(np.r_[order, order[5]])
    with pytest.raises(ValueError, match="share a cell"):
        doubled.with_groups(np.zeros(len(order) + 1, np.int64))


@given(st.integers(1, 12), st.integers(0, 2**32), st.floats(0.2, 0.8))
def test_disjoint_rows_are_those_whose_products_meet_nowhere(rows, seed, share):
    random = np.random.default_rng(seed)
    one = ops.RowKronecker.from_masks([random.random((rows, n)) < share for n in SIZES])
    groups = random.integers(0, 3, rows)
    meet = one.to_dense() @ one.to_dense().T * (groups[:, None] == groups)
    np.fill_diagonal(meet, 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mask_products, "SMALL", 0)
        try:
            one.with_groups(groups)
            assert not meet.any()
        except ValueError:
            assert meet.any()


def test_checks_that_take_too_much_work_are_refused():
    rows = 2**19
    tree, arrays = encode(TREE)
    tree["bits"]["shape"], tree["groups"]["shape"] = [rows, 2], [rows]
    arrays = {"0": np.tile(np.packbits(np.ones(9, bool)), (rows, 1)), "1": np.zeros(rows, int)}
    with pytest.raises(OperatorFileError, match="operations"):
        decode(tree, arrays)


def places(data, path=()):
    yield path
    if isinstance(data, dict | list):
        for key, value in data.items() if isinstance(data, dict) else enumerate(data):
            yield from places(value, (*path, key))


ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 9),
    st.sampled_from([2**31, 2**63, 10**400, -(2**70), 1e300, float("inf"), 0.5, "dense", "x"]),
    st.sampled_from([[], {}, [[]], [0, 0], ["a"], {"kind": "identity", "n": 3, "sizes": None}]),
)


@pytest.mark.parametrize("name", OPERATORS)
@given(data=st.data())
def test_any_value_of_the_tree_may_be_wrong(name, data):
    tree, arrays = encode(OPERATORS[name])
    path = data.draw(st.sampled_from(list(places(tree))))
    odd = deepcopy(tree)
    inner = odd
    for key in path[:-1]:
        inner = inner[key]
    if path:
        inner[path[-1]] = data.draw(ODD)
    else:
        odd = data.draw(ODD)
    try:
        loaded, names = decode(odd, arrays)
    except (ValueError, TypeError, ArithmeticError):
        return
    assert isinstance(loaded, Operator)
    assert names <= set(arrays)


def test_many_searches_over_all_cells_are_refused():
    """Each alone is read: its sensitivity takes some seconds, and many take minutes."""
    masks = [RANDOM.random((8, 45)) < 0.5 for _ in range(5)]
    combined = [ops.Product(ops.Dense(np.ones((1, 8))), ops.RowKronecker.from_masks(masks))] * 20
    encoded, arrays = encode(combined[0])
    assert decode(encoded, arrays)[0].shape == combined[0].shape
    encoded, arrays = encode(ops.Stack(combined))
    with pytest.raises(OperatorFileError, match="product: checking it takes more"):
        decode(encoded, arrays)
