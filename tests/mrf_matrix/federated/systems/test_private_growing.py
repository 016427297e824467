"""Trees that parties grow privately: who pays for which choice, and what may follow."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chisquare

from mrf_matrix import from_release, path_matrix, plan
from mrf_matrix.domain import Domain
from mrf_matrix.federated import federate, run_federation
from mrf_matrix.federated.systems import grow_privately, private_growing
from mrf_matrix.federated.systems.private_growing import LeafSplits, most_splits, party_plans
from mrf_matrix.forests import LearnedStructureError, PrivateMultinomialTrees
from mrf_matrix.forests.growth import private as private_module
from mrf_matrix.mechanisms import BudgetError, PrivacyLedger, PureDP, count_cells
from mrf_matrix.mechanisms.selection.bits import Bits
from mrf_matrix.release.curator import Live

K = 3
DOMAIN = Domain.from_sizes([2] * K, 2)
SURE = {"epsilon": float("inf"), "score": "majority"}


def own_attribute(party, count=40):
    codes = np.zeros((count, K), dtype=int)
    codes[count // 2 :, party] = 1
    return codes, codes[:, party].copy()


PARTS = [own_attribute(party) for party in range(K)]


def grown(parts=PARTS, noise_state=0, **trees):
    given = {"epsilon": 1, "n_trees": 4, "max_depth": 2} | trees
    collaborative = given.pop("collaborative", True)
    return grow_privately(
        DOMAIN,
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
        for level in range(K):
            assert forest.attribute[node] == (subset - level) % K
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


@pytest.mark.parametrize("collaborative", [True, False])
@pytest.mark.parametrize(("n_trees", "depth", "parties"), [(4, 2, 3), (9, 5, 3), (2, 3, 5)])
def test_no_party_spends_more_than_epsilon(n_trees, depth, parties, collaborative, monkeypatch):
    """Count each party's choices as they are made, and what they cost."""
    looked = []
    original = private_module._choose_level

    def counting(domain, codes, labels, node, record, boxes, candidates, growth, bits):
        looked.append((int(labels[0]), len(boxes.low), growth))
        return original(domain, codes, labels, node, record, boxes, candidates, growth, bits)

    monkeypatch.setattr(private_module, "_choose_level", counting)
    domain = Domain.from_sizes([16, 16], parties)
    codes = np.random.default_rng(0).integers(0, 16, (20, 2))
    parts = [(codes, np.full(20, party)) for party in range(parties)]
    source = PrivateMultinomialTrees(Fraction(1, 2), n_trees=n_trees, max_depth=depth)
    forest = grow_privately(domain, parts, source, collaborative=collaborative)
    subsets = [len(part) for part in np.array_split(np.arange(n_trees), parties)]
    pairs = np.zeros(parties, dtype=int)
    for (party, nodes, _), (subset, level) in zip(
        looked, ((s, d) for s in range(parties) if subsets[s] for d in range(depth)), strict=True
    ):
        assert party == ((subset - level) % parties if collaborative else subset)
        assert nodes <= subsets[subset] * 2**level
        pairs[party] += subsets[subset]
    turns = [
        [(s - d) % parties if collaborative else s for d in range(depth)] for s in range(parties)
    ]
    most = most_splits(subsets, turns)
    assert most == pairs.max()
    expected = PrivateMultinomialTrees(Fraction(1, 2), n_trees=most, max_depth=1)
    rates = expected.rates
    assert (rates.attribute + rates.cut) * most == Fraction(1, 2)
    assert all(growth == expected.growth for _, _, growth in looked)
    assert [one.budget for one in forest.provenance.spendings] == [PureDP(Fraction(1, 2))]


