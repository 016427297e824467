"""The tie rule of the vote: class 1 where half of the trees say so."""

import numpy as np
from item import Figure, Item, Run, row_of_means
from rates_002.problem import NOT_PRIVATE, PURE, excess, grow, sample, tree_votes

TIES = "share of ties"
RULES = {"class 1 (the paper)": 1, "class 0 (the library, first class)": -1, "a fair coin": 0}


def rules(part: str, run: Run) -> list[Figure]:
    """Return the share of tied votes and the excess error of each rule, n = 2000."""
    n_trees = int(part.removeprefix("m = "))
    found = {name: [] for name in (TIES, *RULES)}
    for seed in run.seeds:
        codes, labels = sample(2000, (2000, seed))
        votes = tree_votes(*grow(PURE, codes, labels, n_trees, seed))
        lead = np.where(votes == 0, -1, votes).sum(axis=1)  # an empty leaf says class 0
        found[TIES].append(float((lead == 0).mean()))
        for name, side in RULES.items():
            found[name].append(float(excess(np.where(lead == 0, side, lead)[:, None])[0]))
    return row_of_means(part, found)


PAPER, OURS, COIN = RULES
ITEMS = (
    Item(
        name="002-ties",
        title="The tie rule I[Σ f ≥ m/2]: excess error, pure forests, n = 2000",
        rows=(53,),
        measure=rules,
        privacy=NOT_PRIVATE,
        parts=("m = 1", "m = 2", "m = 10", "m = 25", "m = 100"),
        quick=("m = 2", "m = 25"),
        repeats=20,
        quick_repeats=3,
        claims={
            "odd numbers of trees never tie": lambda t: all(
                t[row, TIES] == 0 for row in t.rows if row in ("m = 1", "m = 25")
            ),
            "even ones do": lambda t: t["m = 2", TIES] > 0,
            "a coin is the mean of the two rules": lambda t: bool(
                np.allclose(t.column(COIN), (t.column(PAPER) + t.column(OURS)) / 2)
            ),
        },
        why="The paper gives a tie to class 1, the library to the first class: the same rule with"
        " the classes renamed. It matters for even m only, and an odd m has none.",
        form=".4f",
    ),
)
