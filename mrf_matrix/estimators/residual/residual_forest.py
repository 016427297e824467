"""A forest of tables measured one after another, each on what earlier ones leave unexplained."""

from collections.abc import Callable
from functools import partial
from typing import cast

import numpy as np
from numpy.typing import ArrayLike

from mrf_matrix.base.checks import public_records
from mrf_matrix.base.provenance import Provenance
from mrf_matrix.domain import Domain, required_domain, will_be_read_off
from mrf_matrix.estimators.residual.report import residual_report
from mrf_matrix.estimators.residual.votes import ResidualVotes
from mrf_matrix.estimators.shared.base import sorted_classes
from mrf_matrix.estimators.shared.fixed_claim import check_claim, keeping
from mrf_matrix.estimators.shared.given_data import (
    EncodedRecords,
    GivenRecords,
    PrivateData,
    check_before_release,
    needs_records,
)
from mrf_matrix.estimators.shared.parameters import Records, SeedParameters, parameters
from mrf_matrix.estimators.shared.spending import (
    Budget,
    BudgetParameters,
    NoiseParameters,
    Prepared,
    bill_of,
    noise_stream,
)
from mrf_matrix.planning.plans.planner import sequence_plan
from mrf_matrix.posterior import ResidualPosterior, SeveralPosterior
from mrf_matrix.residual.law import sequence_budget
from mrf_matrix.residual.learning import learned
from mrf_matrix.residual.records import ResidualRecords
from mrf_matrix.residual.releases import ResidualReleases
from mrf_matrix.residual.sequence import ResidualPlan

FITTED = (
    "domain_", "classes_", "plan_", "releases_", "scale_", "choices_", "posterior_",
    "privacy_report_",
)  # fmt: skip
"""What a fit leaves."""

SPENT = (
    "The budget is spent. What was released before is kept in releases_, scale_ and choices_ of "
    "this estimator, beside plan_; fitting again would spend again."
)


