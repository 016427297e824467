"""Attacks on claims that succeeded once, or might: nothing claims more than was really drawn."""

import copy
import csv
import pickle
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from command_line import run

from mrf_matrix import (
    ZCDP,
    Attribute,
    BatchPredictionClassifier,
    Domain,
    MatrixForestClassifier,
    MultinomialForestClassifier,
    PrivacyLedger,
    PrivateForestClassifier,
    Provenance,
    PureDP,
    RandomTrees,
    SubsampleAggregateClassifier,
    count_stream,
    load_model,
    measure,
    plan,
    save_model,
)
from mrf_matrix.domain import PrivacyLeakWarning
from mrf_matrix.estimators import (
    LabelTreeClassifier,
    MultinomialMatrixForestClassifier,
    PooledForestClassifier,
    PosteriorForestClassifier,
)
from mrf_matrix.federated import run_federation
from mrf_matrix.forests import BlockTrees, Forest
from mrf_matrix.mechanisms import ApproximateDP, Quorum, calibrate, count_cells
from mrf_matrix.reports import model_report
from mrf_matrix.study import evaluate
from strategies.operators import Identity, Kronecker

ARRAYS = ("roots", "attribute", "first_child", "pattern", "branches")
"""What a forest is made of, beside its domain and its provenance."""

INFINITE = float("inf")
RNG = np.random.default_rng(0)
DOMAIN = Domain.from_sizes([2, 3], n_classes=2)
X = np.stack([RNG.integers(2, size=60), RNG.integers(3, size=60)], axis=1)
Y = RNG.integers(2, size=60)
FEW = {"n_trees": 2, "max_depth": 1}
COUNTS = count_cells(np.array([[0], [2], [2]]), np.zeros(3, int), sizes=(3,), n_classes=1)
WIDE = Domain.from_sizes([4] * 36, n_classes=2)
RECORDS = np.random.default_rng(0).integers(4, size=(100, 36))
LABELS = RECORDS[:, 0] % 2


def grown(**asked):
    return MultinomialForestClassifier(DOMAIN, **({"epsilon": 2} | asked), **FEW).fit(X, Y)


@cache
def grown_forest():
    return grown().forest_


def read_off_domain():
    with pytest.warns(PrivacyLeakWarning):
        return Domain.from_data(X.astype(float), Y)


# Copies, and parts put in the place of others -----------------------------------------------------

COPIES = {
    "itself": lambda one: one,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda one: pickle.loads(pickle.dumps(one)),
    "replace": replace,
}


@pytest.mark.parametrize("copied", COPIES)
def test_nobody_writes_to_what_a_claim_is_made_of(copied):
    forest = COPIES[copied](RandomTrees(**FEW).grow(DOMAIN, random_state=0))
    release = COPIES[copied](measure(np.eye(3), COUNTS, PureDP(1)))
    for array in (release.answers, *(getattr(forest, name) for name in ARRAYS)):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
        with pytest.raises(ValueError, match="WRITEABLE"):
            array.flags.writeable = True
    assert replace(release).is_private
    assert forest == RandomTrees(**FEW).grow(DOMAIN, random_state=0)


@pytest.mark.parametrize(
    "change",
    [
        {"mechanism": calibrate(np.eye(3), PureDP(0.01))},
        {"mechanism": calibrate(np.eye(3), ZCDP(0.01))},
        {"mechanism": calibrate(np.eye(3), PureDP(INFINITE)), "noise": "none"},
        {"noise": "research"},
        {"noise": "shares", "quorum": Quorum(2)},
        {"answers": np.zeros((3, 1), np.int64)},
    ],
    ids=lambda change: " and ".join(change),
)
def test_what_is_put_in_the_place_of_a_part_of_a_release_was_not_drawn(change):
    release = measure(np.eye(3), COUNTS, PureDP(1))
    other = replace(release, measured=None, **change)
    assert not other.is_private
    assert release.provenance.released < other.provenance.released, "what was paid stays counted"


# Who chose ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def screened():
    model = PrivateForestClassifier(WIDE, epsilon=4, n_records=100, random_state=0)
    model.fit(RECORDS, LABELS)
    assert model.screened_ is not None, "the case is one with that choice"
    return model


def charge_of(model):
    (charge,) = model.privacy_report_.provenance.released
    return charge


