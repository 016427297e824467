"""Random forests whose leaves are answered by the matrix mechanism, or measured by a baseline.

Strategies are chosen without data; each ensemble is one measurement. How trees vote and how leaves
are shrunk comes after it, and may be changed at no cost.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from math import inf, sqrt
from typing import Any, ClassVar

import numpy as np

from mrf_matrix.base.arrays import Array, Codes, Values
from mrf_matrix.base.checks import one_word
from mrf_matrix.base.fields import (
    FieldError,
    JsonObject,
    fraction_of,
    line_of_text,
    list_of,
    object_of,
    whole_numbers,
)
from mrf_matrix.base.provenance import STRATEGY, Provenance
from mrf_matrix.compilation.matrices import distinct_queries, public_queries
from mrf_matrix.domain import Domain
from mrf_matrix.forests import Forest
from mrf_matrix.forests.assembly import checked_forest
from mrf_matrix.forests.ensembles import Ensemble
from mrf_matrix.forests.nodes import ARRAYS
from mrf_matrix.kinds.model import Fetch, Kind, Model, PlanFields, Sizes
from mrf_matrix.mechanisms import CellCounts, Release, calibrate
from mrf_matrix.mechanisms.measurement.least_squares import recovered_squares
from mrf_matrix.mechanisms.measurement.mechanism import same_measurement
from mrf_matrix.mechanisms.statement import provenance_of, provenance_to_dict
from mrf_matrix.planning.plans.baselines import record_coins
from mrf_matrix.planning.plans.build import Design, PublicForests, build_plan
from mrf_matrix.planning.plans.cost import check_cost
from mrf_matrix.planning.plans.part import PlanPart
from mrf_matrix.planning.plans.plan import Plan
from mrf_matrix.planning.plans.plan_kind import MeasurementSpec, kind_of
from mrf_matrix.release.curator import Cells, Curator, PartyReleases
from mrf_matrix.release.plan import Table, Transcript
from mrf_matrix.reports.privacy_report import PUBLIC, STRUCTURE
from mrf_matrix.voting.intervals import Margins, half_widths, leading_margins
from mrf_matrix.voting.voting import (
    NOISE_AWARE_VOTINGS,
    SHRINKAGES,
    NoiseAwareVoting,
    ReleasedEnsemble,
    Shrinkage,
    ensemble_votes,
    shares_of_votes,
)
from strategies import Strategy
from strategies.operator_files import decode, encode
from strategies.operators import Scaled

INTEGERS = "<i4"
MOST_ENSEMBLES = 1000
MOST_VIEWS = 10**7
"""Most ensembles times attributes: the work of telling which sees what."""
ENSEMBLE_KEYS = {"features", "source", "provenance", "shapes", "share", "method", "strategy"}


@dataclass(frozen=True, eq=False, repr=False)
class MatrixPlan(Plan):
    """A plan of leaves, with what the released ones are used by."""

    # {"none", "votes", "leaves"}: what is done to the leaves before they vote
    shrinkage: Shrinkage = "none"
    # seeds of the coins that give each record its tree, one an ensemble; of a study only
    coins: tuple[int, ...] = ()

    @property
    def provenance(self) -> Provenance:
        """Where all that is measured came from: domain, forests and strategies."""
        return super().provenance | STRATEGY

    @property
    def throws_coins(self) -> bool:
        """Whether records are dealt to trees by coins, which no transcript has."""
        return self.kind.is_disjoint


@dataclass(frozen=True, eq=False)
class OwnLeaves:
    """Counts of leaves, where each record is in one tree, by a coin: one record is in one leaf."""

    ensemble: Ensemble
    n_columns: int  # a column a class
    coins: np.random.Generator
    kind: ClassVar[str] = "strategy"
    n_cells: ClassVar[int] = 0  # the step knows its strategy

    @property
    def sizes(self) -> Sizes:
        return (self.ensemble.forest.n_leaves,)

    def counts(self, data: Any) -> CellCounts:
        counts: CellCounts = data.disjoint_leaves(self.ensemble, self.coins)
        return counts


def ensemble_of(part: PlanPart, release: Release) -> ReleasedEnsemble:
    return ReleasedEnsemble(
        part.ensemble.features, part.forest, part.answers(release), release,
        part.strategy, leaves_measured=part.strategy is None,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class MatrixPosterior:
    """Ensembles whose leaves know their noise, and how they vote."""

    ensembles: tuple[ReleasedEnsemble, ...]
    voting: NoiseAwareVoting = "hard"
    shrinkage: Shrinkage = "none"

    @property
    def rule(self) -> tuple[NoiseAwareVoting, Shrinkage]:
        return self.voting, self.shrinkage

    def votes(self, codes: Codes) -> Array:
        parts = [(one.features, one.leaves) for one in self.ensembles]
        return ensemble_votes(parts, codes, self.voting, self.shrinkage)

    def probabilities(self, codes: Codes) -> Array:
        """Return posteriors of the classes, or their shares of the votes, by the voting: (b, k)."""
        return shares_of_votes(self.votes(codes), self.voting)


@dataclass(frozen=True)
class Matrix(Kind):
    """The kind: leaves of public forests by the matrix mechanism, or by a baseline."""

    name: ClassVar[str] = "matrix"
    structure_keys: ClassVar[frozenset[str]] = frozenset(
        {"allocation", "voting", "shrinkage", "ensembles"}
    )

    def learn(self, plan: Plan, curator: Curator) -> MatrixPosterior:
        releases = curator.measure_all(questions(plan, curator.noise))
        pairs = zip(plan.parts, releases, strict=True)
        found = tuple(ensemble_of(part, release) for part, release in pairs)
        voting: Any = plan.voting
        return MatrixPosterior(found, voting, getattr(plan, "shrinkage", "none"))

    def probabilities(self, posterior: MatrixPosterior, codes: Codes, sizes: Sizes) -> Array:
        return posterior.probabilities(codes)

    def votes(self, posterior: MatrixPosterior, codes: Codes, sizes: Sizes) -> Array:
        return posterior.votes(codes)

    def margins(self, posterior: MatrixPosterior, codes: Codes, level: float) -> Margins:
        voting, shrinkage = posterior.rule
        if (voting, shrinkage) != ("weight", "none"):
            raise ValueError(
                f"voting={voting!r}, shrinkage={shrinkage!r}: intervals are known for weight votes "
                f"of unbiased leaves only. Expected voting='weight', shrinkage='none'. Both come "
                f"after the measurement: voted_by('weight', 'none') costs nothing."
            )
        votes = posterior.votes(codes)
        return leading_margins(
            votes, half_widths(posterior.ensembles, codes, level, votes.shape[1])
        )

    def voted_by(self, model: Model, voting: str | None, shrinkage: str | None) -> Model:
        plan, known = model.plan, model.posterior
        rule = one_word("voting", voting or known.voting, NOISE_AWARE_VOTINGS)
        shrunk = one_word("shrinkage", shrinkage or known.shrinkage, SHRINKAGES)
        if isinstance(plan, MatrixPlan):  # that of parties says nothing of shrinkage
            plan = replace(plan, shrinkage=shrunk)
        used = replace(known, voting=rule, shrinkage=shrunk)
        return replace(model, plan=plan.voted_by(rule), posterior=used)

    def public(self, plan: Plan) -> tuple[str, ...]:
        """Return what the claim takes for public; a structure that was paid for is not."""
        paid = any(part.forest.is_data_dependent for part in plan.parts)
        return tuple(one for one in PUBLIC if not (paid and one == STRUCTURE))

    def notes(self, plan: Plan) -> tuple[str, ...]:
        return structure_notes([part.ensemble for part in plan.parts])

    def rms_per_leaf(self, plan: Plan) -> float:
        total = sum(part.total_square for part in plan.parts)
        return sqrt(total / sum(part.forest.n_leaves for part in plan.parts))

    def complete_plan(self, plan: Plan, transcript: Transcript) -> Plan:
        """Return the plan without the seeds of its coins, which no model needs."""
        return replace(plan, coins=()) if isinstance(plan, MatrixPlan) else plan

    def numbers(self, posterior: MatrixPosterior) -> Iterator[Array]:
        yield from (one.leaf_values for one in posterior.ensembles)

    def structure(self, plan: MatrixPlan) -> JsonObject:
        """Return how leaves are used; forests and strategies, which files keep whole."""
        return {
            "allocation": plan.allocation,
            "voting": plan.voting,
            "shrinkage": plan.shrinkage,
            "ensembles": [
                _ensemble_to_dict(number, one, plan.allocation == "matrix")
                for number, one in enumerate(plan.parts)
            ],
        }

    def arrays(self, plan: MatrixPlan) -> dict[str, Values]:
        """Return those of trees and strategies."""
        found: dict[str, Values] = {}
        for number, part in enumerate(plan.parts):
            where = _folder(number)
            for name in ARRAYS:
                found[where + name] = np.asarray(getattr(part.forest, name), dtype=INTEGERS)
            if part.strategy is not None and plan.allocation == "matrix":
                found |= encode(part.strategy.matrix, where)[1]
        return found

    def plan_from(self, known: PlanFields, structure: JsonObject) -> MatrixPlan:
        if known.fetch is None:
            raise FieldError("plan: expected one with the arrays of its forests.")
        kind = kind_of("matrix", structure["allocation"], structure["voting"])
        given = [
            object_of(one, "ensemble", ENSEMBLE_KEYS)
            for one in list_of(structure["ensembles"], "ensembles", MOST_ENSEMBLES, least=1)
        ]
        if len(given) * known.domain.n_attributes > MOST_VIEWS:
            raise FieldError(
                f"{len(given)} ensembles over {known.domain.n_attributes} attributes: expected a "
                f"product of at most {MOST_VIEWS}."
            )
        ensembles = tuple(
            _read_ensemble(_folder(number), one, known.domain, known.fetch)
            for number, one in enumerate(given)
        )
        chosen = kind.allocation == "matrix"
        matrices = [
            decode(one["strategy"], known.fetch, _folder(number))[0] if chosen else "auto"
            for number, one in enumerate(given)
        ]
        shares = [fraction_of(one["share"], "share") for one in given]
        measuring = MeasurementSpec(
            known.budget,
            neighboring=known.neighboring,
            budget_shares=None if known.budget.is_infinite else shares,  # type: ignore[arg-type]
            strategy=matrices,
            delta=known.delta,
        )
        forests = PublicForests(kind, known.domain, ensembles, np.random.default_rng(0))
        plan = forests.plan(
            measuring,
            public_queries(known.domain, 1),
            n_classes=known.domain.n_classes,
            n_records=known.n_records,
        )
        check_cost(plan, inf)
        named = zip(plan.parts, given, strict=True)
        parts = tuple(_with_method(part, one["method"]) for part, one in named)
        shrinkage = one_word("shrinkage", structure["shrinkage"], SHRINKAGES)
        return as_matrix_plan(replace(plan, parts=parts), shrinkage)


MATRIX = Matrix()


def questions(plan: Plan, noise: str) -> list[Table]:
    """Return what each ensemble's measurement is asked of; exact noise goes with fresh coins."""
    domain, classes = plan.domain, plan.n_classes
    ensembles = [part.ensemble for part in plan.parts]
    if not plan.kind.is_disjoint:
        return [Cells(one.features, _sizes(one, domain), classes) for one in ensembles]
    seeds = getattr(plan, "coins", ()) or [None] * len(ensembles)
    return [
        OwnLeaves(one, classes, record_coins(noise, plan.budget, seed))
        for one, seed in zip(ensembles, seeds, strict=True)
    ]


