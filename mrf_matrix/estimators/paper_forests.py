"""Forests of the papers that are not private: pure, simplified Breiman, collaborative."""

from collections.abc import Sequence
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from mrf_matrix.base.arrays import Array, Codes, Longs
from mrf_matrix.base.checks import one_word, structure_generator
from mrf_matrix.base.provenance import Provenance
from mrf_matrix.domain.columns import plain_array
from mrf_matrix.domain.domain import sorted_classes
from mrf_matrix.estimators.base import commit_on_success
from mrf_matrix.estimators.forest_classifier import (
    LearnedForestClassifier,
    PublicParameters,
    TreesClassifier,
    source_of,
)
from mrf_matrix.estimators.parameters import Records, parameters
from mrf_matrix.federated.systems import (
    adjusted_leaves,
    deal_chunks,
    grow_collaboratively,
    grow_separately,
)
from mrf_matrix.federated.systems.growing import Part
from mrf_matrix.forests import BreimanTrees, Forest, PureTrees, SimplifiedBreimanTrees
from mrf_matrix.mechanisms.statement import Claim


@parameters
class CountingForestClassifier(PublicParameters, TreesClassifier):
    """A forest over a domain that counts its records in a number of leaves; subclasses say how.

    Parameters
    ----------
    domain : Domain or "from_data"
        The schema, with the target's classes. Required.
    n_trees, n_leaves
        See the source of the trees.
    voting : {"hard", "weight"}
        "hard": every tree votes for its leaf's largest class (the paper's forest). "weight": trees
        add leaf counts.
    """

    n_trees: int = 100
    n_leaves: int = 64
    voting: str = "hard"
    _needs_domain = True

    def _voting_rule(self) -> str:
        return self.voting


@parameters
class SimplifiedBreimanForestClassifier(CountingForestClassifier):
    """Forest of simplified Breiman trees: midpoints of longest sides, pure cells kept.

    **Not private, and cannot be made so by noise on the leaves**: the structure shows which cells
    are pure, see `SimplifiedBreimanTrees`.

    References
    ----------
    Gao, Xu and Zhou, Towards Convergence Rate Analysis of Random Forests for Classification
    (2020), Algorithm 1.

    Examples
    --------
    >>> from mrf_matrix import load_dataset
    >>> car = load_dataset("car")
    >>> model = SimplifiedBreimanForestClassifier(car.domain, n_trees=20, n_leaves=200)
    >>> model.fit(car.X, car.y).forest_.is_data_dependent
    True
    """

    def _source(self, nominal: Sequence[str | int]) -> SimplifiedBreimanTrees:
        return source_of(self, SimplifiedBreimanTrees)


@parameters
class PureForestClassifier(CountingForestClassifier):
    """Forest of pure random trees: k leaves, split at random, majority votes.

    **Not private**: the structure is drawn from the public domain alone, but leaf counts are
    exact. For a private release of the same forest use
    ``MatrixForestClassifier(domain, forest=PureTrees(...))``, which at ``epsilon=float("inf")``
    makes the same predictions.

    Parameters
    ----------
    splits : {"uniform", "midpoint"}
        See `PureTrees`.

    References
    ----------
    Gao, Xu and Zhou, Towards Convergence Rate Analysis of Random Forests for Classification
    (2020), section 3.

    Examples
    --------
    >>> from mrf_matrix import load_dataset
    >>> car = load_dataset("car")
    >>> model = PureForestClassifier(car.domain, n_trees=20, n_leaves=200, random_state=0)
    >>> bool(model.fit(car.X, car.y).score(car.X, car.y) > 0.8)
    True
    """

    splits: str = "uniform"

    def _source(self, nominal: Sequence[str | int]) -> PureTrees:
        return source_of(self, PureTrees)


MODES = ("collaborative", "ncff", "central")