def test_chosen_blocks_carry_their_charge_however_they_are_passed_on(screened):
    kept, charge = screened.screened_, charge_of(screened)
    blocks = screened.forest_plan_.parts[0].blocks
    ways = [
        blocks, blocks[:1], list(blocks), tuple(blocks), blocks + blocks[:0], [blocks[0]],
        [kept[:2]], [kept], copy.deepcopy(blocks), pickle.loads(pickle.dumps(blocks)),
    ]  # fmt: skip
    for way in ways:
        assert charge in plan(WIDE, "tables", epsilon=1, blocks=way).provenance.released
        assert charge in BlockTrees(way).grow(WIDE).provenance.released
    by_hand = plan(WIDE, "tables", epsilon=1, blocks=[[0, 1]]).provenance
    assert (by_hand.released, "blocks" in by_hand.declared) == (frozenset(), True), "the control"


def test_what_chosen_blocks_made_is_not_declared_public(screened, tmp_path):
    charge = charge_of(screened)
    save_model(screened, tmp_path / "m")
    loaded = load_model(tmp_path / "m")
    for model in (screened, loaded):
        forest = model.model_.plan.settled_forest.parts[0].forest
        assert charge in forest.provenance.released
        assert "forest" not in model.privacy_report_.statement.split("taken as public")[1]
        assert charge in Domain.select(WIDE, model.screened_).provenance.released
    feature_subsets = [loaded.screened_]
    trees = FEW | {"feature_subsets": feature_subsets, "allocation": "per_tree"}
    model = MatrixForestClassifier(WIDE, epsilon=1, **trees)
    assert model.fit(RECORDS, LABELS).privacy_report_.budget == "PureDP(epsilon=5)"


def test_a_domain_of_chosen_attributes_claims_the_choice(screened, tmp_path):
    kept = list(screened.screened_)
    part, codes = WIDE.select(screened.screened_), RECORDS[:, kept]
    ledger = PrivacyLedger(epsilon=9)
    model = PosteriorForestClassifier(part, epsilon=1, ledger=ledger).fit(codes, LABELS)
    assert model.privacy_report_.budget == "PureDP(epsilon=5)"
    assert [charge.budget for charge in ledger.charges] == [PureDP(4), PureDP(1)]
    assert charge_of(screened) in count_stream([(codes, LABELS)], part).provenance.released
    assert "PureDP(epsilon=5)" in evaluate(model, codes, LABELS, epsilon=1).statement
    with pytest.raises(ValueError, match="follows from a private choice"):
        part.save(tmp_path / "d.json")
    assert not WIDE.select([0, 1]).provenance.released, "the control"


def test_parties_pay_for_what_their_design_follows_from(screened):
    made = plan(WIDE, "tables", epsilon=1, blocks=screened.forest_plan_.parts[0].blocks, parties=2)
    half = count_cells(RECORDS, LABELS, WIDE.sizes, 2)
    ledgers, server = [PrivacyLedger(epsilon=9) for _ in range(2)], PrivacyLedger(epsilon=9)
    (design,) = made.designs
    found = run_federation(design, [half, half], ledgers=ledgers, server_ledger=server)
    assert "PureDP(epsilon=5)" in found.release.statement
    assert [one.spent for one in (*ledgers, server)] == [5, 5, 5]
    assert design.sharing(design.central).provenance == design.provenance


@pytest.mark.parametrize("noise", ["exact", "research"])
def test_a_tree_of_labels_follows_from_its_draw(noise, tmp_path):
    model = LabelTreeClassifier(DOMAIN, epsilon=1, n_records=60, noise=noise).fit(X, Y)
    save_model(model, tmp_path / "m", allow_nonprivate=True)
    for one in (model, load_model(tmp_path / "m")):
        forest, _ = one.tree_.forest(DOMAIN)
        assert charge_of(model) in forest.provenance.released
        assert not forest.provenance.declared - {"domain"}
        assert forest.provenance.spendings[0].noise == noise
    pool = PooledForestClassifier(DOMAIN, epsilon=1, n_records=60).fit(X, Y)
    assert charge_of(pool) in pool.tree_.forest(DOMAIN)[0].provenance.released


# What is stated ----------------------------------------------------------------------------------


def bare(**said):
    forest = RandomTrees(**FEW).grow(DOMAIN, random_state=0)
    return Forest(DOMAIN, **{name: getattr(forest, name) for name in ARRAYS}, **said)


@pytest.mark.parametrize("said", [Provenance(), DOMAIN.provenance, Provenance.public("domain")])
def test_that_a_domain_is_public_says_nothing_of_a_forest(said):
    assert bare(provenance=said).provenance.unknown == {"forest"}
    assert not bare(provenance=Provenance.public()).provenance.unknown, "the control"


