"""Matrix forests of car evaluation, whose votes several files look at."""

from mrf_matrix import Domain, MatrixForestClassifier, RandomTrees, load_dataset
from mrf_matrix.forests import concatenate

CAR = load_dataset("car")
CAR_DOMAIN = Domain.from_sizes(CAR.domain.sizes, n_classes=4)
ASKED = CAR.codes[::4]


def fitted_to_car(**changes):
    settings = {
        "epsilon": 1.0, "n_trees": 12, "max_depth": 2, "strategy": "identity", "random_state": 0,
        "noise": "research", "noise_state": 0,
    }  # fmt: skip
    return MatrixForestClassifier(CAR_DOMAIN, **(settings | changes)).fit(CAR.codes, CAR.labels)


def stumps(domain):
    """Return a tree of one cut for each attribute."""
    return concatenate(
        [
            RandomTrees(1, 1, attributes=[i]).grow(domain, random_state=0)
            for i in range(domain.n_attributes)
        ]
    )