def _sizes(ensemble: Ensemble, domain: Domain) -> Sizes:
    return tuple(domain.sizes[i] for i in ensemble.features)


def structure_notes(ensembles: Sequence[Ensemble]) -> tuple[str, ...]:
    """Return what structures cost within the claim, and where trees are less deep than asked."""
    spent = {one for part in ensembles for one in part.forest.provenance.spendings}
    told = sorted(f"the forest's structure cost {one.budget} of it, before this" for one in spent)
    depths = {one.depth_note: None for one in ensembles if one.depth_note is not None}
    return (*told, *depths)


def matrix_plan(
    domain: Domain,
    design: Design,
    measuring: MeasurementSpec,
    structure: np.random.Generator,
    *,
    n_records: int | None,
    noise: str,
    allocation: object = "matrix",
    voting: object = "hard",
    shrinkage: Shrinkage = "none",
) -> MatrixPlan:
    """Return the plan of a forest's leaves, without data.

    `noise`: of a study, whose coins follow the structure's seed; a private release throws others.
    """
    kind = kind_of("matrix", allocation, voting)
    infinite = measuring.budget.is_infinite
    use: Any = "study" if infinite else "release"
    made = build_plan(kind, domain, design, measuring, structure, n_records=n_records, use=use)
    study = kind.is_disjoint and (noise == "research" or infinite)
    seeds = structure.integers(2**63, size=len(made.parts)).tolist() if study else []
    return as_matrix_plan(made, shrinkage, tuple(seeds))


