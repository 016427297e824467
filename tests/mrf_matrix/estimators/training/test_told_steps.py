"""What a fit tells while it works: every step by name, the charge where it belongs."""

import numpy as np
import pytest

from mrf_matrix import Domain, MatrixForestClassifier, PrivacyLedger
from mrf_matrix.base.workers import listening
from mrf_matrix.mechanisms.noise import discrete

DOMAIN = Domain.from_sizes([3, 4, 2], n_classes=2)


def fitted(told, **settings):
    """Fit on a hundred records, and keep what was told with what was charged by then."""
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, DOMAIN.sizes, (100, 3)), rng.integers(0, 2, 100)
    ledger = PrivacyLedger(epsilon=5)
    model = MatrixForestClassifier(DOMAIN, n_trees=4, max_depth=2, ledger=ledger, **settings)
    with listening(lambda *step: told.append((*step, len(ledger.charges)))):
        model.fit(X, y)


def test_every_step_is_told_and_only_the_draws_come_after_the_charge():
    told = []
    fitted(told, epsilon=1, strategy="identity", random_state=0)
    before = [what for what, _, _, charged in told if not charged]
    after = [what for what, _, _, charged in told if charged]
    starts = ("Growing", "Choosing", "Rounding", "Checking memory", "Measuring")
    assert [what.startswith(start) for what, start in zip(before, starts, strict=True)] == [
        True
    ] * 5
    assert after == ["Drawing exact noise", "Answering from the release"]


def test_draws_are_told_in_blocks(monkeypatch):
    monkeypatch.setattr(discrete, "DRAWS", 10)
    told = []
    fitted(told, epsilon=1, strategy="identity", random_state=0)
    draws = [(done, total) for what, done, total, _ in told if what == "Drawing exact noise"]
    total = draws[0][1]
    assert draws == [(done, total) for done in range(0, total, 10)]
    assert len(draws) > 1


@pytest.mark.parametrize("records", [10, 1000])
def test_what_is_told_is_public(records):
    """The same words for any records."""
    told = []
    rng = np.random.default_rng(records)
    X, y = rng.integers(0, DOMAIN.sizes, (records, 3)), rng.integers(0, 2, records)
    model = MatrixForestClassifier(DOMAIN, n_trees=4, max_depth=2, strategy="identity")
    with listening(lambda *step: told.append(step)):
        model.set_params(random_state=0).fit(X, y)
    again = []
    with listening(lambda *step: again.append(step)):
        model.fit(X[:1], y[:1])
    assert told == again
