"""Laws of made-up records: their tables, their classes, and what an objective counts of them."""

import numpy as np
import pytest

from mrf_matrix import Domain
from mrf_matrix.planning import ClusterPrior, ExpectedLoss, TargetPrior, plan
from mrf_matrix.planning.accuracy.cluster_prior import ClusteredRecords
from mrf_matrix.planning.accuracy.expected_accuracy import MOST_RECORDS, ImaginedData

DOMAIN = Domain.from_sizes([3, 5, 2], n_classes=3)


def drawn(seed, **parameters):
    return ClusterPrior(**parameters).draw(DOMAIN, 3, np.random.default_rng(seed))


@pytest.mark.parametrize("ordered", [0.0, 1.0])
def test_tables_are_probabilities_and_every_class_has_a_cluster(ordered):
    for seed in range(5):
        law = drawn(seed, ordered=ordered, extra_clusters=2)
        assert set(law.classes) == {0, 1, 2}
        assert law.weights.sum() == pytest.approx(1)
        for table, size in zip(law.tables, DOMAIN.sizes, strict=True):
            assert table.shape == (len(law.weights), size)
            assert table.sum(axis=1) == pytest.approx(1)
            assert (table >= 0).all()


def test_records_follow_the_tables():
    law = drawn(3)
    codes, labels = law.records(40_000, np.random.default_rng(0))
    for i, table in enumerate(law.tables):
        shares = np.bincount(codes[:, i], minlength=table.shape[1]) / len(codes)
        assert shares == pytest.approx(law.weights @ table, abs=0.015)
    wanted = np.bincount(law.classes, law.weights, minlength=3)
    assert np.bincount(labels, minlength=3) / len(labels) == pytest.approx(wanted, abs=0.015)


def test_clusters_make_attributes_dependent():
    """Independence given the cluster, not without: the joint law of two attributes says so."""
    tables = (np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[0.9, 0.1], [0.1, 0.9]]))
    law = ClusteredRecords(np.array([0.5, 0.5]), tables, np.array([0, 1]))
    codes, labels = law.records(20_000, np.random.default_rng(1))
    joint = np.histogram2d(codes[:, 0], codes[:, 1], bins=2)[0] / len(codes)
    assert joint == pytest.approx(np.array([[0.45, 0.05], [0.05, 0.45]]), abs=0.015)
    assert (labels == codes[:, 0]).all()


@pytest.mark.parametrize("name", ["skew", "concentration", "ordered", "width", "extra_clusters"])
def test_bad_parameters_are_named(name):
    with pytest.raises(ValueError, match=name):
        ClusterPrior(**{name: -1})


@pytest.mark.parametrize("prior", [TargetPrior(), ClusterPrior()])
@pytest.mark.parametrize("n_records", [300, 100_000])
def test_every_law_has_the_public_number_of_records(prior, n_records):
    imagined = ImaginedData(DOMAIN, 3, n_records, prior, n_targets=6, n_queries=10)
    assert len(imagined.codes) <= MOST_RECORDS
    counts = imagined.counts(imagined.codes, DOMAIN.sizes).counts
    totals = counts.sum(axis=0).reshape(6, 3).sum(axis=1)
    assert totals == pytest.approx(n_records, rel=0.01)
    assert (imagined.labels >= 0).all()
    assert (imagined.labels < 3).all()


def test_queries_get_the_votes_of_their_own_law():
    """Without noise, deep trees know clusters apart that share no code."""
    imagined = ImaginedData(DOMAIN, 3, 10, ClusterPrior(), n_targets=2, n_queries=3)
    answers = np.arange(2 * 3 * 2 * 3, dtype=float).reshape(6, 6)
    own = imagined.own_columns(answers)
    assert own.shape == (2, 3, 3)
    assert (own[0] == answers[:3, :3]).all()
    assert (own[1] == answers[3:, 3:]).all()


@pytest.mark.parametrize("mode", ["training", "prediction", "subsample"])
def test_the_loss_vanishes_where_a_code_tells_the_class(mode):
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
    made = plan(DOMAIN, mode, epsilon=float("inf"), n_trees=12, max_depth=1, n_records=600,
                strategy="identity", voting="weight", random_state=0)  # fmt: skip
    assert loss(made) < 0.05
    noisy = plan(DOMAIN, mode, epsilon=0.001, n_trees=12, max_depth=1, n_records=600,
                 strategy="identity", voting="weight", random_state=0)  # fmt: skip
    assert loss(noisy) > 0.4
