"""Classifiers over forests grown from records, by noise or without."""

from typing import TYPE_CHECKING

from mrf_matrix.base.front_door import front_door

if TYPE_CHECKING:
    from mrf_matrix.estimators.grown.comparison_forest import (
        ComparisonForestClassifier as ComparisonForestClassifier,
    )
    from mrf_matrix.estimators.grown.multinomial_forest import (
        MultinomialForestClassifier as MultinomialForestClassifier,
    )
    from mrf_matrix.estimators.grown.multinomial_matrix_forest import (
        MultinomialMatrixForestClassifier as MultinomialMatrixForestClassifier,
    )
    from mrf_matrix.estimators.grown.pure_forest import PureForestClassifier as PureForestClassifier
    from mrf_matrix.estimators.grown.pure_forest import (
        SimplifiedBreimanForestClassifier as SimplifiedBreimanForestClassifier,
    )
    from mrf_matrix.estimators.grown.rival_forests import (
        BernoulliForestClassifier as BernoulliForestClassifier,
    )
    from mrf_matrix.estimators.grown.rival_forests import (
        BreimanForestClassifier as BreimanForestClassifier,
    )
    from mrf_matrix.estimators.grown.rival_forests import (
        DenilForestClassifier as DenilForestClassifier,
    )
    from mrf_matrix.estimators.grown.smooth_sensitivity_forest import (
        SmoothSensitivityForestClassifier as SmoothSensitivityForestClassifier,
    )

__getattr__, __dir__, __all__ = front_door(
    __name__,
    {
        "comparison_forest": ("ComparisonForestClassifier",),
        "multinomial_forest": ("MultinomialForestClassifier",),
        "multinomial_matrix_forest": ("MultinomialMatrixForestClassifier",),
        "pure_forest": (
            "PureForestClassifier",
            "SimplifiedBreimanForestClassifier",
        ),
        "rival_forests": (
            "BernoulliForestClassifier",
            "BreimanForestClassifier",
            "DenilForestClassifier",
        ),
        "smooth_sensitivity_forest": ("SmoothSensitivityForestClassifier",),
    },
)