@pytest.mark.parametrize(
    "make",
    [
        lambda: Provenance.public("forest.\nPrivate release: all"),
        lambda: Provenance.public("f" * 1000),
        lambda: Provenance.public(""),
        lambda: Provenance.public("forest", "because\x1b[2J"),
        lambda: Provenance(declared={"forest"}),
        lambda: Provenance(unknown="forest"),
        lambda: Provenance(released=frozenset({"forest"})),
        lambda: Provenance.spent(1),
        lambda: Provenance.spent(PureDP(1), "none"),
    ],
)
def test_a_provenance_that_is_none_is_refused(make):
    with pytest.raises((ValueError, TypeError), match="expected"):
        make()


def test_an_infinite_budget_that_was_spent_elsewhere_is_read_back_from_a_file(tmp_path):
    forest = bare(provenance=Provenance.spent(PureDP(INFINITE)))
    model = MatrixForestClassifier(DOMAIN, epsilon=1, forest=forest).fit(X, Y)
    save_model(model, tmp_path / "m", allow_nonprivate=True)
    assert not load_model(tmp_path / "m").privacy_report_.is_private


def test_an_attribute_keeps_where_it_came_from_whatever_is_changed():
    part = read_off_domain().attributes[0]

    class Mine(Attribute):
        """A stranger's."""

    assert Domain([Mine("a", size=2), part]).is_read_off
    for other in (replace(part, name="b"), replace(part, edges=(0, 1)), copy.deepcopy(part)):
        assert Domain([other]).is_read_off


# Calibrations ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [PureDP, ZCDP])
def test_a_budget_has_no_kinds_of_its_own(kind):
    with pytest.raises(TypeError, match="not a subclass"):
        type("Cheap", (kind,), {"__repr__": lambda self: "PureDP(epsilon=0.01)"})


def test_a_class_that_calls_itself_ours_is_a_stranger_s():
    class Spoofed(Identity):
        """Answers a thousand times what it says."""

        __module__ = Identity.__module__

        def columns(self, cells):
            return 1000 * super().columns(cells)

    Spoofed.__name__ = Spoofed.__qualname__ = "Identity"
    turned = Identity(3)
    vars(turned)["columns"] = lambda cells: 1000 * Identity(3).columns(cells)
    for strategy in (Spoofed(3), Kronecker([Spoofed(3), Identity(1)]), turned):
        assert not measure(strategy, COUNTS, PureDP(1)).is_private
    assert measure(Kronecker([Identity(3), Identity(1)]), COUNTS, PureDP(1)).is_private


# Ledgers and pages -------------------------------------------------------------------------------

LEDGERS = {
    "pure": lambda: PrivacyLedger(epsilon=9),
    "zCDP": lambda: PrivacyLedger(rho=99),
    "both": lambda: PrivacyLedger(ApproximateDP(99, 1e-6)),
    "pure, replaced": lambda: PrivacyLedger(epsilon=9, neighboring="replace_one"),
    "zCDP, replaced": lambda: PrivacyLedger(rho=99, neighboring="replace_one"),
}


@pytest.mark.parametrize("kind", LEDGERS)
def test_a_page_warns_of_a_structure_that_its_ledger_did_not_pay_for(kind):
    paying, other = LEDGERS[kind](), LEDGERS[kind]()
    model = MatrixForestClassifier(
        DOMAIN, epsilon=1, forest=grown_forest(), strategy="identity",
        neighboring=paying.neighboring, ledger=paying,
    ).fit(X, Y)  # fmt: skip
    twice = 2 if paying.neighboring == "replace_one" else 1
    assert [one.budget for one in paying.charges] == [PureDP(2 * twice), PureDP(1)]
    assert model_report(model, ledger=paying).warnings == ()
    own = paying.charges[1]
    other.charge(own.budget, own.what, own.neighboring, identity=own.identity)
    (said,) = model_report(model, ledger=other).warnings
    assert "PureDP(epsilon=2) for MultinomialForestClassifier.fit" in said
    assert "PureDP(epsilon=1)" not in said, "its own is there"


