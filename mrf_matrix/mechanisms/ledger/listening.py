"""What is said of charges while they are made, and what hears of them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from mrf_matrix.mechanisms.ledger.charge import Charge
from mrf_matrix.mechanisms.ledger.rules import checked_words

_TOLD: ContextVar[tuple[dict[str, str], list[Charge]] | None] = ContextVar("told", default=None)


def words_told() -> Mapping[str, str]:
    """Return what is said of every charge here."""
    told = _TOLD.get()
    return {} if told is None else told[0]


def charged(charge: Charge) -> None:
    """Tell of a charge."""
    told = _TOLD.get()
    if told is not None:
        told[1].append(charge)


@contextmanager
def describing(**words: str) -> Iterator[list[Charge]]:
    """Say the same words of all charges of this thread; give the list that they are kept in.

    `**words`: ``purpose``, ``data``, ``model``: see `PrivacyLedger.describe`.
    """
    charges: list[Charge] = []
    token = _TOLD.set((checked_words(words), charges))
    try:
        yield charges
    finally:
        _TOLD.reset(token)