def test_a_root_is_chosen_by_the_exponential_mechanism():
    """Party 0 of two splits all roots of the first half: majority scores 40, 20 and 20."""
    n_trees, b1 = 3000, 0.05
    epsilon = 2 * b1 * (n_trees // 2)
    codes, labels = own_attribute(0)
    parts = [(codes, labels), (codes[:0], labels[:0])]
    forest = grown(parts, epsilon=epsilon, n_trees=n_trees, max_depth=1, score="majority")
    found = np.bincount(forest.attribute[forest.roots[: n_trees // 2]], minlength=K)
    weights = np.exp(b1 * np.array([40.0, 20, 20]))
    expected = weights / weights.sum() * (n_trees // 2)
    assert chisquare(found, expected).pvalue > 1e-4
    uniform = np.full(K, n_trees / 2 / K)
    assert chisquare(found, uniform).pvalue < 1e-9  # the control


def test_parties_are_charged_before_their_records_are_seen(monkeypatch):
    ledgers = [PrivacyLedger(epsilon=2) for _ in range(K)]
    source = PrivateMultinomialTrees(1.5, n_trees=2, max_depth=1)
    forest = grow_privately(DOMAIN, PARTS, source, ledgers=ledgers)
    assert [ledger.spent for ledger in ledgers] == [Fraction(3, 2)] * K
    assert [one.budget for one in forest.provenance.spendings] == [PureDP(1.5)]
    assert forest.is_data_dependent
    monkeypatch.setattr(private_module, "candidate_scores", None)  # would fail if called
    with pytest.raises(BudgetError):
        grow_privately(DOMAIN, PARTS, source, ledgers=ledgers)


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
            DOMAIN, PARTS, PrivateMultinomialTrees(1), ledgers=[PrivacyLedger(epsilon=1)]
        )


def test_leaves_are_measured_by_the_federated_matrix_mechanism():
    """Structure for some ε, leaves for infinity: the central counts, exactly."""
    pytest.importorskip("cryptography")
    forest = grow_privately(DOMAIN, PARTS, PrivateMultinomialTrees(1, n_trees=3, max_depth=2))
    paths = path_matrix(forest)
    design = federate(paths, PureDP(float("inf")), parties=K, n_classes=2, workload=paths)
    counts = [count_cells(codes, labels, DOMAIN.sizes, 2) for codes, labels in PARTS]
    release = run_federation(design, counts, domain=DOMAIN).release
    whole = tuple(np.concatenate(column) for column in zip(*PARTS, strict=True))
    np.testing.assert_array_equal(
        release.answers, count_cells(*whole, DOMAIN.sizes, 2).answers(paths)
    )
    model = from_release(release, forest=forest)
    assert model.score(*whole) >= 0.5
    with pytest.raises(LearnedStructureError, match="at the cost of"):
        plan(DOMAIN, forest=forest, epsilon=1)


def test_records_and_noise_of_parties_meet_within_the_verbs_of_their_curators_alone(monkeypatch):
    inside, verb, real = [], Live._chosen, private_growing.private_levels

    def opened(*args):
        inside.append(1)
        try:
            return verb(*args)
        finally:
            inside.pop()

    def watched(*args):
        assert inside, "splits outside of a curator's verb"
        return real(*args)

    monkeypatch.setattr(Live, "_chosen", opened)
    monkeypatch.setattr(private_growing, "private_levels", watched)
    trees = PrivateMultinomialTrees(1, n_trees=3, max_depth=2)
    forest = grow_privately(DOMAIN, PARTS, trees)
    with pytest.raises(AssertionError, match="outside"):  # the control
        LeafSplits(forest, trees.growth).draw(PARTS[0], None, Bits())


@pytest.mark.parametrize("collaborative", [False, True])
@pytest.mark.parametrize("budget", [{"epsilon": 1}, {"epsilon": None, "rho": 1}])
def test_no_party_is_announced_more_than_it_is_charged(collaborative, budget):
    trees = PrivateMultinomialTrees(**budget, n_trees=7, max_depth=3)
    subsets = [3, 2, 2]
    turns = [
        [(subset - level) % 3 if collaborative else subset for level in range(3)]
        for subset in range(3)
    ]
    spent = [one.budget for one in party_plans(DOMAIN, trees, subsets, turns)]
    assert max(spent) == trees.rates.budget
