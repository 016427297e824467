"""The data sets and settings of Figures 2 to 4 and Table 1, and how a curve is measured."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from data_sets import beside
from loaders.adult import load_a9a, load_adult
from loaders.heart import load_heart
from sklearn.model_selection import train_test_split

from mrf_matrix import Attribute, Domain, load_dataset
from mrf_matrix.datasets import Dataset

EPSILONS = (0.1, 0.5, 1.0, 2.0)
RESEARCH = (
    "Research noise: seedable, of the same law as the release-grade one, and no private release."
    " Rows that say so are not private at all."
)
SETTINGS = {
    "Car": {"n_trees": 128, "max_depth": 4},
    "Balance": {"n_trees": 128, "max_depth": 2},
    "Iris": {"n_trees": 64, "max_depth": 2},
    "Mushroom": {"n_trees": 125, "max_depth": 3, "n_ensembles": 5, "max_features": 4},
    "Heart": {"n_trees": 128, "max_depth": 2, "n_ensembles": 2, "max_features": 4},
    "Adult": {"n_trees": 100, "max_depth": 8, "n_ensembles": 4, "max_features": 10},
    "Adult14": {"n_trees": 100, "max_depth": 3, "n_ensembles": 4, "max_features": 4},
}
"""h, τ, q and d̄ as printed below Figure 2; Adult by its 14 attributes is ours."""

NAMES = {"Car": "car", "Balance": "balance_scale", "Iris": "iris"}


@dataclass(frozen=True)
class Records:
    """A public domain without names, and records as its codes."""

    domain: Domain
    codes: np.ndarray
    labels: np.ndarray
    n_train: int | None = None
    """The first records are published to train on, the others to test on; None: any are."""

    def halves(self, seed: int) -> list[np.ndarray]:
        """Return training and test codes, then training and test labels, 80:20 or as published."""
        if self.n_train is not None:
            both = (np.split(one, [self.n_train]) for one in (self.codes, self.labels))
            return [half for halves in both for half in halves]
        return train_test_split(self.codes, self.labels, test_size=0.2, random_state=seed)


@cache
def records(name: str) -> Records:
    """Return a panel's records."""
    if name == "Mushroom":
        return mushroom()
    if name.startswith("Adult"):
        return adult(load_a9a if name == "Adult" else load_adult)
    if name == "Heart":
        data = load_heart(beside("data/heart_mrf.csv"))
        return Records(Domain.from_sizes(data.domain.sizes, 2), data.codes, data.labels)
    data = load_dataset(NAMES[name])
    domain = Domain.from_sizes(data.domain.sizes, data.domain.n_classes)
    return Records(domain, data.codes, data.labels)


def mushroom() -> Records:
    """Return Mushroom over the authors' own schema."""
    schema = json.loads(beside("data/schemas/mushroom.json").read_text())
    *attributes, target = [
        Attribute(one["name"].replace("-", "_").lower(), categories=one["categories"])
        for one in schema["attributes"]
    ]
    named = Domain(attributes, target)
    frame = pd.read_csv(beside("data/mushroom.csv"), dtype=str, keep_default_na=False)
    labels = named.encode_target(frame.pop("class"))
    return Records(Domain.from_sizes(named.sizes, named.n_classes), named.encode(frame), labels)


def adult(load: Callable[[Path], Dataset]) -> Records:
    """Return Adult's records, those to train on first."""
    train, test = (load(beside(f"data/adult_{one}.csv")) for one in ("train", "test"))
    codes = np.concatenate([train.codes, test.codes])
    labels = np.concatenate([train.labels, test.labels])
    return Records(Domain.from_sizes(train.domain.sizes, 2), codes, labels, train.n_records)


def accuracies(
    kind: type,
    data: Records,
    seed: int,
    epsilons: Sequence[float] = EPSILONS,
    draws: int = 2,
    **settings: object,
) -> list[float]:
    """Return mean accuracy at every ε, one split and forest; a strategy is searched once."""
    train, test, train_y, test_y = data.halves(seed)
    means = []
    for epsilon in epsilons:
        scores = []
        for draw in range(draws):
            model = kind(
                data.domain,
                epsilon=epsilon,
                noise="research",
                noise_state=100 * seed + draw,
                random_state=seed,
                **settings,
            )
            scores.append(np.mean(model.fit(train, train_y).predict(test) == test_y))
            if settings.get("time_limit") and hasattr(model, "batches_"):
                plan = model.batches_[0].plan
                settings = {**settings, "strategy": [one.strategy for one in plan.parts]}
        means.append(float(np.mean(scores)))
    return means
