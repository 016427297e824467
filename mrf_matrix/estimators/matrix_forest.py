"""DP batch training: Algorithm 1 as a scikit-learn classifier, and its two baselines."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from mrf_matrix.domain import Domain
from mrf_matrix.estimators.allocation import Training, allocate
from mrf_matrix.estimators.privacy_report import PrivacyReport, training_report
from mrf_matrix.estimators.schema import encode, encode_queries, resolve_domain
from mrf_matrix.estimators.voting import check_voting, forest_votes, leaf_votes, vote_shares
from mrf_matrix.forests import Forest, RandomTrees
from mrf_matrix.mechanisms import as_budget


class MatrixForestClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Random forest whose leaf values are released once by the matrix mechanism.

    The forest's structure is drawn from the public domain alone. Its decision-path matrix ``T``
    is the workload; a strategy ``A`` is selected without data, the private records are measured
    once, and the leaf values are ``C̃ = T A⁺ (A D + noise)`` (Algorithm 1 of Tajima, Wu and
    Houmansadr, AAAI 2025). Prediction is post-processing: it costs no budget, however often.

    Parameters
    ----------
    domain : Domain or "from_data"
        The public schema, with the target's classes. Required. "from_data" reads it off the
        records, which leaks them, and warns.
    epsilon : float, int or Fraction, default=1.0
        Pure-DP budget, spent by `fit`. ``float("inf")`` adds no noise.
    rho : float, int or Fraction, optional
        zCDP budget with Gaussian noise, instead of ``epsilon`` (set ``epsilon=None``).
    n_trees, max_depth, splits
        The random trees, see `RandomTrees`. Ignored when ``forest`` is given.
    forest : Forest or path source, optional
        A public forest, or a source with ``grow(domain, random_state)``.
    allocation : {"matrix", "per_tree", "disjoint"}, default="matrix"
        "matrix": this library's mechanism. "per_tree": Laplace (Gaussian) noise on every tree's
        leaves. "disjoint": each record trains one tree only, drawn by a public coin.
    strategy : str, Strategy, Operator or ndarray, default="auto"
        Family name for `strategies.select`, or a strategy matrix. Only for "matrix".
    voting : {"hard", "weight"}, default="hard"
        "hard": every tree votes for its leaf's largest class. "weight": trees add leaf values.
    neighboring : {"add_remove", "replace_one"}, default="add_remove"
        The neighbouring relation of the claim.
    noise : {"exact", "research"}, default="exact"
        "exact": discrete noise from OpenDP, never seedable. "research": the same law from NumPy,
        seedable by ``noise_state``; not a private release.
    noise_state : int or Generator, optional
        Seed of research noise.
    time_limit : float, default=8.0
        Seconds that ``strategy="auto"`` may work.
    random_state : int, RandomState or None, default=None
        Seed of the public structure: the trees, and the coins of "disjoint".

    Attributes
    ----------
    domain_ : Domain
        The domain in use.
    classes_ : ndarray of shape (k,)
        The public classes, sorted.
    forest_ : Forest
        The forest's structure.
    strategy_ : Strategy or None
        The strategy in use, with its lower bound; None for the baselines.
    release_ : Release
        The noisy measurement: all that was learned from the records.
    leaf_values_ : ndarray of shape (o, k)
        Noisy class counts of the leaves.
    privacy_report_ : PrivacyReport
        What is claimed, under which relation, with which noise.
    n_features_in_ : int
        Number of features seen by `fit`.

    Notes
    -----
    The expected squared error of the leaf values is ``c(ε) ‖A‖₁² ‖T A⁺‖²_F`` per class, with c
    the variance of the discrete noise at unit scale (about ``2/ε²``); see `expected_error`.
    Fitting twice spends the budget twice.

    Examples
    --------
    >>> from mrf_matrix import MatrixForestClassifier, load_dataset
    >>> car = load_dataset("car")
    >>> forest = MatrixForestClassifier(
    ...     car.domain, epsilon=1.0, n_trees=16, max_depth=3, strategy="identity", random_state=0
    ... )
    >>> forest.fit(car.X, car.y).predict(car.X).shape
    (1728,)
    >>> forest.privacy_report_.noise
    'exact'
    """

    def __init__(
        self,
        domain: Domain | str | None = None,
        *,
        epsilon: Any = 1.0,
        rho: Any = None,
        n_trees: int = 128,
        max_depth: int = 4,
        splits: Any = "multiway",
        forest: Any = None,
        allocation: str = "matrix",
        strategy: Any = "auto",
        voting: str = "hard",
        neighboring: str = "add_remove",
        noise: str = "exact",
        noise_state: Any = None,
        time_limit: float = 8.0,
        random_state: Any = None,
    ) -> None:
        self.domain = domain
        self.epsilon = epsilon
        self.rho = rho
        self.n_trees = n_trees
        self.max_depth = max_depth
        self.splits = splits
        self.forest = forest
        self.allocation = allocation
        self.strategy = strategy
        self.voting = voting
        self.neighboring = neighboring
        self.noise = noise
        self.noise_state = noise_state
        self.time_limit = time_limit
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> "MatrixForestClassifier":
        """Measure the records once and keep the noisy leaf values.

        Parameters
        ----------
        X : frame or array of shape (N, d)
            Private records, in the domain's terms.
        y : array of shape (N,)
            Their classes.

        Returns
        -------
        MatrixForestClassifier
            The fitted estimator.

        Raises
        ------
        ValueError
            If a parameter, the domain or a record is invalid; nothing is spent then.
        """
        check_voting(self.voting)
        budget = as_budget(epsilon=self.epsilon, rho=self.rho)
        domain, X, y = resolve_domain(self, self.domain, X, y)
        structure = structure_generator(self.random_state)
        forest = self._grow(domain, structure)
        training = allocate(
            forest,
            self.allocation,
            budget,
            strategy=self.strategy,
            neighboring=self.neighboring,
            random_state=structure,
            time_limit=self.time_limit,
        )
        codes, labels = encode(domain, X, y)
        self._release(training, domain, codes, labels, structure)
        return self

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that records may be text: the domain encodes them."""
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags

    def _grow(self, domain: Domain, structure: np.random.Generator) -> Forest:
        source = self.forest
        if source is None:
            source = RandomTrees(n_trees=self.n_trees, max_depth=self.max_depth, splits=self.splits)
        forest = source if isinstance(source, Forest) else source.grow(domain, structure)
        if forest.domain.sizes != domain.sizes:
            raise ValueError(
                f"forest has a domain of sizes {forest.domain.sizes}: expected the estimator's "
                f"domain, {domain.sizes}. Grow it over the same domain."
            )
        return forest

    def _release(
        self,
        training: Training,
        domain: Domain,
        codes: NDArray[np.int32],
        labels: NDArray[np.int32],
        structure: np.random.Generator,
    ) -> None:
        release, leaf_values = training.release(
            codes,
            labels,
            domain.n_classes,
            structure=structure,
            noise=self.noise,
            noise_state=self.noise_state,
        )
        self.domain_ = domain
        self.classes_, order = np.unique(np.asarray(domain.classes), return_index=True)
        self.forest_ = training.forest
        self.strategy_ = training.strategy
        self.release_ = release
        self.leaf_values_ = leaf_values[:, order]
        self.privacy_report_: PrivacyReport = training_report(training, release)

    def _votes(self, X: Any) -> NDArray[np.float64]:
        check_is_fitted(self)
        codes = encode_queries(self, self.domain_, X)
        votes_of_leaf = leaf_votes(self.leaf_values_, check_voting(self.voting))
        return forest_votes(self.forest_, codes, votes_of_leaf)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class with the most votes for each record; ties go to the first class.

        Parameters
        ----------
        X : frame or array of shape (b, d)
            Records in the domain's terms.

        Returns
        -------
        ndarray of shape (b,)
            Predicted classes.
        """
        votes = self._votes(X)
        labels: NDArray[Any] = self.classes_[votes.argmax(axis=1)]
        return labels

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return each class's share of the votes: shares, not calibrated probabilities.

        Parameters
        ----------
        X : frame or array of shape (b, d)
            Records in the domain's terms.

        Returns
        -------
        ndarray of shape (b, k)
            Shares, in the order of `classes_`.
        """
        return vote_shares(self._votes(X))


def structure_generator(random_state: Any) -> np.random.Generator:
    """Return the generator of the public structure from any scikit-learn random state."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if random_state is None or isinstance(random_state, int | np.integer):
        return np.random.default_rng(random_state)
    return np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))
