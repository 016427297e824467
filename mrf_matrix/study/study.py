"""The main study: which allocation of noise gives the best forest on a data set, at which ε.

`compare` grows public forests, lists their strategies with errors known before any data is read,
then trains every method on several splits with several noise draws. Its default noise is the
seedable research noise: a study on public data, labelled as such, not a release.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from os import PathLike
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import train_test_split

from mrf_matrix.base.checks import MOST_REPEATS, one_word, whole_number
from mrf_matrix.base.files import PLAIN, FileFormat
from mrf_matrix.datasets import Dataset, load_dataset
from mrf_matrix.domain import Domain
from mrf_matrix.estimators.paper_forests import FederatedForestClassifier
from mrf_matrix.forests import PathSource, RandomTrees
from mrf_matrix.mechanisms import as_budget
from mrf_matrix.mechanisms.budget import claimed_budget
from mrf_matrix.planning.plans.build import check_cells
from mrf_matrix.study.comparison import Comparison, strategy_rows
from mrf_matrix.study.methods import Method, checked_methods
from mrf_matrix.study.splits import FitFile, Found, Progress, Splits
from mrf_matrix.voting.voting import VOTINGS
from strategies import Family, Strategy

if TYPE_CHECKING:
    from distributed import Client

MOST_BITS = 500
"""Bits of the cells of a domain that is compared over: products of queries' rows are floats."""


