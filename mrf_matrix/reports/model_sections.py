"""Sections of a model's page: what was measured, what attributes tell, agreement with counts."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import log, sqrt
from typing import Any, NamedTuple

import numpy as np

from mrf_matrix.base.checks import format_number
from mrf_matrix.domain import Domain
from mrf_matrix.forests import Forest
from mrf_matrix.forests.export import condition
from mrf_matrix.forests.label_tree import LabelTree
from mrf_matrix.mechanisms import PureDP
from mrf_matrix.mechanisms.statement import Claim
from mrf_matrix.posterior import LabelPosterior, PooledPosterior, ResidualPosterior
from mrf_matrix.posterior.effects import EffectBand, Term, effect_of, terms
from mrf_matrix.reports.page import Section, bars, budget_bar, effect_strip
from mrf_matrix.reports.privacy_report import (
    Measurement,
    PrivacyReport,
    group_alike,
    range_of_names,
    stated_budget,
)


@dataclass(frozen=True)
class Facts:
    """What the sentences of a page follow from."""

    claim: Claim
    public: tuple[str, ...] = ()
    follows_choices: bool = False  # whether something was chosen from the records, privately
    from_file: bool = False

    @property
    def has_public_base(self) -> bool:
        """Whether nothing that it rests on was read off records, or is of unknown origin."""
        return not self.claim.provenance.read_off | self.claim.provenance.unknown

    @property
    def rests_on_others(self) -> bool:
        """Whether it adds up charges of several fits."""
        return len(self.claim.spendings) > 1


MOST = 60
LAPLACE_WIDTH, GAUSSIAN_WIDTH = log(20) / sqrt(2), 1.96
"""Half the width that holds 19 of 20 draws, in standard deviations."""


def noise_rms(one: Measurement) -> float | None:
    """Return the root mean square of the noise on one answer, in records.

    It is that of continuous noise, which the discrete noise that was drawn never exceeds. None for
    a choice, which adds no noise to sums.
    """
    budget = stated_budget(one.budget)
    if one.is_choice:
        return None
    if budget.is_infinite:
        return 0.0
    amount = float(budget.exact)
    return one.sensitivity * (
        sqrt(2) / amount if isinstance(budget, PureDP) else 1 / sqrt(2 * amount)
    )


def measured_section(report: PrivacyReport, facts: Facts) -> Section:
    words = []
    when = "Expected before any record was read"
    if not facts.has_public_base:
        when = "Expected before it was measured"
    elif facts.follows_choices or facts.rests_on_others:
        when = "Expected before it was measured, given what was chosen before"
    for error, what in (
        (report.expected_rms_per_leaf, "value of a leaf"),
        (report.expected_rms_per_vote, "vote"),
    ):
        if error is not None:
            words.append(
                f"{when}: the {what} is off by {error:.3g} records "
                "in the root mean square, for each class."
            )
    rows = [_group_row(group) for group in group_alike(report.measurements)]
    if len(rows) > MOST:
        words.append(f"{len(rows) - MOST} kinds of measurements more are not listed.")
    header = (
        "what was measured",
        "times",
        "budget each",
        "one record moves it by",
        "noise",
        "numbers",
    )
    return Section(
        "What was measured, and how noisy it is", tuple(words), tuple(rows[:MOST]), header
    )


def _noise_cells(one: Measurement) -> tuple[str, ...]:
    budget = stated_budget(one.budget)
    spent = f"{'ε' if isinstance(budget, PureDP) else 'ρ'} = {format_number(budget.amount)}"
    return spent, f"{one.sensitivity:.4g}", noise_words(one)


def _group_row(group: list[Measurement]) -> tuple[str, ...]:
    numbers = sum(one.n_answers for one in group)
    return range_of_names(group), str(len(group)), *_noise_cells(group[0]), f"{numbers:,}"


def noise_words(one: Measurement) -> str:
    """Return how noisy a measurement is, in words and records."""
    rms = noise_rms(one)
    if rms is None:
        return "a choice at random, in which better ones are likelier"
    if not rms:
        return "none"
    pure = isinstance(stated_budget(one.budget), PureDP)
    wide = rms * (LAPLACE_WIDTH if pure else GAUSSIAN_WIDTH)
    most = "" if "parties" in one.law else "at most "  # parties who all stay add more than needed
    return f"{most}{rms:.3g} records rms; 19 of 20 within ±{wide:.3g}"


def shares_section(report: PrivacyReport, facts: Facts) -> Section | None:
    """Return how the budget was shared out; nothing where it is infinite or not shared."""
    costs: dict[str, float] = {}
    for one in report.measurements:
        budget = stated_budget(one.budget)
        if budget.is_infinite:
            return None
        what = _stage(one.measured)
        costs[what] = costs.get(what, 0.0) + float(budget.exact)
    total = sum(costs.values())
    spent = report.claim.budget
    if len(costs) < 2 or not total or (spent is not None and total > float(spent.amount) * 1.001):
        return None  # not shared: steps of different records spend the whole each
    parts = sorted(((name, cost / total) for name, cost in costs.items()), key=lambda one: -one[1])
    known = "before any record was read" if facts.has_public_base else "before it was measured"
    if facts.follows_choices:
        known = "by public rules: shares that follow a choice follow from what it came to"
    words = f"{report.budget} in all, shared out {known}."
    return Section("Where the budget went", (words,), pictures=(budget_bar(parts),))


def _stage(measured: str) -> str:
    """Return the stage that a measurement belongs to: what stands before its table's number."""
    before, colon, _ = measured.partition(":")
    return before.partition(", table")[0] if colon else re.sub(r" \d+$", "s", measured)


