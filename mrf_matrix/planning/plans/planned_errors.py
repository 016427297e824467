"""Errors of a plan: what is known without data of every answer, vote and flip, and of records."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.arrays import Array, Bools, Codes
from mrf_matrix.base.checks import whole_number
from mrf_matrix.compilation import path_matrix
from mrf_matrix.error.noise_sums import NoiseTerm, add_terms, normal_flip
from mrf_matrix.mechanisms.measurement.mechanism import squared_factor
from mrf_matrix.planning.plans.part import PlannedParts, PlanPart
from mrf_matrix.planning.plans.plan_kind import PlanKind
from strategies.operators import Marginals, Operator


def leaf_shares(part: PlanPart) -> NDArray[np.float64]:
    """Return each leaf's share of the cells: of the records too, if cells are as likely, (o,)."""
    if isinstance(part.workload, Marginals):  # whole tables, whose cells are alike
        cells = np.asarray(part.workload.rows)
        return np.repeat(1 / cells, cells)
    sums = path_matrix(part.forest).row_sums()
    size = part.forest.domain.size
    return np.array([int(value) / size for value in sums])


@dataclass(frozen=True, eq=False, repr=False)
class PlannedErrors(PlannedParts):
    """The errors that follow from a plan's parts.

    An *answer* is what the release gives: a leaf's value in one class ("matrix", "tables"), or
    a query's vote total in one class ("batch", "subsample"). Errors are in records, per class.
    """

    @property
    def sensitivity(self) -> float:
        """Largest sensitivity of an ensemble's measurement, the neighbouring factor included."""
        return max(part.sensitivity for part in self.parts)

    @property
    def noise_scale(self) -> float:
        """Largest noise scale of an ensemble, in the units of its selected strategy."""
        return max(part.noise_scale for part in self.parts)

    @cached_property
    def row_variances(self) -> Array:
        """Expected squared error of every answer in one class.

        Of leaves: shape (o,), those of all ensembles one after the other. Otherwise (b,): the
        votes of a query add up over the ensembles, and so do their variances.
        """
        variances = [part.row_variances for part in self.parts]
        if self.releases_leaves:
            return np.concatenate(variances)
        total: Array = np.sum(variances, axis=0)
        return total

    @property
    def row_rms(self) -> Array:
        """Root of `row_variances`, in records."""
        return np.sqrt(self.row_variances)

    @property
    def total(self) -> float:
        """Expected squared error over all answers (queries as often as asked) and classes."""
        weights = np.ones(1) if self.releases_leaves else self.multiplicity
        return float(self.n_classes * (self.row_variances * weights).sum())

    @property
    def worst_row(self) -> int:
        """The answer with the largest expected error."""
        return int(np.argmax(self.row_variances))

    @property
    def worst_rms(self) -> float:
        """Root-mean-square error of the worst answer."""
        return float(self.row_rms[self.worst_row])

    @property
    def rms_per_leaf(self) -> float:
        """Root-mean-square error of a leaf's value in one class ("matrix", "tables").

        Of a posterior forest, of its blocks' leaves: the class totals are its last row.
        """
        if not self.releases_leaves:
            raise ValueError(
                f"kind={self.kind.name!r} releases votes, no leaf values: expected kind='matrix', "
                f"or rms_per_vote."
            )
        leaves = len(self.row_variances) - self.parts[-1].n_totals
        return float(np.sqrt(self.row_variances[:leaves].mean()))

    @cached_property
    def vote_variances(self) -> Array:
        """Expected squared error of every query's weight votes in one class, shape (b,).

        Raises
        ------
        ValueError
            Of kind "tables", whose trees vote by product: such votes have no expected error.
        """
        kind = self.kind
        if not kind.votes_add:
            raise ValueError(
                f"kind={kind.name!r} votes by product under a model, and such votes have no "
                f"expected error or flip probability: expected answers (leaves), or another kind."
                + " The objective 'accuracy' judges it."
                * bool(kind.imagined_votings)
            )
        total = np.zeros(len(self.queries))
        for part in self.parts:
            if not kind.releases_leaves:
                total += part.row_variances
            elif part.stands_alone:  # every leaf has its own noise
                total += part.row_variances[part.ensemble.leaves_reached(self.queries)].sum(axis=1)
            else:
                total += part.variances_of(kind.vote_workload(part.ensemble, self.queries))
        return total

    @property
    def rms_per_vote(self) -> float:
        """Root-mean-square error of a query's weight votes in one class, as often as asked."""
        return float(np.sqrt(np.average(self.vote_variances, weights=self.multiplicity)))

    @property
    def objective(self) -> str:
        """The objective in use: "total" or "max" of the answers, or "votes" of all cells."""
        votes = any(part.aim.workload is not None for part in self.parts)
        return "votes" if votes else self.aim.objective

    @property
    def error(self) -> float:
        """The objective's expected squared error, over all classes.

        Of answers with their weights, `total` where nothing else was asked. Where strategies are
        chosen for votes: the sum over all cells of every ensemble.
        """
        if self.objective == "votes":
            return self.n_classes * sum(part.error for part in self.parts)
        return self.n_classes * self.aim.value(self.row_variances)

    @cached_property
    def lower_bound(self) -> float:
        """`error` of the best strategies there could be is no smaller, at these budget shares.

        The sum of the ensembles' certified bounds, or with objective "max" the largest of them.
        The certificate is about losses, that is, noise of variance proportional to the squared
        sensitivity. Discrete noise of a scale below about 3 has less than that: there, at large
        budgets, another integer strategy's error may lie below this figure.

        Raises
        ------
        ValueError
            If answers are measured themselves, by no strategy, or the noise is of a law of one's
            own, of which no such thing is known.
        """
        check_certified(self.kind, self.parts)
        bounds = [part.error * part.bound_share for part in self.parts]
        return self.n_classes * (max(bounds) if self.objective == "max" else sum(bounds))

    @cached_property
    def certified_ratio(self) -> float:
        """`error` over its certified lower bound; computed when it is first asked for."""
        return self.error / self.lower_bound if self.lower_bound > 0 else float("inf")

    @property
    def target_rms(self) -> Array | None:
        """Largest root mean squared error of every answer, for which the budget was found."""
        return self.aim.limits

    @property
    def budget_bound(self) -> float:
        """ε or ρ below which no strategies keep `target_rms`, under continuous noise."""
        check_certified(self.kind, self.parts)
        return least_budget(self.parts, self.target_rms)

    @cached_property
    def expected_records(self) -> Array:
        """Records (votes) that stand behind each answer, if all cells are as likely."""
        return self._records_behind(self.releases_leaves)

    @property
    def vote_records(self) -> Array:
        """Records (votes) that stand behind each query's vote, if all cells are as likely."""
        return self._records_behind(False)

    def _records_behind(self, leaves: bool) -> Array:
        """Return the records of each leaf, or of each query's votes, if all cells are as likely."""
        if self.n_records is None:
            raise ValueError(
                "n_records is not known: expected plan(..., n_records=N), the public number of "
                "records."
            )
        if self.kind.counts_votes:
            trees = sum(part.forest.n_trees for part in self.parts)
            return np.full(len(self.queries), float(trees))
        shares = []
        for part in self.parts:
            one = leaf_shares(part)
            if not leaves:
                one = one[part.ensemble.leaves_reached(self.queries)].sum(axis=1)
            shares.append(one / (part.forest.n_trees if self.kind.is_disjoint else 1))
        stacked = np.concatenate(shares) if leaves else np.sum(shares, axis=0)
        return np.asarray(self.n_records * stacked)

    @property
    def signal_to_noise(self) -> Array:
        """Expected records of each answer over its root-mean-square error in one class."""
        with np.errstate(divide="ignore"):
            return np.asarray(self.expected_records / self.row_rms)

    def flip_probabilities(
        self,
        margin: float | None = None,
        *,
        share: float | None = None,
        of: str = "answer",
        rivals: int = 1,
        rows: Sequence[int] | None = None,
    ) -> Array:
        """Return the probability that noise takes the label from the leading class.

        Parameters
        ----------
        margin : float, optional
            By how many records the leading class is ahead of each rival.
        share : float, optional
            Instead: the margin as a share of the expected records of each answer (needs
            `n_records`).
        of : {"answer", "vote"}, default="answer"
            "vote": of the weight votes of the queries, of "matrix" too.
        rivals : int, default=1
            Number of other classes, all behind by the margin; ties are broken uniformly.
        rows : sequence of int, optional
            Which answers; all of them by default.

        Returns
        -------
        ndarray of shape (r,)
            Exact up to the grid for lattices of noise and within .01 otherwise: `noise_sums`. Where
            the draws behind an answer would take too long to find, by a normal law: `normal_flip`.
        """
        if of not in ("answer", "vote"):
            raise ValueError(f"of={of!r}: expected 'answer' or 'vote'.")
        if (margin is None) == (share is None):
            raise ValueError(
                f"margin={margin!r} and share={share!r}: expected exactly one of the two."
            )
        leaves = of == "answer" and self.releases_leaves
        variances = self.row_variances if leaves else self.vote_variances
        chosen = np.arange(len(variances)) if rows is None else np.asarray(rows, dtype=np.intp)
        if margin is None:
            margins = float(share or 0.0) * self._records_behind(leaves)[chosen]
        else:
            margins = np.full(len(chosen), float(margin))
        if not (margins >= 0).all():
            raise ValueError("margin: expected a number of records of at least 0.")
        found, _ = flips(
            self.kind, self.parts, self.queries, chosen, margins[:, None], variances[chosen],
            rivals=rivals, leaves=leaves,
        )  # fmt: skip
        return found[:, 0]

    def _mean_flips(self, shares: Sequence[float]) -> tuple[list[float], bool]:
        """Return mean flips of sampled answers at shares of their records, and if any is normal."""
        rows = sampled_rows(self.row_variances)
        margins = np.outer(self.expected_records[rows], shares)
        found, normal = flips(
            self.kind, self.parts, self.queries, rows, margins, self.row_variances[rows],
            leaves=self.releases_leaves,
        )  # fmt: skip
        return [float(value) for value in found.mean(axis=0)], bool(normal.any())


