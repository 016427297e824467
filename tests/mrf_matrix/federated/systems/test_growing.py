"""Trees of several parties: whose turn it is, what is kept, and what the leaves say."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from mrf_matrix import from_release, path_matrix, plan
from mrf_matrix.compilation import leaf_counts
from mrf_matrix.domain import Domain
from mrf_matrix.federated import federate, run_federation
from mrf_matrix.federated.systems import (
    adjusted_leaves,
    deal_chunks,
    grow_collaboratively,
    grow_privately,
    grow_separately,
    most_chunks,
)
from mrf_matrix.forests import (
    BreimanTrees,
    LearnedStructureError,
    PrivateMultinomialTrees,
    RandomTrees,
)
from mrf_matrix.mechanisms import PrivacyLedger, PureDP, count_cells

K = 4
DOMAIN = Domain.from_sizes([2] * K, 2)
TREES = BreimanTrees(9, "entropy", 1, max_features=K)


def own_attribute(party, count=40):
    """Return records that only one attribute tells apart: the party's."""
    codes = np.zeros((count, K), dtype=int)
    codes[count // 2 :, party] = 1
    return codes, codes[:, party].copy()


def random_parts(sizes=(60, 0, 45, 20), seed=0):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 6, (sum(sizes), 3))
    labels = (codes[:, 0] + codes[:, 1] + rng.integers(0, 3, len(codes))) // 5
    ends = np.cumsum(sizes)[:-1]
    domain = Domain.from_sizes([6, 6, 6], 3)
    return domain, list(zip(np.split(codes, ends), np.split(labels, ends), strict=True))


def attributes_on_the_way(forest, tree):
    """Return the attributes that a record of zeros meets."""
    node, met = int(forest.roots[tree]), []
    while forest.attribute[node] >= 0:
        met.append(int(forest.attribute[node]))
        node = int(forest.first_child[node])
    return met


def test_every_party_grows_every_tree_once_and_in_the_published_order():
    parts = [own_attribute(party) for party in range(K)]
    forest = grow_collaboratively(DOMAIN, parts, TREES, random_state=0)
    subset = np.repeat(np.arange(K), [3, 2, 2, 2])  # nine trees in four subsets
    for tree, own in enumerate(subset):
        # in round r party i has subset (i + r) mod k, so subset s comes to party (s - r) mod k
        assert attributes_on_the_way(forest, tree) == [(own - r) % K for r in range(K)]


def test_one_party_grows_the_centralised_forest():
    domain, parts = random_parts((80,))
    alone = grow_collaboratively(domain, parts, TREES, random_state=3)
    central, shares = grow_separately(domain, parts, TREES, random_state=3)
    cells = np.indices(domain.sizes).reshape(3, -1).T
    np.testing.assert_array_equal(alone.apply(cells), central.apply(cells))
    np.testing.assert_allclose(shares.sum(axis=1), 1)


def test_the_forest_depends_on_seeds_alone_and_on_the_passes():
    domain, parts = random_parts()
    one = grow_collaboratively(domain, parts, TREES, random_state=1)
    assert one == grow_collaboratively(domain, parts, TREES, random_state=1, n_jobs=2)
    assert one != grow_collaboratively(domain, parts, TREES, random_state=2)
    more = grow_collaboratively(domain, parts, TREES, n_passes=3, random_state=1)
    assert more.n_leaves > one.n_leaves
    assert one.n_trees == 9
    assert one.is_data_dependent
    assert not one.provenance.released


def test_every_leaf_that_parties_grew_has_records():
    domain, parts = random_parts()
    forest = grow_collaboratively(domain, parts, TREES, random_state=1)
    held = sum(leaf_counts(forest, *part, 3) for part in parts)
    assert held.sum(axis=1).min() > 0


