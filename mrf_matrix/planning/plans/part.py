"""A plan's parts: workload, strategy and noise of each ensemble, and what all measure together."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.arrays import Array, Codes, Longs
from mrf_matrix.base.provenance import Provenance, join
from mrf_matrix.base.work import tell
from mrf_matrix.domain import Domain
from mrf_matrix.error.noise_sums import NoiseTerm
from mrf_matrix.forests import Forest
from mrf_matrix.forests.ensembles import Ensemble
from mrf_matrix.mechanisms import ZCDP, Mechanism, PureDP, Release, reconstruct
from mrf_matrix.mechanisms.budget import total_budget
from mrf_matrix.mechanisms.measurement.least_squares import answer_coefficients, recovered_squares
from mrf_matrix.mechanisms.rounding import RoundedStrategy
from mrf_matrix.planning.plans.plan_kind import PlanKind, RowObjective
from mrf_matrix.release.curator import StrategyStep
from mrf_matrix.release.plan import KeptTable, KeptVotes
from strategies import Strategy
from strategies.operators import Operator

if TYPE_CHECKING:
    from mrf_matrix.federated.shares.design import FederatedDesign


Budget = PureDP | ZCDP


@dataclass(frozen=True, eq=False)
class PlanPart:
    """One ensemble's part of a plan: one measurement, and what it answers.

    Attributes
    ----------
    ensemble : Ensemble
        Attributes and forest.
    workload : Operator of shape (q, n)
        What is asked of the private table: its leaves, or the votes of queries.
    strategy : Strategy or None
        What is measured in its place; None where the answers are measured themselves.
    mechanism : Mechanism
        The integer matrix that is measured, its noise, budget and neighbouring relation.
    aim : RowObjective
        What the strategy makes small: the loss and bound that it states are of that.
    federation : FederatedDesign or None
        How several parties share the noise, where no single one measures.
    """

    ensemble: Ensemble
    workload: Operator
    strategy: Strategy | None
    mechanism: Mechanism
    aim: RowObjective = field(default=RowObjective(), repr=False, kw_only=True)
    known_squares: "RowErrorCache | None" = field(default=None, repr=False, kw_only=True)
    federation: "FederatedDesign | None" = field(default=None, repr=False, kw_only=True)

    @property
    def forest(self) -> Forest:
        """The ensemble's forest."""
        return self.ensemble.forest

    @property
    def claim_note(self) -> str:
        """Whose word the privacy is, where a law or an operator is one's own; else nothing."""
        mechanism = self.mechanism
        return "" if mechanism.is_proved else f", claimed by {mechanism.author}, unverified"

    def step(self, words: str) -> StrategyStep:
        """Return what is measured, as it is announced; `words`: what it is."""
        if self.strategy is None:
            return StrategyStep(words, self.mechanism)
        method = self.strategy.method
        family = "a given strategy" if method == "given" else f"strategy {method!r}"
        return StrategyStep(f"{words} by {family}", self.mechanism)

    @property
    def provenance(self) -> Provenance:
        """Where what is measured came from: that of the forest and its domain."""
        return self.forest.provenance

    def answers(self, release: Release) -> Array:
        """Return the workload's answers from a release, shape (q, k): post-processing."""
        if self.strategy is None:
            return release.values
        tell("Answering from the release")
        return reconstruct(release, self.workload)

    @property
    def n_measurements(self) -> int:
        """Rows m of what is measured: noise draws for each class."""
        return self.mechanism.rounded.matrix.shape[0]

    @property
    def n_totals(self) -> int:
        """Answers at the end that are class totals, not leaves."""
        return 0

    @cached_property
    def row_squares(self) -> Array:
        """``||(W Ã⁺)_r||²`` of every answer: its error for noise of variance one, shape (q,)."""
        known = self.known_squares
        if known is not None and known.are_of(self.workload, self.mechanism.rounded):
            return known.squares
        return self._row_squares()

    def _row_squares(self) -> Array:
        rounded = self.mechanism.rounded
        if self.strategy is None:
            return np.full(self.workload.shape[0], 1 / float(rounded.scale) ** 2)
        return recovered_squares(self.workload, rounded.recovery)

    @cached_property
    def stands_alone(self) -> bool:
        """Whether every answer is its own measurement times a number: errors are independent."""
        recovery = self.mechanism.rounded.recovery
        return self.strategy is None or recovery.own_multiples(self.workload) is not None

    @property
    def row_variances(self) -> Array:
        """Expected squared error of every answer in each class, shape (q,)."""
        return self.mechanism.law.variance * self.row_squares

    @property
    def answer_variances(self) -> Array:
        """`row_variances` without those of class totals, which stand last."""
        return self.row_variances[: len(self.row_variances) - self.n_totals]

    @property
    def total_square(self) -> float:
        """Expected squared error of all answers in one class, of the strategy before rounding."""
        rounded = self.mechanism.rounded
        scaled = self.mechanism.law.variance / float(rounded.scale) ** 2
        if self.strategy is None:
            return scaled * self.workload.shape[0]
        if self.aim.is_plain and self.strategy.objective == "total":
            return scaled * self.strategy.loss / self.strategy.sensitivity**2
        return float(self.row_variances.sum())

    @cached_property
    def _objective_square(self) -> float:
        """The objective of the squared errors, for noise of variance one."""
        asked = self.aim.workload
        if asked is None:
            return self.aim.value(self.row_squares)
        return self.aim.value(recovered_squares(asked, self.mechanism.rounded.recovery))

    @property
    def error(self) -> float:
        """Expected squared error that is made small, in one class."""
        return self.mechanism.law.variance * self._objective_square

    @property
    def loss(self) -> float:
        """The same before the noise constant: squared sensitivity times ``||W Ã⁺||²``."""
        scale = float(self.mechanism.rounded.scale)
        return (self.mechanism.sensitivity * scale) ** 2 * self._objective_square

    @property
    def is_certified(self) -> bool:
        """Whether a bound stands beside its error: of a strategy under a proved law."""
        return self.strategy is not None and self.mechanism.is_proved

    @property
    def bound_share(self) -> float:
        """A certified lower bound of what is made small, as a share of it."""
        if self.strategy is None or self.strategy.loss == 0:
            return 0.0
        return min(1.0, self.strategy.lower_bound / self.strategy.loss)

    def variances_of(self, workload: Operator) -> Array:
        """Return the expected squared errors of another workload's answers, shape (q,).

        Raises
        ------
        RowSpaceError
            If the strategy does not determine it.
        """
        rounded = self.mechanism.rounded
        return self.mechanism.law.variance * recovered_squares(workload, rounded.recovery)

    def terms(
        self, rows: NDArray[np.intp], workload: Operator | None = None
    ) -> list[NoiseTerm] | None:
        """Return the weighted noise draws of answers; None where only variances are known."""
        law = self.mechanism.law
        if workload is None and self.stands_alone:
            return [NoiseTerm.of(row, law) for row in np.sqrt(self.row_squares[rows])[:, None]]
        asked = self.workload if workload is None else workload
        found = answer_coefficients(asked, self.mechanism.rounded.recovery, rows)
        return None if found is None else [NoiseTerm.of(row, law) for row in found]

    @property
    def judged_workload(self) -> Operator | None:
        """The workload that judges coarser integers; None where answers are measured themselves."""
        return None if self.strategy is None else self.workload

    def lighter(self, largest_scale: int) -> "PlanPart":
        """Return the part with noise of at most this scale, where its integers are free."""
        return self

    def with_parties(self, design: "FederatedDesign") -> "PlanPart":
        """Return the part with its noise shared by parties, all of whom contribute."""
        federation = replace(design, provenance=self.provenance)
        return replace(self, mechanism=design.expected(), federation=federation)

    def at(self, budget: Budget) -> "PlanPart":
        """Return the same at another budget of the same kind, without new linear algebra."""
        if (shares := self.federation) is not None:
            alone = replace(self, mechanism=shares.central.at(budget), federation=None)
            central = alone.lighter(shares.largest_scale)
            return central.with_parties(shares.sharing(central.mechanism, central.judged_workload))
        known = RowErrorCache(self.workload, self.mechanism.rounded, self.row_squares)
        return replace(self, mechanism=self.mechanism.at(budget), known_squares=known)

    @property
    def fitted_blocks(self) -> list[list[int]]:
        """Codes of the attributes of each block that is fitted after the release; none here."""
        return []

    def summary(self) -> dict[str, Any]:
        """Return the part's figures as plain values, ready for JSON."""
        forest = self.forest
        return {
            "attributes": [forest.domain.names[i] for i in range(forest.domain.n_attributes)],
            "cells": forest.domain.size,
            "trees": forest.n_trees,
            "leaves": forest.n_leaves,
            "depth": forest.max_depth,
            "strategy": self.method,
            "measurements": self.n_measurements,
            "sensitivity": self.sensitivity,
            "noise_scale": self.noise_scale,
            "budget": repr(self.mechanism.budget),
            "loss": None if self.strategy is None else self.strategy.loss,
        }

    @property
    def method(self) -> str:
        """The strategy's family; "as measured" where there is no strategy."""
        return "as measured" if self.strategy is None else self.strategy.method

    @property
    def sensitivity(self) -> float:
        """Column norm of what is measured times the neighbouring factor, in units of records."""
        return self.mechanism.sensitivity

    @property
    def noise_scale(self) -> float:
        """Scale of each draw in units of records: of the strategy as selected, not rounded."""
        return float(self.mechanism.law.scale / self.mechanism.rounded.scale)


