"""000 Figure 1, 001 Figure 6: how likely each candidate cut is chosen, by its rank."""

from dataclasses import replace

import numpy as np
from item import Figure, Item, Run, Table, mean_of
from rivals.bernoulli import BernoulliTrees
from rivals.denil import DenilTrees

from mrf_matrix import load_dataset
from mrf_matrix.datasets import Dataset
from mrf_matrix.forests import (
    BreimanTrees,
    Forest,
    MultinomialTrees,
)
from mrf_matrix.forests.growth.grow import grow_forest
from mrf_matrix.forests.growth.growth import AllAttributes, AllRecords
from mrf_matrix.plotting.style import load_pyplot

FORESTS = {
    "Breiman": BreimanTrees,
    "Denil14": DenilTrees,
    "BRF": BernoulliTrees,
    "MRF": MultinomialTrees,
}
CUTS = "cuts in use"
NODE, FOREST = "one node", "forest"
BANDS = {**{f"{rank}": (rank, rank) for rank in range(1, 7)}, "7-12": (7, 12), "13-39": (13, 39)}


def ranked_cuts(data: Dataset) -> list[tuple[int, int]]:
    """Return all cuts (attribute, first code to the right) of the root, purest sides first."""
    found = []
    classes = np.eye(data.domain.n_classes)[data.labels]
    for attribute, size in enumerate(data.domain.sizes):
        for cut in range(1, size):
            right = data.codes[:, attribute] >= cut
            sides = np.stack([classes[~right].sum(axis=0), classes[right].sum(axis=0)])
            purity = (sides**2).sum(axis=1) / np.maximum(sides.sum(axis=1), 1)
            found.append((purity.sum(), (attribute, cut)))
    return [cut for _, cut in sorted(found, reverse=True)]


def root_cuts(forest: Forest) -> list[tuple[int, int]]:
    """Return the cut of every tree's root."""
    roots = forest.roots[forest.attribute[forest.roots] >= 0]
    sizes = np.array(forest.domain.sizes)[forest.attribute[roots]]
    starts = forest.pattern[roots]
    tables = [forest.branches[a : a + n] for a, n in zip(starts, sizes, strict=True)]
    return [
        (int(attribute), int(np.argmax(table == table[-1])))
        for attribute, table in zip(forest.attribute[roots], tables, strict=True)
    ]


def chosen_shares(part: str, run: Run) -> list[Figure]:
    """Return how often the root's cut is the r-th best, of many trees of one split each.

    Of one node with all records before it and every attribute looked at, or as the forests are.
    """
    data = load_dataset("wine")
    ranked = {cut: rank for rank, cut in enumerate(ranked_cuts(data))}
    n_trees = 20_000 if run.full else 2_000
    found = []
    for name, trees in FORESTS.items():
        growth = trees(n_trees=n_trees, max_depth=1).growth
        if part == NODE:
            growth = replace(growth, points=AllRecords(), attributes=AllAttributes())
        repeats = []
        for seed in run.seeds:
            grown = grow_forest(
                data.domain, data.codes, data.labels, growth, n_trees, random_state=seed
            )
            ranks = [ranked[cut] for cut in root_cuts(grown.forest)]
            repeats.append(np.bincount(ranks, minlength=len(ranked)) / len(ranks))
        column = f"{name}, {part}"
        found += [
            mean_of(band, column, [one[first - 1 : last].sum() for one in repeats])
            for band, (first, last) in BANDS.items()
        ]
        found.append(mean_of(CUTS, column, [spread(one) for one in repeats]))
    return found


def spread(shares: np.ndarray) -> float:
    """Return over how many cuts the choice spreads: e to the entropy."""
    used = shares[shares > 0]
    return float(np.exp(-(used * np.log(used)).sum()))


def by_rank(table: Table):
    """Draw the shares against the rank."""
    picture, panels = load_pyplot().subplots(
        1, 2, sharey=True, layout="constrained", figsize=(7, 3)
    )
    titles = {NODE: "one node, every attribute", FOREST: "the forests as they are"}
    for axes, (part, title) in zip(panels, titles.items(), strict=True):
        for name in FORESTS:
            shares = [table[band, f"{name}, {part}"] / width(band) for band in BANDS]
            axes.plot(list(BANDS), shares, "o-", ms=4, label=name)
        axes.set(title=title, xlabel="rank of the cut by its impurity decrease")
        axes.set_yscale("symlog", linthresh=1e-3)
    panels[0].set_ylabel("probability of a cut")
    panels[1].legend(loc="lower left")
    return picture


def greedy_at_a_node(table: Table) -> bool:
    """Say whether all but the multinomial forest choose the best cut nine times in ten."""
    return all(table["1", f"{name}, {NODE}"] > 0.9 for name in ("Breiman", "Denil14", "BRF"))


def falls_with_rank(table: Table) -> bool:
    """Say whether the multinomial forest's cuts are the rarer the worse they are, band by band."""
    bands = (["1"], ["2", "3", "4", "5", "6"], ["7-12"], ["13-39"])
    each = [sum(table[one, f"MRF, {NODE}"] / width(one) for one in band) for band in bands]
    each[1] /= 5
    return bool((np.diff(each) < 0).all() and each[-1] > 0)


def width(band: str) -> int:
    """Return how many cuts a band holds."""
    first, last = BANDS[band]
    return last - first + 1


ITEMS = (
    Item(
        name="000-figure1",
        title="Selection probabilities of four forests (000, Figure 1; 001, Figure 6)",
        rows=(43,),
        measure=chosen_shares,
        privacy="Not private: cuts are chosen on raw records.",
        parts=(NODE, FOREST),
        repeats=5,
        quick_repeats=1,
        claims={
            "at a node all others choose the best cut nine times in ten": greedy_at_a_node,
            "the multinomial forest chooses better cuts more often, worse ones at times": (
                falls_with_rank
            ),
            "as forests, Breiman's choice spreads over no fewer cuts": lambda t: (
                t[CUTS, f"Breiman, {FOREST}"] > t[CUTS, f"MRF, {FOREST}"] - 1
            ),
        },
        why="The paper draws a sketch of one node. Here: the root's cut of 20 000 trees of one"
        " split each on Wine at public bin edges, 39 cuts ranked by Gini on all records. The sketch"
        " holds at a node that looks at every attribute. In the forests as they are the other"
        " three look at a few random attributes, and their choice over all cuts spreads as widely"
        " as the multinomial forest's, which looks at all.",
        form=".3f",
        picture=by_rank,
    ),
)
