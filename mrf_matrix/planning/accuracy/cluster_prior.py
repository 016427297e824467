r"""Public priors of records that crowd: a few latent clusters, each of one class.

Records of real tables seldom spread evenly over the domain. Here a record belongs to a cluster z
with probability :math:`\pi_z`, and its attributes are drawn independently given z,

.. math::

    P(x) = \sum_z \pi_z \prod_i \{ r_i\, p_{iz}(x_i) + (1 - r_i)\, b_i(x_i) \},

so that attributes are correlated through z. An attribute of relevance :math:`r_i` near 0 has the
same, skewed, marginal :math:`b_i` everywhere. Ordered attributes have bumps :math:`p_{iz}` around
a centre, others Dirichlet-distributed tables. Every class has a cluster at least, so the class
follows from the cluster: the world in which naive Bayes is right.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.arrays import Array
from mrf_matrix.domain import Domain

Codes = NDArray[np.int32]
Labels = NDArray[np.int64]

NARROWEST = 0.12
"""Least standard deviation of a bump, where an attribute's codes lie in [0, 1]."""


@dataclass(frozen=True)
class ClusterPrior:
    """A law of clustered records and their classes.

    Parameters
    ----------
    extra_clusters : float, default=0.5
        Mean number of clusters beyond one for each class (Poisson).
    width : float, default=0.15
        Bumps of ordered attributes have a standard deviation from 0.12 to 0.12 plus this, the
        attribute's whole range being 1.
    ordered : float, default=0.8
        Probability that an attribute's clusters are bumps along its codes.
    concentration : float, default=0.25
        Dirichlet parameter of a cluster's table of an attribute that is not ordered: small for
        clusters of few codes.
    skew : float, default=1.0
        Dirichlet parameter of the marginals that clusters share: large for even ones.
    label_noise : float, default=0.05
        Share of labels that are drawn uniformly.

    Examples
    --------
    >>> law = ClusterPrior().draw(Domain.from_sizes([3, 4]), 2, np.random.default_rng(0))
    >>> codes, labels = law.records(5, np.random.default_rng(1))
    >>> codes.shape, labels.shape
    ((5, 2), (5,))
    """

    extra_clusters: float = 0.5
    width: float = 0.15
    ordered: float = 0.8
    concentration: float = 0.25
    skew: float = 1.0
    label_noise: float = 0.05

    def __post_init__(self) -> None:
        for name, value, most in (
            ("extra_clusters", self.extra_clusters, 1000.0),
            ("width", self.width, 100.0),
            ("ordered", self.ordered, 1.0),
            ("label_noise", self.label_noise, 1.0),
        ):
            if not 0 <= value <= most:
                raise ValueError(f"{name}={value!r}: expected a number from 0 to {most}.")
        for name, value in (("concentration", self.concentration), ("skew", self.skew)):
            if not value > 0:
                raise ValueError(f"{name}={value!r}: expected a positive number.")

    def draw(
        self, domain: Domain, n_classes: int, generator: np.random.Generator
    ) -> "ClusteredRecords":
        """Draw one law of records.

        Parameters
        ----------
        domain : Domain
        n_classes : int
        generator : Generator
        """
        count = n_classes + int(generator.poisson(self.extra_clusters))
        weights = generator.dirichlet(np.ones(count))
        tables = tuple(self._tables(size, count, generator) for size in domain.sizes)
        extra = generator.integers(0, n_classes, count - n_classes)
        classes = np.concatenate([generator.permutation(n_classes), extra])
        return ClusteredRecords(weights, tables, classes)

    def _tables(self, size: int, count: int, generator: np.random.Generator) -> Array:
        """Return one attribute's probabilities in every cluster, shape (count, size)."""
        relevance = generator.random()
        shared = generator.dirichlet(np.full(size, self.skew))
        if generator.random() < self.ordered:
            centre = generator.random((count, 1))
            spread = NARROWEST + self.width * generator.random((count, 1))
            middles = (np.arange(size) + 0.5) / size
            own = np.exp(-0.5 * ((middles - centre) / spread) ** 2)
        else:
            own = generator.gamma(self.concentration, size=(count, size)) + 1e-9
        own = own / own.sum(axis=1, keepdims=True)
        return np.asarray(relevance * own + (1 - relevance) * shared)


@dataclass(frozen=True, eq=False)
class ClusteredRecords:
    """A law of records: clusters, their attributes' tables and their classes."""

    weights: Array  # (c,): probabilities of the clusters
    tables: tuple[Array, ...]  # (c, n_i): probabilities of every attribute's codes in every cluster
    classes: Labels  # (c,)

    def records(self, count: int, generator: np.random.Generator) -> tuple[Codes, Labels]:
        """Draw records, shape (count, d), and their classes, shape (count,)."""
        cluster = generator.choice(len(self.weights), count, p=self.weights)
        columns = []
        for table in self.tables:
            ends = np.cumsum(table, axis=1)[cluster]
            codes = (generator.random((count, 1)) > ends).sum(axis=1)
            columns.append(np.minimum(codes, table.shape[1] - 1))
        return np.stack(columns, axis=1).astype(np.int32), self.classes[cluster]
