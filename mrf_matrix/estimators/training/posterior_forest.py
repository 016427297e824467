"""A forest whose few trees vote by product and know their noise: one release, no tuning."""

from collections.abc import Sequence
from typing import ClassVar

from mrf_matrix.base.checks import public_records, structure_generator
from mrf_matrix.domain import Domain
from mrf_matrix.estimators.shared.parameters import RandomState, parameters
from mrf_matrix.estimators.shared.plan_fit import FitsByPlan
from mrf_matrix.forests import Forest
from mrf_matrix.kinds.model import Kind
from mrf_matrix.kinds.tables import TABLES
from mrf_matrix.mechanisms import ZCDP, PureDP
from mrf_matrix.planning.blocks.block_design import BlockChoice, BlockDesign
from mrf_matrix.planning.blocks.block_part import BlockPart, only_blocks
from mrf_matrix.planning.blocks.law import blocks_budget
from mrf_matrix.planning.plans.plan import Plan
from mrf_matrix.planning.plans.plan_of import tables_plan


@parameters
class PosteriorForestClassifier(FitsByPlan):
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
    random_state: RandomState = None
    _kind: ClassVar[Kind] = TABLES

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
        return tables_plan(
            domain,
            self._budget,
            structure_generator(self.random_state),
            n_records=public_records(self.n_records),
            neighboring=self.neighboring,
            blocks=self.blocks,
            n_blocks=self.n_blocks,
            delta=float(self.delta),
        )

    @property
    def measurement_(self) -> BlockPart:
        """Blocks, weights and the mechanism."""
        return only_blocks(self.plan_.parts)

    @property
    def design_(self) -> BlockDesign | None:
        """Blocks that were measured, and what they are worth."""
        return self.measurement_.design

    @property
    def forest_(self) -> Forest:
        """The trees of the blocks, and that of class totals."""
        return self.measurement_.forest
