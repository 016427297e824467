"""Fitted classifiers as files for anyone."""

from mrf_matrix.files.container import ModelFileError
from mrf_matrix.files.models.load import load_model
from mrf_matrix.files.models.save import save_model

__all__ = ["ModelFileError", "load_model", "save_model"]
