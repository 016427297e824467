"""A release that was paid for is kept, whatever fails of what is made of it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from mrf_matrix.estimators.shared.fixed_claim import keep_if_fit_fails
from mrf_matrix.mechanisms import Release


@contextmanager
def keeping(
    estimator: object, name: str, release: Release, earlier: Sequence[str], *, forest: str
) -> Iterator[None]:
    """Keep a release that was just measured, and nothing of an earlier fit beside it.

    Parameters
    ----------
    estimator : object
        Whose ``release_`` it is.
    name : str
        The attribute that holds it within the block, and after an error.
    release : Release
    earlier : sequence of str
        Attributes that follow from a release: dropped, for they belong to the release before.
    forest : str
        A forest that this release determines, in the words of a call to `from_release`.

    Raises
    ------
    BaseException
        Whatever the block raises, with a note on where the release is and how to go on.
    """
    for one in earlier:
        vars(estimator).pop(one, None)
    vars(estimator)[name] = release
    keep_if_fit_fails(estimator)
    try:
        yield
    except BaseException as error:
        error.add_note(
            f"The records were measured and the budget is spent, but the release is not lost: "
            f"it is release_ of this estimator. Go on at no cost with from_release(release_, "
            f"domain, forest={forest}, voting='product'); save_release(release_, path) keeps it. "
            f"Fitting again would spend again."
        )
        raise
