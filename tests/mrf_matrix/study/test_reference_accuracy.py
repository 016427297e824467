"""Accuracy on the papers' own forests and splits, beside what the published code reaches."""

from functools import cache, partial

import numpy as np
import pytest

from mrf_matrix import (
    BatchPredictionClassifier,
    Domain,
    MatrixForestClassifier,
    SubsampleAggregateClassifier,
)
from mrf_matrix.forests import forest_from_paths, take_trees

EPSILONS = (0.1, 0.5, 1.0, 2.0)
DRAWS = 5
ENSEMBLES = {"car": 1, "balance": 1, "iris": 1, "heart": 2, "mushroom": 5}

PUBLISHED = {
    # the published code at each ε: mean of 3 forests and splits, 5 noise draws each
    ("car", "matrix"): (0.296, 0.573, 0.765, 0.820),
    ("car", "batch"): (0.329, 0.557, 0.778, 0.849),
    ("balance", "matrix"): (0.381, 0.597, 0.726, 0.792),
    ("balance", "batch"): (0.418, 0.617, 0.749, 0.822),
    ("balance", "subsample"): (0.395, 0.532, 0.646, 0.747),
    ("iris", "matrix"): (0.473, 0.716, 0.847, 0.927),
    ("iris", "batch"): (0.522, 0.718, 0.880, 0.911),
    ("iris", "subsample"): (0.429, 0.704, 0.796, 0.871),
    ("heart", "matrix"): (0.553, 0.697, 0.716, 0.742),
    ("heart", "batch"): (0.528, 0.696, 0.727, 0.741),
    ("mushroom", "matrix"): (0.911, 0.941, 0.948, 0.951),
    ("mushroom", "batch"): (0.896, 0.893, 0.892, 0.892),
}

MODES = {
    "matrix": partial(MatrixForestClassifier, strategy="identity"),
    "batch": partial(BatchPredictionClassifier, time_limit=0.5),
    "subsample": partial(SubsampleAggregateClassifier, strategy="identity"),
}


@cache
def reference(folder, name):
    """Return the domain, forests, attributes, and records and queries of one reference."""
    count = ENSEMBLES[name]
    with np.load(folder / "workloads" / f"{name}_seed0.npz") as file:
        arrays = {key: file[key] for key in file.files}
    ends = [""] if count == 1 else [f"_e{i}" for i in range(count)]
    sizes = arrays["domain"] if count == 1 else arrays["full_domain"]
    domain = Domain.from_sizes(sizes.tolist(), n_classes=int(arrays["y_train"].max()) + 1)
    features = [
        list(range(len(sizes))) if count == 1 else arrays["features" + e].tolist() for e in ends
    ]
    forests = [
        forest_from_paths(arrays["paths" + e], arrays["tree_id" + e], domain.select(f))
        for e, f in zip(ends, features, strict=True)
    ]
    codes = [arrays[key].astype(np.int32) for key in ("X_train", "y_train", "Q", "y_test")]
    return domain, forests, features, codes


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        pytest.param(*one, marks=pytest.mark.long if one == ("mushroom", "batch") else ())
        for one in PUBLISHED
    ],
)
def test_accuracy_is_at_least_the_published(shared_dir, name, kind):
    domain, forests, features, (X, y, queries, truth) = reference(shared_dir, name)
    make = partial(MODES[kind], domain, forest=forests, feature_subsets=features, noise="research")
    chosen = None if kind == "matrix" else planned(make, queries)
    scores = []
    for epsilon in EPSILONS:
        for draw in range(DRAWS):
            model = make(epsilon=epsilon, noise_state=draw)
            model.set_params(**({} if chosen is None else {"strategy": chosen}))
            scores.append(model.fit(X, y).score(queries, truth))
    means = np.reshape(scores, (len(EPSILONS), DRAWS)).mean(axis=1)
    published = np.array(PUBLISHED[name, kind])
    # another split, of 30 to 1625 test records: one figure may differ, their mean less so
    assert means.mean() > published.mean() - 0.03, means
    assert (means > published - 0.1).all(), means


def planned(make, queries):
    """Select the batch's strategies once for every fit."""
    return [one.strategy for one in make(random_state=0).plan(queries).parts]


def test_subsample_on_car_at_the_papers_settings(shared_dir):
    """FINDINGS: .345 .662 .756 .774 optimised; .253 .253 .265 .271 a query at a time."""
    with np.load(shared_dir / "workloads" / "car_seed0.npz") as arrays:
        domain = Domain.from_sizes(arrays["domain"].tolist(), n_classes=4)
        forest = forest_from_paths(arrays["paths"], arrays["tree_id"], domain)
        X, y, queries, truth = (
            arrays[key].astype(np.int32) for key in ("X_train", "y_train", "Q", "y_test")
        )
    few = take_trees(forest, range(16))
    for settings, least, most in (({}, 0.6, 1.0), ({"allocation": "per_query"}, 0.0, 0.35)):
        scores = [
            SubsampleAggregateClassifier(
                domain,
                forest=few,
                epsilon=2,
                strategy="identity",
                noise="research",
                noise_state=draw,
                random_state=draw,
                **settings,
            )
            .fit(X, y)
            .score(queries, truth)
            for draw in range(DRAWS)
        ]
        assert least < np.mean(scores) < most
