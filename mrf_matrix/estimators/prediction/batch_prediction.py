"""DP batch prediction: Algorithms 2 and 3 as a scikit-learn classifier."""

from mrf_matrix.estimators.prediction.private_prediction import PrivatePredictionClassifier
from mrf_matrix.estimators.shared.parameters import parameters
from mrf_matrix.planning.kinds.kind import Kind
from mrf_matrix.planning.kinds.words import kind_of


@parameters
class BatchPredictionClassifier(PrivatePredictionClassifier):
    """Random forest that releases noisy votes for a batch of queries, all optimised together.

    `fit` **keeps the private records** (as counts of cells) and spends nothing. `predict` builds
    the workload ``W = Q Tᵀ T`` of the queries' weight votes, selects a strategy A for it without
    data, measures the records once and returns the labels with the most votes in
    ``W A⁺ (A D + noise)`` (Algorithm 2 of Tajima, Wu and Houmansadr, AAAI 2025). Queries are
    public. An answer once released is given again at no cost, so that `predict` after
    `predict_proba` is free, and a query that occurs several times in a batch is measured once,
    with its weight.

    Notes
    -----
    The expected squared error of the votes of query r is ``c(ε) ‖A‖₁² ‖(W A⁺)_r‖²`` per class,
    known without data: see `plan`. With q ensembles each has its share of the budget and their
    claims add up (sequential composition), as do those of the batches. Splitting a batch in two
    costs more than a factor of two in noise: ask all queries at once.

    Examples
    --------
    >>> from mrf_matrix import load_dataset
    >>> from mrf_matrix.estimators.prediction.batch_prediction import BatchPredictionClassifier
    >>> car = load_dataset("car")
    >>> model = BatchPredictionClassifier(
    ...     car.domain, epsilon=2.0, n_trees=16, strategy="identity", random_state=0
    ... ).fit(car.X, car.y)
    >>> queries = car.X[:100]
    >>> model.plan(queries).budget
    PureDP(epsilon=2)
    >>> labels = model.predict(queries)
    >>> shares = model.predict_proba(queries)  # the same answers again: free
    >>> len(model.batches_)
    1
    """

    def _kind(self) -> Kind:
        return kind_of("batch")
