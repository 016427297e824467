"""Expected accuracy of a planned forest under a public prior of targets: no data, only chance.

Targets are drawn from a prior, records are drawn uniformly from the public domain and labelled by
them, and the planned release is simulated on these made-up records with research noise. What
comes out depends on domain, design, budget and the *public* number of records alone. Targets are
class columns of one release, whose noise is independent by column: linear algebra is done once.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mrf_matrix.mechanisms import CellCounts, measure, reconstruct
from mrf_matrix.planning.design_plan import Plan
from mrf_matrix.planning.planned_answers import PlannedAnswers
from mrf_matrix.planning.target_prior import TargetPrior
from mrf_matrix.planning.workloads import vote_workload

Array = NDArray[np.float64]
Codes = NDArray[Any]

MOST_RECORDS = 20_000
"""Records drawn; more are counted in multiples, for their labels are known functions."""


class ImaginedData:
    """Targets, records and queries that nobody owns, drawn once for all designs of a search.

    Parameters
    ----------
    domain : Domain
    n_classes, n_records : int
        Public numbers of classes and records.
    prior : TargetPrior
    n_targets : int
    n_queries : int
    seed : int
    """

    def __init__(
        self,
        domain: Any,
        n_classes: int,
        n_records: int,
        prior: TargetPrior,
        n_targets: int = 16,
        n_queries: int = 256,
        seed: int = 0,
    ) -> None:
        generator = np.random.default_rng([seed, 1])
        self.n_classes, self.n_targets = n_classes, n_targets
        drawn = min(n_records, MOST_RECORDS)
        self.weight = max(1, round(n_records / drawn))
        targets = [prior.draw(domain, n_classes, generator) for _ in range(n_targets)]
        self.codes = _uniform(domain.sizes, drawn, generator)
        self.queries = _uniform(domain.sizes, n_queries, generator)
        self.labels = np.stack([target(self.codes) for target in targets], axis=1)
        self.wanted = np.stack([target(self.queries) for target in targets], axis=1)
        noisy = generator.random(self.labels.shape) < prior.label_noise
        self.labels[noisy] = generator.integers(0, n_classes, int(noisy.sum()))

    def counts(self, codes: Codes, sizes: tuple[int, ...]) -> CellCounts:
        """Return class counts of each distinct row of codes, a block of columns each target."""
        distinct, inverse = np.unique(codes, axis=0, return_inverse=True)
        k, t = self.n_classes, self.n_targets
        table = np.zeros((len(distinct), t * k), dtype=np.int64)
        columns = np.arange(t) * k + self.labels
        np.add.at(table, (np.broadcast_to(inverse.reshape(-1, 1), columns.shape), columns), 1)
        return CellCounts(distinct, table * self.weight, sizes)


def _uniform(sizes: tuple[int, ...], count: int, generator: np.random.Generator) -> Codes:
    return np.stack([generator.integers(0, size, count) for size in sizes], axis=1).astype(np.int32)


def imagined_votes(
    plan: Plan, imagined: ImaginedData, generator: np.random.Generator
) -> dict[str, Array]:
    """Return the votes of the imagined queries under each voting rule, (queries, targets, k).

    Parameters
    ----------
    plan : Plan
    imagined : ImaginedData
    generator : Generator
        Draws research noise and breaks ties.
    """
    shape = (len(imagined.queries), imagined.n_targets, imagined.n_classes)
    votes: dict[str, Array] = {}
    for part in plan.parts:
        for rule, cast in _part_votes(plan, part, imagined, generator).items():
            known = votes.get(rule)
            block = cast.reshape(shape)
            votes[rule] = block if known is None else known + block
    return votes


def _part_votes(
    plan: Plan, part: PlannedAnswers, imagined: ImaginedData, generator: np.random.Generator
) -> dict[str, Array]:
    forest = part.ensemble.forest
    seen = part.ensemble.view(imagined.codes)
    asked = part.ensemble.view(imagined.queries)
    over_leaves = plan.mode == "subsample" or plan.allocation == "disjoint"
    if over_leaves:
        tree = generator.integers(forest.n_trees, size=len(seen))
        leaves = forest.apply(seen)[np.arange(len(seen)), tree][:, None]
        counts = imagined.counts(leaves, (forest.n_leaves,))
    else:
        counts = imagined.counts(seen, forest.domain.sizes)
    if plan.mode == "subsample" and plan.voting == "hard":
        counts = _hard_counts(counts, imagined.n_classes, generator)
    release = measure(part.mechanism, counts, noise="research", random_state=generator)
    if plan.mode != "training":
        workload = vote_workload(plan.mode, part.ensemble, asked)
        direct = part.strategy is None
        votes = workload.matmat(release.values) if direct else reconstruct(release, workload)
        return {plan.voting: votes}
    values = release.values if part.strategy is None else reconstruct(release, part.workload)
    reached = forest.apply(asked)
    ends = np.arange(0, reached.size + 1, forest.n_trees)
    incidence = sparse.csr_array(
        (np.ones(reached.size), reached.ravel(), ends), shape=(len(asked), forest.n_leaves)
    )
    hard = _winners(values, imagined.n_classes, generator)
    return {"weight": np.asarray(incidence @ values), "hard": np.asarray(incidence @ hard)}


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
    return CellCounts(counts.codes, votes.astype(np.int64), counts.sizes)


def accuracies(votes: Array, imagined: ImaginedData, generator: np.random.Generator) -> Array:
    """Return the share of right labels for each target, shape (targets,)."""
    jitter = 1e-9 * np.abs(votes).max(initial=1.0) * generator.random(votes.shape)
    right = (votes + jitter).argmax(axis=2) == imagined.wanted
    return np.asarray(right.mean(axis=0))
