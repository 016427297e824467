"""000 Figure 6: accuracy of the multinomial forest over B₁ and B₂."""

from itertools import product

import numpy as np
from item import Figure, Item, Run, Table, mean_of
from multinomial_000_001.folds import FOLDS, PARTLY, fold_scores, in_reach, raw_records
from multinomial_000_001.single_trees import NOT_PRIVATE, SIX

from mrf_matrix import MultinomialForestClassifier
from mrf_matrix.plotting.style import load_pyplot

FINE, MEDIUM, COARSE = range(0, 21, 2), range(0, 21, 5), (0, 10, 20)


def over_the_grid(part: str, run: Run) -> list[Figure]:
    """Return accuracies on the same folds at every pair."""
    X, y = in_reach(*raw_records(part), run)
    found = []
    whole = run.repeats >= FOLDS
    sides = FINE if whole else MEDIUM if run.full else COARSE
    for b1, b2 in product(sides, sides):
        forest = MultinomialForestClassifier(
            n_trees=100 if whole else 30, b1=b1, b2=b2, random_state=0
        )
        scores = fold_scores(forest, X, y, run)
        found.append(mean_of(f"{part}, B₁ = {b1}", f"B₂ = {b2}", scores))
    return found


def sides_of(table: Table, name: str) -> np.ndarray:
    """Return the accuracies of a set, shape (B₁, B₂)."""
    return np.array([table.row(row) for row in table.rows if row.split(",")[0] == name])


def effect(table: Table, name: str) -> tuple[float, float]:
    """Return the gain from B₁ = 0 to 10 at B₂ = 10, and from B₂ = 0 to 10 at B₁ = 10."""
    at_ten = table[f"{name}, B₁ = 10", "B₂ = 10"]
    return (
        at_ten - table[f"{name}, B₁ = 0", "B₂ = 10"],
        at_ten - table[f"{name}, B₁ = 10", "B₂ = 0"],
    )


def surfaces(table: Table):
    """Draw the accuracies as shades, one panel a set."""
    names = table.sets
    picture, panels = load_pyplot().subplots(
        2, -(-len(names) // 2), squeeze=False, layout="constrained", figsize=(8, 5)
    )
    last = int(table.columns[-1].split()[-1])
    for axes, name in zip(panels.flat, names, strict=False):
        shown = axes.imshow(
            sides_of(table, name), origin="lower", extent=(-1, last + 1, -1, last + 1)
        )
        picture.colorbar(shown, ax=axes, shrink=0.8)
        axes.set(title=name.split("_")[0], xlabel="B₂", ylabel="B₁")
    for axes in panels.flat[len(names) :]:
        axes.set_axis_off()
    return picture


ITEMS = (
    Item(
        name="000-figure6",
        title="The effect of B₁ and B₂ (000, Figure 6)",
        rows=(40,),
        measure=over_the_grid,
        privacy=NOT_PRIVATE,
        parts=SIX,
        quick=("car",),
        repeats=FOLDS,
        quick_repeats=1,
        claims={
            "Car rises with B₁ and with B₂": lambda t: min(effect(t, "car")) > 0.5,
            "Car is level from 10 on": lambda t: (
                abs(t["car, B₁ = 20", "B₂ = 20"] - t["car, B₁ = 10", "B₂ = 10"]) < 2
            ),
            "on Car B₁ matters more than B₂": lambda t: effect(t, "car")[0] > effect(t, "car")[1],
        },
        why="Accuracies in per cent; the paper draws surfaces without numbers. It finds the effect"
        " of B₁ 'not obvious' and that of B₂ large. Repeats are folds of ten times ten; 100 trees"
        f" vote over steps of 2, in shorter runs 30 over steps of 5. {PARTLY} Ads has 998"
        " records at hand.",
        form=".1f",
        picture=surfaces,
    ),
)
