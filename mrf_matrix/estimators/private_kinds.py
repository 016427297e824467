"""One class for each kind of private model: tables, residuals, labels, their pool, naive Bayes."""

from collections.abc import Sequence
from typing import ClassVar

from mrf_matrix.base.arrays import Array
from mrf_matrix.base.checks import checked_n_records, one_word, structure_generator
from mrf_matrix.domain import Domain
from mrf_matrix.estimators.parameters import RandomState, parameters
from mrf_matrix.estimators.plan_fit import FitsByPlan
from mrf_matrix.forests import Forest
from mrf_matrix.kinds.labels import LABELS, POOL
from mrf_matrix.kinds.model import Kind
from mrf_matrix.kinds.tables import (
    ADDITIVE,
    NAIVE_BAYES,
    TABLES,
    NaiveBayesPlan,
    checked_alpha,
    naive_bayes_plan,
    scale_of,
    with_smoothing,
)
from mrf_matrix.mechanisms import ZCDP, PureDP
from mrf_matrix.planning.auto.plan import claim_of, plan_of_claim
from mrf_matrix.planning.auto.pooled_plan import PooledPlan
from mrf_matrix.planning.plans.block_design import BlockChoice, BlockDesign
from mrf_matrix.planning.plans.block_part import BlockPart, blocks_budget, only_blocks, tables_plan
from mrf_matrix.planning.plans.plan import Plan


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
    >>> from mrf_matrix.estimators import PosteriorForestClassifier
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
        return tables_plan(
            domain,
            self._budget,
            structure_generator(self.random_state),
            n_records=checked_n_records(self.n_records),
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


@parameters
class ResidualForestClassifier(FitsByPlan):
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
    posterior_ : ResidualPosterior
        What the releases imply.

    Notes
    -----
    See :doc:`/residual` for the method. It needs records: `suits_residual_forest` says where
    `PosteriorForestClassifier` is to be preferred.

    Examples
    --------
    >>> import numpy as np
    >>> from mrf_matrix import Domain
    >>> from mrf_matrix.estimators import ResidualForestClassifier
    >>> X = np.random.default_rng(0).integers(0, 3, size=(3000, 4))
    >>> y = (X[:, 0] + X[:, 1] > 2).astype(int)
    >>> domain = Domain.from_sizes([3, 3, 3, 3], n_classes=2)
    >>> forest = ResidualForestClassifier(domain, epsilon=2.0, n_records=3000, random_state=0)
    >>> bool(forest.fit(X, y).score(X, y) > 0.9)
    True
    >>> forest.plan_.budget
    PureDP(epsilon=2)
    """

    n_records: int | None = None
    random_state: RandomState = None
    _kind: ClassVar[Kind] = ADDITIVE

    @property
    def scale_(self) -> float:
        """By how much of the sum of the first pass's effects was believed."""
        return scale_of(self._model.transcript)

    @property
    def choices_(self) -> tuple[tuple[int, ...] | None, ...]:
        """Pairs and triples that were chosen, None where none of them was."""
        places = [place for (place,) in self._model.transcript.choices[1:]]
        blocks = iter(self.posterior_.blocks[self.domain_.n_attributes :])
        n_none = len(places) - (len(self.posterior_.blocks) - self.domain_.n_attributes)
        none = set(sorted(places)[len(places) - n_none :])  # they stand behind all candidates
        return tuple(None if one in none else next(blocks).attributes for one in places)


@parameters
class LabelTreeClassifier(FitsByPlan):
    r"""Tree of few cells and their labels, for little data and small budgets.

    Every node cuts the codes of one attribute in two, out of many public cuts. The whole tree is
    drawn at once, with the labels of its cells: by the exponential mechanism over all trees t and
    labels l, in proportion to :math:`\exp(r \sum_v n_v(l_v))`, the records that are right. The rate
    r is ε, half of it under replace-one neighbours, and :math:`\sqrt{8\rho}` in place of ε under
    zCDP. The draw is exact, in whole numbers, without writing out the trees. There are four cells,
    eight or sixteen, by the signal N r and the number of public cuts. From 100 on, and from 40 a
    class, a quarter of the budget measures how many records of each class the cells hold. From 400
    on (1000 of two classes) a fifth of the rest draws eight cells, and four fifths draw below each
    of them a tree of four cells with their labels.

    Parameters
    ----------
    delta : float
        0 for pure ε-DP. Else (ε, δ)-DP is claimed, by whichever of ε and the zCDP budget that
        implies it labels at the larger rate: ε nearly always.
    n_records : int
        The number of records, where it is public: how deep the tree is, and the probabilities,
        rest on it. Not given, 2000 are reckoned with.
    random_state : int, RandomState or None
        Seed of the public cuts.

    Attributes
    ----------
    plan_ : LabelPlan
        What was announced and released.
    tree_ : LabelTree
        The cuts of its nodes, the labels of its cells, as places in the domain's classes, and
        their noisy class counts where these were measured; `export_text` draws it.
    posterior_ : LabelPosterior
        What labels and counts imply.

    Notes
    -----
    See :doc:`/private` for where it is ahead of other forests.

    References
    ----------
    McSherry and Talwar, Mechanism design via differential privacy (2007); Willems, Shtarkov and
    Tjalkens, The context-tree weighting method (1995), for sums over all trees.

    Examples
    --------
    >>> from mrf_matrix import load_dataset
    >>> from mrf_matrix.estimators import LabelTreeClassifier
    >>> car = load_dataset("car")
    >>> tree = LabelTreeClassifier(car.domain, epsilon=0.02, n_records=1728, random_state=0)
    >>> tree.fit(car.X, car.y).tree_.n_cells
    4
    >>> tree.plan_.spent
    PureDP(epsilon=0.02)
    """

    n_records: int | None = None
    random_state: RandomState = None
    _kind: ClassVar[Kind] = LABELS


BESIDE = ("tables", "additive")
"""Tables that stand beside a tree."""


@parameters
class PooledForestClassifier(FitsByPlan):
    r"""Tree of labels and tables of the same records, whose evidence is pooled.

    A tree sees what several attributes say together, and few of them; tables see what many
    attributes say each. With few records neither is clear. The tree gets half of the budget, or
    less where N ε is above 1000, of several classes 4000. Log odds are

    .. math::

        \log\pi_c + v \log\frac{p_\text{tree}(c \mid x)}{\pi_c}
            + w \log\frac{p_\text{tables}(c \mid x)}{\pi_c},

    :math:`\pi` the class shares that the tables tell; v = w = 0.7, and v = 0.5, w = 0.9 beside
    tables of residuals.

    Parameters
    ----------
    delta : float
        0 for pure ε-DP. Else (ε, δ)-DP is claimed, by Gaussian noise under the zCDP budget that
        implies it.
    n_records : int
        The number of records, where it is public: the tree's depth, the tables and the
        probabilities rest on it.
    beside : {"tables", "additive"}
        What is beside the tree: tables of blocks of attributes, a `PosteriorForestClassifier`, or
        tables of residuals, a `ResidualForestClassifier`, which need records.
    random_state : int, RandomState or None
        Seed of the public cuts, and of the blocks or the order of visits.

    Attributes
    ----------
    plan_ : PooledPlan
        What was announced and released.
    tree_ : LabelTree
        The tree; `export_text` draws it.
    posterior_ : PooledPosterior
        What both imply; its `tables` are what the tables do.

    Notes
    -----
    See :doc:`/private` for where it is ahead of other forests.

    References
    ----------
    Genest and Zidek, Combining probability distributions: a critique and an annotated
    bibliography (1986), for logarithmic pools.

    Examples
    --------
    >>> from mrf_matrix import load_dataset
    >>> from mrf_matrix.estimators import PooledForestClassifier
    >>> monks = load_dataset("monks_1")
    >>> forest = PooledForestClassifier(monks.domain, epsilon=1, n_records=432, random_state=0)
    >>> forest.fit(monks.X, monks.y).predict_proba(monks.X).shape
    (432, 2)
    """

    n_records: int | None = None
    beside: str = "tables"
    random_state: RandomState = None
    _kind: ClassVar[Kind] = POOL

    def _plan(self, domain: Domain) -> PooledPlan:
        beside = one_word("beside", self.beside, BESIDE)
        made: PooledPlan = plan_of_claim("pool", domain, beside=beside, **claim_of(self))
        return made


@parameters
class PrivateNaiveBayesClassifier(FitsByPlan):
    """Naive Bayes from noisy one-way marginals and class totals, in equal shares of the budget.

    The forest of depth-1 trees, one for each attribute, beside a tree of depth 0 for the class
    totals, all of whose leaves are measured: every record is counted once in each of the d + 1
    trees, so that each of them has the share ``1 / (d + 1)`` of the budget. Their class-conditional
    leaf probabilities are multiplied instead of added. Attributes with a single code are left out.

    Parameters
    ----------
    alpha : float
        Records added to every count of an attribute's code in a class (Laplace smoothing).
    n_records : int
        The number of records, where it is public: noise is weighed against it in the report.
    noise_state : int or Generator
        Seed of research noise.

    Attributes
    ----------
    plan_ : Plan
        What was measured, decided without data.
    forest_ : Forest
        The d stumps and the tree of class totals.
    release_ : Release
        The noisy measurement.
    leaf_values_ : ndarray of shape (o, k)
        Noisy class counts of the leaves, in the order of `classes_`.

    Notes
    -----
    Noisy counts are clipped at zero and smoothed, class totals clipped at half a record: the usual
    repairs, which ignore how noisy the counts are. With ``epsilon=float("inf")`` and ``alpha=1``
    predictions are those of scikit-learn's `CategoricalNB`.

    Examples
    --------
    >>> from mrf_matrix import load_dataset
    >>> from mrf_matrix.estimators import PrivateNaiveBayesClassifier
    >>> car = load_dataset("car")
    >>> model = PrivateNaiveBayesClassifier(car.domain, epsilon=1.0).fit(car.X, car.y)
    >>> model.predict(car.X).shape
    (1728,)
    >>> model.forest_.n_trees, model.release_.sensitivity
    (7, 7.0)
    """

    alpha: float = 1.0
    n_records: int | None = None
    _kind: ClassVar[Kind] = NAIVE_BAYES

    @property
    def _budget(self) -> PureDP | ZCDP:
        """Of the noise law that serves the claim best."""
        if not self.delta:
            return super()._budget
        claim = self.epsilon, self.delta, self.rho
        return blocks_budget(claim, self.domain, None, None, self.neighboring)

    def _plan(self, domain: Domain) -> NaiveBayesPlan:
        return naive_bayes_plan(
            domain,
            self._budget,
            n_records=checked_n_records(self.n_records),
            neighboring=self.neighboring,
            delta=float(self.delta),
            alpha=checked_alpha(self.alpha),
        )

    def _plan_of_parties(self, plan: Plan) -> NaiveBayesPlan:
        return with_smoothing(plan, checked_alpha(self.alpha))

    @property
    def forest_(self) -> Forest:
        """The stumps and the tree of class totals."""
        forest: Forest = self._model.posterior.forest
        return forest

    @property
    def leaf_values_(self) -> Array:
        """Noisy class counts of the leaves, in the order of `classes_`."""
        return self._model.sort_columns(self._model.posterior.leaf_values)
