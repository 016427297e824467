"""What is refused of each kind's file where the digest fits: each beside a change that is read."""

import json
from functools import cache

import numpy as np
import pytest
from damage import announced, choices, chosen, cuts, follows, plan, rewritten, swapped, told, twice
from fitted_kinds import RESEARCH, SMALL, WIDE, fitted, records_of, unfitted

from mrf_matrix import MultinomialForestClassifier, load_model
from mrf_matrix.files import ModelFileError

N, MANY = len(SMALL[2]), len(WIDE[1][0])
DEEPEST = 5
"""Plans within plans that a file may have."""


@cache
def in_two_blocks():
    """Return a model of tables whose plan has more than one way."""
    model, codes, labels = unfitted("tables", blocks=[[0, 1], [2, 3, 4]], **RESEARCH)
    return model.fit(codes, labels)


def changed(kind, folder, change):
    """Return the model of a file that somebody changed, with a digest that fits again."""

    def really(data, arrays):
        before = json.dumps(data)
        change(data)
        assert json.dumps(data) != before

    model = in_two_blocks() if kind == "tables" else fitted(kind)[0]
    return rewritten(model, folder, really)


# Changes -----------------------------------------------------------------------------------------


def other_label(data):
    """Let the last cell say the other class."""
    chosen = choices(data)[-1]["chosen"]
    chosen[-1] = 1 - chosen[-1]


def within(times):
    """Return the change that puts the forest that was announced into so many plans more."""

    def change(data):
        first = announced(data)[0]["plan"]
        for _ in range(times):
            first["forest"] = {"kind": "auto", "plan": first | {"forest": first["forest"]}}

    return change


def another_measured(data):
    """Measure an attribute that was not kept in place of one that was; return both."""
    blocks = announced(data)[-1]["plan"]["blocks"]
    kept = choices(data)[-2]["chosen"][0]  # the last, before it is asked whether they are enough
    other = next(i for i in range(MANY) if all(i not in one for one in blocks))
    blocks[:] = [sorted(other if i == kept else i for i in one) for one in blocks]
    return kept, other


def another_kept(data):
    """Measure and keep another attribute."""
    _, other = another_measured(data)
    choices(data)[-2]["chosen"] = [other]


def other_forest(data):
    """Announce labels, where few attributes were kept."""
    last = announced(data)[-1]
    keys = ("budget", "delta", "neighboring", "n_records")
    last.update(kind="labels", plan={key: last["plan"][key] for key in keys} | {"cuts": []})


def chooses_nothing(data):
    """Announce a plan without a choice, which announces the forest."""
    first = announced(data)[0]["plan"]
    data["outcomes"].insert(2, {"announced": first["forest"]})
    first["forest"] = None


def rarity_twice(data):
    """Announce a plan that asks once more how rare the rarer class is."""
    chooses_nothing(data)
    first, forest = announced(data)
    first["plan"]["balance"] = ["how rare it is", {"epsilon": "1/10"}]
    forest["plan"]["budget"] = {"epsilon": "866667/1000000"}
    data["outcomes"].insert(2, {"chosen": [2]})


def nothing_first(data):
    """Choose nothing, and announce all of it."""
    data["plan"]["balance"] = None
    data["outcomes"].pop(0)
    first = announced(data)[0]["plan"]
    first["budget"] = first["forest"]["plan"]["budget"] = {"epsilon": "1"}


def rarity_and_screening(data):
    """Make all choices in one plan: which of them kept attributes is not known by their places."""
    first = announced(data)[0]["plan"]
    data["plan"]["screening"] = first["screening"]
    del data["outcomes"][1]


def hidden_choice(data):
    """Announce one choice less; return its place among all choices."""
    first = announced(data)[0]["plan"]["screening"]
    first["choices"].pop(0)
    return 1


def hidden_choice_and_attribute(data):
    """Announce one choice less, and tell nothing of what it came to."""
    place = hidden_choice(data)
    data["outcomes"].remove(choices(data)[place])


