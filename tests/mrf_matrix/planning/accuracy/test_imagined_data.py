"""Made-up records of many laws, and what an objective counts of them."""

import numpy as np
import pytest

from mrf_matrix import Domain
from mrf_matrix.planning import ExpectedLoss, TargetPrior, plan
from mrf_matrix.planning.accuracy.expected_accuracy import MOST_RECORDS, ImaginedData

DOMAIN = Domain.from_sizes([3, 5, 2], n_classes=3)


@pytest.mark.parametrize("n_records", [300, 100_000])
def test_every_law_has_the_public_number_of_records(n_records):
    imagined = ImaginedData(DOMAIN, 3, n_records, TargetPrior(), n_targets=6, n_queries=10)
    assert len(imagined.codes) <= MOST_RECORDS
    counts = imagined.counts(imagined.codes, DOMAIN.sizes).counts
    totals = counts.sum(axis=0).reshape(6, 3).sum(axis=1)
    assert totals == pytest.approx(n_records, rel=0.01)
    assert (imagined.labels >= 0).all()
    assert (imagined.labels < 3).all()


def test_queries_get_the_votes_of_their_own_law():
    imagined = ImaginedData(DOMAIN, 3, 10, TargetPrior(), n_targets=2, n_queries=3)
    answers = np.arange(2 * 3 * 2 * 3, dtype=float).reshape(6, 6)
    own = imagined.own_columns(answers)
    assert own.shape == (2, 3, 3)
    assert (own[0] == answers[:3, :3]).all()
    assert (own[1] == answers[3:, 3:]).all()


@pytest.mark.parametrize("kind", ["matrix", "batch", "subsample"])
def test_the_loss_vanishes_where_a_code_tells_the_class(kind):
    class Told:
        """Records whose first code is their class."""

        label_noise = 0.0

        def draw(self, domain, n_classes, generator):
            """Return itself, a law."""
            return self

        def records(self, count, generator):
            """Draw even records."""
            codes = np.stack([generator.integers(0, n, count) for n in DOMAIN.sizes], axis=1)
            return codes.astype(np.int32), codes[:, 0].astype(np.int64)

    loss = ExpectedLoss(priors=(Told(),), n_targets=3, n_queries=40)
    made = plan(DOMAIN, kind, epsilon=float("inf"), n_trees=12, max_depth=1, n_records=600,
                strategy="identity", voting="weight", random_state=0)  # fmt: skip
    assert loss(made) < 0.05
    noisy = plan(DOMAIN, kind, epsilon=0.001, n_trees=12, max_depth=1, n_records=600,
                 strategy="identity", voting="weight", random_state=0)  # fmt: skip
    assert loss(noisy) > 0.4
