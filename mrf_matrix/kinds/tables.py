"""Kinds over tables: of blocks measured at once, of single attributes, of residuals in turn."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from math import sqrt
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from mrf_matrix.base.arrays import AnyInts, Array, Codes, Longs
from mrf_matrix.base.checks import short_repr
from mrf_matrix.base.fields import (
    FieldError,
    JsonObject,
    integer_of,
    list_of,
    number_of,
    whole_numbers,
)
from mrf_matrix.base.provenance import ChosenTuple, Provenance
from mrf_matrix.base.work import tell
from mrf_matrix.domain import Domain
from mrf_matrix.forests import Forest
from mrf_matrix.kinds.model import Kind, PlanFields, Sizes
from mrf_matrix.planning.plans.block_design import BlockChoice
from mrf_matrix.planning.plans.block_part import (
    only_blocks,
    plan_of_part,
    single_attributes,
    tables_of,
    weighted_blocks,
)
from mrf_matrix.planning.plans.plan import Plan
from mrf_matrix.planning.plans.plan_kind import kind_of
from mrf_matrix.posterior import (
    SCALES,
    PooledPosterior,
    ProductPosterior,
    ResidualPosterior,
    product_posterior,
)
from mrf_matrix.release.curator import Cells, Curator
from mrf_matrix.release.plan import Transcript, records_of
from mrf_matrix.reports.privacy_report import PUBLIC, STRUCTURE
from mrf_matrix.residual import ResidualPlan, residual_plan
from mrf_matrix.residual.learning import learn_additive
from mrf_matrix.residual.questions import StepQuestions
from mrf_matrix.residual.step import Budget
from mrf_matrix.voting.evidence import (
    LEAST_TOTAL,
    log_shares,
    naive_bayes_leaf_logs,
    posterior_shares,
)
from mrf_matrix.voting.intervals import Margins
from mrf_matrix.voting.voting import forest_votes

MODEL = (
    "labels and probabilities are posteriors under a model: they have no expected error known "
    "without data"
)
BLOCKS_GIVEN = "blocks were given"
MOST_LEAVES = 2**31


@dataclass(frozen=True)
class Tables(Kind):
    """The kind: few trees, each a table of a block of attributes, that know their noise."""

    name: ClassVar[str] = "tables"
    structure_keys: ClassVar[frozenset[str]] = frozenset({"blocks", "weights"})
    models_noise: ClassVar[bool] = True

    def learn(self, plan: Plan, curator: Curator) -> ProductPosterior:
        part, domain, (step,) = only_blocks(plan.parts), plan.domain, plan.steps
        asked = Cells(part.ensemble.features, domain.sizes, domain.n_classes)
        release = curator.measure(step, asked)
        tables, totals = tables_of(part, release)
        tell("Fitting the posterior")
        return product_posterior(tables, domain.ordered, totals)

    def margins(self, posterior: ProductPosterior, codes: Codes, level: float) -> Margins:
        return odds_margins(CachedPosterior.of(posterior), codes, level)

    def public(self, plan: Plan) -> tuple[str, ...]:
        """Return what the claim takes for public; blocks that records chose are not."""
        paid = plan.parts[0].forest.is_data_dependent
        return tuple(one for one in PUBLIC if not (paid and one == STRUCTURE))

    def notes(self, plan: Plan) -> tuple[str, ...]:
        """Return why these blocks, and what is no claim."""
        choice = only_blocks(plan.parts).choice
        return (MODEL,) if choice is None else (block_reason(choice, plan.n_records), MODEL)

    def rms_per_leaf(self, plan: Plan) -> float:
        part = only_blocks(plan.parts)
        made = part.mechanism
        return sqrt(made.law.variance) / (part.weights[0] * float(made.rounded.scale))

    def numbers(self, posterior: ProductPosterior) -> Iterator[Array]:
        yield posterior.totals.values
        yield from (fit.class_terms for fit in posterior.fits)
        yield from (one.logs for one in posterior.interactions)
        yield np.array([0.0 if fit.covariance.is_finite else np.nan for fit in posterior.fits])

    def structure(self, plan: Plan) -> JsonObject:
        part = only_blocks(plan.parts)
        return {"blocks": [list(one) for one in part.blocks], "weights": list(part.weights)}

    def plan_from(
        self, known: PlanFields, structure: JsonObject, chosen: Provenance | None = None
    ) -> Plan:
        blocks = _read_blocks(structure["blocks"], known.domain)
        one, other = whole_numbers(structure["weights"], "weights", least=1, length=2)
        part = weighted_blocks(
            known.domain,
            known.budget,
            blocks if chosen is None else ChosenTuple(blocks, chosen),
            (one, other),
            n_classes=known.domain.n_classes,
            neighboring=known.neighboring,
        )
        kind = kind_of("tables")
        return plan_of_part(kind, known.domain, part, known.n_records, delta=known.delta)


TABLES = Tables()


def block_reason(choice: BlockChoice, n_records: int | None) -> str:
    if choice.blocks is not None:
        return BLOCKS_GIVEN
    if choice.n_blocks != "auto":
        return f"{choice.n_blocks} blocks of all attributes were asked for"
    known = "hundreds to ten thousand" if n_records is None else f"the public number of {n_records}"
    return f"blocks were chosen by the domain alone, for {known} records"


def _read_blocks(data: object, domain: Domain) -> tuple[tuple[int, ...], ...]:
    """Return blocks of attributes, each of them once, in rising order in a block."""
    last = domain.n_attributes - 1
    blocks = [whole_numbers(one, "blocks", most=last) for one in list_of(data, "blocks", least=1)]
    places = [i for block in blocks for i in block]
    rising = all(block and list(block) == sorted(block) for block in blocks)
    if len(set(places)) < len(places) or not rising:
        raise FieldError("blocks: expected each attribute once, in rising order in a block.")
    for block in blocks:  # before trees of this size are grown
        cells = 1
        for i in block:
            cells = integer_of(cells * domain.sizes[i], "blocks: leaves", most=MOST_LEAVES)
    return tuple(blocks)


class CachedPosterior(ProductPosterior):
    """The same posterior, which keeps the log odds and margin variances of the last batch.

    Probabilities need both, and so do the intervals of margins. The two leading classes are
    nearly always the same by probability as by log odds, and only the others are computed again.
    """

    @classmethod
    def of(cls, posterior: ProductPosterior) -> Self:
        return cls(**{field.name: getattr(posterior, field.name) for field in fields(posterior)})

    @cached_property
    def _last_batch(self) -> dict[str, NDArray[np.generic]]:
        return {}

    def log_odds(self, codes: AnyInts) -> Array:
        """Return the log odds, from memory where the batch is the last one."""
        if self._last_batch.get("codes") is not codes:
            self._last_batch.clear()
            self._last_batch.update(codes=codes, odds=super().log_odds(codes))
        return np.asarray(self._last_batch["odds"])

    def margin_variances(self, codes: AnyInts, first: AnyInts, second: AnyInts) -> Array:
        """Return the variances; of pairs of classes that were asked before, from memory."""
        pairs = np.sort(np.stack([first, second]), axis=0)
        if self._last_batch.get("codes") is not codes or "variances" not in self._last_batch:
            variances = super().margin_variances(codes, first, second)
            self.log_odds(codes)
        else:
            variances = np.array(self._last_batch["variances"], dtype=np.float64)
            new = np.flatnonzero((pairs != self._last_batch["pairs"]).any(axis=0))
            if len(new):
                variances[new] = super().margin_variances(codes[new], first[new], second[new])
        self._last_batch.update(pairs=pairs, variances=variances)
        return np.asarray(variances)


def check_two_classes(n_classes: int) -> None:
    if n_classes < 2:
        raise ValueError("the domain names one class: expected two, for a margin.")


def leading_two(votes: Array) -> tuple[Longs, Longs]:
    """Return the first and the second class of each row; ties go to the first, as in predict."""
    # sort the classes backwards, then the votes
    order = votes.shape[1] - 1 - np.argsort(votes[:, ::-1], axis=1, kind="stable")
    return order[:, -1], order[:, -2]


def odds_margins(
    posterior: ProductPosterior | PooledPosterior, codes: Codes, level: float
) -> Margins:
    """Return leading classes, margins in log odds, and widths under the model.

    Averaging pulls log odds toward those of the class totals, so that the class of the largest
    probability may be behind by log odds. The margin is 0 then, and either side wider by as much as
    it is behind, to hold the interval of the log odds: it covers as often or more, and the label is
    withheld. The margin of averaged probabilities would not do: its sign is not that of the log
    odds.
    """
    shares = posterior.probabilities(codes)
    check_two_classes(shares.shape[1])
    first, second = leading_two(shares)
    odds, rows = posterior.log_odds(codes), np.arange(len(codes))
    below, above = posterior.margin_widths(codes, first, second, level)
    ahead = odds[rows, first] - odds[rows, second]
    behind = np.maximum(-ahead, 0.0)
    return first, np.maximum(ahead, 0.0), below + behind, above + behind


PUBLIC_IN_TURN = (
    "the domain and the classes",
    "the order of visits, and every step's share, sensitivity and noise",
    "the scales among which one is chosen, and how usual each is",
    "the neighbouring relation and the budget",
)
COMPOSITION = (
    "adaptive composition: each step's share was fixed before the data; which table it measures, "
    "and what a record adds to it, follow from releases and choices before it"
)


@dataclass(frozen=True)
class Additive(Kind):
    """The kind: log odds as a sum of tables, each of residuals of those before it."""

    name: ClassVar[str] = "additive"
    structure_keys: ClassVar[frozenset[str]] = frozenset({"orders", "even_records"})
    models_noise: ClassVar[bool] = True
    public_parts: ClassVar[tuple[str, ...]] = PUBLIC_IN_TURN

    def learn(self, plan: ResidualPlan, curator: Curator) -> ResidualPosterior:
        return learn_additive(plan, StepQuestions(plan, curator))

    def probabilities(self, posterior: ResidualPosterior, codes: Codes, sizes: Sizes) -> Array:
        return posterior.probabilities(codes)

    def log_odds(self, posterior: ResidualPosterior, codes: Codes, sizes: Sizes) -> Array:
        if posterior.n_classes == 2:
            return posterior.columns[0].means(codes)
        return super().log_odds(posterior, codes, sizes)

    def margins(self, posterior: ResidualPosterior, codes: Codes, level: float) -> Margins:
        if posterior.n_classes == 1:
            nothing = np.zeros(len(codes))
            return nothing.astype(np.int64), np.full(len(codes), np.inf), nothing, nothing
        first, second = leading_two(self.votes(posterior, codes, ()))
        odds, rows = posterior.log_odds(codes), np.arange(len(codes))
        ahead = np.maximum(odds[rows, first] - odds[rows, second], 0.0)  # shares may tie
        return first, ahead, *posterior.margin_widths(codes, first, second, level)

    def notes(self, plan: ResidualPlan) -> tuple[str, ...]:
        units = max(step.units for step in plan.steps)
        return (COMPOSITION, f"sums of residuals are in units of 1/{units} record", MODEL)

    def numbers(self, posterior: ResidualPosterior) -> Iterator[Array]:
        for column in posterior.columns:
            yield np.array([column.base, column.shift])
            for block in column.blocks:
                yield from (block.mean, block.covariance)

    def structure(self, plan: ResidualPlan) -> JsonObject:
        """Return the orders of visits: all else follows from budget and domain."""
        even = records_of(plan.even_records, "even_records")
        return {"orders": [list(one.order) for one in plan.passes], "even_records": even}

    def plan_from(self, known: PlanFields, structure: JsonObject) -> ResidualPlan:
        even = records_of(structure["even_records"], "even_records")
        seed = np.random.default_rng(0)  # of orders, which are replaced
        plan = residual_plan(known.domain, known.budget, seed, **known.words, even_records=even)
        orders = list_of(structure["orders"], "orders", len(plan.passes), len(plan.passes))
        passes, places = [], set(range(known.domain.n_attributes))
        for one, order in zip(plan.passes, orders, strict=True):
            found = whole_numbers(order, "orders", length=len(places))
            if set(found) != places:
                raise FieldError("orders: expected each attribute once in each.")
            passes.append(one.with_order(found))
        return replace(plan, passes=tuple(passes))


ADDITIVE = Additive()


def scale_of(transcript: Transcript) -> float:
    """Return the factor of the first pass's effects that was chosen."""
    (place,) = transcript.choices[0]
    return float(SCALES[place])


