"""An accountant of claims: what was really drawn, and what a report claims less than.

It knows nothing of reports. It watches what is drawn, and finds the loss from the integers that
were measured and the scale of their noise alone, by enumeration of neighbours.
"""

import re
import sys
from dataclasses import dataclass, field, replace
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache
from itertools import pairwise

import numpy as np

from mrf_matrix import mechanisms
from mrf_matrix.estimators import prediction
from mrf_matrix.forests import PrivateMultinomialTrees
from mrf_matrix.kinds import matrix, multinomial
from mrf_matrix.labels import questions
from mrf_matrix.labels.draw import Exponential
from mrf_matrix.mechanisms.budget import ZCDP
from mrf_matrix.planning.auto.choices import Attribute, Enough, Rarity
from mrf_matrix.planning.plans import plan_kind
from mrf_matrix.release import plan as plans
from mrf_matrix.residual.questions import Interaction, Scale

INFINITE = float("inf")
CLAIM = re.compile(r"(PureDP|ZCDP)\((?:epsilon|rho)=([0-9./e-]+)\) under (\w+) neighbours")
APPROXIMATE = re.compile(r"\(epsilon=([0-9./e-]+), delta=([0-9./e-]+)\)-DP via ZCDP")
SPENT = re.compile(r"^(PureDP|ZCDP)\((?:epsilon|rho)=([0-9./e-]+|inf)\)")
DENIALS = ("NOT A PRIVATE RELEASE", "NOT PRIVATE", "Nothing was released yet")


@dataclass
class Account:
    """What one fitted object, and those that it was copied from, drew of the records."""

    measured: list = field(default_factory=list)
    structure: list = field(default_factory=list)
    labels: list = field(default_factory=list)
    choices: list = field(default_factory=list)
    hard: bool = False
    seeded: bool = False
    read_off: bool = False
    parallel_stages: bool = False

    def copy(self):
        own = {name: list(getattr(self, name)) for name in ("measured", "choices")}
        return replace(self, **own)

    def loss(self, relation, kind=None):
        """Return (kind, amount) of everything drawn, under a relation.

        The kind is that of the noise; of choices alone, which are of both, the one asked for.
        """
        if self.seeded or self.read_off or any(one.noise != "exact" for one in self.measured):
            return None, INFINITE
        kinds = {
            "ZCDP" if one.mechanism.rounded.norm == "l2" else "PureDP" for one in self.measured
        }
        tables = sum((_loss(one, relation, self.hard) for one in self.measured), Fraction(0))
        if len(kinds) > 1:
            return None, INFINITE
        if self.structure or self.labels or self.choices:
            kind = kind or "PureDP"
        kind = next(iter(kinds), kind)

        def spent(choices):  # of the exponential mechanism: a choice of ε is ε²/8-zCDP
            steps = 2 if relation == "replace_one" else 1
            if kind == "ZCDP":
                return sum(steps**2 * epsilon**2 / 8 for epsilon in choices)
            return sum(steps * epsilon for epsilon in choices)

        chosen = max([0, *map(spent, self.structure), *map(spent, self.labels)])
        total = max(tables, chosen) if self.parallel_stages else tables + chosen
        return kind, total + spent(self.choices)

    def refutes(self, statement, budget=None):
        """Return why a claim is less than what was lost, or None."""
        if statement.startswith(DENIALS):
            nothing_yet = statement.startswith("Nothing")
            return "something was drawn" if nothing_yet and self.measured else None
        claimed = CLAIM.search(statement)
        if claimed is None:
            return None if statement.startswith("Nothing was released, but") else "no claim"
        kind, amount, relation = claimed.groups()
        drawn, loss = self.loss(relation, kind)
        if drawn not in (None, kind) or loss > Fraction(amount):
            return f"{statement} but {drawn} loss {loss} under {relation}"
        stated = APPROXIMATE.search(statement)
        if stated and loss and ZCDP(loss).epsilon(float(stated[2])) > Fraction(stated[1]):
            return f"{statement} but loss {loss} implies more"
        spent = SPENT.match(budget or "")
        if spent and Fraction(spent[2]) < loss:
            return f"budget {budget}, but {loss} was lost"
        return None


@cache
def _loss(release, relation, hard):
    """Return the exact loss of one release of noisy integers: ε of Laplace, ρ of Gaussian noise."""
    columns = _extreme(np.rint(release.matrix.to_dense()).T).astype(np.int64)
    assert np.abs(columns).max() < 2**24, "sums of squares are exact"
    scale = Fraction(release.law.scale)
    if release.mechanism.rounded.norm == "l1":
        return _largest_step(columns, relation, hard, 1) / scale
    return _largest_step(columns, relation, hard, 2) / (2 * scale**2)


def _extreme(columns):
    """Return the columns between which all others of one entry lie: norms are convex."""
    if (np.count_nonzero(columns, axis=1) > 1).any():
        return np.unique(columns, axis=0)
    return columns[np.unique(np.concatenate([columns.argmax(axis=0), columns.argmin(axis=0)]))]