STRENGTH_TITLE, TITLE_OF_LABELS = "Strength and effect of attributes", "Labels of cells"
MOST_STRIPS = 6
MOST_CODES = 30
LEVEL, HALF_WIDTH = 0.95, 1.96
"""Of bands, and how many standard deviations they are wide to each side."""


def strength_section(model: Any, domain: Domain) -> Section:
    posterior = getattr(model, "posterior_", None)
    if posterior is None:
        return Section(STRENGTH_TITLE, ("This kind of model does not add effects of attributes.",))
    classes = domain.classes
    if isinstance(posterior, LabelPosterior):
        tree: Any = posterior.partition
        return labels_section(tree, posterior, domain)
    if domain.n_classes == 1:
        return Section(STRENGTH_TITLE, ("The domain names one class, which is every answer.",))
    ends = model.classes_.tolist()
    last, first = (classes.index(ends[i]) for i in (-1, 0))
    known = (one for one in terms(posterior, last, first) if one.deviations.any())
    found = sorted(known, key=lambda one: -one.size)
    unit = f"log odds of {classes[last]} against {classes[first]}"
    strengths = bars([(_term_name(domain, one), one.size) for one in found], unit)
    singles = [one.attributes for one in found if len(one.attributes) == 1][:MOST_STRIPS]
    effects = ((i, effect_of(posterior, (i,), (last, first), LEVEL)) for (i,) in singles)
    strips = tuple(_strip(domain, i, of, unit) for i, of in effects if of is not None)
    words = (
        f"How far each attribute, or several together, move the {unit}: root mean square over the "
        "records as the release estimates them. All of it is read off the release and costs "
        "nothing.",
        "Below, the effect of each code of the strongest: the dot is the estimate; the bar holds "
        "it in 19 of 20 cases, by noise and by the drawing of records, under the model. A bar that "
        "crosses the line leaves open which way the code speaks.",
    )
    rows = tuple((_term_name(domain, one), f"{one.size:.3g}", _widest(one)) for one in found[:12])
    header = ("attribute", "strength", "widest band")
    return Section(STRENGTH_TITLE, words, rows, header, (strengths, *strips))


def _strip(domain: Domain, place: int, found: EffectBand, unit: str) -> str:
    attribute = domain.attributes[place]
    labels = [str(label) for label in attribute.labels]
    kept = np.arange(len(labels))
    if len(labels) > MOST_CODES:
        ratios = np.abs(found.log_odds) / np.maximum(found.inward, 1e-300)
        kept = np.sort(np.argsort(-ratios, kind="stable")[:MOST_CODES])
    some = f", {len(kept)} clearest of {len(labels)}" if len(kept) < len(labels) else ""
    return effect_strip(
        attribute.name + some,
        [labels[i] for i in kept],
        found.log_odds[kept],
        (found.below[kept], found.above[kept]),
        unit,
    )


def _widest(term: Term) -> str:
    return f"±{HALF_WIDTH * float(term.deviations.max()):.2g}"


def _term_name(domain: Domain, term: Term) -> str:
    return " × ".join(domain.names[i] for i in term.attributes)