def test_separate_trees_are_each_party_s_own():
    domain, parts = random_parts()
    parts = [(codes, np.full_like(labels, i % 3)) for i, (codes, labels) in enumerate(parts)]
    parts[3][1][:10] = 1
    forest, shares = grow_separately(domain, parts, TREES, random_state=0)
    assert forest.n_trees == 9  # three for each of the three that have records
    of_tree = [shares[forest.leaf_tree == tree] for tree in range(9)]
    assert all((rows == [1, 0, 0]).all() for rows in of_tree[:3])
    assert all((rows == [0, 0, 1]).all() for rows in of_tree[3:6])
    assert all((rows[:, 2] == 0).all() and len(rows) > 1 for rows in of_tree[6:])
    more, _ = grow_separately(domain, parts, TREES, trees_per_party=5, random_state=0)
    assert more.n_trees == 15
    few, _ = grow_separately(domain, parts, replace(TREES, n_trees=2), random_state=0)
    assert few.n_trees == 2


def vectors_by_hand(forest, parts, aggregate):
    """Return each leaf's vector from sets of records, one leaf at a time."""
    found = np.empty((forest.n_leaves, 3))
    for leaf in range(forest.n_leaves):
        node = int(forest.leaves[leaf])
        while True:
            below = [node]
            for one in below:
                if forest.attribute[one] >= 0:
                    first = int(forest.first_child[one])
                    below += range(first, first + int(forest.n_children[one]))
            held = {int(forest.leaf_index[one]) for one in below if forest.attribute[one] < 0}
            here = [
                np.bincount(labels[np.isin(forest.apply(codes), list(held)).any(axis=1)], None, 3)
                for codes, labels in parts
            ]
            if sum(map(np.sum, here)):
                break
            node = int(forest.parent[node])
        reached = [counts / counts.sum() for counts in here if counts.sum()]
        found[leaf] = {
            "reached": sum(reached) / len(reached),
            "all": sum(reached) / len(parts),
            "pooled": sum(here) / sum(map(np.sum, here)),
        }[aggregate]
    return found


@pytest.mark.parametrize("aggregate", ["reached", "all", "pooled"])
@pytest.mark.parametrize("structure", ["grown", "public"])
def test_leaves_hold_the_mean_of_what_parties_find(structure, aggregate):
    domain, parts = random_parts((30, 0, 8, 20))
    forest = (
        grow_collaboratively(domain, parts, replace(TREES, n_trees=4), random_state=0)
        if structure == "grown"
        else RandomTrees(3, 2, splits="multiway").grow(domain, random_state=0)
    )
    found = adjusted_leaves(forest, parts, aggregate)
    np.testing.assert_allclose(found, vectors_by_hand(forest, parts, aggregate))


@pytest.mark.filterwarnings("ignore::mrf_matrix.PrivacyLeakWarning")
def test_trees_over_a_domain_read_off_records_are_not_grown_privately():
    X, y = np.arange(40.0).reshape(20, 2), np.arange(20) % 2
    ledger, trees = PrivacyLedger(epsilon=1), PrivateMultinomialTrees(1, n_trees=2, max_depth=1)
    read_off = Domain.from_data(X, y)
    declared = Domain.from_dict(read_off.to_dict() | {"is_read_off": False})
    for domain in (declared, read_off):
        parts = [(domain.encode(X), y)]
        if domain is read_off:
            with pytest.raises(ValueError, match="domain was read off records"):
                grow_privately(domain, parts, trees, ledgers=[ledger])
        else:
            grow_privately(domain, parts, trees, ledgers=[ledger])
        assert ledger.spent == 1, "the declared domain's trees alone are paid for"


def test_no_record_and_unknown_means_are_refused():
    domain, parts = random_parts((0, 0))
    for grow in (grow_collaboratively, grow_separately):
        with pytest.raises(ValueError, match="parts holds no record"):
            grow(domain, parts, TREES)
    forest = RandomTrees(1, 1).grow(domain)
    with pytest.raises(ValueError, match="aggregate='mean'"):
        adjusted_leaves(forest, parts, "mean")


