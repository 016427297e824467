"""A claim carries where everything in it came from: through derivations, copies, files, ledgers."""

import copy
import json
import pickle
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.tree import DecisionTreeClassifier

from mrf_matrix import (
    Attribute,
    Domain,
    MatrixForestClassifier,
    MultinomialForestClassifier,
    PrivacyLedger,
    PrivateForestClassifier,
    PrivateNaiveBayesClassifier,
    Provenance,
    PureDP,
    RandomTrees,
    count_stream,
    from_release,
    load_model,
    load_release,
    measure,
    path_matrix,
    plan,
    save_model,
    save_release,
)
from mrf_matrix.domain import PrivacyLeakWarning
from mrf_matrix.estimators import (
    BatchPredictionClassifier,
    LabelTreeClassifier,
    MultinomialMatrixForestClassifier,
    PooledForestClassifier,
    PosteriorForestClassifier,
    SubsampleAggregateClassifier,
)
from mrf_matrix.federated import federate, run_federation
from mrf_matrix.forests import Forest, concatenate, from_sklearn, take_trees
from mrf_matrix.mechanisms import (
    DiscreteLaplace,
    Release,
    calibrate,
    count_cells,
    merge_counts,
    reconstruct,
)
from mrf_matrix.reconstruction import combine
from mrf_matrix.streams import count_leaves
from strategies.operators import Identity

ARRAYS = ("roots", "attribute", "first_child", "pattern", "branches")
"""What a forest is made of, beside its domain and its provenance."""

RNG = np.random.default_rng(0)
DOMAIN = Domain.from_sizes([2, 3], n_classes=2)
X = np.stack([RNG.integers(2, size=60), RNG.integers(3, size=60)], axis=1)
Y = RNG.integers(2, size=60)
FEW = {"n_trees": 2, "max_depth": 1}
DENIED = "NOT A PRIVATE RELEASE"
INFINITE = float("inf")


def grown(**asked):
    return MultinomialForestClassifier(DOMAIN, **asked, **FEW).fit(X, Y).forest_


def over(forest, kind=MatrixForestClassifier, **more):
    model = kind(DOMAIN, epsilon=1, forest=forest, strategy="identity", **more).fit(X, Y)
    model.predict(X[:3])
    return model


def arrays_of(domain):
    """The arrays of a forest, which say nothing of where they came from."""
    forest = RandomTrees(2, 1).grow(domain, random_state=0)
    return {name: getattr(forest, name) for name in ARRAYS}


# Structures ------------------------------------------------------------------------------------

OVER_FORESTS = (MatrixForestClassifier, BatchPredictionClassifier, SubsampleAggregateClassifier)


@pytest.mark.parametrize("kind", OVER_FORESTS)
@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"epsilon": INFINITE}, "no noise was added"),
        ({"epsilon": 50, "noise": "research", "noise_state": 1}, "PureDP(epsilon=51)"),
    ],
    ids=["no noise", "seeded"],
)
def test_a_structure_that_nothing_protects_is_no_part_of_a_claim(kind, asked, said):
    model = over(grown(**asked), kind)
    assert model.privacy_report_.statement.startswith(DENIED)
    assert said in model.privacy_report_.statement
    assert not model.report_.is_private
    ledger = PrivacyLedger(epsilon=1)
    with pytest.raises(ValueError, match=r"MultinomialForestClassifier\.fit asks for epsilon="):
        over(grown(**asked), kind, ledger=ledger)
    assert not ledger.charges


@pytest.mark.parametrize("kind", OVER_FORESTS)
def test_a_structure_that_was_paid_for_is_added_up_once(kind):
    forest, ledger = grown(epsilon=50), PrivacyLedger(epsilon=60)
    model = over(forest, kind, ledger=ledger)
    assert model.privacy_report_.statement.startswith("Private release: PureDP(epsilon=51)")
    assert "51" in str(model.report_).split("What is guaranteed")[1].split("One record")[0]
    assert (ledger.spent, len(ledger.charges)) == (51, 2)
    over(forest, kind, ledger=ledger)
    assert ledger.spent == 52, "the structure's charge is known by its identity"


def test_it_travels_through_parts_sums_copies_and_files(tmp_path):
    forest = grown(epsilon=3)
    both = concatenate([forest, RandomTrees(1, 1).grow(DOMAIN)])
    (charge,) = forest.provenance.spendings
    again = pickle.loads(pickle.dumps(forest))
    for one in (both, take_trees(forest, [0]), copy.deepcopy(forest), replace(forest), again):
        assert charge in one.provenance.released
    model = over(forest)
    save_model(model, tmp_path / "m")
    loaded = load_model(tmp_path / "m")
    assert loaded.privacy_report_.statement == model.privacy_report_.statement
    assert charge in loaded.ensembles_[0].forest.provenance.released
    assert over(loaded.ensembles_[0].forest).privacy_report_.budget == "PureDP(epsilon=4)"
    save_release(model.release_, tmp_path / "r", DOMAIN)
    kept = load_release(tmp_path / "r")
    assert from_release(kept, forest=forest).privacy_report_.budget == "PureDP(epsilon=4)"
    assert combine([kept, model.release_], path_matrix(forest)).claim.budget == PureDP(4)