def parts(of_tree, of_tables):
    """Return the change of the budgets of a pool's parts."""

    def change(data):
        for name, exact in (("tree", of_tree), ("tables", of_tables)):
            data["plan"][name]["budget"] = {"epsilon": exact}

    return change


def both(**values):
    """Return the change of some values of a pool, and of both its parts."""

    def change(data):
        for found in (data["plan"], data["plan"]["tree"], data["plan"]["tables"]):
            assert set(values) <= set(found)
            found.update(values)

    return change


def ensemble(**values):
    """Return the change of some values of the first ensemble of a matrix forest."""

    def change(data):
        found = data["plan"]["ensembles"][0]
        assert set(values) <= set(found)
        found.update(values)

    return change


# What is refused ---------------------------------------------------------------------------------

OPTIONS = "expected one of the options"
OF_TREES = "expected places of cuts and classes"
BESIDE = "the neighbours and records of the whole"
SHARES = "the budget that the tree leaves"

NODES = "a candidate for every node|cut its node|more than nodes"
OF_STAGES = {
    "a split that is none": (told(0, 0, 10**6), NODES),
    "a split less": (lambda data: choices(data)[0]["chosen"].pop(), NODES),
    "a split more": (lambda data: choices(data)[0]["chosen"].append(0), NODES),
    "another structure": (lambda data: choices(data)[0]["chosen"].reverse(), "."),
    "more trees": (plan(n_trees=3), NODES),
    "trees beyond memory": (plan(n_trees=10**9), "nodes"),
    "deeper trees": (plan(max_depth=3), NODES),
    "another strategy": (plan(strategy={"kind": "identity", "n": 5, "sizes": None}), "."),
    "no strategy": (plan(strategy=None), "."),
    "all to the structure": (plan(share=1.0), "structure_share"),
    "parts of another kind": (plan(parts="half"), "parts"),
    "scores of another kind": (plan(score="best"), "score"),
    "a plan of its own": (lambda data: announced(data)[0].update(budget={"epsilon": "1"}), "keys"),
}

