"""Aerial scenes with their truth, and what is known of every pixel."""

from mrf_matrix.datasets.images.aerial_scene import AerialScene, aerial_scene
from mrf_matrix.datasets.images.pixel_features import FEATURES, pixel_features

__all__ = ["FEATURES", "AerialScene", "aerial_scene", "pixel_features"]
