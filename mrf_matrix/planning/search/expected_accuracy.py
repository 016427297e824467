"""Expected accuracy of a planned forest under a public prior of data: no data, only chance.

Laws of records and classes are drawn from a prior, records are drawn from each law, and the
planned release is simulated on these made-up records with research noise. What comes out depends
on domain, design, budget and the *public* number of records alone. Laws are class columns of one
release, whose noise is independent by column: linear algebra is done once.
"""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mrf_matrix.base.arrays import Array, Codes, Longs
from mrf_matrix.base.work import tell
from mrf_matrix.domain import Domain
from mrf_matrix.forests import Forest
from mrf_matrix.forests.ensembles import Ensemble
from mrf_matrix.mechanisms import CellCounts, measure, reconstruct
from mrf_matrix.planning.plans.baselines import one_leaf_each
from mrf_matrix.planning.plans.block_part import only_blocks, tables_of
from mrf_matrix.planning.plans.part import PlanPart
from mrf_matrix.planning.plans.plan import Plan
from mrf_matrix.posterior import product_posterior
from mrf_matrix.release.curator import Live
from mrf_matrix.residual.learning import learn_additive
from mrf_matrix.residual.questions import StepQuestions
from mrf_matrix.residual.sequence import ResidualPlan

Votes = dict[str, Array]  # votes of the imagined queries by voting rule, (laws, queries, k) each

IMAGINING = "Imagining data"  # told law by law, so that a search can give up in between

MOST_RECORDS = 60_000  # records drawn over all laws; more are counted in multiples


class RecordLaw(Protocol):
    """A law of records and their classes."""

    def records(self, count: int, generator: np.random.Generator) -> tuple[Codes, Longs]: ...


class DataPrior(Protocol):
    """A public prior of laws: `TargetPrior`, or one of yours."""

    @property
    def label_noise(self) -> float:
        """Share of labels that are drawn uniformly."""
        ...

    def draw(self, domain: Domain, n_classes: int, generator: np.random.Generator) -> RecordLaw: ...


RECORD_STEP, OF_A_CLASS = 2.5e-7, 1.4
"""Seconds that a step of a residual forest takes for a record of two classes, and how many times
that for each of several classes."""


