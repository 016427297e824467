"""A plan: what a private forest will cost in error, memory and time, known without data."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.steps import tell
from mrf_matrix.domain import Domain
from mrf_matrix.forests import Forest
from mrf_matrix.mechanisms import ZCDP, CellCounts, LeafCounts, PureDP, Release, as_budget
from mrf_matrix.planning.kinds.kind import Codes, Kind
from mrf_matrix.planning.plain_values import plain
from mrf_matrix.planning.plans.array_sizes import ArraySize, array_sizes
from mrf_matrix.planning.plans.bounds import check_strategies, leaf_bound, vote_ratio
from mrf_matrix.planning.plans.cost import release_seconds
from mrf_matrix.planning.plans.flips import flips, sampled_rows
from mrf_matrix.planning.plans.part import PlanPart, at_budget, total_budget
from mrf_matrix.planning.plans.signal import records_behind, vote_variances
from strategies import Strategy

Array = NDArray[np.float64]

SHARES = (0.1, 0.2, 0.5)
"""Leads whose flip probability a summary states, as shares of the records of an answer."""


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """A design and everything that is known of its error before any record is seen.

    An *answer* is what the release gives: a leaf's value in one class ("training", "posterior"), or
    a query's vote total in one class ("prediction", "subsample"). Errors are in records, per class.

    Attributes
    ----------
    domain : Domain
        The public schema.
    kind : Kind
        What is asked of which private table, and what the answers are.
    parts : tuple of PlanPart
        Forest, workload, strategy and noise of each ensemble.
    queries : ndarray of int, shape (b, d)
        Codes of the distinct public queries whose votes are planned.
    multiplicity : ndarray of int, shape (b,)
        How often each is asked.
    n_classes : int
        Number of classes k.
    n_records : int or None
        Public number of records N, where it is known.
    select_seconds : float
        What choosing the strategies took.
    """

    domain: Domain
    kind: Kind
    parts: tuple[PlanPart, ...]
    queries: Codes
    multiplicity: NDArray[np.int64]
    n_classes: int
    n_records: int | None
    select_seconds: float

    @property
    def mode(self) -> str:
        """The kind's name, in a user's words."""
        return self.kind.name

    @property
    def allocation(self) -> str:
        """Whether strategies are measured ("matrix"), or the baseline that is."""
        return self.kind.allocation

    @property
    def voting(self) -> str:
        """How answers become votes."""
        return self.kind.voting

    def voted_by(self, voting: str) -> "Plan":
        """Return the plan with another voting, where what is measured does not depend on it."""
        return replace(self, kind=replace(self.kind, voting=voting))

    def check_memory(self) -> None:
        """Refuse, before anything is spent, what would not fit in memory when it is released.

        Raises
        ------
        MemoryCapError
            By public numbers alone; see `PlanPart.check_memory`.
        """
        seconds = release_seconds(self.parts, self.n_classes, self.n_records)
        tell(f"Checking memory (then about {seconds:.2g} s of measuring)")
        for part in self.parts:
            part.check_memory(self.n_classes)

    def release(
        self, tables: Iterable[CellCounts | LeafCounts], *, noise: str, noise_state: Any = None
    ) -> tuple[Release, ...]:
        """Measure every ensemble's private table, once."""
        return tuple(
            part.release(table, noise=noise, noise_state=noise_state)
            for part, table in zip(self.parts, tables, strict=True)
        )

    def answers(self, releases: Sequence[Release]) -> Array:
        """Return the answers from the releases: leaves of all ensembles, or votes added up."""
        found = [part.answers(one) for part, one in zip(self.parts, releases, strict=True)]
        if self.releases_leaves:
            return np.concatenate(found)
        total: Array = np.sum(found, axis=0)
        return total

    @property
    def forest(self) -> Forest:
        """The only ensemble's forest."""
        return self._only.ensemble.forest

    @property
    def strategy(self) -> Strategy | None:
        """The only ensemble's strategy; None for the baselines."""
        return self._only.strategy

    @property
    def _only(self) -> PlanPart:
        if len(self.parts) != 1:
            raise ValueError(
                f"the plan has {len(self.parts)} ensembles: expected one. Look at each of parts."
            )
        return self.parts[0]

    @property
    def releases_leaves(self) -> bool:
        """Whether answers are leaf values, of which votes are made afterwards."""
        return self.kind.releases_leaves

    @property
    def budget(self) -> PureDP | ZCDP:
        """What the release will spend in all."""
        return total_budget([part.mechanism.budget for part in self.parts])

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
        leaves = len(self.row_variances) - self.parts[-1].n_totals
        return float(np.sqrt(self.row_variances[:leaves].mean()))

    @cached_property
    def vote_variances(self) -> Array:
        """Expected squared error of every query's weight votes in one class, shape (b,).

        Raises
        ------
        ValueError
            In mode "posterior", whose trees vote by product: such votes have no expected error.
        """
        return vote_variances(self.kind, self.parts, self.queries)

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
        check_strategies(self.parts, self.mode, self.allocation)
        if self.releases_leaves:
            return self.n_classes * leaf_bound(self.parts)
        return self.total / self.certified_ratio

    @cached_property
    def certified_ratio(self) -> float:
        """Total error over its certified lower bound; computed when it is first asked for."""
        check_strategies(self.parts, self.mode, self.allocation)
        if self.releases_leaves:
            return self.total / self.lower_bound if self.lower_bound > 0 else float("inf")
        return vote_ratio(self.parts, self.multiplicity)

    @cached_property
    def expected_records(self) -> Array:
        """Records (votes) that stand behind each answer, if all cells are as likely."""
        return self._records_behind(self.releases_leaves)

    @property
    def vote_records(self) -> Array:
        """Records (votes) that stand behind each query's vote, if all cells are as likely."""
        return self._records_behind(False)

    def _records_behind(self, leaves: bool) -> Array:
        return records_behind(self.kind, self.parts, self.queries, self.n_records, leaves=leaves)

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
        found = flips(
            self.kind, self.parts, self.queries, chosen, margins[:, None], variances[chosen],
            rivals=rivals, leaves=leaves,
        )  # fmt: skip
        return found[:, 0]

    def _mean_flips(self, shares: Sequence[float]) -> list[float]:
        """Return mean flip probabilities of a sample of answers at shares of their records."""
        rows = sampled_rows(self.row_variances)
        margins = np.outer(self.expected_records[rows], shares)
        found = flips(
            self.kind, self.parts, self.queries, rows, margins, self.row_variances[rows],
            leaves=self.releases_leaves,
        )  # fmt: skip
        return [float(value) for value in found.mean(axis=0)]

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
        return array_sizes(
            self.parts, self.n_classes, self.n_records, len(self.queries),
            leaves=self.releases_leaves,
        )  # fmt: skip

    @property
    def seconds(self) -> float:
        """Seconds that choosing the strategies took, and that the release is expected to take.

        The latter is right to a factor of 2 or 3 on the machine it was fitted to, with one thread
        of linear algebra: see `mrf_matrix.planning.plans.cost`. A classifier that selects its
        strategies itself takes both times; one made by `from_design` of this plan, the second.
        """
        return self.select_seconds + release_seconds(self.parts, self.n_classes, self.n_records)

    def to_dict(self, *, bound: bool = False) -> dict[str, Any]:
        """Return the plan's figures as plain values, ready for JSON; what is not finite is None.

        Parameters
        ----------
        bound : bool, default=False
            Compute the certified lower bound too, which may take longer than the plan.
        """
        figures: dict[str, Any] = {
            "mode": self.mode,
            "allocation": self.allocation,
            "voting": self.voting,
            "budget": repr(self.budget),
            "neighboring": self.neighboring,
            "attributes": self.domain.n_attributes,
            "cells": self.domain.size,
            "classes": self.n_classes,
            "queries": int(self.multiplicity.sum()),
            "records": self.n_records,
            "sensitivity": self.sensitivity,
            "noise_scale": self.noise_scale,
            "expected_total_squared_error": self.total,
            "worst_row": self.worst_row,
            "worst_rms": self.worst_rms,
            "seconds": self.seconds,
            "arrays": [size.to_dict() for size in self.array_sizes],
            "ensembles": [part.summary() for part in self.parts],
        }
        if notes := dict.fromkeys(filter(None, (part.ensemble.depth_note for part in self.parts))):
            figures["notes"] = list(notes)
        if self.releases_leaves:
            figures["rms_per_leaf"] = self.rms_per_leaf
        if self.kind.votes_add:
            figures["rms_per_vote"] = self.rms_per_vote
        if bound and all(part.strategy is not None for part in self.parts):
            figures["lower_bound"] = self.lower_bound
            figures["certified_ratio"] = self.certified_ratio
        if self.n_records is not None:
            figures["median_expected_records"] = float(np.median(self.expected_records))
            figures["median_signal_to_noise"] = float(np.median(self.signal_to_noise))
            figures["mean_flip_probability"] = {
                f"lead of {share:.0%} of records": value
                for share, value in zip(SHARES, self._mean_flips(SHARES), strict=True)
            }
        plainly: dict[str, Any] = plain(figures)
        return plainly

    def __repr__(self) -> str:
        unit = "leaf" if self.releases_leaves else "vote"
        rms = self.rms_per_leaf if self.releases_leaves else np.sqrt(np.mean(self.row_variances))
        methods = ", ".join(sorted({part.method for part in self.parts}))
        trees = sum(part.forest.n_trees for part in self.parts)
        return (
            f"Plan({self.mode}, {trees} trees in {len(self.parts)} ensemble"
            f"{'s' * (len(self.parts) > 1)}, {len(self.row_variances)} answers by {methods}, "
            f"{self.budget!r} under {self.neighboring} neighbours, expected error {rms:.4g} rms "
            f"per {unit})"
        )
