"""Scenes and pixel features: textures by loops over windows and pairs."""

import numpy as np
import pytest
from scenes import texture
from scenes.aerial_scene import aerial_scene
from scenes.pixel_features import FEATURES, pixel_features
from scenes.texture import co_occurrence_features, local_binary_patterns


def by_matrices(grey):
    """Return the features of the middle pixel from its four co-occurrence matrices."""
    levels = np.pad(grey.astype(int) * 32 // 256, 5, mode="symmetric")
    row, column = (size // 2 for size in grey.shape)
    window = levels[row : row + 11, column : column + 11]
    found = []
    for down, across in texture.DIRECTIONS:
        matrix = np.zeros((32, 32))
        for i in range(11):
            for j in range(11):
                if 0 <= i + down < 11 and 0 <= j + across < 11:
                    a, b = window[i, j], window[i + down, j + across]
                    matrix[a, b] += 1
                    matrix[b, a] += 1
        p = matrix / matrix.sum()
        i, j = np.mgrid[:32, :32]
        mean = (p * i).sum()
        variance = (p * (i - mean) ** 2).sum()
        correlation = (p * (i - mean) * (j - mean)).sum() / variance if variance else 1.0
        entropy = -(p[p > 0] * np.log(p[p > 0])).sum()
        homogeneity = (p / (1 + (i - j) ** 2)).sum()
        contrast = (p * (i - j) ** 2).sum()
        first = (p**2).sum(), contrast, correlation, entropy, homogeneity
        found.append([*first, mean, variance, np.sqrt(variance)])
    return np.mean(found, axis=0)


@pytest.mark.parametrize("spread", [1, 30, 256])
def test_texture_by_the_matrix_of_a_window(spread, monkeypatch):
    monkeypatch.setattr(texture, "CHUNK", 2000)
    grey = np.random.default_rng(spread).integers(0, spread, (13, 16), dtype=np.uint8)
    found = co_occurrence_features(grey)
    assert found.shape == (13, 16, 8)
    assert found[6, 8] == pytest.approx(by_matrices(grey), abs=1e-12)


def test_patterns_count_what_is_brighter_around():
    grey = np.zeros((101, 101), dtype=np.uint8)
    grey[:, 51:] = 200  # the middle pixel is dark: all is as bright or brighter
    grey[50, 60] = 250  # brighter than all around it
    patterns = local_binary_patterns(grey)
    assert patterns.min() == 0
    assert patterns.max() == 255
    assert patterns[50, 60] == patterns.min()
    assert patterns[50, 10] == patterns[20, 10]
    assert (local_binary_patterns(np.full((9, 9), 7, np.uint8)) == 0).all()


def test_a_scene_follows_its_seed_and_holds_buildings():
    one, again, other = (aerial_scene(96, random_state=seed) for seed in (3, 3, 4))
    assert np.array_equal(one.image, again.image)
    assert not np.array_equal(one.is_building, other.is_building)
    assert one.image.dtype == np.uint8
    assert 0.02 < one.is_building.mean() < 0.6


def test_no_single_feature_tells_buildings_apart():
    scene = aerial_scene(128, random_state=0)
    table, truth = pixel_features(scene.image), scene.is_building.ravel()
    assert table.shape == (128 * 128, len(FEATURES))
    majority = max(truth.mean(), 1 - truth.mean())
    for column in table.T:
        cuts = np.quantile(column, np.linspace(0.05, 0.95, 19))
        best = max(max((sides := (column > cut) == truth).mean(), 1 - sides.mean()) for cut in cuts)
        assert best < majority + 0.05


@pytest.mark.parametrize(
    "image", [np.zeros((4, 4)), np.zeros((4, 4, 3)), np.zeros((0, 4, 3), dtype=np.uint8)]
)
def test_images_of_another_kind_are_refused(image):
    with pytest.raises(ValueError, match="expected \\(rows, columns, 3\\) of uint8"):
        pixel_features(image)


@pytest.mark.parametrize("size", [5, 20.0, True])
def test_sizes_of_another_kind_are_refused(size):
    with pytest.raises(ValueError, match="size="):
        aerial_scene(size)
