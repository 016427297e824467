"""What is raised about a model file."""

from mrf_matrix.files.container import ContainerError


class ModelFileError(ContainerError):
    """A file that is no model, is damaged, or is larger than it may be."""
