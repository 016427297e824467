"""Who may seed the records' coins, and what a report may claim of records that gave the domain."""

import numpy as np
import pytest

from mrf_matrix import MatrixForestClassifier, PureDP, RandomTrees
from mrf_matrix.domain import Domain
from mrf_matrix.planning.kinds.kind import one_leaf_each, record_coins

INFINITE = float("inf")


@pytest.mark.parametrize(
    ("noise", "epsilon", "repeatable"),
    [("exact", 1.0, False), ("research", 1.0, True), ("exact", INFINITE, True)],
)
def test_coins_of_a_private_release_are_never_seeded(noise, epsilon, repeatable):
    throws = [record_coins(noise, PureDP(epsilon), 7).integers(2**60) for _ in range(2)]
    assert (throws[0] == throws[1]) == repeatable


def test_a_seed_would_shift_the_coins_behind_a_record_taken_out():
    """Negative control: why the coins are fresh."""
    domain = Domain.from_sizes([4, 4])
    forest = RandomTrees(n_trees=8, max_depth=1).grow(domain, random_state=0)
    codes = np.random.default_rng(0).integers(4, size=(50, 2)).astype(np.int32)
    whole = one_leaf_each(forest, codes, np.random.default_rng(1))
    without_first = one_leaf_each(forest, codes[1:], np.random.default_rng(1))
    assert (whole[1:] != without_first).any()


def test_a_domain_read_off_the_records_leaves_no_claim():
    model = MatrixForestClassifier("from_data", n_trees=2, max_depth=1, strategy="identity")
    with pytest.warns(UserWarning, match="domain"):
        model.fit([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], ["a", "b", "a"])
    report = model.privacy_report_
    assert report.statement.startswith("NOT A PRIVATE RELEASE")
    assert report.budget == "PureDP(epsilon=1)"  # what its noise would protect is not forgotten
