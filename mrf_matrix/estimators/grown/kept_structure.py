"""A structure that was paid for is kept, whatever fails of measuring its leaves."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from mrf_matrix.estimators.shared.fixed_claim import keep_if_fit_fails
from mrf_matrix.forests import Forest
from mrf_matrix.forests.learned.two_stage_plan import TwoStagePlan


@contextmanager
def keeping_structure(
    estimator: Any, plan: TwoStagePlan, forest: Forest, earlier: Sequence[str]
) -> Iterator[None]:
    """Keep a structure that was just grown, and nothing of an earlier fit beside it.

    Parameters
    ----------
    estimator : object
        Whose ``plan_`` and ``forest_`` they are, within the block and after an error.
    plan : TwoStagePlan
    forest : Forest
    earlier : sequence of str
        Attributes that follow from a fit: dropped.

    Raises
    ------
    BaseException
        Whatever the block raises, with a note on what was spent and how to go on.
    """
    for one in earlier:
        vars(estimator).pop(one, None)
    estimator.plan_, estimator.forest_ = plan, forest
    keep_if_fit_fails(estimator)
    try:
        yield
    except BaseException as error:
        error.add_note(
            f"Stage 1 was run: {plan.structure} was spent on the structure, which is not lost: it "
            f"is forest_ of this estimator. Stage 2 released nothing{_charged(estimator, plan)}. "
            f"Go on with MatrixForestClassifier(domain, epsilon=..., forest=forest_), whose "
            f"epsilon adds to what was spent. Fitting again would pay for another structure."
        )
        raise


def _charged(estimator: Any, plan: TwoStagePlan) -> str:
    if estimator.ledger is None:
        return ""
    return f", but the ledger was charged {plan.total} for both stages before the first"