def _largest_step(columns, relation, hard, power):
    """Return by how much answers in two classes may differ between neighbours, to a power."""
    nothing = np.zeros_like(columns)
    sides = [(columns, nothing), (nothing, columns)]
    if hard:  # a vote that moves
        sides += [(columns, -columns), (-columns, columns)]
    one = np.concatenate([np.hstack(side) for side in sides])  # a single record more or less
    steps = [one] if relation == "add_remove" else (one - other for other in one)
    return Fraction(max(int((np.abs(step) ** power).sum(axis=1).max()) for step in steps))


def _steepest(weights):
    """Return the largest log ratio of neighbouring weights, from the whole numbers themselves."""
    with localcontext(prec=80):
        ratios = [Decimal(more) / Decimal(fewer) for fewer, more in pairwise(weights.tolist())]
        return Fraction(max(ratios).ln())


MOVED = {Scale: 2, Interaction: 2, Rarity: 2, Attribute: 1, Enough: 1}
"""By how much one record moves the difference of two scores: 1 where all move one way."""


class Watch:
    """Notes every draw of noise in the account of whoever is at work."""

    def __init__(self, monkeypatch):
        self.now = Account()
        self.trees = 1
        measure, label = mechanisms.measure, plan_kind.leaf_labels
        grow = PrivateMultinomialTrees.grow

        def measuring(*args, **keywords):
            release = measure(*args, **keywords)
            self.now.measured.append(release)
            return release

        def labelling(*args):
            self.now.hard = True
            return label(*args)

        def growing(trees, *args, **keywords):
            self.now.seeded |= keywords["bits"].generator is not None
            self.trees = 1 if trees.disjoint else trees.n_trees
            rates = trees.rates
            levels = trees.max_depth * self.trees
            self.now.structure.append([rates.attribute, rates.cut] * levels)
            return grow(trees, *args, **keywords)

        for name, module in list(sys.modules.items()):
            if name.startswith("mrf_matrix") and vars(module).get("measure") is measure:
                monkeypatch.setattr(module, "measure", measuring)
        monkeypatch.setattr(plan_kind, "leaf_labels", labelling)
        monkeypatch.setattr(PrivateMultinomialTrees, "grow", growing)
        few = plans.FewOptions
        monkeypatch.setattr(few, "draw", self._asking(few.draw))
        choosing = self._choosing_a_place(plans.chosen_place)
        monkeypatch.setattr(plans, "chosen_place", choosing)
        monkeypatch.setattr(questions, "draw_tree", self._drawing(questions.draw_tree))
        monkeypatch.setattr(questions.Trees, "draw", self._growing(questions.Trees.draw))
        for module in (prediction, matrix):
            monkeypatch.setattr(module, "record_coins", self._throwing(module.record_coins))
        choosing = self._choosing(multinomial.private_labels, "trees")
        monkeypatch.setattr(multinomial, "private_labels", choosing)

    def _throwing(self, throw):
        def throwing(noise, budget, seed):
            coins = throw(noise, budget, seed)
            known = np.random.default_rng(seed).bit_generator.state
            self.now.seeded |= known == coins.bit_generator.state
            return coins

        return throwing

    def _asking(self, draw):
        """A question says which scores are drawn by: of one that is not known nothing is."""

        def asking(question, *args):
            self.moved = MOVED[type(question)]
            return draw(question, *args)

        return asking

    def _choosing_a_place(self, choose):
        def choosing(gaps, options, rate, bits):
            self.now.seeded |= bits.generator is not None
            lost = INFINITE if rate.value == INFINITE else self.moved * rate.value
            self.now.choices.append(lost)
            return choose(gaps, options, rate, bits)

        return choosing

    def _drawing(self, draw):
        """A record is in one cell of each tree: one more changes one weight to the next."""

        def drawing(cuts, counts, rules):
            exact = isinstance(rules, Exponential)
            self.now.seeded |= exact and rules.bits.generator is not None
            steepest = _steepest(rules.weights) if exact else INFINITE
            self.drawn.append((steepest, counts.total))
            return draw(cuts, counts, rules)

        return drawing

    def _growing(self, draw):
        """Draws of a later round are of different records: one more is in one of them."""

        def growing(trees, *args):
            self.drawn = []
            places = draw(trees, *args)
            whole = sum(total for _, total in self.drawn)
            if trees.above is None:
                assert len(self.drawn) == 1
                self.whole = whole
            assert (whole == self.whole).all(), "each record once"
            self.now.choices.append(max(one for one, _ in self.drawn))
            return places

        return growing

    def _choosing(self, choose, trees):
        def choosing(counts, epsilon, score, bits):
            self.now.seeded |= bits.generator is not None
            self.now.labels.append([epsilon] * (self.trees if trees else 1))
            return choose(counts, epsilon, score, bits)

        return choosing
