"""Drawn aerial photographs of buildings, whose truth is known.

The aerial images of Bai et al. (2022, section 5.3) are not public. These stand in for them: roofs
of several hues that overlap with those of roads and soil, ridges, shadows, trees, and a sensor's
blur and noise.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from mrf_matrix.base.arrays import Array, Bools

ROOFS = np.array([[150, 80, 65], [125, 118, 112], [165, 148, 125], [95, 100, 110], [182, 174, 164]])
ROAD, SOIL, GRASS, TREE = (128, 126, 122), (152, 128, 98), (96, 126, 72), (52, 82, 46)
SHADOW = 0.55
"""Share of the light that reaches the shadow of a roof."""

SUN = (7, 5)  # rows and columns by which a shadow is away from its roof


@dataclass(frozen=True, eq=False)
class AerialScene:
    """A photograph from above, and which of its pixels are buildings."""

    image: NDArray[np.uint8]  # (n, n, 3)
    is_building: Bools  # (n, n)


def aerial_scene(size: int = 512, random_state: int | None = None) -> AerialScene:
    """Draw a scene.

    `size`: rows and columns; some ten buildings for each 200 x 200 pixels.

    >>> scene = aerial_scene(64, random_state=0)
    >>> scene.image.shape, scene.is_building.shape
    ((64, 64, 3), (64, 64))
    """
    if isinstance(size, bool) or not isinstance(size, int) or size < 16:
        raise ValueError(f"size={size!r}: expected an integer of at least 16.")
    rng = np.random.default_rng(random_state)
    rows, columns = np.mgrid[:size, :size].astype(np.float64)
    ground = _ground(size, rows, columns, rng)
    roofs, is_building = _roofs(size, rows, columns, rng)
    shadow = np.roll(is_building, SUN, axis=(0, 1)) & ~is_building
    scene = np.where(is_building[..., None], roofs, ground * np.where(shadow, SHADOW, 1)[..., None])
    scene = ndimage.gaussian_filter(scene, (0.9, 0.9, 0)) + rng.normal(0, 5, scene.shape)
    return AerialScene(np.clip(np.rint(scene), 0, 255).astype(np.uint8), is_building)


def _clouds(size: int, width: float, rng: np.random.Generator) -> Array:
    """Return smooth noise of mean 0 and standard deviation 1."""
    found = ndimage.gaussian_filter(rng.normal(size=(size, size)), width, mode="wrap")
    return np.asarray(found / found.std())


def _ground(size: int, rows: Array, columns: Array, rng: np.random.Generator) -> Array:
    """Draw grass, soil, roads and trees."""
    soil = _clouds(size, size / 14, rng)[..., None] > 0.8
    ground = np.where(soil, SOIL, GRASS) + 9 * _clouds(size, 2, rng)[..., None]
    ground = ground + 6 * rng.normal(size=(size, size, 1))
    for _ in range(max(1, size // 200)):
        angle, middle = rng.uniform(0, np.pi), rng.uniform(0.2, 0.8, 2) * size
        away = (rows - middle[0]) * np.cos(angle) + (columns - middle[1]) * np.sin(angle)
        on_road = np.abs(away) < rng.uniform(5, 10)
        ground[on_road] = np.array(ROAD) + 5 * rng.normal(size=(int(on_road.sum()), 1))
    crowns = _clouds(size, 5, rng) > 1.3
    leaves = np.array(TREE) + 16 * _clouds(size, 1, rng)[..., None]
    return np.where(crowns[..., None], leaves, ground)


def _roofs(size: int, rows: Array, columns: Array, rng: np.random.Generator) -> tuple[Array, Bools]:
    """Draw rotated rectangles with a ridge, whose two sides take the sun differently."""
    roofs = np.zeros((size, size, 3))
    is_building = np.zeros((size, size), dtype=np.bool_)
    for _ in range(max(2, 10 * size * size // 200**2)):
        middle, angle = rng.uniform(0, size, 2), rng.uniform(0, np.pi)
        half = rng.uniform(9, 24), rng.uniform(7, 14)
        down, across = rows - middle[0], columns - middle[1]
        along = down * np.cos(angle) + across * np.sin(angle)
        aside = across * np.cos(angle) - down * np.sin(angle)
        inside = (np.abs(along) < half[0]) & (np.abs(aside) < half[1])
        hue = ROOFS[rng.integers(len(ROOFS))] + rng.normal(0, 8, 3)
        light = np.where(aside[inside] > 0, 1.1, 0.86)
        tiles = 1 + 0.04 * np.sin(aside[inside] * 2.2)
        roofs[inside] = hue * (light * tiles)[:, None]
        is_building |= inside
    return roofs, is_building
