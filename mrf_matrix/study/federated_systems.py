"""The published systems of several parties beside each other, on several splits. Not private."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import train_test_split

from mrf_matrix.base.checks import MOST_REPEATS, whole_number
from mrf_matrix.estimators.paper_forests import FederatedForestClassifier

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