REFUSED = {
    "matrix, several": {
        "an allocation that is none": (plan(allocation="all"), "allocation"),
        "an allocation of other answers": (plan(allocation="disjoint"), "."),
        "a voting that is none": (plan(voting="loud"), "voting"),
        "a shrinkage that is none": (plan(shrinkage="all"), "shrinkage"),
        "no ensembles": (plan(ensembles=[]), "ensembles"),
        "an ensemble less": (lambda data: data["plan"]["ensembles"].pop(), "."),
        "an ensemble more": (
            lambda data: data["plan"]["ensembles"].append(data["plan"]["ensembles"][0]),
            "missing",
        ),
        "an attribute that is none": (ensemble(features=[0, 1, 9]), "features"),
        "an attribute twice": (ensemble(features=[0, 1, 1]), "distinct positions"),
        "no share": (ensemble(share="0"), "."),
        "a share that is no number": (ensemble(share="half"), "fraction"),
        "another strategy": (
            ensemble(strategy={"kind": "identity", "n": 5, "sizes": None}),
            "columns|arrays",
        ),
        "no strategy": (ensemble(strategy=None), "."),
        "trees of other sizes": (
            lambda data: data["plan"]["ensembles"][0]["shapes"].update(roots=[9]),
            ".",
        ),
        "a forest of no origin": (ensemble(provenance={}), "provenance"),
    },
    "multinomial": {
        "a split that is none": (told(0, 0, 10**6), NODES),
        "a class that is none": (told(0, -1, 2), "one class for every leaf"),
        "a number less": (lambda data: choices(data)[0]["chosen"].pop(), "."),
        "a number more": (lambda data: choices(data)[0]["chosen"].append(0), "."),
        "more trees": (plan(n_trees=3), "."),
        "trees beyond memory": (plan(n_trees=10**9), "nodes"),
        "labels by another score": (plan(label_score="best"), "label_score"),
    },
    "two_stage, coins": OF_STAGES,
    "two_stage, all": OF_STAGES,
    "additive": {
        "a table chosen twice": (twice(1, 2), OPTIONS),
        "a table that is none": (chosen(1, 10**6), OPTIONS),
        "two tables in one choice": (chosen(1, 0, 1), OPTIONS),
        "a scale that is none": (chosen(0, 10**6), OPTIONS),
        "orders that repeat an attribute": (plan(orders=[[4, 2, 1, 3, 3]]), "attribute once"),
        "orders that lack an attribute": (plan(orders=[[4, 2, 1, 3]]), "orders"),
        "orders of no attribute": (plan(orders=[[4, 2, 1, 3, 5]]), "orders"),
        "orders of more passes": (plan(orders=[[4, 2, 1, 3, 0]] * 2), "orders"),
        "no orders": (plan(orders=[]), "orders"),
        "even records of nothing": (plan(even_records=0), "even_records"),
        "more records": (plan(n_records=10**6), "."),
        "orders of a truth": (plan(orders=[[4, 2, True, 3, 0]]), "orders"),
    },
    "tables": {
        "a block less than was measured": (plan(blocks=[[0, 1]]), "answers of shape"),
        "a block more than was measured": (plan(blocks=[[0, 1], [2, 3], [4]]), "answers of shape"),
        "blocks that overlap": (plan(blocks=[[0, 1], [1, 2, 3, 4]]), "each attribute once"),
        "blocks that fall": (plan(blocks=[[1, 0], [2, 3, 4]]), "each attribute once"),
        "an empty block": (plan(blocks=[[0, 1], [2, 3, 4], []]), "each attribute once"),
        "a block of no attribute": (plan(blocks=[[0, 1], [2, 3, 5]]), "blocks"),
        "no blocks": (plan(blocks=[]), "blocks"),
        "no weight of blocks": (plan(weights=[0, 10]), "weights"),
        "no weight of totals": (plan(weights=[1000, 0]), "weights"),
        "one weight": (plan(weights=[1000]), "weights"),
        "weights too many": (plan(weights=[1, 1, 1]), "weights"),
        "a weight of a truth": (plan(weights=[True, 1]), "weights"),
    },
    "labels": {
        "a cut missing": (cuts(list.pop), "cuts"),
        "all cuts missing": (cuts(list.clear), "cuts"),
        "a cut more": (cuts(lambda found: found.append([0, [1]])), "cuts"),
        "a cut of all codes": (cuts(lambda found: found[0].__setitem__(1, [0, 1, 2])), "upper"),
        "a cut of no codes": (cuts(lambda found: found[0].__setitem__(1, [])), "upper"),
        "a cut of a code twice": (cuts(lambda found: found[0].__setitem__(1, [1, 1])), "upper"),
        "a cut of unknown codes": (cuts(lambda found: found[0].__setitem__(1, [5])), "upper"),
        "a cut of no attribute": (cuts(lambda found: found[0].__setitem__(0, 5)), "attribute"),
        "a label out of range": (told(-1, -1, 2), OF_TREES),
        "a label below": (told(-1, -1, -1), "chosen"),
        "a cut out of range": (told(0, 0, 10**6), OF_TREES),
        "a number less": (lambda data: choices(data)[-1]["chosen"].pop(), OF_TREES),
        "a number more": (lambda data: choices(data)[-1]["chosen"].append(0), OF_TREES),
        "cuts no list": (plan(cuts={}), "cuts"),
        "too few records for counts": (plan(n_records=10), "."),
        "records of one round": (plan(n_records=700), "."),
    },
    "pool": {
        "shares of another split": (parts("1/2", "1/2"), SHARES),
        "shares of more": (parts("167/1000", "9/10"), "claims more privacy|" + SHARES),
        "shares of less": (parts("167/1000", "1/2"), SHARES),
        "a tree without noise": (parts("inf", "833/1000"), "budget"),
        "a tree of another law": (
            plan("tree", budget={"rho": "1/10"}),
            "the budget that the tree leaves",
        ),
        "other records of the tree": (plan("tree", n_records=2999), BESIDE),
        "other records of the tables": (plan("tables", n_records=2999), BESIDE),
        "unknown records of the tables": (plan("tables", n_records=None), BESIDE),
        "other neighbours of the tree": (plan("tree", neighboring="replace_one"), BESIDE),
        "other neighbours of the tables": (plan("tables", neighboring="replace_one"), BESIDE),
        "other neighbours of both": (both(neighboring="replace_one"), "."),
        "a pool beside the tree": (plan(beside="pool"), "beside"),
        "residuals beside the tree": (plan(beside="additive"), "keys"),
        "nothing beside the tree": (plan(beside=None), "beside"),
        "naive Bayes beside the tree": (plan(beside="naive_bayes"), "beside"),
        "no tree": (plan(tree={}), "missing"),
        "no tables": (plan(tables=None), "."),
    },
    "pool of residuals": {
        "other records of the residuals": (plan("tables", n_records=2999), BESIDE),
        "other neighbours of the residuals": (plan("tables", neighboring="replace_one"), BESIDE),
        "a choice before the residuals": (plan("tables", even_records=N), "how rare a class"),
        "a table chosen twice": (twice(2, 3), OPTIONS),
    },
    "auto": {
        "more than was left": (follows(0, budget={"epsilon": "1"}), "has PureDP"),
        "less than was left": (follows(0, budget={"epsilon": "1/2"}), "has PureDP"),
        "a forest of more than was left": (
            follows(0, "forest", "plan", budget={"epsilon": "1"}),
            "steps spend",
        ),
        "another relation": (follows(0, neighboring="replace_one"), "under"),
        "a forest of another relation": (
            follows(0, "forest", "plan", neighboring="replace_one"),
            "steps spend",
        ),
        "plans within plans too deep": (within(DEEPEST - 2), "plans within plans"),
        "plans within plans far too deep": (within(100), "plans within plans"),
        "a level that is none": (chosen(0, 10**6), OPTIONS),
        "no forest": (follows(0, forest=None), "."),
        "a choice more": (follows(0, balance=["how rare", {"epsilon": "1/100"}]), "."),
        "a choice of all": (plan(balance=["how rare", {"epsilon": "1"}]), "."),
        "a choice of more than all": (plan(balance=["how rare", {"epsilon": "2"}]), "."),
        "a plan that chooses nothing": (chooses_nothing, "."),
        "a plan that chooses nothing first": (nothing_first, "."),
        "a choice of rarity twice": (rarity_twice, "."),
        "a forest of naive Bayes": (
            lambda data: announced(data)[0].update(kind="naive_bayes"),
            "kind",
        ),
        "no choice and no forest": (plan(balance=None), "."),
        "a choice that costs nothing": (plan(balance=["how rare", {"epsilon": "0"}]), "."),
        "a choice of another law": (plan(balance=["how rare", {"rho": "1/30"}]), "."),
        "a choice of no words": (plan(balance=[None, {"epsilon": "1/25"}]), "."),
        "a screening of nothing": (
            plan(screening={"choices": [], "enough": None, "told": "1", "most_cells": 1}),
            ".",
        ),
        "a forest beside a choice": (plan(forest={"kind": "tables", "plan": {}}), "."),
        "a forest of no kind": (
            plan(balance=None, forest={"kind": "naive_bayes", "plan": {}}),
            ".",
        ),
    },
    "auto, screened": {
        "tables of attributes that were not kept": (another_measured, "than were kept"),
        "labels of all attributes": (other_forest, "of the attributes that were kept"),
        "an attribute kept twice": (twice(1, 2), OPTIONS),
        "an attribute that is none": (chosen(1, MANY), OPTIONS),
        "tables of more than was left": (follows(1, budget={"epsilon": "1"}), "has PureDP"),
        "tables of another relation": (follows(1, neighboring="replace_one"), "under"),
        "rarity and screening in one plan": (rarity_and_screening, "."),
        "no screening": (follows(0, screening=None), "."),
        "a choice hidden": (hidden_choice, OPTIONS),
        "a choice hidden with what it came to": (hidden_choice_and_attribute, "keys"),
    },
    "naive_bayes": {
        "alpha 0": (plan(alpha=0), "alpha"),
        "alpha below": (plan(alpha=-1.0), "alpha"),
        "alpha too large": (plan(alpha=1e101), "alpha"),
        "alpha of nearly nothing": (plan(alpha=1e-101), "alpha"),
        "no alpha": (plan(alpha=None), "alpha"),
        "a relation that is none": (plan(neighboring="any"), "neighboring"),
        "alpha in words": (plan(alpha="1"), "alpha"),
    },
}
READ = {
    "matrix, several": {
        "another voting": plan(voting="weight"),
        "no shrinkage": plan(shrinkage="none"),
        "another family": ensemble(method="given"),
        "another share": ensemble(share="1/3"),
    },
    "additive": {
        "another table of as many cells": chosen(1, 6),  # attributes 1 and 4 for 0 and 1
        "an order of as many cells": plan(orders=[[0, 2, 1, 3, 4]]),
        "another scale": chosen(0, 0),
    },
    "tables": {
        "blocks of as many cells": plan(blocks=[[1, 4], [0, 2, 3]]),
        "another weight": plan(weights=[1000, 11]),
        "other records": plan(n_records=2999),
    },
    "labels": {
        "another cut": cuts(lambda found: found[0].__setitem__(1, [1])),
        "another label": other_label,
    },
    "multinomial": {"another label": other_label, "disjoint records": plan(disjoint=True)},
    "two_stage, coins": {"weight votes": plan(voting="weight"), "another share": plan(share=0.5)},
    "two_stage, all": {"another family": plan(method="given")},
    "pool": {"other records of the whole and of both": both(n_records=2999)},
    "pool of residuals": {"other records of the whole and of both": both(n_records=2999)},
    "auto": {
        "a plan within the plan": within(1),
        "plans as deep as may be": within(DEEPEST - 3),
        "another level": lambda data: choices(data)[0].update(
            chosen=[int(choices(data)[0]["chosen"] == [0])]
        ),
    },
    "auto, screened": {
        "tables of another attribute, which was kept": another_kept,
        "attributes in another order": swapped(1, 2),
    },
    "naive_bayes": {"alpha 2": plan(alpha=2.0), "records that are unknown": plan(n_records=None)},
}
"""The control: another honest plan of as many answers, or another outcome."""


