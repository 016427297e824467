"""A tree of labels and tables of the same records, asked together."""

from typing import ClassVar

from mrf_matrix.base.checks import one_word
from mrf_matrix.domain import Domain
from mrf_matrix.estimators.shared.parameters import RandomState, parameters
from mrf_matrix.estimators.shared.plan_fit import FitsByPlan
from mrf_matrix.kinds.model import Kind
from mrf_matrix.kinds.pool import POOL
from mrf_matrix.planning.private.plan_of_claim import claim_of, plan_of_claim
from mrf_matrix.planning.private.pooled_plan import PooledPlan

BESIDE = ("tables", "additive")
"""What may be beside a tree."""


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
    privacy_report_ : PrivacyReport
        What is claimed of both together.

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
    >>> from mrf_matrix.estimators.pooled.pooled_forest import PooledForestClassifier
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
