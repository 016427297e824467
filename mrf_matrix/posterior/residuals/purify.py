r"""Tables of several attributes that hold nothing which single attributes could.

The means of a pair's effects over either attribute, by the released shares of the other's codes,
are moved to the tables of these attributes, and its mean to the intercept. Log odds stay as they
are: what is told differently is which term holds them (Lengerich et al., Purifying Interaction
Effects with the Functional ANOVA, AISTATS 2020).
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.posterior.residuals.block import LEAST_UNKNOWN, EffectBlock
from mrf_matrix.posterior.residuals.posterior import ResidualPosterior

Floats = NDArray[np.float64]


def purify(posterior: ResidualPosterior) -> ResidualPosterior:
    """Return the same log odds, with no mean left over any attribute in tables of several.

    There are tables of all attributes of such a table. Variances move as if tables were apart.
    """
    blocks, shift = list(posterior.blocks), posterior.shift
    singles = {b.attributes[0]: at for at, b in enumerate(blocks) if len(b.attributes) == 1}
    for place, block in enumerate(posterior.blocks):
        if len(block.attributes) == 1:
            continue
        margins = [posterior.margins[i] for i in block.attributes]
        mean, parts, rest = _projections(margins)
        shift += float(mean @ block.mean)
        for i, part in zip(block.attributes, parts, strict=True):
            blocks[singles[i]] = _with_part(blocks[singles[i]], part, block)
        nothing = replace(block, mean=0 * block.mean, covariance=0 * block.covariance)
        blocks[place] = _with_part(nothing, rest, block)
    return replace(posterior, blocks=tuple(blocks), shift=shift)


def _projections(margins: Sequence[Floats]) -> tuple[Floats, list[Floats], Floats]:
    """Return a table's mean, the main effect of each attribute, and the rest, as matrices.

    They are ``q``, ``E_i - 1 q'`` with ``E_i`` the means given a code of attribute i, and what
    identity is left: of shapes (n,), (n_i, n) and (n, n).
    """
    mean = _product(margins)
    rest = np.eye(len(mean)) - mean
    parts, cells = [], np.indices([len(one) for one in margins]).reshape(len(margins), -1)
    for axis, codes in enumerate(cells):
        rows = [np.eye(len(q)) if j == axis else q[None, :] for j, q in enumerate(margins)]
        parts.append(_product(rows) - mean)
        rest -= parts[-1][codes]
    return mean, parts, rest


def _product(factors: Sequence[Floats]) -> Floats:
    return reduce(lambda one, other: np.asarray(np.kron(one, other), dtype=np.float64), factors)


def _with_part(block: EffectBlock, part: Floats, other: EffectBlock) -> EffectBlock:
    """Return a block with a linear part of another's effects, (n, other's n), added to its own."""
    covariance = block.covariance + part @ other.covariance @ part.T
    diagonal = np.diag_indices_from(covariance)
    covariance[diagonal] = np.maximum(covariance[diagonal], LEAST_UNKNOWN)
    return replace(block, mean=block.mean + part @ other.mean, covariance=covariance)
