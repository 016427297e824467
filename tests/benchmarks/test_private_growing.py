"""Private leaves on structures that cost nothing, some of ε, or all privacy: accuracy of each.

Print the table with ``python tests/benchmarks/test_private_growing.py`` (five splits, ten
minutes of one core). Ten parties with few classes each; half of ε for a private structure; research
noise.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

from mrf_matrix import Domain, Provenance, RandomTrees, from_release, path_matrix
from mrf_matrix.federated import federate
from mrf_matrix.federated.runner import run_federation
from mrf_matrix.federated.systems import deal_chunks, grow_collaboratively, grow_privately
from mrf_matrix.forests import BreimanTrees, Forest, PrivateMultinomialTrees
from mrf_matrix.forests.nodes import ARRAYS
from mrf_matrix.mechanisms import PureDP, count_cells

SETTINGS = {"pendigits": (8, 6, 101), "letter": (4, 5, 16)}
"""Bins a feature, depth, and values of a feature."""

CHUNKS = {"pendigits": 2, "letter": 1}
PARTIES, TREES = 10, 16
Parts = list[tuple[np.ndarray, np.ndarray]]


def load(name: str, folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return records and classes, as numbers."""
    frame = pd.read_csv(folder / f"{name}.csv")
    return frame.drop(columns="class").to_numpy(), frame["class"].to_numpy()


def public(domain: Domain, parts: Parts, depth: int, epsilon: float, seed: int) -> Forest:
    return RandomTrees(TREES, depth, splits="binary").grow(domain, random_state=seed)


def private(collaborative: bool) -> Callable[..., Forest]:
    def grow(domain: Domain, parts: Parts, depth: int, epsilon: float, seed: int) -> Forest:
        trees = PrivateMultinomialTrees(epsilon / 2, TREES, depth, score="majority")
        return grow_privately(
            domain,
            parts,
            trees,
            collaborative=collaborative,
            noise="research",
            noise_state=seed,
        )

    return grow


def published(domain: Domain, parts: Parts, depth: int, epsilon: float, seed: int) -> Forest:
    """Return a structure that leaks: called public here, for a study only."""
    trees = BreimanTrees(TREES, "entropy", 1, depth)
    forest = grow_collaboratively(domain, parts, trees, random_state=seed)
    arrays = {name: getattr(forest, name) for name in ARRAYS}
    known = Provenance.public("forest", "for a study only")
    return Forest(domain, **arrays, provenance=known, allow_empty=forest.allow_empty)


STRUCTURES = {
    "public random trees": public,
    "private, collaborative": private(True),
    "private, each party its own": private(False),
    "collaborative, not private": published,
}


def accuracy(name: str, structure: str, epsilon: float, seed: int, folder: Path) -> float:
    """Return accuracy on held-out records of a forest whose leaves the parties release."""
    bins, depth, values = SETTINGS[name]
    X, y = load(name, folder)
    y = np.unique(y, return_inverse=True)[1]
    codes, domain = X * bins // values, Domain.from_sizes([bins] * X.shape[1], int(y.max()) + 1)
    train, test = train_test_split(np.arange(len(y)), test_size=0.2, stratify=y, random_state=seed)
    owner = deal_chunks(y[train], PARTIES, CHUNKS[name], seed)
    parts = [(codes[own], y[own]) for own in (train[owner == i] for i in range(PARTIES))]
    forest = STRUCTURES[structure](domain, parts, depth, epsilon, seed)
    left = epsilon / 2 if forest.provenance.released else epsilon
    design = federate(
        path_matrix(forest), PureDP(left), parties=PARTIES, n_classes=domain.n_classes
    )
    counts = [count_cells(*part, domain.sizes, domain.n_classes) for part in parts]
    found = run_federation(design, counts, noise="research", random_state=seed, domain=domain)
    model = from_release(found.release, forest=forest, random_state=seed)
    return float(model.score(codes[test], y[test]))


def test_private_growing_pays_on_letter(benchmark, shared_dir):
    def scores() -> np.ndarray:
        names = list(STRUCTURES)[:2]
        folder = shared_dir / "data"
        return np.array(
            [[accuracy("letter", name, 1, seed, folder) for name in names] for seed in range(3)]
        )

    without, grown = benchmark.pedantic(scores, rounds=1, iterations=1).mean(axis=0)
    benchmark.extra_info |= {"public": without, "private": grown}
    assert grown > without


def main(folder: Path) -> None:
    """Print the table as it fills."""
    for name in SETTINGS:
        for epsilon in (1, 4):
            for structure in STRUCTURES:
                found = [accuracy(name, structure, epsilon, seed, folder) for seed in range(5)]
                row = f"{np.mean(found):.3f} +- {np.std(found, ddof=1):.3f}"
                print(f"{name:10} epsilon {epsilon}  {structure:28} {row}", flush=True)


if __name__ == "__main__":
    main(Path(__file__).resolve().parents[3] / "shared" / "data")
