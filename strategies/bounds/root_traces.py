"""Numbers below ``tr M^½``: of a spectrum, and of sums of Kronecker products that are too large.

Let E have orthonormal columns, M be positive, ``S = Eᵀ M E`` and ``R = Eᵀ M² E``. With
``V = M^½ E S^-½``, an isometry, ``Vᵀ M^-½ V ≥ (Vᵀ M V)^-½``: ``x^-½`` is operator convex. So

    tr Eᵀ M^½ E = tr S^½ Vᵀ M^-½ V S^½ ≥ tr S^½ (S^-½ R S^-½)^-½ S^½.

``tr M^½`` is the sum of the left side over blocks of columns that are a basis together. The right
side is as large where M mixes no blocks.
"""

from collections.abc import Sequence
from functools import reduce
from math import isqrt, prod

import numpy as np

from strategies.operators import Array

LARGEST_JOINED = 1600
"""Columns of which the whole spectrum is asked."""
BLOCKS_WORK = 3e8  # columns of all blocks times those of one, squared
MOST_ENTRIES = 2**21  # of blocks at a time
FAINT = 1e-6  # share of a block's largest eigenvalue below which a direction is left out
EPS = float(np.finfo(float).eps)
TINY = 1e-300


def root_traces(forms: Array, terms: int = 0) -> Array:
    """Return lower bounds of ``tr M^½`` for one or several M, of sums of so many terms.

    Every eigenvalue is lowered by the error of the solver and of the sums.
    """
    values = np.linalg.eigvalsh(forms)
    error = 8.0 * (values.shape[-1] + terms) * EPS * values[..., -1:]
    return np.asarray(np.sqrt(np.maximum(values - error, 0.0)).sum(axis=-1))


def joined_root(grams: Sequence[Sequence[Array]], lows: Array) -> float:
    """Return a number below ``tr (Σ_g ⊗ G_gi ⊗ M_g)^½``, all of them symmetric and positive.

    A block has a single column of some axes, and all columns of the others.
    """
    sizes = [len(one) for one in grams[0]]
    columns = prod(sizes) * lows.shape[1]
    if columns <= LARGEST_JOINED:
        return float(root_traces(np.sum(wholes(grams, range(len(sizes)), lows), axis=0)).sum())
    single = single_axes(grams, max(1, isqrt(int(BLOCKS_WORK / columns)) // lows.shape[1]))
    whole = wholes(grams, [n for n in range(len(sizes)) if n not in single], lows)
    first = np.array([outer([group[n].diagonal() for n in single]) for group in grams])
    second = np.array(
        [outer([(a[n] * b[n]).sum(axis=1) for n in single]) for a in grams for b in grams]
    )
    squares = np.einsum("gij,hjk->ghik", whole, whole).reshape(-1, *whole.shape[1:])
    step = max(1, MOST_ENTRIES // whole[0].size)
    parts = [slice(k, k + step) for k in range(0, first.shape[1], step)]
    return sum(
        blocks_root(
            np.tensordot(first[:, part].T, whole, 1), np.tensordot(second[:, part].T, squares, 1)
        )
        for part in parts
    )


def single_axes(grams: Sequence[Sequence[Array]], most: int) -> list[int]:
    """Return the axes asked column by column: those of matrices next to diagonal first."""
    beside = [
        sum(1.0 - float((one.diagonal() ** 2).sum() / max((one**2).sum(), TINY)) for one in axis)
        for axis in zip(*grams, strict=True)
    ]
    single: list[int] = []
    for axis in np.argsort(beside, kind="stable").tolist():
        if prod(len(one) for n, one in enumerate(grams[0]) if n not in single) > most:
            single.append(axis)
    return single


def blocks_root(first: Array, second: Array) -> float:
    """Return the right side above of blocks S and R, (blocks, r, r), rounded down.

    Directions that a block hardly has are left out: those kept are orthonormal too.
    """
    values, vectors = np.linalg.eigh(first)
    kept = values > FAINT * np.maximum(values[:, -1:], TINY)
    roots = np.sqrt(np.where(kept, values, 0.0))
    inverse = vectors * np.divide(1.0, roots, out=np.zeros_like(roots), where=kept)[:, None, :]
    inner = np.swapaxes(inverse, 1, 2) @ second @ inverse
    means, turned = np.linalg.eigh((inner + np.swapaxes(inner, 1, 2)) / 2.0)
    error = 8.0 * means.shape[-1] * EPS / FAINT * means[:, -1:]
    lengths = np.einsum("ki,kij->kj", roots**2, turned**2)
    return float((lengths / np.sqrt(np.maximum(means, 0.0) + error + TINY)).sum())


def wholes(grams: Sequence[Sequence[Array]], axes: Sequence[int], lows: Array) -> Array:
    """Return ``⊗ G_gi ⊗ M_g`` over some axes, for every g."""
    pairs = zip(grams, lows, strict=True)
    return np.array([reduce(np.kron, [*(group[n] for n in axes), low]) for group, low in pairs])


def outer(parts: Sequence[Array]) -> Array:
    return np.asarray(reduce(np.multiply.outer, parts, np.ones(())).ravel())