LEAST_ALPHA, LARGEST_ALPHA = 1e-100, 1e100


def checked_alpha(alpha: object) -> float:
    """Return a number of records within `LEAST_ALPHA` and `LARGEST_ALPHA`, or refuse."""
    if isinstance(alpha, int | float | np.integer | np.floating) and not isinstance(alpha, bool):
        number = float(alpha)
        if LEAST_ALPHA <= number <= LARGEST_ALPHA:
            return number
    raise ValueError(
        f"alpha={short_repr(alpha)}: expected a positive number of records from {LEAST_ALPHA} to "
        f"{LARGEST_ALPHA}, for example 1.0."
    )


@dataclass(frozen=True, eq=False, repr=False)
class NaiveBayesPlan(Plan):
    """A plan of one-way marginals, and how many records are added to every count."""

    alpha: float = 1.0


@dataclass(frozen=True, eq=False)
class NaiveBayesPosterior:
    """Noisy class counts of stumps, and how they are smoothed."""

    forest: Forest  # a stump an attribute, and the tree of class totals
    leaf_values: Array  # (o, k): noisy class counts of the leaves
    alpha: float  # records added to every count
    floor: float  # least class total, in records

    def log_posteriors(self, codes: Codes) -> Array:
        logs = naive_bayes_leaf_logs(self.forest, self.leaf_values, self.alpha, self.floor)
        absent = np.isneginf(logs).any(axis=0)  # 0 * -inf is no number in a matrix product
        votes = forest_votes(self.forest, codes, np.where(absent, 0.0, logs))
        return np.where(absent, -np.inf, votes)

    def probabilities(self, codes: Codes) -> Array:
        """Return the posterior of each class under independence, (b, k)."""
        return posterior_shares(self.log_posteriors(codes))


