"""The kinds of private models: one table of words, for Python and for the command line.

`kind=` is checked against it. Choices, help and refusals of ``mrf-matrix --kind`` are made from it.
"""

from collections.abc import Collection
from dataclasses import dataclass

PARTIES = ("queries", "parties", "dropouts", "colluders", "remove_excess")
STRATEGIES = (
    "strategy", "time_limit", "objective", "weights", "groups", "optimise_for", "target_rms",
    "budget_shares", *PARTIES,
)  # fmt: skip
TREES = ("n_trees", "max_depth", "splits", "n_ensembles", "max_features", *STRATEGIES)


@dataclass(frozen=True)
class KindWord:
    """Facts about a kind of private model, whose word is its key in `KINDS`."""

    estimator: str  # the class of `mrf_matrix.estimators` that releases it
    about: str  # what it is, in a line
    # options of the command line that not every kind takes
    options: tuple[str, ...] = ("random_state",)
    holds_records: bool = False  # whether it needs every record by itself: files are read whole
    # whether it answers queries from the records as they come, so that no file holds it; else all
    # that is released is planned before any record is read
    answers_queries: bool = False
    # whether the claim and public numbers alone say what is released, in steps
    is_stepwise: bool = False
    is_typed: bool = True  # whether the command line has the word


KINDS = {
    "auto": KindWord(
        "PrivateForestClassifier",
        "the kind that a table of rules names by public numbers; records are kept in memory where "
        "it needs them",
        is_stepwise=True,
    ),
    "tables": KindWord(
        "PosteriorForestClassifier",
        "tables of few blocks of attributes, chosen without data, labelled by their posterior "
        "under the known noise",
        ("random_state", "n_blocks", *PARTIES),
    ),
    "additive": KindWord(
        "ResidualForestClassifier",
        "tables measured one after another, each on what is unexplained; records are kept in "
        "memory",
        holds_records=True,
        is_stepwise=True,
    ),
    "labels": KindWord(
        "LabelTreeClassifier", "one small tree with its labels, for little data", is_stepwise=True
    ),
    "pool": KindWord(
        "PooledForestClassifier",
        "such a tree --beside tables, or an additive model",
        ("random_state", "beside"),
        is_stepwise=True,
    ),
    "matrix": KindWord(
        "MatrixForestClassifier",
        "random trees over a strategy for all of them",
        ("random_state", "voting", "shrinkage", "allocation", *TREES),
    ),
    "naive_bayes": KindWord(
        "PrivateNaiveBayesClassifier",
        "counts of single attributes, the baseline",
        ("alpha", *PARTIES),
    ),
    "batch": KindWord(
        "BatchPredictionClassifier",
        "votes of a batch of queries over a strategy for them",
        ("random_state", *TREES),
        answers_queries=True,
    ),
    "subsample": KindWord(
        "SubsampleAggregateClassifier",
        "the same of few trees, each record in one of them",
        ("random_state", "voting", "allocation", *TREES),
        answers_queries=True,
    ),
    "two_stage": KindWord(
        "MultinomialMatrixForestClassifier",
        "trees grown from the records, and a strategy for their leaves",
        is_typed=False,
    ),
}
"""Every word with its kind."""

ONLY_IN_PYTHON = {
    "forest": "matrix",
    "feature_subsets": "matrix",
    "law": "matrix",
    "blocks": "tables",
}
"""Arguments of kinds that are no options of the command line."""

TYPED = tuple(word for word, kind in KINDS.items() if kind.is_typed)
"""The words of the command line."""


def kind_of_arguments(given: Collection[str]) -> str:
    """Return the kind that names of arguments are of, "auto" where they are of all.

    >>> [kind_of_arguments(names) for names in ({"n_trees", "random_state"}, {"n_blocks"}, ())]
    ['matrix', 'tables', 'auto']
    """
    told = {name for name in given if name != "random_state"}
    for word in ("matrix", *TYPED):
        own = {name for name, kind in ONLY_IN_PYTHON.items() if kind == word}
        if told & (own | set(KINDS[word].options)):
            return word
    return "auto"
