"""Figure 1 and Examples 1 to 3: the tennis records as matrices."""

import numpy as np
from item import Figure, Item, Run

from mrf_matrix import Attribute, Domain, path_matrix_from_codes, prediction_workload, query_matrix

DOMAIN = Domain(
    [
        Attribute("outlook", categories=["sunny", "overcast", "rainy"]),
        Attribute("windy", categories=["false", "true"]),
    ],
    target=Attribute("play", categories=["no", "yes"]),
)
PATHS = np.array([[0, -1], [1, -1], [2, -1], [-1, 0], [-1, 1]])
"""A tree of outlook and a tree of windy; -1 is free."""

CELLS = ("sunny, false", "sunny, true", "overcast, false", "overcast, true")
CELLS += ("rainy, false", "rainy, true")
PRINTED = (1, 2, 0, 1, 0, 1)


def matrices(part: str, run: Run) -> list[Figure]:
    """Return the row of QTᵀT that belongs to (sunny, true), and the path of "outlook is sunny"."""
    paths = path_matrix_from_codes(PATHS, DOMAIN.sizes)
    queries = query_matrix(np.array([[0, 1], [1, 0], [2, 1]]), DOMAIN)
    workload = prediction_workload(paths, queries).to_dense()
    return [
        *(
            Figure("T, outlook is sunny", *at)
            for at in zip(CELLS, paths.to_dense()[0], strict=True)
        ),
        *(Figure("QTᵀT, (sunny, true)", *at) for at in zip(CELLS, workload[0], strict=True)),
    ]


ITEMS = (
    Item(
        name="003-figure-1",
        title="Figure 1: training and voting as matrix products",
        rows=(1, 7),
        measure=matrices,
        privacy="No release: matrices of a public domain.",
        repeats=1,
        claims={
            "the matrices are the paper's": lambda t: (
                t.row("QTᵀT, (sunny, true)").tolist() == list(PRINTED)
            )
        },
        paper={
            **{
                ("T, outlook is sunny", cell): v
                for cell, v in zip(CELLS, (1, 1, 0, 0, 0, 0), strict=True)
            },
            **{("QTᵀT, (sunny, true)", cell): v for cell, v in zip(CELLS, PRINTED, strict=True)},
        },
        form=".0f",
    ),
)
