"""Noisy answers in a model's file: whole numbers that sums of a few of them do not take too far."""

from mrf_matrix.base.arrays import Longs
from mrf_matrix.base.fields import FieldError

LARGEST_ANSWER = 2**62


def check_answers(answers: Longs) -> None:
    """Refuse answers beyond `LARGEST_ANSWER` in size; that of ``-2**63`` is no int64."""
    if not bool(((answers >= -LARGEST_ANSWER) & (answers <= LARGEST_ANSWER)).all()):
        raise FieldError(f"answers: expected whole numbers up to {LARGEST_ANSWER}.")
