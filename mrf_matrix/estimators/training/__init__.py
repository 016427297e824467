"""Classifiers that measure the training table."""

from typing import TYPE_CHECKING

from mrf_matrix.base.front_door import front_door

if TYPE_CHECKING:
    from mrf_matrix.estimators.training.matrix_forest import (
        MatrixForestClassifier as MatrixForestClassifier,
    )
    from mrf_matrix.estimators.training.naive_bayes import (
        PrivateNaiveBayesClassifier as PrivateNaiveBayesClassifier,
    )
    from mrf_matrix.estimators.training.posterior_forest import (
        PosteriorForestClassifier as PosteriorForestClassifier,
    )

__getattr__, __dir__, __all__ = front_door(
    __name__,
    {
        "matrix_forest": ("MatrixForestClassifier",),
        "naive_bayes": ("PrivateNaiveBayesClassifier",),
        "posterior_forest": ("PosteriorForestClassifier",),
    },
)
