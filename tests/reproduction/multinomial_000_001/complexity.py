"""000, section 4: growing t trees takes O(t D n log n) steps."""

from time import process_time

import numpy as np
from item import Figure, Item, Run, row_of_means
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

from mrf_matrix import Domain, MultinomialForestClassifier

D, BINS = 20, 256
SIZES = (1_000, 4_000, 16_000)
DEPTH, LOG = "splits above a record", "log₂ n"
OURS, THEIRS = "seconds", "seconds of scikit-learn's forest"


def growth(part: str, run: Run) -> list[Figure]:
    """Return the mean depth of a record, and seconds of processor beside scikit-learn's."""
    n = int(part.removeprefix("n = "))
    n_trees = 100 if run.full else 10
    depths, ours, theirs = [], [], []
    for seed in run.seeds:
        X, y = make_classification(n, D, n_informative=8, random_state=seed)
        codes = np.clip(np.round(16 * X) + BINS // 2, 0, BINS - 1).astype(np.int32)
        domain = Domain.from_sizes([BINS] * D, 2)
        model = MultinomialForestClassifier(domain, n_trees=n_trees, random_state=seed)
        other = RandomForestClassifier(n_trees, min_samples_leaf=5, max_features=None, n_jobs=1)
        start = process_time()
        model.fit(codes, y)
        ours.append(process_time() - start)
        forest = model.forest_
        reached = forest.leaves[forest.apply(codes[:1000])]
        depths.append(float(forest.depth[reached].mean()))
        start = process_time()
        other.set_params(random_state=seed).fit(codes, y)
        theirs.append(process_time() - start)
    columns = {DEPTH: depths, LOG: [np.log2(n)] * len(depths), OURS: ours, THEIRS: theirs}
    return row_of_means(part, columns)


ITEMS = (
    Item(
        name="000-complexity",
        title="Complexity O(t D n log n) (000)",
        rows=(44,),
        measure=growth,
        privacy="Not private: trees learn from raw records.",
        parts=tuple(f"n = {n}" for n in SIZES),
        quick=tuple(f"n = {n}" for n in SIZES[:2]),
        repeats=3,
        quick_repeats=1,
        claims={
            "a record lies below at most 2 log₂ n splits": lambda t: bool(
                (t.column(DEPTH) < 2 * t.column(LOG)).all()
            ),
        },
        why="A level of a tree looks at every record's D attributes once, in sorted order, so steps"
        " are t D n times the mean depth, which grows as log n. 20 attributes of 256 values, 100"
        " trees, one thread; scikit-learn's forest looks at all attributes too.",
        form=".2f",
    ),
)
