"""Labels of a tree and tables together: given where both agree, though a cell holds one class."""

import numpy as np
from scipy.stats import norm

from mrf_matrix import Domain
from mrf_matrix.estimators import PooledForestClassifier
from mrf_matrix.posterior.pooled import WEIGHTS_BESIDE_TABLES

SIZES = (4, 3, 5, 2)
GENERATOR = np.random.default_rng(0)
X = GENERATOR.integers(0, SIZES, size=(400, 4))
MIXED = X[:, 3] == 0
Y = ((X[:, 0] > 1) ^ (GENERATOR.random(400) < np.where(MIXED, 0.45, 0.0))).astype(int)


def fitted():
    return PooledForestClassifier(
        Domain.from_sizes(SIZES, n_classes=2), epsilon=1, n_records=400, random_state=0,
        noise="research", noise_state=0,
    ).fit(X, Y)  # fmt: skip


def variances_of_both(model):
    """Return the variance of each record's log odds, of draws below and above alike."""
    posterior, classes = model.posterior_, np.zeros(len(X), dtype=np.int64)
    evidence = posterior.tree.evidence
    of_tree = np.array([evidence[v].deviation(0, 1) for v in posterior.tree.cells_at(X)]) ** 2
    return WEIGHTS_BESIDE_TABLES[0] ** 2 * (
        of_tree + posterior.tables.margin_variances(X, classes, 1 - classes)
    )


def test_a_pure_cell_of_a_tree_is_answered_where_tables_agree():
    model = fitted()
    given = ~model.predict_or_abstain(X).mask
    parts = model.posterior_.tree, model.posterior_.tables
    of_tree, of_tables = (one.probabilities(X).argmax(axis=1) for one in parts)
    agreed = ~MIXED & (of_tree == of_tables)
    assert agreed.mean() > 0.3
    assert given[agreed].mean() > 0.9
    assert (model.predict(X) == Y)[given & ~MIXED].mean() > 0.975
    margins, below, above = model.vote_intervals(X)
    assert (above > 1.5 * below)[agreed].mean() > 0.5, "far above, hardly below"
    # the negative control: as wide below as above, most of the same labels are withheld
    alike = norm.ppf(0.975) * np.sqrt(variances_of_both(model))
    assert (margins > alike)[agreed].mean() < 0.2