@dataclass(frozen=True)
class NaiveBayes(Kind):
    """The kind: the baseline that few, coarse counts make hard to beat at small budgets."""

    name: ClassVar[str] = "naive_bayes"
    structure_keys: ClassVar[frozenset[str]] = frozenset({"alpha"})
    public_parts: ClassVar[tuple[str, ...]] = PUBLIC

    def learn(self, plan: NaiveBayesPlan, curator: Curator) -> NaiveBayesPosterior:
        (part,), domain, (step,) = plan.parts, plan.domain, plan.steps
        asked = Cells(part.ensemble.features, domain.sizes, domain.n_classes)
        release = curator.measure(step, asked)
        floor = 0.0 if release.noise == "none" else LEAST_TOTAL
        return NaiveBayesPosterior(part.forest, part.answers(release), plan.alpha, floor)

    def probabilities(self, posterior: NaiveBayesPosterior, codes: Codes, sizes: Sizes) -> Array:
        return posterior.probabilities(codes)

    def log_odds(self, posterior: NaiveBayesPosterior, codes: Codes, sizes: Sizes) -> Array:
        """Return the log odds of the second of two classes, (b,), or of each class, (b, k).

        From log posteriors, of which classes far behind are still told apart.
        """
        logs = posterior.log_posteriors(codes)
        if logs.shape[1] == 2:
            return np.asarray(logs[:, 1] - logs[:, 0])
        normed = logs - logsumexp(logs, axis=1, keepdims=True)
        return np.asarray(normed - log_shares(-np.expm1(np.minimum(normed, 0.0))))

    def notes(self, plan: NaiveBayesPlan) -> tuple[str, ...]:
        return ()

    def rms_per_leaf(self, plan: NaiveBayesPlan) -> float:
        (part,) = plan.parts
        return sqrt(part.total_square / part.forest.n_leaves)

    def numbers(self, posterior: NaiveBayesPosterior) -> Iterator[Array]:
        yield posterior.leaf_values

    def structure(self, plan: NaiveBayesPlan) -> JsonObject:
        """Return how counts are smoothed: all else follows from the budget."""
        return {"alpha": plan.alpha}

    def plan_from(self, known: PlanFields, structure: JsonObject) -> NaiveBayesPlan:
        alpha = number_of(structure["alpha"], "alpha", least=LEAST_ALPHA, most=LARGEST_ALPHA)
        return naive_bayes_plan(known.domain, known.budget, **known.words, alpha=alpha)


NAIVE_BAYES = NaiveBayes()


def naive_bayes_plan(
    domain: Domain,
    budget: Budget,
    *,
    n_records: int | None,
    neighboring: str,
    delta: float = 0.0,
    alpha: float = 1.0,
) -> NaiveBayesPlan:
    part = single_attributes(domain, budget, neighboring)
    return with_smoothing(
        plan_of_part(kind_of("naive_bayes"), domain, part, n_records, delta=delta), alpha
    )


def with_smoothing(plan: Plan, alpha: float) -> NaiveBayesPlan:
    """Return a plan of one-way marginals with so many records added to every count."""
    known: dict[str, Any] = {one.name: getattr(plan, one.name) for one in fields(plan) if one.init}
    return NaiveBayesPlan(**known | {"alpha": alpha})