def all_of(changes):
    return [
        pytest.param(kind, found, id=f"{kind}, {name}")
        for kind, named in changes.items()
        for name, found in named.items()
    ]


@pytest.mark.parametrize(("kind", "case"), all_of(REFUSED))
def test_what_could_not_have_been_released_is_refused(kind, case, tmp_path):
    change, message = case
    with pytest.raises(ModelFileError, match=message):
        changed(kind, tmp_path, change)


@pytest.mark.parametrize(("kind", "change"), all_of(READ))
def test_what_could_have_been_released_is_read(kind, change, tmp_path):
    again = changed(kind, tmp_path, change)
    codes = np.zeros((2, again.n_features_in_), dtype=int)
    np.testing.assert_allclose(again.predict_proba(codes).sum(axis=1), 1)
    assert again.privacy_report_.budget == "PureDP(epsilon=1)"


def test_the_private_forest_screened_and_kept_few():
    """Else its cases would show nothing."""
    (model, *_), (pooled, *_) = fitted("auto, screened"), fitted("auto, pooled")
    assert {0, 1} <= set(model.screened_)
    assert len(model.screened_) < MANY
    assert len(model.transcript_.choices) > 3
    assert (pooled.screened_, pooled.plan_.name) == (None, "tree beside tables")


def test_a_forest_of_many_choices_is_read_back(tmp_path):
    domain, codes, labels = records_of(1, [2] * 9, 300)
    model = MultinomialForestClassifier(domain, epsilon=1, n_trees=256, max_depth=8)
    model.fit(codes, labels).save(tmp_path / "many.mrf")
    assert len(model.model_.transcript.choices[0]) > 100_000
    again = load_model(tmp_path / "many.mrf")
    assert np.array_equal(again.predict(codes), model.predict(codes))
