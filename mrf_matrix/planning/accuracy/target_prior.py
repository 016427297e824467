r"""Public priors of target functions: what classes might look like over a domain, without data.

A design's accuracy hangs on the unknown function from cells to classes. A prior says which
functions are plausible before any record is seen, from the domain alone. Here every attribute has
an effect on a hidden score,

.. math::

    s(x) = \sum_i w_i\, g_i(x_i) + \sqrt{\theta} \sum_{(i,j)} w_i w_j\, g_{ij}(x_i, x_j),

with relevances :math:`w_i` that are powers of exponential variables (few attributes matter much),
effects :math:`g_i` that are monotone or wander along the codes, and pair effects :math:`g_{ij}`.
The score is cut into classes of Dirichlet-distributed sizes; a share of the labels is replaced by
random ones. Records are spread evenly over the domain, as those of designed experiments are.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.arrays import Array
from mrf_matrix.domain import Domain

Codes = NDArray[np.integer[Any]]

REFERENCE_CELLS = 2048  # cells drawn to find where the score is cut


@dataclass(frozen=True)
class TargetPrior:
    """A law of target functions over a domain.

    Parameters
    ----------
    sparsity : float, default=0.5
        Relevances are exponential variables to this power: 0 makes all attributes matter alike, 2
        lets few of them matter.
    interaction : float, default=0.3
        Variance of all pair effects relative to that of the main effects.
    monotone : float, default=0.8
        Probability that an attribute's effect rises or falls along its codes.
    evenness : float, default=1.0
        Gamma shape of the steps of monotone effects: large for straight lines.
    concentration : float, default=2.0
        Dirichlet parameter of the class sizes: large for balanced classes.
    label_noise : float, default=0.05
        Share of labels that are drawn uniformly.

    Examples
    --------
    >>> from mrf_matrix.domain import Domain
    >>> target = TargetPrior().draw(Domain.from_sizes([3, 4]), 2, np.random.default_rng(0))
    >>> target(np.array([[0, 0], [2, 3]])).shape
    (2,)
    """

    sparsity: float = 0.5
    interaction: float = 0.3
    monotone: float = 0.8
    evenness: float = 1.0
    concentration: float = 2.0
    label_noise: float = 0.05

    def __post_init__(self) -> None:
        for name, value, most in (
            ("sparsity", self.sparsity, 8.0),
            ("interaction", self.interaction, float("inf")),
            ("monotone", self.monotone, 1.0),
            ("label_noise", self.label_noise, 1.0),
        ):
            if not 0 <= value <= most:
                raise ValueError(f"{name}={value!r}: expected a number from 0 to {most}.")
        for name, value in (("concentration", self.concentration), ("evenness", self.evenness)):
            if not value > 0:
                raise ValueError(f"{name}={value!r}: expected a positive number.")

    def draw(self, domain: Domain, n_classes: int, generator: np.random.Generator) -> "Target":
        """Draw one target function.

        Parameters
        ----------
        domain : Domain
        n_classes : int
        generator : Generator
        """
        d = domain.n_attributes
        relevance = generator.exponential(size=d) ** self.sparsity
        relevance /= np.sqrt((relevance**2).sum())
        mains = [
            weight * self._effect(size, generator)
            for weight, size in zip(relevance, domain.sizes, strict=True)
        ]
        pairs = self._pairs(domain, relevance, generator) if d > 1 else ()
        reference = np.stack(
            [generator.integers(0, size, REFERENCE_CELLS) for size in domain.sizes], axis=1
        )
        plain = Target(tuple(mains), pairs, np.zeros(0), np.zeros(1, dtype=np.int64))
        sizes = generator.dirichlet(np.full(n_classes, self.concentration))
        cuts = np.quantile(plain.score(reference), np.clip(np.cumsum(sizes)[:-1], 0, 1))
        return Target(tuple(mains), pairs, cuts, generator.permutation(n_classes))

    def _effect(self, size: int, generator: np.random.Generator) -> Array:
        """Return an attribute's effect along its codes: mean 0, mean square 1."""
        if generator.random() < self.monotone:
            steps = generator.gamma(self.evenness, size=size) * generator.choice([-1, 1])
        else:
            steps = generator.normal(size=size)
        return _standard(np.cumsum(steps))

    def _pairs(
        self, domain: Domain, relevance: Array, generator: np.random.Generator
    ) -> tuple[tuple[int, int, Array], ...]:
        """Draw pair effects: as many as attributes, between relevant ones rather than others."""
        d = domain.n_attributes
        chance = relevance / relevance.sum()
        chosen = {
            tuple(sorted(generator.choice(d, 2, replace=False, p=0.9 * chance + 0.1 / d)))
            for _ in range(d)
        }
        scale = np.sqrt(self.interaction / len(chosen))
        return tuple(
            (i, j, scale * _standard(generator.normal(size=(domain.sizes[i], domain.sizes[j]))))
            for i, j in sorted(chosen)
        )


@dataclass(frozen=True, eq=False)
class Target:
    """A function from cells to classes."""

    mains: tuple[Array, ...]  # (n_i,): effect of every code of every attribute
    pairs: tuple[tuple[int, int, Array], ...]  # (n_i, n_j): effects of pairs
    cuts: Array  # (k - 1,): where the score is cut
    classes: NDArray[np.int64]  # (k,): the class of every interval

    def score(self, codes: Codes) -> Array:
        """Return the hidden score of cells given by their codes, shape (N,)."""
        total = np.zeros(len(codes))
        for effect, column in zip(self.mains, codes.T, strict=True):
            total += effect[column]
        for i, j, effect in self.pairs:
            total += effect[codes[:, i], codes[:, j]]
        return total

    def records(
        self, count: int, generator: np.random.Generator
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Draw records evenly from the domain, shape (count, d), and their classes, (count,)."""
        sizes = [len(effect) for effect in self.mains]
        columns = [generator.integers(0, size, count) for size in sizes]
        codes = np.stack(columns, axis=1).astype(np.int32)
        return codes, self(codes)

    def __call__(self, codes: Codes) -> NDArray[np.int64]:
        """Return the class of cells given by their codes, shape (N,)."""
        return np.asarray(self.classes[np.searchsorted(self.cuts, self.score(codes))])


def _standard(values: Array) -> Array:
    centred = values - values.mean()
    size = np.sqrt((centred**2).mean())
    return np.asarray(centred / size if size > 0 else centred)