def as_matrix_plan(plan: Plan, shrinkage: Shrinkage, coins: tuple[int, ...] = ()) -> MatrixPlan:
    """Return a plan of leaves with how they are used."""
    known: dict[str, Any] = {one.name: getattr(plan, one.name) for one in fields(Plan) if one.init}
    return MatrixPlan(**known, shrinkage=shrinkage, coins=coins)


def model_of_release(
    release: Release, domain: Domain, forest: Forest, voting: str, shrinkage: Shrinkage
) -> Model:
    """Return the model of a forest over the whole domain, from a release that was made before.

    Raises RowSpaceError if the release does not determine some leaf.
    """
    kind, rounded = kind_of("matrix", voting=voting), release.mechanism.rounded
    whole = Ensemble(tuple(range(domain.n_attributes)), forest)
    queries, often, _ = distinct_queries([whole], public_queries(domain, 1))
    workload = kind.workload(whole, queries)
    scale, moved = float(rounded.scale), rounded.recovery.sensitivity(rounded.norm)
    loss = moved**2 * float(recovered_squares(workload, rounded.recovery).sum())
    matrix = Scaled(1 / scale, rounded.recovery)
    strategy = Strategy(matrix, rounded.norm, moved / scale, loss, release.method, lambda: 0.0)
    parts = (PlanPart(whole, workload, strategy, release.mechanism),)
    plan = MatrixPlan(
        domain, kind, parts, queries, often, domain.n_classes, None, 0.0, shrinkage=shrinkage
    )
    return Model(MATRIX, *PartyReleases(plan, [release]).learn(MATRIX))


