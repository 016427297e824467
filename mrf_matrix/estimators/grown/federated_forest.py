"""The forests of several parties, as a classifier. Not private."""

from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.arrays import Array, Codes
from mrf_matrix.estimators.grown.grown_forest import GrownForestClassifier
from mrf_matrix.federated.systems import (
    adjusted_leaves,
    deal_chunks,
    grow_collaboratively,
    grow_separately,
)
from mrf_matrix.forests import BreimanTrees, Forest
from mrf_matrix.forests.parameters import check_choice
from mrf_matrix.planning.plans.structure import structure_generator
from mrf_matrix.reports.privacy_report import DENIAL
from mrf_matrix.voting.voting import forest_votes

MODES = ("collaborative", "ncff", "central")


class FederatedForestClassifier(GrownForestClassifier):
    """Forests of several parties that keep their records: **not private**, whatever its name.

    The systems of the poster *Enhancing Privacy and Robustness in Federated Random Forests*:
    every tree grown by all parties in turn, then filled by all of them; or each party's own trees
    side by side (NCFF); or one forest of all records. The class probabilities of the leaves are
    averaged over the trees. No noise is added anywhere.

    Parameters
    ----------
    domain : Domain, optional
        The public domain; by default every value gets a code of its own.
    mode : {"collaborative", "ncff", "central"}, default="collaborative"
    n_clients : int, default=10
        Parties k, where `fit` is not told whose each record is.
    chunks : int, optional
        Chunks α that each class is then cut into: few, and a party sees few classes. By default
        k, so that every party has some of every class.
    shuffle : {"classes", "chunks"}, default="classes"
        How chunks are dealt, see `deal_chunks`.
    n_trees : int, default=100
        Trees m in all.
    trees_per_client : int, optional
        For "ncff": trees of each party, in place of its part of `n_trees`.
    aggregate : {"all", "reached", "pooled"}, default="all"
        For "collaborative": the mean over the parties in a leaf, see `adjusted_leaves`.
    n_passes : int, default=1
        For "collaborative": how often every party grows every tree.
    criterion, max_features, max_depth, min_points
        See `BreimanTrees`. `min_points` is the threshold of the poster's future work.
    nominal, n_jobs, random_state
        See `MultinomialForestClassifier`.

    Attributes
    ----------
    domain_, classes_, forest_, n_features_in_
        As in every forest here. The forest is data-dependent, and no budget covers it.
    leaf_probabilities_ : ndarray of shape (o, c)
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

    statement_ = f"{DENIAL}: splits and leaves come from the parties' raw records, without noise."

    def __init__(
        self,
        domain: Any = None,
        *,
        mode: Literal["collaborative", "ncff", "central"] = "collaborative",
        n_clients: int = 10,
        chunks: int | None = None,
        shuffle: str = "classes",
        n_trees: int = 100,
        trees_per_client: int | None = None,
        aggregate: str = "all",
        n_passes: int = 1,
        criterion: str = "entropy",
        max_features: Any = "sqrt",
        max_depth: int | None = None,
        min_points: int = 1,
        nominal: Any = "text",
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.domain = domain
        self.mode = mode
        self.n_clients = n_clients
        self.chunks = chunks
        self.shuffle = shuffle
        self.n_trees = n_trees
        self.trees_per_client = trees_per_client
        self.aggregate = aggregate
        self.n_passes = n_passes
        self.criterion = criterion
        self.max_features = max_features
        self.max_depth = max_depth
        self.min_points = min_points
        self.nominal = nominal
        self.n_jobs = n_jobs
        self.random_state = random_state

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        return f"{super().__repr__(N_CHAR_MAX)}  # not private"

    def _trees(self, nominal: Sequence[str | int]) -> BreimanTrees:
        return BreimanTrees(
            self.n_trees,
            self.criterion,  # type: ignore[arg-type]
            self.min_points,
            self.max_depth,
            nominal,
            max_features=self.max_features,
        )

    def fit(self, X: Any, y: Any, clients: Any = None) -> Self:
        """Grow the forest as the parties would; not private.

        Parameters
        ----------
        X : frame or array of shape (N, d)
        y : array of shape (N,)
        clients : array of shape (N,), optional
            Whose each record is: any labels. By default the α-chunk split of `n_clients` parties.

        Returns
        -------
        self
        """
        check_choice("mode", self.mode, MODES)
        generator = structure_generator(self.random_state)
        codes, labels, coding = self._encode_training(X, y)
        if clients is None:
            chunks = self.n_clients if self.chunks is None else self.chunks
            self.clients_ = deal_chunks(
                labels, self.n_clients, chunks, generator, shuffle=self.shuffle
            )
            k = int(self.n_clients)
        else:
            names, self.clients_ = np.unique(
                checked_clients(clients, len(codes)), return_inverse=True
            )
            k = len(names)
        if self.mode == "central":
            parts = [(codes, labels)]
        else:
            order = np.argsort(self.clients_, kind="stable")
            ends = np.cumsum(np.bincount(self.clients_, minlength=k))[:-1]
            parts = [(codes[own], labels[own]) for own in np.split(order, ends)]
        forest, shares = self._grown(parts, self._nominal(coding), coding, generator)
        self.classes_, order = np.unique(np.asarray(self.domain_.classes), return_index=True)
        self.forest_, self.leaf_probabilities_ = forest, shares[:, order]
        return self

    def _grown(
        self,
        parts: list[tuple[Codes, Codes]],
        nominal: Sequence[str | int],
        coding: Any,
        generator: np.random.Generator,
    ) -> tuple[Forest, Array]:
        """Return the forest and its leaves' class probabilities, by mode."""
        trees = self._trees(nominal)
        how: dict[str, Any] = {
            "centres": coding.centres if coding else None,
            "random_state": generator,
            "n_jobs": self.n_jobs,
        }
        if self.mode == "collaborative":
            forest = grow_collaboratively(self.domain_, parts, trees, n_passes=self.n_passes, **how)
            return forest, adjusted_leaves(forest, parts, self.aggregate)
        number = self.trees_per_client if self.mode == "ncff" else None
        return grow_separately(self.domain_, parts, trees, trees_per_party=number, **how)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the leaves' class probabilities, averaged over the trees; rows sum to 1.

        Parameters
        ----------
        X : frame or array of shape (b, d)

        Returns
        -------
        ndarray of shape (b, c)
            In the order of `classes_`.
        """
        codes = self._encode_queries(X)
        total = forest_votes(self.forest_, codes, self.leaf_probabilities_)
        return np.asarray(total / total.sum(axis=1, keepdims=True))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of the highest average probability; ties go to the first class.

        Parameters
        ----------
        X : frame or array of shape (b, d)

        Returns
        -------
        ndarray of shape (b,)
        """
        winner = self.predict_proba(X).argmax(axis=1)
        chosen: NDArray[Any] = self.classes_[winner]
        return chosen


def checked_clients(clients: Any, n_records: int) -> NDArray[Any]:
    """Return whose each record is, or refuse by name."""
    given = np.asarray(clients)
    if given.shape != (n_records,):
        raise ValueError("clients has the wrong shape: expected one label for each record of X.")
    return given