@dataclass(frozen=True, eq=False)
class RowErrorCache:
    """Squares of a workload's answers by a rounded strategy, which no budget changes."""

    workload: Operator
    rounded: RoundedStrategy
    squares: Array

    def are_of(self, workload: Operator, rounded: RoundedStrategy) -> bool:
        return self.workload is workload and self.rounded is rounded


@dataclass(frozen=True, eq=False, repr=False)
class PlannedParts:
    """What a plan measures, in the parts of one release, and what is answered from it.

    Attributes
    ----------
    domain : Domain
        The public schema.
    kind : PlanKind
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
    aim : RowObjective
        What is made small: objective and weights of the answers.
    delta : float
        The δ that the claim is stated for, where the budget is zCDP; 0 for none.
    """

    domain: Domain
    kind: PlanKind
    parts: tuple[PlanPart, ...]
    queries: Codes
    multiplicity: Longs
    n_classes: int
    n_records: int | None
    select_seconds: float
    aim: RowObjective = field(default=RowObjective(), repr=False)
    delta: float = 0.0

    @property
    def allocation(self) -> str:
        """Whether strategies are measured ("matrix"), or the baseline that is."""
        return self.kind.allocation

    @property
    def voting(self) -> str:
        """How answers become votes."""
        return self.kind.voting

    @property
    def releases_leaves(self) -> bool:
        """Whether answers are leaf values, of which votes are made afterwards."""
        return self.kind.releases_leaves

    @property
    def budget(self) -> Budget:
        """The whole budget of the release."""
        return total_budget([part.mechanism.budget for part in self.parts])

    @property
    def neighboring(self) -> str:
        """The neighbouring relation of the claim."""
        return self.parts[0].mechanism.neighboring

    @property
    def provenance(self) -> Provenance:
        """Where all that is measured came from: the domain, forests, and what they rest on."""
        return join([self.domain.provenance, *(part.provenance for part in self.parts)])

    @cached_property
    def steps(self) -> tuple[StrategyStep, ...]:
        """One measurement a part."""
        asked = KeptVotes.kind if self.kind.counts_votes else KeptTable.kind
        made = [part.step(self.kind.measured) for part in self.parts]
        return tuple(replace(step, kind=asked) for step in made)
