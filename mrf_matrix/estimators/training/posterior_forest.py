"""A forest whose few trees vote by product and know their noise: one release, no tuning."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from mrf_matrix.base.checks import whole_number
from mrf_matrix.domain import Domain
from mrf_matrix.estimators.shared.base import sorted_classes
from mrf_matrix.estimators.shared.fit_from_counts import FitsFromCounts
from mrf_matrix.estimators.shared.fit_from_release import FitsFromRelease
from mrf_matrix.estimators.shared.given_data import GivenRecords, PrivateData
from mrf_matrix.estimators.shared.kept_release import keeping
from mrf_matrix.estimators.shared.planned_tables import tables_for
from mrf_matrix.estimators.shared.schema import encode_queries, with_provenance
from mrf_matrix.estimators.shared.spending import noise_stream
from mrf_matrix.estimators.training.posterior_votes import PosteriorVotes
from mrf_matrix.mechanisms import Release
from mrf_matrix.planning.blocks.block_part import BlockChoice, only_blocks, tables_of
from mrf_matrix.planning.kinds.words import kind_of
from mrf_matrix.planning.plans.plan import Plan
from mrf_matrix.planning.plans.plan_of import plan_of
from mrf_matrix.planning.plans.structure import structure_generator
from mrf_matrix.posterior import product_posterior
from mrf_matrix.reports.posterior_report import posterior_report

FITTED = (
    "domain_",
    "classes_",
    "plan_",
    "design_",
    "forest_",
    "measurement_",
    "posterior_",
    "privacy_report_",
)
"""What follows from a plan and its release."""


class PosteriorForestClassifier(FitsFromCounts, FitsFromRelease, PosteriorVotes):
    r"""Forest over disjoint blocks of attributes, labelled by the posterior under known noise.

    Each tree is the table of one block of attributes; one more tree of a single leaf holds the
    class totals. All leaves are measured once. What is measured is chosen without data: how many
    attributes, in how many blocks, from domain, budget and number of records. All the rest is
    post-processing of the release, with the noise's law known: every effect is shrunk by what the
    release says of it, so that a tree that noise drowns casts no vote; trees vote by product; and
    votes that repeat each other are trusted less.

    Parameters
    ----------
    domain : Domain or "from_data"
        The public schema, with the target's classes. Required. "from_data" reads it off the
        records, which leaks them, and warns.
    epsilon : float, int or Fraction, optional
        Pure-DP budget, spent by `fit`; 1 where no ``rho`` is given either. ``float("inf")`` adds
        no noise.
    rho : float, int or Fraction, optional
        zCDP budget with Gaussian noise, instead of ``epsilon``.
    n_records : int, optional
        The number of records, where it is public: the choice of blocks weighs noise against it.
        Not given, designs are judged by hundreds to ten thousand of them alike. Never read off
        the records.
    n_blocks : int or "auto", default="auto"
        Number of trees. With a number, all attributes are used.
    blocks : list of lists of int or str, optional
        The attributes of each block by hand, by position or name: public knowledge of which belong
        together. Then nothing is chosen.
    neighboring : {"add_remove", "replace_one"}, default="add_remove"
        The neighbouring relation of the claim.
    noise : {"exact", "research"}, default="exact"
        "exact": discrete noise from OpenDP, never seedable. "research": the same law from NumPy,
        seedable by ``noise_state``; not a private release.
    noise_state : int or Generator, optional
        Seed of research noise; where there is none, it follows an integer ``random_state`` by a
        stream of its own.
    ledger : PrivacyLedger, optional
        Charged once by every `fit`, after all checks and before the records are measured.
    random_state : int, RandomState or None, default=None
        Seed of the public structure: which attributes share a block.

    Attributes
    ----------
    domain_ : Domain
        The domain in use.
    classes_ : ndarray of shape (k,)
        The public classes, sorted.
    design_ : BlockDesign
        Blocks that were measured.
    forest_ : Forest
        Their trees, and the tree of class totals.
    plan_ : Plan
        What was measured, decided without data: the plan that `plan` gives for the same arguments.
    measurement_ : BlockPart
        Its part: blocks, weights and the mechanism.
    release_ : Release
        The noisy measurement: all that was learned from the records.
    posterior_ : ProductPosterior
        What the release implies.
    privacy_report_ : PrivacyReport
        What is claimed, under which relation, with which noise.
    n_features_in_ : int
        Number of features seen by `fit`.

    Notes
    -----
    Labels and probabilities follow

    .. math::

        \log p(c \mid x) = \log N_c + \lambda \sum_B \Bigl( \sum_{i \in B} \log p_{ic}(x_i)
            + g_{Bc}(x_B) \Bigr) + \text{const},

    averaged over the posterior of the right-hand side; see :doc:`/posterior`. They are estimates
    under a model and have no expected error known without data; leaf values do, and the report
    states it.

    Examples
    --------
    >>> from mrf_matrix import load_dataset
    >>> from mrf_matrix.estimators.training.posterior_forest import PosteriorForestClassifier
    >>> car = load_dataset("car")
    >>> forest = PosteriorForestClassifier(car.domain, epsilon=1.0, n_records=1728, random_state=0)
    >>> forest.fit(car.X, car.y).predict(car.X).shape
    (1728,)
    >>> forest.privacy_report_.noise
    'exact'
    """

    mode = "posterior"

    def __init__(
        self,
        domain: Domain | str | None = None,
        *,
        epsilon: Any = None,
        rho: Any = None,
        n_records: int | None = None,
        n_blocks: int | str = "auto",
        blocks: Any = None,
        neighboring: str = "add_remove",
        noise: str = "exact",
        noise_state: Any = None,
        ledger: Any = None,
        random_state: Any = None,
    ) -> None:
        self.domain = domain
        self.epsilon = epsilon
        self.rho = rho
        self.n_records = n_records
        self.n_blocks = n_blocks
        self.blocks = blocks
        self.neighboring = neighboring
        self.noise = noise
        self.noise_state = noise_state
        self.ledger = ledger
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> "PosteriorForestClassifier":
        """Measure the blocks' tables and the class totals once.

        Parameters
        ----------
        X : frame or array of shape (N, d)
            Private records, in the domain's terms.
        y : array of shape (N,)
            Their classes.

        Returns
        -------
        PosteriorForestClassifier
            The fitted estimator.

        Raises
        ------
        ValueError
            If a parameter, the domain or a record is invalid, or the ledger cannot pay (a
            `BudgetError`); nothing is spent then.
        """
        return self._fit(partial(GivenRecords.of, self, X, y))

    def _fit(self, bring: Callable[[], PrivateData]) -> Self:
        records = None if self.n_records is None else whole_number("n_records", self.n_records)
        bill = self._bill()
        measuring = self._measuring(bill.budget)
        measuring.check()
        bill.check()
        data = bring()
        structure = structure_generator(self.random_state)
        plan = plan_of(
            kind_of(self.mode),
            data.domain,
            BlockChoice(self.n_blocks, self.blocks),
            measuring,
            structure,
            n_records=records,
        )
        part = only_blocks(plan.parts)
        counts = plan.kind.table(part.ensemble, tables_for(plan, data), structure)
        stream = noise_stream(self.noise, bill.noise_state)
        bill.charge()
        release = part.release(counts, noise=self.noise, noise_state=stream)
        self._learn(plan, [with_provenance(release, self.domain)])
        return self

    def _learn(self, plan: Plan, releases: Sequence[Release]) -> None:
        part, (release,), domain = only_blocks(plan.parts), releases, plan.domain
        with keeping(self, "release_", release, FITTED, forest="forest_"):
            self.domain_, (self.classes_, order) = domain, sorted_classes(domain)
            self.plan_, self.design_ = plan, part.design
            self.forest_, self.measurement_ = part.forest, part
            report = posterior_report(part, release, self._chosen_for)
            tables, totals = tables_of(part, release, order)
            self.posterior_ = product_posterior(tables, domain.ordered, totals)
            self.privacy_report_ = report

    @property
    def _chosen_for(self) -> str:
        """What the report says of the blocks."""
        if self.blocks is not None:
            return "blocks were given"
        if self.n_blocks != "auto":
            return f"{self.n_blocks} blocks of all attributes were asked for"
        known = self.n_records
        reckoned = "hundreds to ten thousand" if known is None else f"the public number of {known}"
        return f"blocks were chosen without data, for {reckoned} records"

    def _codes(self, X: Any) -> NDArray[np.int32]:
        check_is_fitted(self, "posterior_")
        return encode_queries(self, self.domain_, X)
