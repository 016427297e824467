"""A forest whose few trees vote by product and know their noise: one release, no tuning."""

from collections.abc import Callable, Sequence
from math import sqrt
from typing import Self

from mrf_matrix.base.checks import public_records, structure_generator
from mrf_matrix.base.steps import tell
from mrf_matrix.domain import Domain
from mrf_matrix.estimators.shared.base import MeasuresOnce, sorted_classes
from mrf_matrix.estimators.shared.fit_from_release import FitsFromRelease
from mrf_matrix.estimators.shared.fixed_claim import keeping, release_note
from mrf_matrix.estimators.shared.given_data import PrivateData
from mrf_matrix.estimators.shared.parameters import SeedParameters, parameters
from mrf_matrix.estimators.shared.spending import Prepared
from mrf_matrix.estimators.training.posterior_votes import PosteriorVotes
from mrf_matrix.mechanisms import ZCDP, PureDP, Release
from mrf_matrix.planning.blocks.block_design import BlockChoice
from mrf_matrix.planning.blocks.block_part import BlockPart, only_blocks, tables_of
from mrf_matrix.planning.blocks.law import blocks_budget
from mrf_matrix.planning.kinds.words import kind_of
from mrf_matrix.planning.plans.plan import Plan
from mrf_matrix.planning.plans.plan_of import plan_of
from mrf_matrix.planning.plans.verdict import with_verdict
from mrf_matrix.posterior import product_posterior
from mrf_matrix.reports.privacy_report import Measurement, PrivacyReport, report_of_releases

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


@parameters
class PosteriorForestClassifier(SeedParameters, FitsFromRelease, MeasuresOnce, PosteriorVotes):
    r"""Forest over disjoint blocks of attributes, labelled by the posterior under known noise.

    Each tree is the table of one block of attributes; one more tree of a single leaf holds the
    class totals. All leaves are measured once. What is measured is chosen without data: how many
    attributes, in how many blocks, from domain, budget and number of records. All the rest is
    post-processing of the release, with the noise's law known: every effect is shrunk by what the
    release says of it, so that a tree that noise drowns casts no vote; trees vote by product; and
    votes that repeat each other are trusted less.

    Parameters
    ----------
    n_records : int
        The number of records, where it is public: the choice of blocks weighs noise against it.
        Not given, designs are judged by hundreds to ten thousand of them alike. Never read off
        the records.
    n_blocks : int or "auto"
        Number of trees. With a number, all attributes are used.
    blocks : list of lists of int or str
        The attributes of each block by hand, by position or name: public knowledge of which belong
        together. Then nothing is chosen.
    random_state : int, RandomState or None
        Seed of the public structure: which attributes share a block.

    Attributes
    ----------
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

    Notes
    -----
    Values and probabilities follow

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

    n_records: int | None = None
    n_blocks: int | str = "auto"
    blocks: Sequence[Sequence[int | str]] | None = None
    _mode = "posterior"

    @property
    def _budget(self) -> PureDP | ZCDP:
        """Of the noise law that serves the claim best."""
        if not self.delta:
            return super()._budget
        claim, choice = (
            (self.epsilon, self.delta, self.rho),
            BlockChoice(self.n_blocks, self.blocks),
        )
        return blocks_budget(claim, self.domain, choice, self.n_records, self.neighboring)

    def _plan(self, domain: Domain) -> Plan:
        """Return what a fit over a domain would measure."""
        return plan_of(
            kind_of("posterior"),
            domain,
            BlockChoice(self.n_blocks, self.blocks),
            self._measuring(self._budget),
            structure_generator(self.random_state),
            n_records=public_records(self.n_records),
        )

    def _fit(self, bring: Callable[[], PrivateData]) -> Self:
        self._prepared(bring).pay()
        return self

    def _prepared(self, bring: Callable[[], PrivateData]) -> Prepared[None]:
        """Return what releases and learns, ready to be paid; nothing is spent yet."""
        choice = BlockChoice(self.n_blocks, self.blocks)
        measuring = self._prepared_measurement(kind_of("posterior"), choice, bring)
        return Prepared(measuring.bill, lambda: self._learn(*measuring.release()))

    def _learn(self, plan: Plan, releases: Sequence[Release]) -> None:
        """Keep what follows from the release of a plan: post-processing."""
        part, (release,), domain = only_blocks(plan.parts), releases, plan.domain
        with keeping(self, FITTED, release_note("forest_"), release_=release):
            self.domain_, (self.classes_, order) = domain, sorted_classes(domain)
            self.plan_, self.design_ = plan, part.design
            self.forest_, self.measurement_ = part.forest, part
            report = posterior_report(part, release, self._chosen_for, plan.delta)
            tables, totals = tables_of(part, release, order)
            tell("Fitting the posterior")
            self.posterior_ = product_posterior(tables, domain.ordered, totals)
            self.privacy_report_ = with_verdict(report, plan)

    @property
    def _chosen_for(self) -> str:
        """What the report says of the blocks."""
        if self.blocks is not None:
            return "blocks were given"
        if self.n_blocks != "auto":
            return f"{self.n_blocks} blocks of all attributes were asked for"
        known = self.n_records
        reckoned = "hundreds to ten thousand" if known is None else f"the public number of {known}"
        return f"blocks were chosen by the domain alone, for {reckoned} records"


def posterior_report(plan: BlockPart, release: Release, chosen: str, delta: float) -> PrivacyReport:
    """Return the report of the release; every figure comes from the release itself.

    `chosen`: how the blocks were chosen, in words; `delta`: that of the claim, or 0.
    """
    leaf, used = plan.weights[0], sum(map(len, plan.blocks))
    tables = f"tables of {len(plan.blocks)} blocks of {used} attributes, and class totals"
    report = report_of_releases(
        [release], [Measurement.of(release, tables, weight=leaf)], delta,
        expected_rms_per_leaf=sqrt(release.variance) / (leaf * float(release.scale)),
        notes=(
            chosen,
            "labels and probabilities are posteriors under a model: they have no expected error "
            "known without data",
        ),
    )  # fmt: skip
    paid = plan.forest.is_data_dependent
    return report.with_structure_that_was_paid_for() if paid else report