def test_bare_arrays_claim_nothing_until_somebody_states_their_origin():
    arrays = arrays_of(DOMAIN)
    unknown = over(Forest(DOMAIN, **arrays))
    assert "where the forest came from is not stated" in unknown.privacy_report_.statement
    assert not unknown.report_.is_private
    with pytest.raises(ValueError, match="no charge would be true"):
        over(Forest(DOMAIN, **arrays), ledger=PrivacyLedger(epsilon=9))
    public = Provenance.public("forest", "from a textbook")
    said = over(Forest(DOMAIN, **arrays, provenance=public)).privacy_report_
    assert said.is_private
    assert 'taken as public: domain, forest ("from a textbook", in the caller\'s words)' in (
        said.statement
    )
    spent = over(Forest(DOMAIN, **arrays, provenance=Provenance.spent(PureDP(2)))).privacy_report_
    assert spent.statement.startswith("Claim by whoever made the forest, unverified")
    assert (spent.budget, spent.is_private) == ("PureDP(epsilon=3)", False)
    read_off = from_sklearn(DecisionTreeClassifier().fit(X, Y), DOMAIN)
    with pytest.raises(ValueError, match="learned from records"):
        over(replace(read_off, provenance=public))


def test_what_a_path_source_grows_is_taken_as_public():
    class Mine:
        def grow(self, domain, random_state=None):
            return Forest(domain, **arrays_of(domain))

    report = over(Mine()).privacy_report_
    assert report.is_private
    assert report.statement.endswith("taken as public: domain, forest, strategy.")


# What follows a private choice -------------------------------------------------------------------


@pytest.fixture(scope="module")
def screened():
    wide = np.random.default_rng(0).integers(4, size=(100, 36))
    domain = Domain.from_sizes([4] * 36, n_classes=2)
    model = PrivateForestClassifier(domain, epsilon=4, n_records=100, random_state=0)
    return model.fit(wide, wide[:, 0] % 2), wide


def test_what_follows_a_private_choice_claims_it_whole(screened, tmp_path):
    model, wide = screened
    assert model.screened_ is not None, "the case is one with that choice"
    assert model.privacy_report_.budget == "PureDP(epsilon=4)"
    (release,) = model.releases_
    assert "PureDP(epsilon=4)" in release.statement
    save_release(release, tmp_path / "r", model.domain_)
    assert "PureDP(epsilon=4)" in load_release(tmp_path / "r").statement
    page = str(model.report_)
    assert "the forest's structure" not in page
    assert "chosen without data" not in page
    save_model(model, tmp_path / "f")
    for one in (model, load_model(tmp_path / "f")):
        blocks = one.model_.plan.settled_forest.parts[0].blocks
        again = PosteriorForestClassifier(model.domain_, epsilon=1, blocks=blocks, ledger=None)
        budget = again.fit(wide, wide[:, 0] % 2).privacy_report_.budget
        assert budget == "PureDP(epsilon=5)", "one of its own, and the choice"
    ledger = PrivacyLedger(epsilon=9)
    again.set_params(ledger=ledger).fit(wide, wide[:, 0] % 2)
    assert ledger.spent == 5


def test_stages_that_follow_each_other_claim_both():
    model = MultinomialMatrixForestClassifier(DOMAIN, epsilon=1, parts="all", **FEW).fit(X, Y)
    assert "PureDP(epsilon=1) under" in model.release_.statement
    assert "What is guaranteed" in str(model.report_)
    made = from_release(model.release_, DOMAIN, forest=model.forest_)
    assert made.privacy_report_.budget == "PureDP(epsilon=1)", "one charge is added once"


# Domains -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def read_off():
    with pytest.warns(PrivacyLeakWarning):
        return Domain.from_data(X.astype(float), Y)


def test_a_domain_read_off_the_records_stays_so_whatever_is_made_of_it(read_off, tmp_path):
    read_off.save(tmp_path / "d.json")
    mixed = [Attribute("mine", size=2), *read_off.attributes]
    made = {
        "parts": Domain(read_off.attributes),
        "mixed": Domain(mixed, read_off.target),
        "one of it": replace(read_off.select([1]), target=None),
        "coarser": read_off.coarser(2),
        "a file": Domain.load(tmp_path / "d.json"),
        "a copy": copy.deepcopy(read_off),
        "renamed": Domain([replace(read_off.attributes[0], name="other")]),
        "a dict": Domain.from_dict(json.loads(json.dumps(read_off.to_dict()))),
    }
    assert [name for name, one in made.items() if not one.is_read_off] == []
    assert not Domain(mixed[:1]).is_read_off, "the control: what was declared is declared"