# Files -------------------------------------------------------------------------------------------


def _folder(number: int) -> str:
    return f"ensemble_{number}/"


def _ensemble_to_dict(number: int, part: PlanPart, chosen: bool) -> JsonObject:
    """Return an ensemble as plain values; `chosen`: whether its strategy was."""
    forest, strategy, mechanism = part.forest, part.strategy, part.mechanism
    budget, kept = mechanism.budget, None
    if chosen and strategy is not None:
        again = calibrate(
            strategy, budget, neighboring=mechanism.neighboring, workload=part.workload
        )
        if again.law != mechanism.law or not same_measurement(again, mechanism):
            raise FieldError(
                "it was measured otherwise than its strategy is by now, and files hold the "
                "strategy: keep the release itself, by save_release, and the forest with it."
            )
        kept = encode(strategy.matrix, _folder(number))[0]
    return {
        "features": list(part.ensemble.features),
        "source": forest.source,
        "provenance": provenance_to_dict(forest.provenance),
        "shapes": {name: [len(getattr(forest, name))] for name in ARRAYS},
        "share": "1" if budget.is_infinite else str(budget.exact),
        "method": part.method,
        "strategy": kept,
    }


def _read_ensemble(where: str, data: JsonObject, domain: Domain, fetch: Fetch) -> Ensemble:
    last = domain.n_attributes - 1
    features = whole_numbers(data["features"], f"{where}: features", most=last)
    if not features or len(set(features)) < len(features):
        raise FieldError(f"{where}: features: expected distinct positions 0 to {last}.")
    shapes = object_of(data["shapes"], where, ARRAYS)
    trees = {
        name: fetch(
            where + name, INTEGERS, whole_numbers(shapes[name], f"{where}{name}", least=1, length=1)
        )
        for name in ARRAYS
    }
    part = domain if features == tuple(range(domain.n_attributes)) else domain.select(features)
    source = line_of_text(data["source"], f"{where}: source", 1000)
    rests_on = provenance_of(data["provenance"], f"{where}: provenance")
    return Ensemble(features, checked_forest(part, trees, source, rests_on))


def _with_method(part: PlanPart, method: object) -> PlanPart:
    if part.strategy is None:
        return part
    name = line_of_text(method, "method", 100)
    return replace(part, strategy=replace(part.strategy, method=name))
