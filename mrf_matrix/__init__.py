"""A matrix-mechanism linear-algebra engine for differentially private forests.

Trees over a public, discretised domain are compiled into a sparse decision-path matrix ``T``;
a strategy matrix ``A`` that minimises the expected error is selected without data; private
training and prediction are noisy sparse matrix products. The names below load on first use.
"""

from typing import TYPE_CHECKING

from mrf_matrix.base.front_door import front_door

if TYPE_CHECKING:
    from mrf_matrix.base.checks import PrivacyLeakWarning as PrivacyLeakWarning
    from mrf_matrix.base.files import FileFormat as FileFormat
    from mrf_matrix.base.provenance import Provenance as Provenance
    from mrf_matrix.compilation.matrices import path_matrix as path_matrix
    from mrf_matrix.compilation.matrices import path_matrix_from_codes as path_matrix_from_codes
    from mrf_matrix.compilation.matrices import prediction_workload as prediction_workload
    from mrf_matrix.compilation.matrices import query_matrix as query_matrix
    from mrf_matrix.datasets.registry import list_datasets as list_datasets
    from mrf_matrix.datasets.registry import load_dataset as load_dataset
    from mrf_matrix.domain.attribute import Attribute as Attribute
    from mrf_matrix.domain.domain import Domain as Domain
    from mrf_matrix.error.expected_errors import expected_error as expected_error
    from mrf_matrix.estimators.constructors import from_release as from_release
    from mrf_matrix.estimators.constructors import load_model as load_model
    from mrf_matrix.estimators.matrix_forest import (
        MatrixForestClassifier as MatrixForestClassifier,
    )
    from mrf_matrix.estimators.multinomial_forest import (
        MultinomialForestClassifier as MultinomialForestClassifier,
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
        PrivateNaiveBayesClassifier as PrivateNaiveBayesClassifier,
    )
    from mrf_matrix.files.model_file import save_model as save_model
    from mrf_matrix.files.release_files import load_release as load_release
    from mrf_matrix.files.release_files import save_release as save_release
    from mrf_matrix.forests.conversion import from_sklearn as from_sklearn
    from mrf_matrix.forests.forest import Forest as Forest
    from mrf_matrix.forests.random_trees import RandomTrees as RandomTrees
    from mrf_matrix.mechanisms.budget import ZCDP as ZCDP
    from mrf_matrix.mechanisms.budget import PureDP as PureDP
    from mrf_matrix.mechanisms.counts import merge_counts as merge_counts
    from mrf_matrix.mechanisms.ledger.ledger import PrivacyLedger as PrivacyLedger
    from mrf_matrix.mechanisms.ledger.payers import privacy_ledger as privacy_ledger
    from mrf_matrix.mechanisms.measurement.measure import measure as measure
    from mrf_matrix.mechanisms.measurement.measure import reconstruct as reconstruct
    from mrf_matrix.planning.plans.request import plan as plan
    from mrf_matrix.planning.search.design_search import tune as tune
    from mrf_matrix.streams import count_stream as count_stream
    from mrf_matrix.study.study import compare as compare

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = front_door(__name__)
