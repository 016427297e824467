"""Systems of common and own terms, against the whole matrix."""

import numpy as np
from numpy.testing import assert_allclose

from mrf_matrix.posterior.block_fit import Arrow


def whole(arrow):
    """The matrix written out: common terms first, then those of each class."""
    k, w, p = arrow.cross.shape
    found = np.zeros((p + k * w, p + k * w))
    found[:p, :p] = arrow.common
    for c in range(k):
        here = slice(p + c * w, p + (c + 1) * w)
        found[here, here], found[here, :p] = arrow.own[c], arrow.cross[c]
        found[:p, here] = arrow.cross[c].T
    return found


def test_solutions_and_inverses_are_those_of_the_whole_matrix():
    rng = np.random.default_rng(0)
    k, w, p = 4, 4, 3
    factors = rng.normal(size=(k, 9, p + w))
    squares = np.einsum("cij,cil->cjl", factors, factors)
    arrow = Arrow(
        np.eye(p) + squares[:, :p, :p].sum(axis=0), squares[:, p:, :p], squares[:, p:, p:]
    )
    dense = whole(arrow)
    sides = rng.normal(size=p), rng.normal(size=(k, w))
    expected = np.linalg.solve(dense, np.concatenate([sides[0], sides[1].ravel()]))
    common, own = arrow.solve(*sides)
    assert_allclose(np.concatenate([common, own.ravel()]), expected)
    inverse, found = np.linalg.inv(dense), arrow.inverse()
    for c in range(k):
        here = slice(p + c * w + 1, p + c * w + 3)
        assert_allclose(found.own(slice(1, 3))[c], inverse[here, here])
    rows = np.r_[0:p, p + 2 * w : p + 2 * w + p, p : 2 * p]
    assert_allclose(found.of_two(2, 0), inverse[np.ix_(rows, rows)])
    assert not np.allclose(found.alone[0], inverse[p : p + w, p : p + w]), "negative control"