def check_certified(kind: PlanKind, parts: Sequence[PlanPart]) -> None:
    """Refuse parts beside which no bound stands."""
    if any(part.strategy is None for part in parts):
        raise ValueError(
            f"kind={kind.name!r} with allocation={kind.allocation!r} measures its answers "
            f"themselves, by no strategy, so no bound stands beside it: expected another kind than "
            f"'tables', and allocation='matrix'."
        )
    for part in parts:
        if not part.mechanism.is_proved:
            raise ValueError(
                f"law={type(part.mechanism.law).__name__}: no bound is known for noise of one's "
                f"own. Expected discrete Laplace or Gaussian noise, law=None."
            )


def least_budget(parts: Sequence[PlanPart], target_rms: Array | None) -> float:
    """Return ε or ρ below which no strategies keep the targets, under continuous noise.

    Each ensemble has to keep them by itself, so the bounds of all add up.

    Raises ValueError if the plan has no targets.
    """
    if target_rms is None:
        raise ValueError("the plan has no targets: expected plan(..., target_rms=).")
    least = float(target_rms.min())
    total = 0.0
    for part in parts:
        mechanism, strategy = part.mechanism, part.strategy
        norm = mechanism.budget.norm
        factor = squared_factor(mechanism.neighboring, norm, nonnegative=True)
        bound = factor * (0.0 if strategy is None else strategy.lower_bound) / least**2
        total += sqrt(2 * bound) if norm == "l1" else bound / 2
    return total


