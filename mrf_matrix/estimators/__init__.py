"""scikit-learn classifiers over private forests, and the study that compares them."""

from typing import TYPE_CHECKING

from mrf_matrix.base.front_door import front_door

if TYPE_CHECKING:
    from mrf_matrix.estimators.constructors import from_design as from_design
    from mrf_matrix.estimators.constructors import from_release as from_release
    from mrf_matrix.estimators.forest_classifier import ForestClassifier as ForestClassifier
    from mrf_matrix.estimators.matrix_forest import (
        MatrixForestClassifier as MatrixForestClassifier,
    )
    from mrf_matrix.estimators.model_face import ReleasedClassifier as ReleasedClassifier
    from mrf_matrix.estimators.multinomial_forest import (
        MultinomialForestClassifier as MultinomialForestClassifier,
    )
    from mrf_matrix.estimators.multinomial_forest import (
        MultinomialMatrixForestClassifier as MultinomialMatrixForestClassifier,
    )
    from mrf_matrix.estimators.paper_forests import (
        FederatedForestClassifier as FederatedForestClassifier,
    )
    from mrf_matrix.estimators.paper_forests import (
        PureForestClassifier as PureForestClassifier,
    )
    from mrf_matrix.estimators.paper_forests import (
        SimplifiedBreimanForestClassifier as SimplifiedBreimanForestClassifier,
    )
    from mrf_matrix.estimators.prediction import (
        BatchPredictionClassifier as BatchPredictionClassifier,
    )
    from mrf_matrix.estimators.prediction import (
        SubsampleAggregateClassifier as SubsampleAggregateClassifier,
    )
    from mrf_matrix.estimators.private_forest import (
        PrivateForestClassifier as PrivateForestClassifier,
    )
    from mrf_matrix.estimators.private_kinds import (
        LabelTreeClassifier as LabelTreeClassifier,
    )
    from mrf_matrix.estimators.private_kinds import (
        PooledForestClassifier as PooledForestClassifier,
    )
    from mrf_matrix.estimators.private_kinds import (
        PosteriorForestClassifier as PosteriorForestClassifier,
    )
    from mrf_matrix.estimators.private_kinds import (
        PrivateNaiveBayesClassifier as PrivateNaiveBayesClassifier,
    )
    from mrf_matrix.estimators.private_kinds import (
        ResidualForestClassifier as ResidualForestClassifier,
    )

__getattr__, __dir__, __all__ = front_door(__name__)