def labels_section(tree: LabelTree, posterior: LabelPosterior, domain: Domain) -> Section:
    forest, cells = tree.forest(domain)
    rows = [
        (_path_text(forest, node), str(domain.classes[posterior.labels[cell]]))
        for node, cell in zip(forest.leaves.tolist(), cells, strict=True)
    ]
    sure = [float(posterior.evidence[cell].probabilities.max()) for cell in cells]
    if tree.counts is None:
        words = (
            "All that the release says: these cells, and the class of each. A label is "
            f"right with probability {sure[0]:.2f}, under a public prior of the "
            "shares of classes in a cell. It is the same for all of them: nothing says of which "
            "label one may be surer.",
        )
        return Section(TITLE_OF_LABELS, words, tuple(rows), ("cell", "label"))
    words = (
        "All that the release says: these cells, the class of each, and noisy counts of its "
        "records by class, from which follows how likely it is, under a public prior.",
    )
    with_shares = tuple((*row, f"{one:.2f}") for row, one in zip(rows, sure, strict=True))
    return Section(TITLE_OF_LABELS, words, with_shares, ("cell", "label", "probability"))


def _path_text(tree: Forest, node: int) -> str:
    said: list[str] = []
    while (above := int(tree.parent[node])) >= 0:
        said.insert(0, condition(tree, above, node - int(tree.first_child[above])))
        node = above
    return ", ".join(said) or "all records"


AGREEMENT_TITLE = "Does the model agree with the counts?"
MOST_COMPARED = 12
BESIDE = "The model is here that of the tables alone, without the tree beside them."
HEADER = ("attribute", "code", "class", "share in the counts", "in the model", "noise", "")


class ShareComparison(NamedTuple):
    """One code and class."""

    attribute: str
    code: str
    label: str
    counted: float
    implied: float
    noise: float

    @property
    def excess(self) -> float:
        """Distance of the shares, in the largest that noise explains."""
        return abs(self.counted - self.implied) / self.noise

    @property
    def row(self) -> tuple[str, ...]:
        said = "more than noise" if self.excess > 1 else ""
        shares = f"{self.counted:.3f}", f"{self.implied:.3f}", f"±{self.noise:.3f}"
        return (self.attribute, self.code, self.label, *shares, said)


def agreement_section(model: Any, domain: Domain) -> Section | None:
    """Return the codes whose shares differ most; None where no release compares them.

    Residual forests alone release tables of what their own forecasts miss: beside a tree too, where
    the shares are those of the tables by themselves. Every other kind is fitted to each of its
    tables, so that there is nothing else to compare one with.
    """
    posterior = getattr(model, "posterior_", None)
    beside: tuple[str, ...] = ()
    if isinstance(posterior, PooledPosterior) and isinstance(posterior.tables, ResidualPosterior):
        posterior, beside = posterior.tables, (BESIDE,)
    if not isinstance(posterior, ResidualPosterior):
        return None
    found = list(_compare_shares(posterior, domain))
    if not found:
        return None
    beyond = [one for one in found if one.excess > 1]
    told = f"{len(beyond)} of {len(found)} shares differ by more than noise."
    if not beyond:
        told = f"None of {len(found)} shares differs by more than noise."
    words = (
        *beside,
        "The first table of an attribute tells the share of each class among the records of each "
        "code. The last one tells how far the model's own forecasts for these records were from "
        "it. Both are released already: to compare them costs nothing.",
        f"{told} In 19 of 20 releases noise alone takes none of the differences beyond its bound.",
    )
    shown = sorted(found, key=lambda one: -one.excess)[:MOST_COMPARED]
    return Section(AGREEMENT_TITLE, words, tuple(one.row for one in shown), HEADER)


def _compare_shares(posterior: ResidualPosterior, domain: Domain) -> Iterator[ShareComparison]:
    """Return every code of every attribute that was looked at again, for each class's column."""
    labels = domain.classes if len(posterior.columns) > 1 else domain.classes[-1:]
    shares = [one.code_shares for one in posterior.columns]
    n_compared = sum(len(one.counted) for column in shares for one in column)
    for label, column in zip(labels, shares, strict=True):
        for attribute, one in zip(domain.attributes, column, strict=False):
            values = one.counted, one.model_shares, one.bounds(n_compared)
            if np.isfinite(one.variance):
                for code, *numbers in zip(attribute.labels, *values, strict=True):
                    yield ShareComparison(
                        attribute.name, str(code), str(label), *map(float, numbers)
                    )
