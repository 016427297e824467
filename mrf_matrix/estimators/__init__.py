"""scikit-learn classifiers over private forests, and the study that compares them."""

from typing import TYPE_CHECKING

from mrf_matrix.base.front_door import front_door

if TYPE_CHECKING:
    from mrf_matrix.estimators.design import from_design as from_design
    from mrf_matrix.estimators.grown.federated_forest import (
        FederatedForestClassifier as FederatedForestClassifier,
    )
    from mrf_matrix.estimators.grown.forest_classifier import ForestClassifier as ForestClassifier
    from mrf_matrix.estimators.grown.multinomial_forest import (
        MultinomialForestClassifier as MultinomialForestClassifier,
    )
    from mrf_matrix.estimators.grown.multinomial_forest import (
        MultinomialMatrixForestClassifier as MultinomialMatrixForestClassifier,
    )
    from mrf_matrix.estimators.grown.named_forests import (
        PureForestClassifier as PureForestClassifier,
    )
    from mrf_matrix.estimators.grown.named_forests import (
        SimplifiedBreimanForestClassifier as SimplifiedBreimanForestClassifier,
    )
    from mrf_matrix.estimators.labelled.label_tree import (
        LabelTreeClassifier as LabelTreeClassifier,
    )
    from mrf_matrix.estimators.pooled.pooled_forest import (
        PooledForestClassifier as PooledForestClassifier,
    )
    from mrf_matrix.estimators.prediction.batch_prediction import (
        BatchPredictionClassifier as BatchPredictionClassifier,
    )
    from mrf_matrix.estimators.prediction.subsample_aggregate import (
        SubsampleAggregateClassifier as SubsampleAggregateClassifier,
    )
    from mrf_matrix.estimators.private.private_forest import (
        PrivateForestClassifier as PrivateForestClassifier,
    )
    from mrf_matrix.estimators.released.from_release import from_release as from_release
    from mrf_matrix.estimators.residual.residual_forest import (
        ResidualForestClassifier as ResidualForestClassifier,
    )
    from mrf_matrix.estimators.shared.model_face import ReleasedClassifier as ReleasedClassifier
    from mrf_matrix.estimators.training.matrix_forest import (
        MatrixForestClassifier as MatrixForestClassifier,
    )
    from mrf_matrix.estimators.training.naive_bayes import (
        PrivateNaiveBayesClassifier as PrivateNaiveBayesClassifier,
    )
    from mrf_matrix.estimators.training.posterior_forest import (
        PosteriorForestClassifier as PosteriorForestClassifier,
    )

__getattr__, __dir__, __all__ = front_door(__name__)
