"""A matrix-mechanism linear-algebra engine for differentially private forests.

Trees over a public, discretised domain are compiled into a sparse decision-path matrix ``T``;
a strategy matrix ``A`` that minimises the expected error is selected without data; private
training and prediction are noisy sparse matrix products. The names below load on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mrf_matrix.choosing import ForestChoice as ForestChoice
    from mrf_matrix.choosing import choose_forest as choose_forest
    from mrf_matrix.compilation import path_matrix as path_matrix
    from mrf_matrix.compilation import path_matrix_from_codes as path_matrix_from_codes
    from mrf_matrix.compilation import prediction_workload as prediction_workload
    from mrf_matrix.compilation import query_matrix as query_matrix
    from mrf_matrix.datasets import Dataset as Dataset
    from mrf_matrix.datasets import list_datasets as list_datasets
    from mrf_matrix.datasets import load_dataset as load_dataset
    from mrf_matrix.domain import Attribute as Attribute
    from mrf_matrix.domain import Domain as Domain
    from mrf_matrix.domain import PrivacyLeakWarning as PrivacyLeakWarning
    from mrf_matrix.error import expected_error as expected_error
    from mrf_matrix.estimators import BatchPredictionClassifier as BatchPredictionClassifier
    from mrf_matrix.estimators import MatrixForestClassifier as MatrixForestClassifier
    from mrf_matrix.estimators import MultinomialForestClassifier as MultinomialForestClassifier
    from mrf_matrix.estimators import (
        MultinomialMatrixForestClassifier as MultinomialMatrixForestClassifier,
    )
    from mrf_matrix.estimators import PosteriorForestClassifier as PosteriorForestClassifier
    from mrf_matrix.estimators import PrivateNaiveBayesClassifier as PrivateNaiveBayesClassifier
    from mrf_matrix.estimators import PureForestClassifier as PureForestClassifier
    from mrf_matrix.estimators import ResidualForestClassifier as ResidualForestClassifier
    from mrf_matrix.estimators import (
        SimplifiedBreimanForestClassifier as SimplifiedBreimanForestClassifier,
    )
    from mrf_matrix.estimators import SubsampleAggregateClassifier as SubsampleAggregateClassifier
    from mrf_matrix.estimators import from_design as from_design
    from mrf_matrix.estimators import from_release as from_release
    from mrf_matrix.files import load_release as load_release
    from mrf_matrix.files import save_release as save_release
    from mrf_matrix.files.models import load_model as load_model
    from mrf_matrix.files.models import save_model as save_model
    from mrf_matrix.forests import Forest as Forest
    from mrf_matrix.forests import MultinomialTrees as MultinomialTrees
    from mrf_matrix.forests import PrivateMultinomialTrees as PrivateMultinomialTrees
    from mrf_matrix.forests import PureTrees as PureTrees
    from mrf_matrix.forests import RandomTrees as RandomTrees
    from mrf_matrix.forests import SimplifiedBreimanTrees as SimplifiedBreimanTrees
    from mrf_matrix.forests import from_sklearn as from_sklearn
    from mrf_matrix.mechanisms import ZCDP as ZCDP
    from mrf_matrix.mechanisms import PrivacyLedger as PrivacyLedger
    from mrf_matrix.mechanisms import PureDP as PureDP
    from mrf_matrix.mechanisms import Release as Release
    from mrf_matrix.mechanisms import measure as measure
    from mrf_matrix.mechanisms import merge_counts as merge_counts
    from mrf_matrix.mechanisms import reconstruct as reconstruct
    from mrf_matrix.planning import Plan as Plan
    from mrf_matrix.planning import plan as plan
    from mrf_matrix.planning import tune as tune
    from mrf_matrix.streams import count_dask as count_dask
    from mrf_matrix.streams import count_leaves as count_leaves
    from mrf_matrix.streams import count_stream as count_stream
    from mrf_matrix.streams import partial_counts as partial_counts
    from mrf_matrix.study import compare as compare

__version__ = "0.1.0"

_HOME = {
    "choosing": (
        "ForestChoice",
        "choose_forest",
    ),
    "compilation": (
        "path_matrix",
        "path_matrix_from_codes",
        "prediction_workload",
        "query_matrix",
    ),
    "datasets": (
        "Dataset",
        "list_datasets",
        "load_dataset",
    ),
    "domain": (
        "Attribute",
        "Domain",
        "PrivacyLeakWarning",
    ),
    "error": ("expected_error",),
    "estimators": (
        "BatchPredictionClassifier",
        "MatrixForestClassifier",
        "MultinomialForestClassifier",
        "MultinomialMatrixForestClassifier",
        "PosteriorForestClassifier",
        "PrivateNaiveBayesClassifier",
        "PureForestClassifier",
        "ResidualForestClassifier",
        "SimplifiedBreimanForestClassifier",
        "SubsampleAggregateClassifier",
        "from_design",
        "from_release",
    ),
    "files": (
        "load_release",
        "save_release",
    ),
    "files.models": (
        "load_model",
        "save_model",
    ),
    "forests": (
        "Forest",
        "MultinomialTrees",
        "PrivateMultinomialTrees",
        "PureTrees",
        "RandomTrees",
        "SimplifiedBreimanTrees",
        "from_sklearn",
    ),
    "mechanisms": (
        "PrivacyLedger",
        "PureDP",
        "Release",
        "ZCDP",
        "measure",
        "merge_counts",
        "reconstruct",
    ),
    "planning": (
        "Plan",
        "plan",
        "tune",
    ),
    "streams": (
        "count_dask",
        "count_leaves",
        "count_stream",
        "partial_counts",
    ),
    "study": ("compare",),
}
_PART_OF = {name: part for part, names in _HOME.items() for name in names}

__all__ = sorted(_PART_OF)


def __getattr__(name: str) -> Any:
    """Import a public name's part when the name is first used (PEP 562)."""
    if name not in _PART_OF:
        raise AttributeError(f"module 'mrf_matrix' has no attribute {name!r}")
    return getattr(import_module(f"mrf_matrix.{_PART_OF[name]}"), name)


def __dir__() -> list[str]:
    """List the public names for completion."""
    return sorted([*globals(), *__all__])