Terms = list[tuple[NoiseTerm, ...] | None]

ENTRIES_AT_ONCE = 2**23  # coefficients of answers that are held at a time

SAMPLED = 64
"""Answers whose flip probability is averaged in a summary, spread over the ranks of error."""


def flips(
    kind: PlanKind,
    parts: Sequence[PlanPart],
    queries: Codes,
    rows: NDArray[np.intp],
    margins: Array,
    variances: Array,
    *,
    rivals: int = 1,
    leaves: bool,
) -> tuple[Array, Bools]:
    """Return the flip probability of each row at each margin (r, s), and whether by a normal law.

    A normal law stands for that of the noise, (r,), where the draws behind a row would take too
    much memory or time to find: see `normal_flip` for how far off it may be.

    `queries` (b, d); `rows` (r,): numbers of leaves (of all ensembles), or of queries; `margins`
    (r, s); `variances` (r,); `leaves`: whether rows are leaves; else they are the queries' votes.
    """
    others = whole_number("rivals", rivals)
    result, normal = np.empty(margins.shape), np.zeros(len(rows), dtype=bool)
    known: dict[tuple[bytes, ...], Array] = {}
    step = max(32, ENTRIES_AT_ONCE // max(part.n_measurements for part in parts))
    for start in range(0, len(rows), step):
        block = rows[start : start + step]
        noise = (
            _leaf_terms(parts, block) if leaves else _vote_terms(kind, parts, queries[block], block)
        )
        for number, terms in enumerate(noise, start=start):
            asked = margins[number]
            if terms is None:
                normal[number], variance = True, float(variances[number])
                result[number] = [normal_flip(margin, variance, others) for margin in asked]
                continue
            key = tuple(t.weights.tobytes() + t.repeats.tobytes() for t in terms)
            key = (*key, asked.tobytes())
            if key not in known:
                known[key] = add_terms(terms).flip_probabilities(asked, others)
            result[number] = known[key]
    return result, normal


def _leaf_terms(parts: Sequence[PlanPart], rows: NDArray[np.intp]) -> Terms:
    ends = np.cumsum([part.workload.shape[0] for part in parts])
    owner = np.searchsorted(ends, rows, side="right")
    result: Terms = [None] * len(rows)
    for number, part in enumerate(parts):
        mine = np.flatnonzero(owner == number)
        first = int(ends[number]) - part.workload.shape[0]
        terms = part.terms(rows[mine] - first) if len(mine) else None
        for place, term in zip(mine, terms or (), strict=False):
            result[place] = (term,)
    return result


def _vote_terms(
    kind: PlanKind, parts: Sequence[PlanPart], queries: Codes, rows: NDArray[np.intp]
) -> Terms:
    """Return the noise of votes, which add up over the ensembles."""
    found = []
    for part in parts:
        if not kind.releases_leaves:
            found.append(part.terms(rows))
        elif part.stands_alone:
            weights = np.sqrt(part.row_squares)[part.ensemble.leaves_reached(queries)]
            found.append([NoiseTerm.of(row, part.mechanism.law) for row in weights])
        else:
            asked: Operator = kind.vote_workload(part.ensemble, queries)
            found.append(part.terms(np.arange(len(rows)), asked))
    if any(one is None for one in found):
        return [None] * len(rows)
    return [tuple(terms) for terms in zip(*(one for one in found if one), strict=True)]


def sampled_rows(variances: Array) -> NDArray[np.intp]:
    """Return a sample of answers, spread over the ranks of their errors."""
    order = np.argsort(variances)
    places = np.linspace(0, len(order) - 1, min(SAMPLED, len(order))).round().astype(np.intp)
    return np.asarray(order[places])
