"""Every kind of model that a user may fit, small: what the laws of all kinds are checked on."""

from functools import cache
from inspect import signature

import numpy as np

from mrf_matrix import (
    BatchPredictionClassifier,
    Domain,
    MatrixForestClassifier,
    MultinomialForestClassifier,
    PrivateForestClassifier,
    PrivateNaiveBayesClassifier,
    SubsampleAggregateClassifier,
)
from mrf_matrix.estimators import (
    LabelTreeClassifier,
    MultinomialMatrixForestClassifier,
    PooledForestClassifier,
    PosteriorForestClassifier,
    ResidualForestClassifier,
)


def records_of(seed, sizes, count):
    """Return a domain and records whose class mostly follows the first two attributes."""
    generator = np.random.default_rng(seed)
    codes = np.stack([generator.integers(size, size=count) for size in sizes], axis=1)
    labels = (codes[:, 0] + codes[:, 1] > sum(sizes[:2]) // 2 - 1).astype(int)
    noisy = generator.random(count) > 0.95
    return Domain.from_sizes(sizes, n_classes=2), codes, np.where(noisy, 1 - labels, labels)


SMALL = records_of(1, [3, 4, 5, 2, 3], 3000)
WIDE = records_of(1, [3] * 12, 4200)

FEW = {"n_trees": 2, "max_depth": 2, "strategy": "identity"}
MODELS = {
    "auto": (PrivateForestClassifier, {}, SMALL),
    "auto, screened": (PrivateForestClassifier, {}, WIDE),
    "auto, pooled": (PrivateForestClassifier, {"epsilon": 0.6}, WIDE),
    "tables": (PosteriorForestClassifier, {}, SMALL),
    "additive": (ResidualForestClassifier, {}, SMALL),
    "labels": (LabelTreeClassifier, {}, SMALL),
    "pool": (PooledForestClassifier, {}, SMALL),
    "pool of residuals": (PooledForestClassifier, {"beside": "additive"}, SMALL),
    "naive_bayes": (PrivateNaiveBayesClassifier, {}, SMALL),
    "matrix": (MatrixForestClassifier, FEW, SMALL),
    "matrix, levels": (MatrixForestClassifier, FEW | {"allocation": "uniform_levels"}, SMALL),
    "matrix, per tree": (MatrixForestClassifier, FEW | {"allocation": "per_tree"}, SMALL),
    "matrix, several": (
        MatrixForestClassifier,
        FEW | {"n_ensembles": 2, "max_features": 3, "voting": "posterior", "shrinkage": "leaves"},
        SMALL,
    ),
    "matrix, disjoint": (MatrixForestClassifier, FEW | {"allocation": "disjoint"}, SMALL),
    "two_stage, all": (
        MultinomialMatrixForestClassifier,
        FEW | {"parts": "all", "disjoint": False},
        SMALL,
    ),
    "two_stage, coins": (MultinomialMatrixForestClassifier, FEW, SMALL),
    "multinomial": (
        MultinomialForestClassifier,
        {"n_trees": 2, "max_depth": 2, "structure_score": "majority", "label_score": "count"},
        SMALL,
    ),
}
KEPT = FEW | {"keep_records_in_pickle": True}
ANSWERS = {
    "batch": (BatchPredictionClassifier, KEPT, SMALL),
    "batch, several": (
        BatchPredictionClassifier,
        KEPT | {"n_ensembles": 2, "max_features": 3},
        SMALL,
    ),
    "subsample": (SubsampleAggregateClassifier, KEPT, SMALL),
    "subsample, hard": (SubsampleAggregateClassifier, KEPT | {"voting": "hard"}, SMALL),
}
"""Kinds that release when they are asked, and have no files."""
KINDS = MODELS | ANSWERS
BY_COINS = ("two_stage, coins", "matrix, disjoint")
"""Kinds that deal each record to a step or a tree, so that a fit that failed does not go on."""
OF_RECORDS = (
    "additive", "two_stage, all", "multinomial", "subsample", "subsample, hard", *BY_COINS
)  # fmt: skip
"""Kinds that need every record by itself."""
OF_COUNTS = tuple(one for one in KINDS if one not in OF_RECORDS)
SURE = tuple(one for one in KINDS if one not in (*BY_COINS, "multinomial"))
"""Kinds that draw nothing where there is no noise."""
WITH_INTERVALS = (
    "auto", "auto, screened", "auto, pooled", "tables", "additive", "labels", "pool",
    "pool of residuals", *ANSWERS,
)  # fmt: skip
"""Kinds that know how far noise may have moved their margins."""

RESEARCH = {"noise": "research", "noise_state": 7}


def unfitted(kind, **more):
    """Return a classifier of a kind, and its records."""
    make, own, (domain, codes, labels) = KINDS[kind]
    given = {"epsilon": 1.0, "random_state": 3, "n_records": len(labels), "domain": domain}
    known = signature(make).parameters
    return make(**{k: v for k, v in (given | own | more).items() if k in known}), codes, labels


@cache
def fitted(kind):
    """Return a classifier that was fitted with research noise, and its records."""
    model, codes, labels = unfitted(kind, **RESEARCH)
    return model.fit(codes, labels), codes, labels


def said(model, codes):
    return model.predict_proba(codes[:200])