def test_one_record_more_decides_whether_a_tree_is_split():
    """No finite ε holds of published growing: with one record of a class nothing is split."""
    codes, labels = np.zeros((30, 3), dtype=int), np.zeros(30, dtype=int)
    other = (np.append(codes, [[5, 5, 5]], axis=0), np.append(labels, 1))
    domain = Domain.from_sizes([6, 6, 6], 3)
    trees = replace(TREES, n_trees=40)
    without = grow_collaboratively(domain, [(codes, labels)], trees, random_state=0)
    with_it = grow_collaboratively(domain, [other], trees, random_state=0)
    assert without.n_leaves == 40
    assert with_it.n_leaves > 50  # it is in most bootstraps, and splits those trees


# The α-chunk split -------------------------------------------------------------------------------


@given(
    sizes=st.lists(st.integers(1, 30), min_size=1, max_size=8),
    n_clients=st.integers(1, 7),
    chunks=st.integers(1, 5),
    shuffle=st.sampled_from(["classes", "chunks"]),
    seed=st.integers(0, 99),
)
def test_every_record_has_one_client_and_chunks_are_nearly_equal(
    sizes, n_clients, chunks, shuffle, seed
):
    labels = np.repeat(np.arange(len(sizes)), sizes)
    client = deal_chunks(labels, n_clients, chunks, seed, shuffle=shuffle)
    assert client.shape == labels.shape
    held = np.zeros((n_clients, len(sizes)), dtype=int)
    np.add.at(held, (client, labels), 1)  # fails outside 0..k-1
    most = most_chunks(len(sizes), chunks, n_clients)
    assert (held > 0).sum(axis=1).max() <= most
    for own, size in zip(held.T, sizes, strict=True):
        assert own.sum() == size
        if shuffle == "classes" and chunks <= n_clients:  # no two chunks of a class meet
            expected = [len(part) for part in np.array_split(np.arange(size), chunks)]
            assert sorted(own[own > 0]) == sorted(filter(None, expected))
    np.testing.assert_array_equal(
        client, deal_chunks(labels, n_clients, chunks, seed, shuffle=shuffle)
    )


@pytest.mark.parametrize(("c", "alpha", "expected"), [(10, 2, 2), (26, 1, 3)])
def test_the_published_sets_have_the_printed_number_of_classes_a_client(c, alpha, expected):
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(c), 50)).astype(str)
    client = deal_chunks(labels, 10, alpha, 0)
    assert most_chunks(c, alpha, 10) == expected
    assert max(len(np.unique(labels[client == i])) for i in range(10)) == expected


def test_records_are_dealt_at_random_and_chunks_may_meet_when_all_are_shuffled():
    labels = np.zeros(2000, dtype=int)
    client = deal_chunks(labels, 2, 2, 0)
    assert abs((client[:1000] == 0).sum() - 500) < 80  # five standard deviations
    pairs = np.repeat(np.arange(2), 2)
    met = [len(set(deal_chunks(pairs, 2, 2, s, shuffle="chunks")[:2])) == 1 for s in range(60)]
    assert 5 < sum(met) < 40  # one dealing in three


@pytest.mark.parametrize(
    ("wrong", "words"),
    [({"n_clients": 0}, "n_clients=0"), ({"chunks": 1.5}, "chunks=1.5"), ({"shuffle": "no"}, "no")],
)
def test_wrong_arguments_are_refused_by_name(wrong, words):
    with pytest.raises((TypeError, ValueError), match=words):
        deal_chunks(np.zeros(4), **({"n_clients": 2, "chunks": 1} | wrong))


# Private growing ---------------------------------------------------------------------------------


CODES_EACH = 3
THREES = Domain.from_sizes([2] * CODES_EACH, 2)
SURE = {"epsilon": float("inf"), "score": "majority"}


