r"""Prior covariances of effects: the orthogonal components of the analysis of variance.

A table over the attributes of a block B has a component for every nonempty ``U`` within B: what
the codes of U say together and no fewer of them do. Its covariance is a Kronecker product,
``C_i K_i C_i'`` for i in U and all ones elsewhere, where ``K_i`` is the kernel of one attribute
and ``C_i = I - 1 q_i'`` takes out the mean over the attribute's shares ``q_i``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from mrf_matrix.base.arrays import Array


@dataclass(frozen=True)
class Smoothness:
    """How alike the effects of neighbouring codes are: ``rough I + (1-rough) reach^|u-v|``.

    Attributes
    ----------
    rough : float
        Share of the variance that every code has for itself.
    reach : float
        Correlation of the rest between neighbouring codes.
    """

    rough: float
    reach: float


def attribute_kernel(size: int, *, ordered: bool, smoothness: Smoothness) -> Array:
    """Return the kernel of one attribute, centred, with a mean diagonal of one.

    `size`: number of codes; `ordered`: whether neighbouring codes are alike.

    >>> attribute_kernel(2, ordered=False, smoothness=Smoothness(0.1, 0.9))
    array([[ 1., -1.],
           [-1.,  1.]])
    """
    if size == 1:
        return np.zeros((1, 1))
    kernel = np.eye(size)
    if ordered and size > 2:
        codes = np.arange(size)
        gaps = np.abs(codes[:, None] - codes)
        kernel = smoothness.rough * kernel + (1 - smoothness.rough) * smoothness.reach**gaps
    centred = kernel - kernel.mean(axis=0) - kernel.mean(axis=1)[:, None] + kernel.mean()
    return np.asarray(centred * (size / np.trace(centred)))


@dataclass(frozen=True, eq=False)
class Component:
    """One component of a block's table: how many attributes meet in it, and its covariance."""

    order: int
    kernel: Array


def block_components(kernels: Sequence[Array], margins: Sequence[Array]) -> tuple[Component, ...]:
    """Return the components of a block's table, those of few attributes first.

    `kernels`: of the block's attributes, from `attribute_kernel`; `margins`: shares of the records
    with each code, summing to one.

    Covariances are (n, n), n the product of the sizes.
    """
    centred = []
    for kernel, shares in zip(kernels, margins, strict=True):
        left = kernel - shares @ kernel
        centred.append(left - (left @ shares)[:, None])
    flat = [np.ones_like(kernel) for kernel in kernels]
    found = []
    for order in range(1, len(kernels) + 1):
        for chosen in combinations(range(len(kernels)), order):
            product: Array = np.ones((1, 1))
            for i in range(len(kernels)):
                part = centred[i] if i in chosen else flat[i]
                product = np.asarray(np.kron(product, part), dtype=np.float64)
            found.append(Component(order, product))
    return tuple(found)