@parameters
class FederatedForestClassifier(LearnedForestClassifier):
    """Forests of several parties that keep their records: **not private**, whatever its name.

    The systems of the poster *Enhancing Privacy and Robustness in Federated Random Forests*:
    every tree grown by all parties in turn, then filled by all of them; or each party's own trees
    side by side (NCFF); or one forest of all records. The class probabilities of the leaves are
    averaged over the trees. No noise is added anywhere.

    Parameters
    ----------
    max_features : int or "sqrt"
        Attributes that a node looks at, see `BreimanTrees`.
    min_points : int
        Smallest number of records on either side of a cut: the threshold of the poster's future
        work.
    mode : {"collaborative", "ncff", "central"}
        Which of the systems.
    n_clients : int
        Parties k, where `fit` is not told whose each record is.
    chunks : int
        Chunks α that each class is then cut into: few, and a party sees few classes. When not
        given k, so that every party has some of every class.
    shuffle : {"classes", "chunks"}
        How chunks are dealt, see `deal_chunks`.
    trees_per_client : int
        For "ncff": trees of each party, in place of its part of `n_trees`.
    aggregate : {"all", "reached", "pooled"}
        For "collaborative": the mean over the parties in a leaf, see `adjusted_leaves`.
    n_passes : int
        For "collaborative": how often every party grows every tree.

    Attributes
    ----------
    forest_ : Forest
        The trees' structure: data-dependent, and no budget covers it.
    leaf_values_ : ndarray of shape (o, k)
        Class probabilities of the leaves; with ``aggregate="all"`` times the share of parties
        that reach the leaf.
    clients_ : ndarray of int, shape (N,)
        The party of each training record, 0 to k - 1.
    statement_ : str
        That this is no private release.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = FederatedForestClassifier(n_clients=3, n_trees=12, random_state=0).fit(X, y)
    >>> bool(forest.score(X, y) > 0.9)
    True
    >>> forest
    FederatedForestClassifier(n_clients=3, n_trees=12, random_state=0)  # not private
    """

    criterion: str = "entropy"
    max_features: int | Literal["sqrt"] = "sqrt"
    min_points: int | None = 1
    mode: str = "collaborative"
    n_clients: int = 10
    chunks: int | None = None
    shuffle: str = "classes"
    trees_per_client: int | None = None
    aggregate: str = "all"
    n_passes: int = 1

    statement_ = Claim(Provenance.from_records("forest")).statement

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        return f"{super().__repr__(N_CHAR_MAX)}  # not private"

    def _source(self, nominal: Sequence[str | int]) -> BreimanTrees:
        return source_of(self, BreimanTrees, nominal=nominal)

    def _voting_rule(self) -> str:
        return "weight"

    @commit_on_success
    def fit(self, X: Records, y: ArrayLike | None = None, clients: ArrayLike | None = None) -> Self:
        """Grow the forest as the parties would; not private.

        Parameters
        ----------
        X : frame or array of shape (N, d)
            Records, in the domain's terms.
        y : array of shape (N,)
            Their classes.
        clients : array of shape (N,), optional
            Whose each record is: any labels. By default the α-chunk split of `n_clients` parties.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a parameter, the domain, a record or the length of `clients` is invalid.
        """
        one_word("mode", self.mode, MODES)
        generator = structure_generator(self.random_state)
        codes, labels = self._encode_training(X, y)
        self.clients_, k = self._parties(labels, clients, generator)
        parts = [(codes, labels)]
        if self.mode != "central":
            order = np.argsort(self.clients_, kind="stable")
            ends = np.cumsum(np.bincount(self.clients_, minlength=k))[:-1]
            parts = [(codes[own], labels[own]) for own in np.split(order, ends)]
        forest, shares = self._grow(parts, generator)
        self._keep(forest)
        self.leaf_values_ = shares[:, sorted_classes(self.domain_)[1]]
        return self

    def _parties(
        self, labels: Codes, clients: ArrayLike | None, generator: np.random.Generator
    ) -> tuple[Longs, int]:
        """Return the party of each record, and how many there are."""
        if clients is None:
            chunks = self.n_clients if self.chunks is None else self.chunks
            dealt = deal_chunks(labels, self.n_clients, chunks, generator, shuffle=self.shuffle)
            return dealt, int(self.n_clients)
        given = plain_array("clients", clients)
        if given.shape != labels.shape:
            raise ValueError("clients has the wrong shape: expected one label for each record.")
        names, party = np.unique(given, return_inverse=True)
        return party.astype(np.int64), len(names)

    def _grow(self, parts: list[Part], generator: np.random.Generator) -> tuple[Forest, Array]:
        trees = self._source(self._nominal_attributes())
        centres = self._coding_.centres if self._coding_ else None
        if self.mode == "collaborative":
            forest = grow_collaboratively(
                self.domain_,
                parts,
                trees,
                n_passes=self.n_passes,
                centres=centres,
                random_state=generator,
                n_jobs=self.n_jobs,
            )
            return forest, adjusted_leaves(forest, parts, self.aggregate)
        return grow_separately(
            self.domain_,
            parts,
            trees,
            trees_per_party=self.trees_per_client if self.mode == "ncff" else None,
            centres=centres,
            random_state=generator,
            n_jobs=self.n_jobs,
        )