class SimulatedData:
    """Records and queries of several laws that nobody owns, drawn once for all designs.

    Parameters
    ----------
    domain : Domain
    n_classes, n_records : int
        Public numbers of classes and records.
    prior : DataPrior
    n_targets : int
        Laws drawn, each with the records of a data set and queries.
    n_queries : int
        Queries of each law.
    seed : int
    """

    def __init__(
        self,
        domain: Domain,
        n_classes: int,
        n_records: int,
        prior: DataPrior,
        n_targets: int = 24,
        n_queries: int = 128,
        seed: int = 0,
    ) -> None:
        generator = np.random.default_rng([seed, 1])
        self.n_classes, self.n_targets, self.n_queries = n_classes, n_targets, n_queries
        self.weight = -(-n_records * n_targets // MOST_RECORDS)
        drawn = max(1, round(n_records / self.weight))
        laws = []
        for number in range(n_targets):
            tell(IMAGINING, number, n_targets)
            laws.append(prior.draw(domain, n_classes, generator))
        known = [law.records(drawn, generator) for law in laws]
        asked = [law.records(n_queries, generator) for law in laws]
        self.codes = np.concatenate([codes for codes, _ in known])
        self.labels = np.concatenate([labels for _, labels in known])
        self.owner = np.repeat(np.arange(n_targets), drawn)
        self.queries = np.concatenate([codes for codes, _ in asked])
        self.wanted = np.stack([labels for _, labels in asked])
        noisy = generator.random(len(self.labels)) < prior.label_noise
        self.labels[noisy] = generator.integers(0, n_classes, int(noisy.sum()))
        self._cells: dict[tuple[int, ...], CellCounts] = {}
        self._last: tuple[object, Votes, Mapping[str, object]] = ((), {}, {})

    def cells(self, ensemble: Ensemble) -> CellCounts:
        """Return class counts of an ensemble's cells, counted once for all designs."""
        if ensemble.features not in self._cells:
            codes = ensemble.view(self.codes)
            self._cells[ensemble.features] = self.counts(codes, ensemble.forest.domain.sizes)
        return self._cells[ensemble.features]

    def votes(self, plan: Plan, generator: np.random.Generator) -> Votes:
        """Return `imagined_votes`; designs that differ in voting only are simulated once.

        The generator is left in the same state either way, so that nothing hangs on what was
        asked before.
        """
        parts, votes, state = self._last
        if parts is plan.parts:
            generator.bit_generator.state = dict(state)
            return votes
        votes = imagined_votes(plan, self, generator)
        self._last = (plan.parts, votes, generator.bit_generator.state)
        return votes

    def counts(self, codes: Codes, sizes: tuple[int, ...]) -> CellCounts:
        """Return class counts of each distinct row of codes, a block of columns each law."""
        distinct, inverse = np.unique(codes, axis=0, return_inverse=True)
        k, t = self.n_classes, self.n_targets
        table = np.zeros((len(distinct), t * k), dtype=np.int64)
        np.add.at(table, (inverse.reshape(-1), self.owner * k + self.labels), 1)
        return CellCounts(distinct, table * self.weight, sizes)

    def own_columns(self, answers: Array) -> Array:
        """Return each law's columns in the answers to its own queries, (laws, queries, k)."""
        t, b = self.n_targets, self.n_queries
        blocks = answers.reshape(t, b, t, self.n_classes)
        return np.asarray(blocks[np.arange(t), :, np.arange(t)])


def imagined_votes(plan: Plan, imagined: SimulatedData, generator: np.random.Generator) -> Votes:
    """Return the votes of the imagined queries under each voting rule, (laws, queries, k).

    `generator`: draws research noise and breaks ties.
    """
    votes: Votes = {}
    for part in plan.parts:
        for rule, cast in _part_votes(plan, part, imagined, generator).items():
            known = votes.get(rule)
            votes[rule] = cast if known is None else known + cast
    return votes


def _part_votes(
    plan: Plan, part: PlanPart, imagined: SimulatedData, generator: np.random.Generator
) -> Votes:
    forest = part.ensemble.forest
    kind = plan.kind
    if kind.is_disjoint:
        leaves = one_leaf_each(forest, part.ensemble.view(imagined.codes), generator)
        counts = imagined.counts(leaves[:, None], (forest.n_leaves,))
    else:
        counts = imagined.cells(part.ensemble)
    if kind.counts_votes:
        counts = _hard_counts(counts, imagined.n_classes, generator)
    release = measure(part.mechanism, counts, noise="research", random_state=generator)
    if not kind.releases_leaves:
        workload = kind.vote_workload(part.ensemble, imagined.queries)
        direct = part.strategy is None
        votes = workload.matmat(release.values) if direct else reconstruct(release, workload)
        return {plan.voting: imagined.own_columns(votes)}
    values = part.answers(release)
    incidences = _incidences(forest, part.ensemble.view(imagined.queries), imagined.n_targets)
    hard = _winners(values, imagined.n_classes, generator)
    return {
        "weight": _gather(incidences, values, imagined.n_classes),
        "hard": _gather(incidences, hard, imagined.n_classes),
    }


def _incidences(forest: Forest, asked: Codes, n_targets: int) -> list[sparse.csr_array]:
    """Return which leaves the queries of each law reach, (queries, leaves) each."""
    reached = forest.apply(asked).reshape(n_targets, -1)
    shape = (len(asked) // n_targets, forest.n_leaves)
    ends = np.arange(0, reached.shape[1] + 1, forest.n_trees)
    return [sparse.csr_array((np.ones(len(one)), one, ends), shape=shape) for one in reached]


def _gather(incidences: list[sparse.csr_array], values: Array, k: int) -> Array:
    """Return each law's sums of its own columns of leaf values, (laws, queries, k)."""
    blocks = values.reshape(len(values), -1, k)
    return np.stack([np.asarray(one @ blocks[:, t]) for t, one in enumerate(incidences)])


def _winners(values: Array, k: int, generator: np.random.Generator) -> Array:
    """Return one vote for the largest class of each block of k columns, ties at random."""
    blocks = values.reshape(len(values), -1, k)
    jittered = blocks + 1e-6 * generator.random(blocks.shape)
    votes = np.zeros(blocks.shape)
    np.put_along_axis(votes, jittered.argmax(axis=2)[..., None], 1.0, axis=2)
    return votes.reshape(values.shape)


def _hard_counts(counts: CellCounts, k: int, generator: np.random.Generator) -> CellCounts:
    table = counts.counts.astype(np.float64)
    some = np.repeat(table.reshape(len(table), -1, k).sum(axis=2) > 0, k, axis=1)
    votes = _winners(table, k, generator) * some
    votes = votes.astype(np.int64)
    return CellCounts(counts.codes, votes, counts.sizes, _provenance=counts.provenance)


def accuracies(votes: Array, imagined: SimulatedData, generator: np.random.Generator) -> Array:
    """Return the share of right labels for each law, shape (laws,)."""
    jitter = 1e-9 * np.abs(votes).max(initial=1.0) * generator.random(votes.shape)
    right = (votes + jitter).argmax(axis=2) == imagined.wanted
    return np.asarray(right.mean(axis=1))


def posterior_probabilities(
    plan: Plan, imagined: SimulatedData, generator: np.random.Generator
) -> NDArray[np.float64]:
    """Return class probabilities of the imagined queries, shape (laws, queries, k).

    The largest array is the noisy tables of all laws, leaves x (laws · k).

    `plan`: of kind "tables"; `generator`: draws research noise.
    """
    part, k = only_blocks(plan.parts), imagined.n_classes
    counts = imagined.counts(imagined.codes, plan.domain.sizes)
    release = measure(part.mechanism, counts, noise="research", random_state=generator)
    queries = imagined.queries.reshape(imagined.n_targets, imagined.n_queries, -1)
    found = []
    for law, asked in enumerate(queries):
        tell(IMAGINING, law, len(queries))
        tables, totals = tables_of(part, release, law * k + np.arange(k))
        posterior = product_posterior(tables, plan.domain.ordered, totals)
        found.append(posterior.probabilities(asked))
    return np.stack(found)


@dataclass(frozen=True, eq=False)
class SimulatedRecords:
    """Records of one law, as an additive model asks for them."""

    codes: Codes
    labels: Longs
    kept: dict[type, Any] = field(default_factory=dict)


def residual_probabilities(
    plan: ResidualPlan, imagined: SimulatedData, generator: np.random.Generator
) -> Array:
    """Return class probabilities of the imagined queries, shape (laws, queries, k).

    `generator`: draws research noise and choices.
    """
    queries = imagined.queries.reshape(imagined.n_targets, imagined.n_queries, -1)
    found = []
    for law, asked in enumerate(queries):
        mine = np.repeat(np.flatnonzero(imagined.owner == law), imagined.weight)
        records = SimulatedRecords(imagined.codes[mine], imagined.labels[mine])
        curator = Live(plan, records, nullcontext, "research", generator)  # nobody is charged
        found.append(learn_additive(plan, StepQuestions(plan, curator)).probabilities(asked))
    return np.stack(found)


LEAST_IMAGINING = 10.0
"""Seconds that judging a first design may take, however short the limit."""


def imagining_seconds(n_attributes: int, n_records: int, n_laws: int) -> float:
    """Return about how long it takes to imagine data and to judge a first design by it.

    By laws, attributes, pairs of attributes and records: 0.45 s for each of 48 laws over 3000
    attributes, and twice that again to count and to measure.
    """
    drawn = min(n_records, MOST_RECORDS / n_laws)
    each = n_attributes * (1e-4 + 5e-8 * drawn + 6e-9 * n_attributes)
    return 3.0 * n_laws * each


def check_imagining(domain: Domain, n_records: int, n_laws: int, limit: float) -> None:
    """Refuse a limit within which no design could be judged: that takes records of its own."""
    seconds = imagining_seconds(domain.n_attributes, n_records, n_laws)
    if seconds > max(limit, LEAST_IMAGINING):
        raise ValueError(
            f"max_seconds={limit:g}: to judge one design over {domain.n_attributes} attributes by "
            f"imagined records takes about {seconds:.2g} s. Expected more, or objective='error', "
            f"which imagines none."
        )


def imagined_seconds(plan: ResidualPlan) -> float:
    """Return about how long one law takes in `residual_probabilities`, by records and steps."""
    k = plan.n_classes
    each = RECORD_STEP * (1.0 if k == 2 else OF_A_CLASS * k)
    return each * (plan.n_records or 1) * len(plan.steps)
