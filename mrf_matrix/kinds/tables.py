"""Tables of blocks measured at once, or of residuals measured in turn, and their posteriors."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from math import sqrt
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.arrays import AnyInts, Array, Codes, Longs
from mrf_matrix.base.fields import FieldError, JsonObject, integer_of, list_of, whole_numbers
from mrf_matrix.base.provenance import ChosenTuple, Provenance
from mrf_matrix.base.work import tell
from mrf_matrix.domain import Domain
from mrf_matrix.kinds.model import Kind, PlanFields, Sizes
from mrf_matrix.planning.plans.block_design import BlockChoice
from mrf_matrix.planning.plans.block_part import (
    only_blocks,
    plan_of_part,
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
from mrf_matrix.voting.intervals import Margins

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


# Margins -----------------------------------------------------------------------------------------


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
