"""A plan: what a private forest will cost in error, memory and time, known without data."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.domain import Domain
from mrf_matrix.forests import Forest
from mrf_matrix.mechanisms import as_budget
from mrf_matrix.planning.plans.array_sizes import ArraySize, array_sizes
from mrf_matrix.planning.plans.bounds import certified_ratio, lower_bound
from mrf_matrix.planning.plans.cost import release_seconds
from mrf_matrix.planning.plans.plan_budget import Budget, at_budget, total_budget
from mrf_matrix.planning.plans.plan_flips import flips_at_lead
from mrf_matrix.planning.plans.planned_answers import PlannedAnswers
from mrf_matrix.planning.plans.record import as_line, record
from mrf_matrix.planning.plans.signal import records_behind, vote_variances
from mrf_matrix.planning.plans.workloads import Codes, Mode
from strategies import Strategy

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """A design and everything that is known of its error before any record is seen.

    An *answer* is what the release gives: a leaf's value in one class ("training", "posterior"), or
    a query's vote total in one class ("prediction", "subsample"). Errors are in records, per class.

    Attributes
    ----------
    domain : Domain
        The public schema.
    mode : {"training", "prediction", "subsample", "posterior"}
    parts : tuple of PlannedAnswers
        Forest, workload, strategy and noise of each ensemble.
    queries : ndarray of int, shape (b, d)
        Codes of the distinct public queries whose votes are planned.
    multiplicity : ndarray of int, shape (b,)
        How often each is asked.
    n_classes : int
        Number of classes k.
    allocation : str
        "matrix", or the baseline that is measured instead of a strategy.
    voting : {"hard", "weight", "posterior"}
    n_records : int or None
        Public number of records N, where it is known.
    select_seconds : float
        What choosing the strategies took.
    """

    domain: Domain
    mode: Mode
    parts: tuple[PlannedAnswers, ...]
    queries: Codes
    multiplicity: NDArray[np.int64]
    n_classes: int
    allocation: str
    voting: str
    n_records: int | None
    select_seconds: float

    @property
    def forest(self) -> Forest:
        """The only ensemble's forest."""
        return self._only.ensemble.forest

    @property
    def strategy(self) -> Strategy | None:
        """The only ensemble's strategy; None for the baselines."""
        return self._only.strategy

    @property
    def _only(self) -> PlannedAnswers:
        if len(self.parts) != 1:
            raise ValueError(
                f"the plan has {len(self.parts)} ensembles: expected one. Look at each of parts."
            )
        return self.parts[0]

    @property
    def releases_leaves(self) -> bool:
        """Whether answers are leaf values, of which votes are made afterwards."""
        return self.mode in ("training", "posterior")

    @property
    def budget(self) -> Budget:
        """What the release will spend in all."""
        return total_budget(self.parts)

    @property
    def neighboring(self) -> str:
        """The neighbouring relation of the claim."""
        return self.parts[0].mechanism.neighboring

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
        """Root-mean-square error of a leaf's value in one class ("training", "posterior").

        Of a posterior forest, of its blocks' leaves: the class totals are its last row.
        """
        if not self.releases_leaves:
            raise ValueError(
                f"mode={self.mode!r} releases votes, no leaf values: expected mode='training', "
                f"or rms_per_vote."
            )
        totals = 1 if self.mode == "posterior" else 0  # no leaf: a tree of all records
        return float(np.sqrt(self.row_variances[: len(self.row_variances) - totals].mean()))

    @cached_property
    def vote_variances(self) -> Array:
        """Expected squared error of every query's weight votes in one class, shape (b,).

        Raises
        ------
        ValueError
            In mode "posterior", whose trees vote by product: such votes have no expected error.
        """
        return vote_variances(self)

    @property
    def rms_per_vote(self) -> float:
        """Root-mean-square error of a query's weight votes in one class, as often as asked."""
        return float(np.sqrt(np.average(self.vote_variances, weights=self.multiplicity)))

    @cached_property
    def lower_bound(self) -> float:
        """`total` over the certified ratio of the losses: what no strategies could be below.

        The certificate is about losses, that is, noise of variance proportional to the squared
        sensitivity. Discrete noise of a scale below about 3 has less than that: there, at large
        budgets, another integer strategy's total may lie below this figure.
        """
        return lower_bound(self)

    @cached_property
    def certified_ratio(self) -> float:
        """Total error over its certified lower bound; computed when it is first asked for."""
        return certified_ratio(self)

    @cached_property
    def expected_records(self) -> Array:
        """Records (votes) that stand behind each answer, if all cells are as likely."""
        return records_behind(self, self.releases_leaves)

    @property
    def vote_records(self) -> Array:
        """Records (votes) that stand behind each query's vote, if all cells are as likely."""
        return records_behind(self, False)

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
            "vote": of the weight votes of the queries, in training too.
        rivals : int, default=1
            Number of other classes, all behind by the margin; ties are broken uniformly.
        rows : sequence of int, optional
            Which answers; all of them by default.

        Returns
        -------
        ndarray of shape (r,)
            Exact up to the grid for lattices of noise and within .01 otherwise; see
            `mrf_matrix.error.noise_sums`.
        """
        return flips_at_lead(self, margin, share, of, rivals, rows)

    def at(self, *, epsilon: Any = None, rho: Any = None) -> "Plan":
        """Return the plan at another budget of the same kind, without new linear algebra.

        Every ensemble keeps its share, and a posterior forest its blocks, which were chosen for
        the budget that they were planned for.
        """
        budget = as_budget(epsilon=epsilon, rho=rho)
        return replace(self, parts=at_budget(self.parts, budget))

    @property
    def array_sizes(self) -> tuple[ArraySize, ...]:
        """The large arrays of the release to come."""
        return array_sizes(self)

    @property
    def seconds(self) -> float:
        """Seconds that choosing the strategies took, and that the release is expected to take.

        The latter is right to a factor of 2 or 3 on the machine it was fitted to, with one thread
        of linear algebra: see `mrf_matrix.planning.plans.cost`. A classifier that selects its
        strategies itself takes both times; one made by `from_design` of this plan, the second.
        """
        return self.select_seconds + release_seconds(self)

    def to_dict(self, *, bound: bool = False) -> dict[str, Any]:
        """Return the plan's figures as plain values, ready for JSON.

        Parameters
        ----------
        bound : bool, default=False
            Compute the certified lower bound too, which may take longer than the plan.
        """
        return record(self, bound=bound)

    def __repr__(self) -> str:
        return as_line(self)
