"""Scikit-learn's iris, wine and breast cancer, with round public bin edges.

Iris has the cut-offs that the M-RF authors published. The edges of the other two are round numbers
within the ranges printed in scikit-learn's descriptions of the sets; outer bins are open, so any
measurement has a code.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module

import numpy as np

from mrf_matrix.datasets.dataset import Dataset, DatasetInfo, dataset_of_columns
from mrf_matrix.domain import Attribute, Domain

Edges = dict[str, Sequence[float]]

IRIS_EDGES: Edges = {
    "sepal_length": [5, 6, 7],  # cm
    "sepal_width": [3, 4],
    "petal_length": [2, 3, 4, 5, 6],
    "petal_width": [0.5, 1, 1.5, 2],
}
WINE_EDGES: Edges = {  # published range
    "alcohol": [12, 13, 14],  # 11.0-14.8
    "malic_acid": [1.5, 2.5, 4],  # 0.74-5.80
    "ash": [2, 2.5, 3],  # 1.36-3.23
    "alcalinity_of_ash": [15, 20, 25],  # 10.6-30.0
    "magnesium": [90, 110, 130],  # 70-162
    "total_phenols": [1.5, 2.25, 3],  # 0.98-3.88
    "flavanoids": [1, 2, 3],  # 0.34-5.08
    "nonflavanoid_phenols": [0.25, 0.4, 0.5],  # 0.13-0.66
    "proanthocyanins": [1, 1.5, 2],  # 0.41-3.58
    "color_intensity": [3, 5, 8],  # 1.3-13.0
    "hue": [0.75, 1, 1.25],  # 0.48-1.71
    "od280/od315_of_diluted_wines": [2, 2.5, 3],  # 1.27-4.00
    "proline": [500, 750, 1000],  # 278-1680
}
CANCER_EDGES: Edges = {  # of the mean over cells, its standard error, and the worst cells
    "mean radius": [10, 15, 20],  # 6.981-28.11
    "mean texture": [15, 20, 25],  # 9.71-39.28
    "mean perimeter": [75, 100, 125],  # 43.79-188.5
    "mean area": [400, 800, 1600],  # 143.5-2501
    "mean smoothness": [0.08, 0.1, 0.12],  # 0.053-0.163
    "mean compactness": [0.05, 0.1, 0.2],  # 0.019-0.345
    "mean concavity": [0.05, 0.1, 0.2],  # 0-0.427
    "mean concave points": [0.025, 0.05, 0.1],  # 0-0.201
    "mean symmetry": [0.15, 0.2, 0.25],  # 0.106-0.304
    "mean fractal dimension": [0.06, 0.07, 0.08],  # 0.05-0.097
    "radius error": [0.25, 0.5, 1],  # 0.112-2.873
    "texture error": [0.75, 1.5, 3],  # 0.36-4.885
    "perimeter error": [2, 4, 8],  # 0.757-21.98
    "area error": [20, 50, 100],  # 6.802-542.2
    "smoothness error": [0.005, 0.01, 0.02],  # 0.002-0.031
    "compactness error": [0.01, 0.03, 0.06],  # 0.002-0.135
    "concavity error": [0.02, 0.05, 0.1],  # 0-0.396
    "concave points error": [0.005, 0.01, 0.02],  # 0-0.053
    "symmetry error": [0.015, 0.025, 0.04],  # 0.008-0.079
    "fractal dimension error": [0.002, 0.004, 0.008],  # 0.001-0.03
    "worst radius": [12, 16, 22],  # 7.93-36.04
    "worst texture": [20, 25, 35],  # 12.02-49.54
    "worst perimeter": [80, 110, 150],  # 50.41-251.2
    "worst area": [500, 1000, 2000],  # 185.2-4254
    "worst smoothness": [0.11, 0.14, 0.17],  # 0.071-0.223
    "worst compactness": [0.15, 0.3, 0.6],  # 0.027-1.058
    "worst concavity": [0.15, 0.3, 0.6],  # 0-1.252
    "worst concave points": [0.07, 0.14, 0.2],  # 0-0.291
    "worst symmetry": [0.25, 0.3, 0.4],  # 0.156-0.664
    "worst fractal dimension": [0.07, 0.09, 0.12],  # 0.055-0.208
}


@dataclass(frozen=True)
class ScikitSet:
    """A data set that scikit-learn ships."""

    name: str  # name of the set, and of ``sklearn.datasets.load_<name>``
    domain: Domain  # attributes in scikit-learn's column order, and target
    n_records: int  # number of records
    source: str  # who published the set
    licence: str = "in scikit-learn (BSD-3); UCI: CC BY 4.0"

    @property
    def info(self) -> DatasetInfo:
        """The set in one row of a table, without loading it."""
        return DatasetInfo.of(self.name, self.domain, self.n_records, self.source, self.licence)

    def load(self) -> Dataset:
        """Read the set from the installed scikit-learn."""
        bunch = getattr(import_module("sklearn.datasets"), f"load_{self.name}")()
        columns = dict(zip(self.domain.names, bunch.data.T, strict=True))
        y = np.asarray(bunch.target_names, dtype=object)[bunch.target]
        return dataset_of_columns(self.name, self.domain, columns, y, self.source, self.licence)


def open_domain(edges: Edges, classes: Sequence[str]) -> Domain:
    """Return numeric attributes with open outer bins, and a target called ``class``."""
    attributes = [Attribute(name, edges=cuts, outside="open") for name, cuts in edges.items()]
    return Domain(attributes, Attribute("class", categories=classes))


SCIKIT_SETS = (
    ScikitSet(
        "iris",
        open_domain(IRIS_EDGES, ["setosa", "versicolor", "virginica"]),
        150,
        "Fisher 1936 (UCI, doi:10.24432/C56C76)",
    ),
    ScikitSet(
        "wine",
        open_domain(WINE_EDGES, ["class_0", "class_1", "class_2"]),
        178,
        "Aeberhard and Forina 1992 (UCI, doi:10.24432/C5PC7J)",
    ),
    ScikitSet(
        "breast_cancer",
        open_domain(CANCER_EDGES, ["malignant", "benign"]),
        569,
        "Wolberg et al. 1993 (UCI, doi:10.24432/C5DW2B)",
    ),
)