def attribute_of(party, count=40):
    codes = np.zeros((count, CODES_EACH), dtype=int)
    codes[count // 2 :, party] = 1
    return codes, codes[:, party].copy()


PARTS = [attribute_of(party) for party in range(CODES_EACH)]


def grown(parts=PARTS, noise_state=0, **trees):
    given = {"epsilon": 1, "n_trees": 4, "max_depth": 2} | trees
    collaborative = given.pop("collaborative", True)
    return grow_privately(
        THREES,
        parts,
        PrivateMultinomialTrees(**given),
        collaborative=collaborative,
        noise="research",
        noise_state=noise_state,
    )


def test_without_noise_every_level_is_split_by_the_party_whose_turn_it_is():
    forest = grown(n_trees=4, max_depth=3, **SURE)
    for tree, subset in enumerate([0, 0, 1, 2]):
        node = int(forest.roots[tree])
        for level in range(CODES_EACH):
            assert forest.attribute[node] == (subset - level) % CODES_EACH
            node = int(forest.first_child[node])
    apart = grown(n_trees=4, max_depth=1, collaborative=False, **SURE)
    assert apart.attribute[apart.roots].tolist() == [0, 0, 1, 2]


def test_records_of_others_decide_nothing_before_their_turn():
    swapped = [PARTS[0], PARTS[2], PARTS[1]]
    empty = [PARTS[0], *[(codes[:0], labels[:0]) for codes, labels in PARTS[1:]]]
    expected = grown(epsilon=30)
    for parts in (swapped, empty):
        forest = grown(parts, epsilon=30)
        assert forest.attribute[forest.roots[:2]].tolist() == [0, 0]  # ties aside: the seed is kept
        np.testing.assert_array_equal(
            forest.attribute[forest.roots[:2]], expected.attribute[expected.roots[:2]]
        )
        assert forest.n_leaves == expected.n_leaves == 16  # as public as depth and domain


def test_a_root_is_chosen_by_the_exponential_mechanism():
    """Party 0 of two splits all roots of the first half: majority scores 40, 20 and 20."""
    n_trees, b1 = 3000, 0.05
    epsilon = 2 * b1 * (n_trees // 2)
    codes, labels = attribute_of(0)
    parts = [(codes, labels), (codes[:0], labels[:0])]
    forest = grown(parts, epsilon=epsilon, n_trees=n_trees, max_depth=1, score="majority")
    found = np.bincount(forest.attribute[forest.roots[: n_trees // 2]], minlength=CODES_EACH)
    weights = np.exp(b1 * np.array([40.0, 20, 20]))
    expected = weights / weights.sum() * (n_trees // 2)
    assert chisquare(found, expected).pvalue > 1e-4
    uniform = np.full(CODES_EACH, n_trees / 2 / CODES_EACH)
    assert chisquare(found, uniform).pvalue < 1e-9  # the control


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"parts": []}, "parts is empty"),
        ({"disjoint": True}, "disjoint=True"),
        ({"structure_share": 0.5}, "structure_share=0.5"),
        ({"parts": [(np.array([[5, 0, 0]]), np.array([0]))]}, "codes"),
        ({"parts": [(np.array([[1, 0, 0]]), np.array([7]))]}, "labels"),
    ],
)
def test_what_does_not_fit_is_refused(wrong, words):
    with pytest.raises(ValueError, match=words):
        grown(**wrong)


def test_too_few_ledgers_are_refused():
    with pytest.raises(ValueError, match="ledgers has 1: expected 3"):
        grow_privately(
            THREES, PARTS, PrivateMultinomialTrees(1), ledgers=[PrivacyLedger(epsilon=1)]
        )


def test_leaves_are_measured_by_the_federated_matrix_mechanism():
    """Structure for some ε, leaves for infinity: the central counts, exactly."""
    pytest.importorskip("cryptography")
    forest = grow_privately(THREES, PARTS, PrivateMultinomialTrees(1, n_trees=3, max_depth=2))
    paths = path_matrix(forest)
    design = federate(paths, PureDP(float("inf")), parties=CODES_EACH, n_classes=2, workload=paths)
    counts = [count_cells(codes, labels, THREES.sizes, 2) for codes, labels in PARTS]
    release = run_federation(design, counts, domain=THREES).release
    whole = tuple(np.concatenate(column) for column in zip(*PARTS, strict=True))
    np.testing.assert_array_equal(
        release.answers, count_cells(*whole, THREES.sizes, 2).answers(paths)
    )
    model = from_release(release, forest=forest)
    assert model.score(*whole) >= 0.5
    with pytest.raises(LearnedStructureError, match="at the cost of"):
        plan(THREES, forest=forest, epsilon=1)
