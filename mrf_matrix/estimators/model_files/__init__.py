"""Fitted forests in files: our own format, without pickles, safe to read from anyone."""

from mrf_matrix.estimators.model_files.errors import ModelFileError
from mrf_matrix.estimators.model_files.load import load_model
from mrf_matrix.estimators.model_files.released_forest import ReleasedForestClassifier
from mrf_matrix.estimators.model_files.released_posterior import ReleasedPosteriorForestClassifier
from mrf_matrix.estimators.model_files.released_residual import ReleasedResidualForestClassifier
from mrf_matrix.estimators.model_files.save import save_model

__all__ = [
    "ModelFileError",
    "ReleasedForestClassifier",
    "ReleasedPosteriorForestClassifier",
    "ReleasedResidualForestClassifier",
    "load_model",
    "save_model",
]