def compare(
    dataset: Dataset | str | Any,
    *,
    domain: Domain | str | None = None,
    file_format: FileFormat = PLAIN,
    kind: str | Method | Sequence[str | Method] | None = None,
    trees: PathSource | None = None,
    n_trees: int = 128,
    max_depth: int = 4,
    splits: Literal["multiway", "binary"] = "multiway",
    epsilons: Sequence[float] = (0.1, 0.5, 1.0, 2.0),
    delta: float = 0.0,
    n_splits: int = 3,
    n_draws: int = 5,
    test_size: float = 0.2,
    voting: str = "hard",
    strategy: str | Family | Strategy | Any = "auto",
    neighboring: str = "add_remove",
    noise: str = "research",
    random_state: int = 0,
    time_limit: float = 8.0,
    client: "Client | None" = None,
    resume: str | PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Compare the noise allocations on a data set, beside naive Bayes and forests without privacy.

    The number of training records is public here and given to private kinds.

    Parameters
    ----------
    dataset : Dataset, str or frame
        Records, domain and name, from `load_dataset`, or what it takes: a name, a file, a frame
        with a column of classes.
    domain : Domain or path, optional
        The public domain of a file or a frame.
    file_format : FileFormat
        How a CSV or TSV file is written.
    kind : str, Method or sequence of them, optional
        The words of `plan`, baselines by key, and methods of your own. By default all but
        "additive", "labels", "pool", "two_stage" and the baselines "uniform_levels",
        "geometric_levels" and "optimal_levels".
    trees : path source, optional
        The trees of every method: anything whose ``grow(domain, random_state)`` returns a public
        forest. By default `RandomTrees` with the three parameters below.
    n_trees, max_depth, splits
        The random trees of every method, see `RandomTrees`; without ``trees``.
    epsilons : sequence of float, default=(0.1, 0.5, 1.0, 2.0)
        Pure-DP budgets; each fit spends one of them.
    delta : float, default=0
        Of an (ε, δ) claim of every private method: Gaussian noise under the largest zCDP budget
        that implies it; "auto", "tables", "additive", "labels" and "naive_bayes"
        take the better of that and Laplace noise.
    n_splits : int, default=3
        Random train/test splits; each has its own forest.
    n_draws : int, default=5
        Noise draws for each private method, split and ε.
    test_size : float, default=0.2
        Share of the records that are tested on.
    strategy : str, Family, Strategy, or matrix of shape (m, n), default="auto"
        For the leaves, over the cells of the domain. With a matrix or a `Strategy`, methods that
        measure test records' votes search their own.
    voting, neighboring, noise, time_limit
        See `MatrixForestClassifier`.
    random_state : int, default=0
        Seed of splits, forests and research noise.
    client : distributed.Client, optional
        A Dask cluster that runs the splits, one a task; the records travel there. Research noise
        only: that of a release is drawn in this process.
    resume : str or Path, optional
        JSON file of finished fits: read if it is there, written as fits end; not with a client.
        An interrupt (Ctrl-C) after the first forest ends in what was found until then, with
        `Comparison.unfinished` fits.
    progress : callable, optional
        Called as ``progress(what, done, total)`` before every step; with a client after each split.

    Returns
    -------
    Comparison
        Strategies with their expected errors, and every figure of `METRICS`: accuracy of all
        methods, and what is of probabilities for those that give some. Shares of votes are
        scored as they are.

    Raises
    ------
    ValueError
        If a setting is out of range; nothing is run then.

    Examples
    --------
    >>> from mrf_matrix import load_dataset
    >>> from mrf_matrix.study.study import compare
    >>> settings = {"n_trees": 4, "max_depth": 2, "n_splits": 1, "n_draws": 1}
    >>> study = compare(
    ...     load_dataset("monks_1"), epsilons=[1.0], strategy="identity", **settings
    ... )
    >>> [method.key for method in study.methods][:4]
    ['auto', 'matrix', 'batch', 'subsample']
    """
    data = (
        dataset
        if isinstance(dataset, Dataset)
        else load_dataset(dataset, domain, file_format=file_format)
    )
    check_cells(
        data.domain.n_attributes,
        prod(data.domain.sizes),
        "Compare over a domain of fewer attributes; a private forest is fitted over any.",
        MOST_BITS,
    )
    compared = checked_methods(kind)
    settings: dict[str, Any] = {
        "n_trees": n_trees,
        "max_depth": max_depth,
        "splits": splits,
        "epsilons": _checked_epsilons(epsilons, delta),
        "delta": float(delta),
        "n_splits": whole_number("n_splits", n_splits, most=MOST_REPEATS),
        "n_draws": whole_number("n_draws", n_draws, most=MOST_REPEATS),
        "test_size": _check_share("test_size", test_size),
        "voting": one_word("voting", voting, VOTINGS),
        "strategy": _strategy_name(strategy),
        "neighboring": neighboring,
        "noise": noise,
        "random_state": random_state,
        "time_limit": time_limit,
    }
    study = Splits(
        dataset=data,
        domain=Domain.from_sizes(data.domain.sizes, n_classes=data.domain.n_classes),
        trees=trees or RandomTrees(n_trees=n_trees, max_depth=max_depth, splits=splits),
        methods=compared,
        strategy=strategy,
        settings=settings,
        file=FitFile(
            resume if client is None else None,
            {
                **settings,
                "dataset": data.name,
                "trees": repr(trees),
                "domain": data.domain.to_dict(),
                "n_records": len(data.y),
                "methods": [method.key for method in compared],
            },
        ),
        progress=_report_nothing if progress is None or client is not None else progress,
    )
    seeds = np.random.SeedSequence(random_state).generate_state(n_splits)
    splits_to_run = list(enumerate(seeds.tolist()))
    parts: list[Found] = []
    if client is None:
        study.run_in_process(splits_to_run, parts)
    else:
        parts += study.run_on_cluster(client, splits_to_run, progress or _report_nothing)
    forest, selected, _ = parts[0]
    rows = strategy_rows(forest, selected, settings["epsilons"], neighboring, float(delta))
    scores = tuple(score for _, _, scored in parts for score in scored)
    unfinished = study.n_fits * settings["n_splits"] - len(scores)
    return Comparison(data.name, settings, rows, scores, compared, unfinished)


def _checked_epsilons(epsilons: Sequence[float], delta: float) -> list[float]:
    """Refuse an empty list and anything that is not a budget, before any work."""
    values = list(epsilons)
    if not values:
        raise ValueError("epsilons is empty: expected at least one budget, for example [1.0].")
    for value in values:
        as_budget(epsilon=value)
        claimed_budget(value, delta)
    return [float(value) for value in values]


def _strategy_name(strategy: object) -> str:
    if isinstance(strategy, Family):
        return strategy.name
    if isinstance(strategy, Strategy):
        return strategy.method
    return strategy if isinstance(strategy, str) else "given"


def _check_share(name: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
        raise ValueError(f"{name}={value!r}: expected a share between 0 and 1.")
    return value


def _report_nothing(what: str, done: int, total: int) -> None:
    """Report nothing."""


SYSTEMS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "centralised": {"mode": "central"},
        "NCFF, m trees in all": {"mode": "ncff"},
        "NCFF, m trees a party": {"mode": "ncff", "trees_per_client": "m"},
        "collaborative, mean over all": {"aggregate": "all"},
        "collaborative, mean over those that reach": {"aggregate": "reached"},
        "collaborative, pooled": {"aggregate": "pooled"},
    }
)
"""The poster's systems and the readings of what it leaves open, as parameters of the classifier."""


@dataclass(frozen=True)
class SystemScores:
    """Accuracies of one system on held-out records, one a split."""

    system: str
    accuracies: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Mean accuracy."""
        return float(np.mean(self.accuracies))

    @property
    def deviation(self) -> float:
        """Standard deviation between splits (of trees, parties and test records together)."""
        return float(np.std(self.accuracies, ddof=1)) if len(self.accuracies) > 1 else 0.0


def compare_systems(
    X: Any,
    y: Any,
    model: FederatedForestClassifier | None = None,
    *,
    clients: Any = None,
    systems: Sequence[str] = tuple(SYSTEMS),
    n_splits: int = 5,
    random_state: int = 0,
    progress: Callable[[str, int, int], None] | None = None,
) -> list[SystemScores]:
    """Fit the systems on the same stratified 80:20 splits, and score them on the rest.

    Parameters
    ----------
    X : ndarray of shape (N, d)
    y : ndarray of shape (N,)
    model : FederatedForestClassifier, optional
        All other parameters: parties, chunks, trees.
    clients : ndarray of shape (N,), optional
        Whose each record is; by default every split deals chunks anew.
    systems : sequence of str
        Keys of `SYSTEMS`.
    n_splits : int, default=5
    random_state : int, default=0
        Split r is seeded by ``random_state + r``.
    progress : callable, optional
        Called as ``progress(what, done, total)`` before every fit.

    Returns
    -------
    list of SystemScores

    Raises
    ------
    ValueError
        If a system is unknown.
    """
    given = model or FederatedForestClassifier()
    unknown = [name for name in systems if name not in SYSTEMS]
    if unknown:
        raise ValueError(f"systems holds {unknown[0]!r}: expected some of {', '.join(SYSTEMS)}.")
    rows: NDArray[np.int64] = np.arange(len(y))
    total = whole_number("n_splits", n_splits, most=MOST_REPEATS) * len(systems)
    found: dict[str, list[float]] = {name: [] for name in systems}
    for split in range(n_splits):
        seed = random_state + split
        train, test = train_test_split(rows, test_size=0.2, stratify=y, random_state=seed)
        for number, name in enumerate(systems):
            if progress is not None:
                progress(name, split * len(systems) + number, total)
            settings = {
                key: given.n_trees if value == "m" else value
                for key, value in SYSTEMS[name].items()
            }
            one = clone(given).set_params(**settings, random_state=seed)
            one.fit(X[train], y[train], clients=None if clients is None else clients[train])
            found[name].append(float(one.score(X[test], y[test])))
    return [SystemScores(name, tuple(scores)) for name, scores in found.items()]