@parameters
class ResidualForestClassifier(SeedParameters, NoiseParameters, BudgetParameters, ResidualVotes):
    r"""Forest of tables of residuals: each table holds what is still unexplained.

    Log odds, of several classes each one's score, are a sum of tables. A table is measured on
    residuals: what the labels have beyond the probabilities that earlier releases imply.
    Attributes that say the same are so counted once. All shares of the budget are fixed before the
    data; see `plan`.

    Parameters
    ----------
    delta : float
        0 for pure ε-DP. Else (ε, δ)-DP is claimed, by Gaussian noise under the zCDP budget that
        implies it, or by Laplace noise of ε where that is the smaller.
    n_records : int
        The number of records, where it is public. Not given, it is estimated from the released
        class totals, and the sequence is planned for 2000.
    random_state : int, RandomState or None
        Seed of the public order in which attributes are visited.

    Attributes
    ----------
    plan_ : ResidualPlan
        The sequence of steps that was announced and taken.
    releases_ : tuple of Release
        All that was learned from the records, beside the choices, in the order of the steps.
    scale_ : float
        By how much of the sum of the first pass's effects was believed, as a choice says.
    choices_ : tuple of (tuple of int or None)
        Pairs and triples that were chosen, None where none of them was.
    posterior_ : ResidualPosterior, or SeveralPosterior of several classes
        What the releases imply.
    privacy_report_ : PrivacyReport
        What is claimed, with every release.

    Notes
    -----
    See :doc:`/residual` for the method. It needs records: `suits_residual_forest` says where
    `PosteriorForestClassifier` is to be preferred.

    Examples
    --------
    >>> import numpy as np
    >>> from mrf_matrix import Domain
    >>> from mrf_matrix.estimators.residual.residual_forest import ResidualForestClassifier
    >>> X = np.random.default_rng(0).integers(0, 3, size=(3000, 4))
    >>> y = (X[:, 0] + X[:, 1] > 2).astype(int)
    >>> domain = Domain.from_sizes([3, 3, 3, 3], n_classes=2)
    >>> forest = ResidualForestClassifier(domain, epsilon=2.0, n_records=3000, random_state=0)
    >>> bool(forest.fit(X, y).score(X, y) > 0.9)
    True
    >>> forest.plan_.spent
    PureDP(epsilon=2)
    """

    n_records: int | None = None
    _even_records = cast("int | None", None)
    """Records of even classes that tell as much, where an earlier release said so."""

    def plan(self) -> ResidualPlan:
        """Return the sequence of steps that `fit` would take, without data.

        With an integer `random_state` it is the same plan.

        Raises
        ------
        ValueError
            If the domain is not given, or a parameter is invalid.
        """
        check_claim(self)
        return self._plan(required_domain(self.domain))

    def _plan(self, domain: Domain) -> ResidualPlan:
        return sequence_plan(
            domain,
            epsilon=self.epsilon,
            rho=self.rho,
            delta=self.delta,
            neighboring=self.neighboring,
            n_records=public_records(self.n_records),
            random_state=self.random_state,
            even_records=self._even_records,
        )

    def _budget_by_law(self, domain: Domain) -> Budget:
        """Return the budget of the noise law that serves the claim best."""
        records, k = public_records(self.n_records), domain.required_target().size
        return sequence_budget(self.epsilon, self.delta, self.rho, domain.n_attributes, records, k)

    def fit(self, X: Records, y: ArrayLike | None = None) -> "ResidualForestClassifier":
        """Take the steps of the plan: measure tables of residuals, one after another.

        Parameters
        ----------
        X : frame or array of shape (N, d)
            Private records, in the domain's terms.
        y : array of shape (N,)
            Their classes.

        Returns
        -------
        ResidualForestClassifier
            The fitted estimator.

        Raises
        ------
        ValueError
            If a parameter, the domain or a record is invalid, or the ledger cannot pay (a
            `BudgetError`); nothing is spent then.
        """
        return self._fit(partial(GivenRecords.of, self, X, y))

    def _fit(self, bring: Callable[[], PrivateData]) -> "ResidualForestClassifier":
        self._prepared(bring).pay()
        return self

    def _prepared(self, bring: Callable[[], PrivateData]) -> Prepared[None]:
        """Return what releases and learns, ready to be paid; nothing is spent yet."""
        if not will_be_read_off(self.domain):  # refused before the records are looked at
            bill_of(self, self._budget_by_law(required_domain(self.domain))).check()
        data = bring()
        plan = self._plan(data.domain)
        bill = bill_of(self, plan.budget).resting_on(data.provenance)
        bill.check()
        check_before_release(plan)
        data.check_records("a residual forest")
        encoded = data.tables([])
        if not isinstance(encoded, EncodedRecords):
            raise needs_records("a residual forest")
        classes, order = sorted_classes(data.domain)
        labels = np.argsort(order)[encoded.labels]
        records = ResidualRecords(encoded.codes, labels, data.domain.sizes, len(classes))
        releases = ResidualReleases(records, self.noise, noise_stream(self.noise, bill.noise_state))

        def release() -> None:
            with keeping(self, FITTED, SPENT, plan_=plan):
                self.posterior_ = self._learned_from(releases, data.provenance)
                self.domain_, self.classes_ = data.domain, classes
                self.privacy_report_ = residual_report(plan, self.releases_, bill.provenance)

        return Prepared(bill, release)

    def _learned_from(
        self, releases: ResidualReleases, rests_on: Provenance
    ) -> ResidualPosterior | SeveralPosterior:
        """Return what the steps of the plan tell; what was paid for is kept, whatever fails."""
        try:
            return learned(self.plan_, releases)
        finally:
            self.releases_ = tuple(one.resting_on(rests_on) for _, one in releases.releases)
            self.choices_ = tuple(found for _, found in releases.choices)
            if releases.chosen_scale is not None:
                self.scale_ = releases.chosen_scale