def test_no_way_through_counts_plans_and_parties_makes_it_private(read_off):
    counts = count_stream([(X.astype(float), Y)], read_off)
    n, public = int(read_off.size), Domain.from_sizes(read_off.sizes, n_classes=2)
    for one in (counts.marginal([0]), merge_counts(counts, counts).marginal([0])):
        assert measure(Identity(read_off.sizes[0]), one, PureDP(1)).statement.startswith(DENIED)
    again = replace(counts, domain=public)
    assert not measure(Identity(n), again, PureDP(1)).is_private, "no argument raises it"
    design = federate(Identity(n), PureDP(1), parties=2, n_classes=2)
    assert not run_federation(design, [counts, counts]).release.is_private
    ledger = PrivacyLedger(epsilon=9)
    with pytest.raises(ValueError, match="no charge would be true"):
        run_federation(design, [counts, counts], server_ledger=ledger)
    assert not ledger.charges
    codes, labels = read_off.encode(X.astype(float)), read_off.encode_target(Y)
    table = count_cells(codes, labels, read_off.sizes, 2)
    (release,) = plan(read_off, "tables", epsilon=1).release([table], noise="exact")
    assert release.statement.startswith(DENIED)
    assert measure(Identity(n), table, PureDP(1)).is_private, "with sizes alone, declared"


@pytest.mark.parametrize(
    "kind",
    [
        BatchPredictionClassifier,
        LabelTreeClassifier,
        MatrixForestClassifier,
        PooledForestClassifier,
        PosteriorForestClassifier,
        PrivateForestClassifier,
        PrivateNaiveBayesClassifier,
    ],
)
@pytest.mark.parametrize("n_records", [60, 4000])
def test_counts_say_more_than_their_domain(kind, n_records, read_off):
    counts = count_stream([(X.astype(float), Y)], read_off)
    counts = replace(counts, domain=DOMAIN)
    sizes = {"n_records": n_records} if "n_records" in kind().get_params() else {}
    model = kind(DOMAIN, epsilon=1, **sizes).fit_counts(counts)
    model.predict(X[:3])
    assert model.privacy_report_.statement.startswith(DENIED)
    ledger = PrivacyLedger(epsilon=9)
    with pytest.raises(ValueError, match="no charge would be true"):
        clone(model).set_params(ledger=ledger).fit_counts(counts).predict(X[:3])
    assert not ledger.charges


def test_counts_of_leaves_cost_what_their_structure_cost():
    forest, ledger = grown(epsilon=3), PrivacyLedger(epsilon=9)
    arrays = {name: getattr(forest, name) for name in ARRAYS}
    same = Forest(DOMAIN, **arrays, provenance=Provenance.public("forest", "a book"))
    model = MatrixForestClassifier(DOMAIN, epsilon=1, forest=same, allocation="per_tree")
    model.set_params(ledger=ledger).fit_counts(count_leaves([(X, Y)], forest))
    assert model.privacy_report_.budget == "PureDP(epsilon=4)"
    assert ledger.spent == 4


# Releases and calibrations -----------------------------------------------------------------------

COUNTS = count_cells(np.array([[0], [2], [2]]), np.zeros(3, int), sizes=(3,), n_classes=1)


def test_answers_from_elsewhere_are_a_claim_that_is_unverified():
    release = measure(np.eye(3), COUNTS, PureDP(1))
    assert release.is_private
    others = Release(release.mechanism, release.answers.copy(), "exact", (3,))
    swapped = replace(release, answers=np.zeros((3, 1), np.int64))
    for one in (others, swapped):
        assert not one.is_private
        assert one.statement.startswith("Claim by whoever made the answers, unverified")
    assert replace(release, noise="exact").is_private
    seeded = measure(np.eye(3), COUNTS, PureDP(1), noise="research", random_state=0)
    assert not replace(seeded, noise="exact", measured=None).is_private
    assert reconstruct(swapped, np.eye(3)).shape == (3, 1)


@pytest.mark.parametrize(
    "change",
    [
        {"budget": PureDP(Fraction(1, 100))},
        {"law": DiscreteLaplace(Fraction(1, 64))},
        {"neighboring": "replace_one"},
        {"squared_factor": 0},
    ],
    ids=str,
)
def test_a_calibration_is_proved(change):
    mechanism = calibrate(np.eye(3), PureDP(1))
    with pytest.raises(ValueError, match=r"[eE]xpected"):
        replace(mechanism, **change)
    more = replace(mechanism, law=DiscreteLaplace(Fraction(2)))
    assert measure(more, COUNTS).is_private, "more noise than is needed protects"


def test_a_factor_below_the_relations_is_refused():
    mechanism = calibrate(np.eye(3), PureDP(1), neighboring="replace_one")
    with pytest.raises(ValueError, match="squared_factor=1"):
        mechanism.with_factor(1)
    less = replace(mechanism.rounded, matrix=calibrate(2 * np.tri(3), PureDP(1)).rounded.matrix)
    with pytest.raises(ValueError, match="column sum"):
        replace(mechanism, rounded=less)


def test_what_a_stranger_writes_to_later_changes_no_calibration():
    strategy = np.eye(3)
    mechanism = calibrate(strategy, PureDP(1))
    strategy *= 1000
    assert mechanism.rounded.matrix.to_dense().max() == 1
