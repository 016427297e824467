"""How one ensemble's workload will be answered: workload, strategy, noise. No data is in it."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.error.coefficients import answer_coefficients
from mrf_matrix.error.noise_sums import NoiseTerm
from mrf_matrix.forests.sources.ensembles import Ensemble
from mrf_matrix.mechanisms import ZCDP, Mechanism, PureDP
from mrf_matrix.mechanisms.measurement.least_squares import recovered_squares
from strategies import Strategy
from strategies.operators import Operator

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PlannedAnswers:
    """One ensemble's part of a plan.

    Attributes
    ----------
    ensemble : Ensemble
        Attributes and forest.
    workload : Operator of shape (q, n)
        What is asked of the private table: its leaves in training, votes otherwise.
    strategy : Strategy or None
        What is measured in its place; None where the answers are measured themselves.
    mechanism : Mechanism
        The integer matrix that is measured, its noise, budget and neighbouring relation.
    """

    ensemble: Ensemble
    workload: Operator
    strategy: Strategy | None
    mechanism: Mechanism

    @property
    def n_measurements(self) -> int:
        """Rows m of what is measured: noise draws for each class."""
        return self.mechanism.rounded.matrix.shape[0]

    @cached_property
    def row_squares(self) -> Array:
        """``||(W Ã⁺)_r||²`` of every answer: its error for noise of variance one, shape (q,)."""
        rounded = self.mechanism.rounded
        if self.strategy is None:
            return np.full(self.workload.shape[0], 1 / float(rounded.scale) ** 2)
        return recovered_squares(self.workload, rounded.recovery)

    @property
    def row_variances(self) -> Array:
        """Expected squared error of every answer in each class, shape (q,)."""
        return self.mechanism.law.variance * self.row_squares

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
        rounded, law = self.mechanism.rounded, self.mechanism.law
        if self.strategy is None and workload is None:
            return [NoiseTerm.of(np.array([1 / float(rounded.scale)]), law)] * len(rows)
        asked = self.workload if workload is None else workload
        found = answer_coefficients(asked, rounded.recovery, rows)
        return None if found is None else [NoiseTerm.of(row, law) for row in found]

    def at(self, budget: PureDP | ZCDP) -> "PlannedAnswers":
        """Return the same at another budget of the same kind, without new linear algebra."""
        moved = replace(self, mechanism=self.mechanism.at(budget))
        known = self.__dict__.get("row_squares")
        if known is not None:
            moved.__dict__["row_squares"] = known
        return moved

    def summary(self) -> dict[str, Any]:
        """Return the part's figures as plain values, ready for JSON."""
        mechanism = self.mechanism
        forest = self.ensemble.forest
        return {
            "attributes": [forest.domain.names[i] for i in range(forest.domain.n_attributes)],
            "cells": forest.domain.size,
            "trees": forest.n_trees,
            "leaves": forest.n_leaves,
            "depth": forest.max_depth,
            "strategy": "as measured" if self.strategy is None else self.strategy.method,
            "measurements": self.n_measurements,
            "sensitivity": self.sensitivity,
            "noise_scale": self.noise_scale,
            "budget": repr(mechanism.budget),
            "loss": None if self.strategy is None else self.strategy.loss,
        }

    @property
    def sensitivity(self) -> float:
        """Column norm of what is measured times the neighbouring factor, in units of records."""
        return self.mechanism.sensitivity

    @property
    def noise_scale(self) -> float:
        """Scale of each draw in units of records: of the strategy as selected, not rounded."""
        return float(self.mechanism.law.scale / self.mechanism.rounded.scale)
