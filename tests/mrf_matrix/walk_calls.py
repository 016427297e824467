"""The public calls of the walk, over pools of values of all origins.

What a call takes is found by its place in a pool, so any part of a walk is a walk too.
"""

import copy
import inspect
import json
import pickle
from collections import Counter, defaultdict
from dataclasses import replace
from fractions import Fraction

import numpy as np
from sklearn.base import clone
from sklearn.tree import DecisionTreeClassifier
from walk_accountant import (
    BY_HAND,
    INFINITE,
    PRIVATE,
    PUBLIC,
    READ_OFF,
    RELATIONS,
    UNKNOWN,
    Accountant,
    ClaimsMoreError,
    Draw,
    Held,
    check_file,
    judge,
    of_parts,
    sayings,
    spoilt,
)

import mrf_matrix as mm
from mrf_matrix import ZCDP, Domain, Provenance, PureDP
from mrf_matrix.estimators import (
    LabelTreeClassifier,
    MultinomialMatrixForestClassifier,
    PosteriorForestClassifier,
)
from mrf_matrix.federated import federate, run_federation
from mrf_matrix.forests import concatenate, take_trees
from mrf_matrix.mechanisms import LeafCounts, count_cells
from mrf_matrix.reconstruction import combine
from mrf_matrix.reports import model_report
from mrf_matrix.streams import count_leaves
from mrf_matrix.study import evaluate

ARRAYS = ("roots", "attribute", "first_child", "pattern", "branches")
"""What a forest is made of, beside its domain and its provenance."""

X = np.array([[0, 0], [0, 1], [1, 2], [1, 0], [0, 2], [1, 1]] * 3)
Y = np.array([0, 1, 1, 0, 0, 1, 1, 1, 0] * 2)
FEW = {"n_trees": 2, "max_depth": 1, "strategy": "identity", "random_state": 0, "parts": "all"}
GROWING = (mm.MultinomialForestClassifier, MultinomialMatrixForestClassifier)
KINDS = (
    mm.MatrixForestClassifier, mm.BatchPredictionClassifier, PosteriorForestClassifier,
    mm.PrivateNaiveBayesClassifier, *GROWING,
    LabelTreeClassifier, mm.PrivateForestClassifier,  # whose choices are not watched here
)  # fmt: skip


CALLS = {}


def call(pool):
    """Enter a call into the list, with the pool that it gives to.

    Each argument's default is the pool that it is taken from, or all its choices.
    """

    def entered(method):
        given = inspect.signature(method).parameters.values()
        CALLS[method.__name__] = (
            pool,
            {one.name: one.default for one in given if one.name != "self"},
        )
        return method

    return entered


YES_NO, RELATION, NOISE = (False, True), RELATIONS, ("exact", "exact", "research")
BUDGET = (PureDP(1), ZCDP(Fraction(1, 2)), PureDP(Fraction(1, 3)), PureDP(INFINITE))
PAYER, PLACES = (None, 0, 1), range(12)
STATED = (
    ({}, {UNKNOWN}),
    ({"provenance": Provenance.public("forest", "a book")}, {f"{PUBLIC}forest"}),
    ({"provenance": Provenance.spent(PureDP(2))}, {Draw.of("claimed", (2, 4))}),
    ({"provenance": Provenance.spent(ZCDP(1))}, {Draw.of("claimed", rho=(1, 4))}),
)
COPIED = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda one: pickle.loads(pickle.dumps(one)),
    "replace": replace,
}
DERIVED = {
    "coarser": lambda one: one.coarser(2),
    "parts": lambda one: Domain(one.attributes, one.target),
    "renamed": lambda one: one.of(replace(each, name=f"{each.name}_") for each in one.attributes),
    "some": lambda one: one.select([0, 1]),
    "dict": lambda one: Domain.from_dict(json.loads(json.dumps(one.to_dict()))),
}


