"""Fitting from releases that were measured elsewhere, by parties who shared the noise of a plan."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Self

from mrf_matrix.domain import as_domain, domain_provenance
from mrf_matrix.estimators.shared.base import FitsFromCounts
from mrf_matrix.estimators.shared.spending import BudgetParameters
from mrf_matrix.kinds.model import Kind
from mrf_matrix.mechanisms import Release
from mrf_matrix.planning.plans.plan import Plan

if TYPE_CHECKING:
    from mrf_matrix.planning.plans.parties import FederatedPlan


class FitsFromRelease(BudgetParameters, FitsFromCounts):
    """A classifier whose `fit` is a plan, its measurement, and what follows from the release."""

    _kind: ClassVar[Kind]
    neighboring: str

    def _learn(self, plan: Plan, releases: Sequence[Release]) -> None:
        """Keep what follows from the releases of a plan: post-processing."""
        raise TypeError(f"{type(self).__name__} follows from no release: use a subclass.")

    def fit_release(self, plan: "FederatedPlan", *releases: Release) -> Self:
        """Fit from what several parties released of a plan. Nothing is measured, or charged here.

        Parameters
        ----------
        plan : FederatedPlan
            Of ``plan(..., parties=)``, for this classifier's kind, domain, budget and neighbours.
        *releases : Release
            One for each part of the plan.

        Returns
        -------
        self

        Raises
        ------
        TypeError
            If the plan is not made for several parties.
        ValueError
            If the plan is of another kind, domain, budget or relation than the estimator, or a
            release is none of the plan's.

        Notes
        -----
        All that is learned knows the true law of the noise, by who contributed. The noise is of
        the kind that the releases say, whatever the estimator's parameter.
        """
        if not hasattr(plan, "measured"):
            raise TypeError(
                f"plan is of type {type(plan).__name__}: expected that of plan(..., parties=). Of "
                f"a release by one curator, make a classifier by from_release."
            )
        asked = {
            "kind": self._kind.name,
            "domain": as_domain(self.domain),
            "budget": self._budget,
            "delta": float(self.delta),
            "neighboring": self.neighboring,
        }
        for name, mine in asked.items():
            planned = plan.kind.name if name == "kind" else getattr(plan, name)
            if planned != mine:
                raise ValueError(
                    f"{name} of the plan is {planned!r}, and the estimator's {mine!r}: expected "
                    f"the same."
                )
        known = [plan.provenance, domain_provenance(self.domain)]
        self._learn(plan.measured(releases), [one.resting_on(*known) for one in releases])
        return self
