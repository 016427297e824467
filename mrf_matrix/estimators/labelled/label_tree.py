"""A tree of few cells, each with a label: one private choice."""

from typing import ClassVar

from mrf_matrix.domain import Domain
from mrf_matrix.estimators.shared.parameters import RandomState, parameters
from mrf_matrix.estimators.shared.plan_fit import FitsByPlan
from mrf_matrix.kinds.labels import LABELS
from mrf_matrix.kinds.model import Kind
from mrf_matrix.labels import LabelPlan
from mrf_matrix.planning.private.plan_of_claim import claim_of, plan_of_claim


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
    privacy_report_ : PrivacyReport
        What is claimed.

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
    >>> from mrf_matrix.estimators.labelled.label_tree import LabelTreeClassifier
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

    def _plan(self, domain: Domain) -> LabelPlan:
        made: LabelPlan = plan_of_claim("labels", domain, **claim_of(self))
        return made