class World(Accountant):
    """Pools of values, and what may be done with them."""

    def __init__(self, watch, path):
        super().__init__(watch)
        self.path, self.done = path, Counter()
        public = of_parts(Domain.from_sizes([2, 3], n_classes=2), [{f"{PUBLIC}domain"}] * 3)
        seen = of_parts(Domain.from_data(X, Y), [{READ_OFF}] * 3)
        self.pools = defaultdict(list, spaces=[seen, public])
        table = self.kept("tables", self.counts(seen)), self.kept("tables", self.counts(public))
        exact = {"budget": PureDP(1), "noise": "exact", "relation": "add_remove"}
        self.kept("releases", self.measures(table[1], steep=False, **exact))
        forest = self.kept("forests", self.grows_publicly(public))
        for kind in (mm.MultinomialForestClassifier, mm.MatrixForestClassifier):
            fit = self.fits(kind, public, forest, table[1], payer=0, way="fit", **exact)
            model = self.kept("models", fit)
            forest = self.kept("forests", self.takes_its_forest(model))

    def kept(self, pool, made):
        """Put a value into a pool."""
        if made is not None:
            self.pools[pool].append(made)
        return made

    def step(self, name, given):
        """Call, with what stands at the given places, the newest first; judge what comes of it."""
        pool, choices = CALLS[name]
        known = {key: self.at(choices[key], one) for key, one in given.items()}
        made = self.kept(pool, getattr(self, name)(**known))
        if made is not None:
            self.done[name] += 1
            judge(sayings(made.value), made.facts)
        self.judge_ledgers()

    def at(self, choices, one):
        """Return what stands at a place of a pool; a choice is itself."""
        if not isinstance(choices, str):
            return one
        pool = self.pools[choices]
        return pool[-1 - one % len(pool)] if pool else None

    @call("spaces")
    def derives(self, space="spaces", how=(*DERIVED,)):
        return self.does(lambda: DERIVED[how](space.value), space, parts=space.parts)

    @call("spaces")
    def keeps_domain(self, space="spaces"):
        space.value.save(self.path)
        return self.does(lambda: Domain.load(self.path), space, parts=space.parts)

    @call("spaces")
    def mixes(self, one="spaces", other="spaces"):
        """Take attributes from two domains: what is left behind is rested on no more."""
        listed = one.value.attributes[0], other.value.attributes[1]
        parts = one.parts[0], other.parts[1], one.parts[2]
        made = self.does(lambda: Domain(listed, one.value.target))
        return made and of_parts(made.value, parts)

    @call("shown")
    def copies(self, pool=("spaces", "forests", "releases", "models"), back=PLACES, how=(*COPIED,)):
        one = self.at(pool, back)
        kept = {"structure": one.structure, "space": one.space, "parts": one.parts}
        if (pool, how) == ("models", "replace"):  # they are no dataclasses
            return None
        return self.kept(pool, self.does(lambda: COPIED[how](one.value), one, **kept))

    @call("tables")
    def counts(self, space="spaces"):
        return self.does(lambda: mm.count_stream([(X, Y)], space.value), space)

    @call("tables")
    def counts_by_sizes(self, space="spaces"):
        codes, sizes = space.value.encode(X), space.value.sizes
        return self.does(lambda: count_cells(codes, Y, sizes, 2), says={f"{PUBLIC}domain"})

    @call("tables")
    def counts_leaves(self, forest="forests"):
        return self.does(lambda: count_leaves([(X, Y)], forest.value), forest)

    @call("tables")
    def sums_over_attributes(self, table="tables", turned=YES_NO):
        order = range(len(table.value.sizes))[::-1] if turned else [0]
        return self.does(lambda: table.value.marginal(order), table)

    @call("tables")
    def merges(self, one="tables", other="tables", plus=YES_NO):
        add = (lambda a, b: a + b) if plus else mm.merge_counts
        return self.does(lambda: add(one.value, other.value), one, other)

    @call("tables")
    def says_over_which_domain(self, table="tables", space="spaces"):
        return self.does(lambda: replace(table.value, domain=space.value), table, space)

    @call("forests")
    def grows_publicly(self, space="spaces"):
        return self.does(lambda: mm.RandomTrees(1, 1).grow(space.value, random_state=0), space)

    @call("forests")
    def builds_of_arrays(self, space="spaces", stated=STATED):
        grown = mm.RandomTrees(1, 1).grow(space.value, random_state=1)
        arrays = {name: getattr(grown, name) for name in ARRAYS} | stated[0]
        return self.does(lambda: mm.Forest(space.value, **arrays), space, says=stated[1])

    @call("forests")
    def states_anew(self, forest="forests", stated=STATED[1:]):
        return self.does(lambda: replace(forest.value, **stated[0]), forest, says=stated[1])

    @call("forests")
    def imports(self, space="spaces"):
        tree = DecisionTreeClassifier(max_depth=1).fit(space.value.encode(X), Y)
        return self.does(lambda: mm.from_sklearn(tree, space.value), space, says={READ_OFF})

    @call("forests")
    def joins(self, one="forests", other="forests"):
        return self.does(lambda: concatenate([one.value, other.value]), one, other)

    @call("forests")
    def takes_a_tree(self, forest="forests"):
        return self.does(lambda: take_trees(forest.value, [0]), forest)

    @call("forests")
    def takes_its_forest(self, model="models"):
        whole = Held(None, model.structure)
        return self.does(lambda: forest_of(model.value), whole)

    @call("releases")
    def measures(self, table="tables", budget=BUDGET, relation=RELATION, noise=NOISE, steep=YES_NO):
        counts, known = table.value, {"neighboring": relation, "noise": noise}
        cells = (np.tri if steep else np.eye)(np.prod(counts.sizes))
        strategy = counts.paths if isinstance(counts, LeafCounts) else cells
        says = {f"{PUBLIC}strategy"}
        return self.does(lambda: mm.measure(strategy, counts, budget, **known), table, says=says)

    @call("releases")
    def releases_a_plan(self, space="spaces", forest="forests", table="tables", noise=NOISE):
        def run():
            made = mm.plan(space.value, forest=forest.value, epsilon=1, strategy="identity")
            return made.release([table.value], noise=noise)[0]

        return self.does(run, space, forest, table)

    @call("releases")
    def federates(
        self, one="tables", other="tables", space="spaces", budget=BUDGET, noise=NOISE,
        payer=PAYER, named=YES_NO,
    ):  # fmt: skip
        ledger, payers = self.paying(payer)
        known = {"domain": space.value} if named else {}

        def run():
            design = federate(np.eye(np.prod(one.value.sizes)), budget, parties=2, n_classes=2)
            given = [one.value, other.value]
            found = run_federation(design, given, noise=noise, server_ledger=ledger, **known)
            return found.release

        used = (one, other, space) if named else (one, other)
        return self.does(run, *used, payers=payers, parties=True)

    @call("releases")
    def names_its_domain(self, release="releases", space="spaces"):
        return self.does(lambda: replace(release.value, domain=space.value), release, space)

    @call("releases")
    def puts_answers_in(self, release="releases"):
        others = np.ones_like(release.value.answers)
        return self.does(lambda: replace(release.value, answers=others), release, says={BY_HAND})

    @call("releases")
    def takes_its_release(self, model="models"):
        return self.does(lambda: model.value.release_, model)

    @call("shown")
    def combines(self, one="releases", other="releases"):
        workload = np.ones((1, one.value.matrix.shape[1]))
        return self.does(lambda: combine([one.value, other.value], workload).claim, one, other)

    @call("releases")
    def keeps_release(self, release="releases", space="spaces", named=YES_NO, allowed=YES_NO):
        used = (release, space) if named else (release,)
        facts = frozenset().union(*(one.facts for one in used))

        def through_a_file():
            known = space.value if named else None
            mm.save_release(release.value, self.path, known, allow_nonprivate=allowed)
            check_file(self.path, facts, allowed)
            return mm.load_release(self.path)

        return self.does(through_a_file, *used)

    @call("models")
    def fits(
        self, kind=KINDS, space="spaces", forest="forests", table="tables", budget=BUDGET,
        noise=NOISE, relation=RELATION, payer=PAYER, way=("fit", "fit_counts", "fit_stream"),
    ):  # fmt: skip
        ledger, payers = self.paying(payer)
        same = forest.value.domain == space.value  # any other is refused
        takes = kind().get_params()
        endless = budget.parameter not in takes
        spends = {"epsilon": 2} if endless else {"epsilon": None, budget.parameter: budget.amount}
        asked = {
            **FEW, **spends, "domain": space.value, "noise": noise, "ledger": ledger,
            "forest": forest.value if same else mm.RandomTrees(1, 1), "n_records": len(X),
            "neighboring": ledger.neighboring if payers else relation,
        }  # fmt: skip

        def fit():
            model = kind(**{name: value for name, value in asked.items() if name in takes})
            data = {"fit": (X, Y), "fit_stream": ([(X, Y)],)}.get(way)
            return fitted(model, way, data or (replace(table.value, domain=space.value),))

        used = (space, table) if way == "fit_counts" else (space,)
        structure = forest if same and "forest" in takes else space
        return self.learns(fit, kind, structure, *used, payers=payers)

    def learns(self, fit, kind, structure, *used, payers):
        """Hold a model; a structure that it grew rests on all that it drew."""
        known = {"structure": structure.facts, "space": used[0].facts}
        made = self.does(fit, structure, *used, payers=payers, **known)
        grown = made is not None and kind in GROWING
        return replace(made, structure=made.facts) if grown else made

    @call("models")
    def fits_a_clone(self, model="models"):
        payer, kind = getattr(model.value, "ledger", None), type(model.value)
        payers = [number for number, one in enumerate(self.ledgers) if one.value is payer]
        space = Held(None, model.space)
        structure = space if kind in GROWING else Held(None, model.structure)

        def fit():
            return fitted(clone(model.value), "fit", (X, Y))

        return self.learns(fit, kind, structure, space, payers=payers)

    @call("models")
    def learns_from_a_release(self, release="releases", forest="forests", space="spaces"):
        known = {"structure": forest.facts, "space": space.facts}
        return self.does(
            lambda: mm.from_release(release.value, space.value, forest=forest.value),
            release, forest, space, **known,
        )  # fmt: skip

    @call("models")
    def learns_from_parties(self, space="spaces", one="tables", other="tables", noise=NOISE):
        def run():
            made = mm.plan(space.value, "tables", epsilon=1, parties=2)
            found = run_federation(made.designs[0], [one.value, other.value], noise=noise)
            return PosteriorForestClassifier(space.value).fit_release(made, found.release)

        known = {"structure": space.facts, "space": space.facts}
        return self.does(run, space, one, other, parties=True, **known)

    @call("models")
    def keeps_model(self, model="models", allowed=YES_NO):
        def through_a_file():
            mm.save_model(model.value, self.path, allow_nonprivate=allowed)
            check_file(self.path, model.facts, allowed)
            return mm.load_model(self.path)

        return self.does(through_a_file, model, structure=model.structure, space=model.space)

    @call("evaluations")
    def evaluates(self, model="models", noise=NOISE, budget=BUDGET, payer=PAYER):
        ledger, payers = self.paying(payer)
        known = {"noise": noise, "ledger": ledger, budget.parameter: budget.amount}
        space = Held(None, model.space)
        return self.does(lambda: evaluate(model.value, X, Y, **known), space, payers=payers)

    @call("shown")
    def reports(self, model="models", payer=PAYER, evaluation="evaluations"):
        ledger, record = self.paying(payer)[0], evaluation and evaluation.value.to_dict()

        def page():
            made = model_report(model.value, ledger=ledger, evaluation=record)
            forms = str(made), made.to_html(), json.dumps(made.to_dict())
            known = [model.facts] + ([] if evaluation is None else [evaluation.facts])
            if all(map(spoilt, known)) and any(PRIVATE in one for one in forms):
                raise ClaimsMoreError(f"A page claims privacy of what is {spoilt(model.facts)}.")
            return made

        return self.does(page, model)


def fitted(model, way, data):
    """Fit, and ask a classifier of queries for its first answers."""
    getattr(model, way)(*data)
    if isinstance(model, mm.BatchPredictionClassifier):
        model.predict(X[:2])
    return model


def forest_of(model):
    """Return the forest of a model that was fitted, or that was read from a file."""
    return model.forest_ if hasattr(model, "forest_") else model.ensembles_[0].forest