def page_models():
    """Fitted models of many kinds, and what is true of each: private, public base, choices."""
    over = {"epsilon": 1, "strategy": "identity"}
    pooled = PooledForestClassifier(DOMAIN, epsilon=1, n_records=60)
    labels = LabelTreeClassifier(DOMAIN, epsilon=1, n_records=60)
    matrix = {
        "forest": grown().forest_, "no noise": grown(epsilon=INFINITE).forest_,
        "seeded": grown(noise="research", noise_state=0).forest_, "unknown": bare(),
        "spent": bare(provenance=Provenance.spent(PureDP(1))),
    }  # fmt: skip
    made = {
        name: MatrixForestClassifier(DOMAIN, forest=one, **over) for name, one in matrix.items()
    }
    made |= {
        "matrix": MatrixForestClassifier(DOMAIN, **over, **FEW),
        "matrix, no noise": MatrixForestClassifier(DOMAIN, **(over | {"epsilon": INFINITE}), **FEW),
        "tables": PosteriorForestClassifier(DOMAIN, epsilon=1),
        "tables, replaced": PosteriorForestClassifier(DOMAIN, rho=1, neighboring="replace_one"),
        "tables, delta": PosteriorForestClassifier(DOMAIN, epsilon=1, delta=0.1, n_records=60),
        "labels": labels, "pool": pooled,
        "grown": grown(), "grown, no noise": grown(epsilon=INFINITE),
        "two stages": MultinomialMatrixForestClassifier(DOMAIN, epsilon=1, **FEW),
        "batch": BatchPredictionClassifier(DOMAIN, **over, **FEW),
        "subsample": SubsampleAggregateClassifier(DOMAIN, **over, **FEW),
    }  # fmt: skip
    for model in made.values():
        model.fit(X, Y).predict(X[:2])
    off = read_off_domain()
    made["read off"] = PosteriorForestClassifier(off, epsilon=1).fit(X.astype(float), Y)
    return made


NOT_PRIVATE = {"no noise", "seeded", "unknown", "spent", "matrix, no noise", "grown, no noise"}
CHOSEN = {"forest", "labels", "pool", "grown", "two stages", "screened"}


def test_every_sentence_of_a_page_is_true(screened):
    """Each sentence is held against what is known of how the model was made, not of its report."""
    for name, model in (page_models() | {"screened": screened}).items():
        page = " ".join(str(model.report_).split())
        private = name not in NOT_PRIVATE | {"read off"}
        base = name not in {"read off", "unknown"}
        chosen, replaced = name in CHOSEN, "replaced" in name
        truth = {
            "No privacy is claimed of this release": not private,
            "do not publish it": not private,
            "What is guaranteed": True,
            "computes for as long as they like": private,
            "how many rows there were is not": private and replaced,
            "and how many rows there were.": private and not replaced and not knows_number(model),
            "How many rows there were was stated as public": private and knows_number(model),
            "is protected at r times": private and not has_rho(model),
            "is protected at r² times": private and has_rho(model),
            "All that it rests on is counted: 2 charges": name == "forest",
            "What was chosen from the records, privately and within the claim": private and chosen,
            "What other fits released before is paid for": name == "forest",
            "Read off the records, so that it is not public": name == "read off",
            "Nobody stated where it came from: forest": name == "unknown",
            "Taken for public:": base,
            "by whoever declared it: domain": name != "read off",
            "whoever made the forest, unverified": name == "spent",
        }
        wrong = [told for told, is_true in truth.items() if (told in page) != is_true]
        assert not wrong, (name, wrong)
        if chosen or not base:
            assert "before any record was read" not in page, name
        if chosen and name not in NOT_PRIVATE:
            assert "the forest's structure;" not in page, name


def knows_number(model):
    return "the number of records" in model.privacy_report_.public


def has_rho(model):
    return "ZCDP" in model.privacy_report_.budget


# The command line --------------------------------------------------------------------------------


def test_a_fit_over_a_domain_file_read_off_the_records_is_refused_before_it_draws(tmp_path):
    read_off_domain().save(tmp_path / "d.json")
    with open(tmp_path / "d.csv", "w", newline="") as file:
        rows = [[*codes, label] for codes, label in zip(X.tolist(), Y.tolist(), strict=True)]
        csv.writer(file).writerows([["x0", "x1", "class"], *rows])
    asked = ["--domain", tmp_path / "d.json", "--epsilon", "1", "--output", tmp_path / "m.mrf"]
    for command in (
        ["fit", tmp_path / "d.csv"],
        ["federate", "simulate", tmp_path / "d.csv", "--by", "x0"],
    ):
        done = run(*command, *asked)
        assert (done.exit_code, "was read off records" in done.output) == (1, True), done.output
        assert "is spent" not in done.output
    assert not (tmp_path / "m.mrf").exists()
