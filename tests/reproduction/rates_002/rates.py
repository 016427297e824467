"""Measured rates: slopes of the excess error in n, beside the exponents of the theorems."""

import numpy as np
from item import Figure, Item, Run, Table, mean_of
from rates_002.problem import (
    BOUNDS,
    MIDPOINT,
    MULTINOMIAL,
    NOT_PRIVATE,
    PURE,
    SIMPLE,
    D,
    excess,
    grow,
    least_bound,
    sample,
    tree_votes,
)

from mrf_matrix.plotting.style import COLOURS, load_pyplot, tidy_axes

N_TREES, SLOPE = 25, "slope"
NAMES = (*BOUNDS, MULTINOMIAL)
PUBLISHED = {PURE: -1 / (8 * D + 2), MIDPOINT: -1 / (3.87 * D + 2), SIMPLE: -1 / (D + 2)}
SHARP = {PURE: -1 / (4 * D + 2), MIDPOINT: -1 / (2 * D + 2), SIMPLE: -1 / (D + 2)}


def sizes(run: Run) -> list[int]:
    """Return the numbers of records."""
    return [2**j for j in (range(7, 16) if run.full else range(7, 14, 2))]


def measured(part: str, run: Run) -> list[Figure]:
    """Return a forest's and its average tree's excess error at each n, their slopes, its bounds."""
    found = np.array([[errors(part, n, seed) for n in sizes(run)] for seed in run.seeds])
    rows = {part: found[:, :, 0], f"{part}, its average tree": found[:, :, 1]}
    figures = []
    for row, values in rows.items():
        figures += [mean_of(row, str(n), v) for n, v in zip(sizes(run), values.T, strict=True)]
        figures.append(slope(row, sizes(run), values))
    for form in ("sharp", "published") if part in BOUNDS else ():
        row = f"{part}, {form} bound"
        bounds = [least_bound(part, n, form)[0] for n in sizes(run)]
        figures += [Figure(row, str(n), b) for n, b in zip(sizes(run), bounds, strict=True)]
        exponent = {"sharp": SHARP, "published": PUBLISHED}[form][part]
        figures.append(Figure(row, SLOPE, exponent))
    return figures


def errors(name: str, n: int, seed: int) -> tuple[float, float]:
    """Return the excess errors of a forest and of its average tree."""
    codes, labels = sample(n, (n, seed))
    votes = tree_votes(*grow(name, codes, labels, N_TREES, seed))
    return float(excess(votes.sum(axis=1)[:, None])[0]), float(excess(votes).mean())


def slope(row: str, at: list[int], values: np.ndarray) -> Figure:
    """Return the slope of ln(mean error) in ln n, with its error.

    The error is a jackknife's over repeats: logarithms of single runs would be biased.
    """

    def fitted(mean: np.ndarray) -> float:
        seen = mean > 0
        return float(np.polyfit(np.log(at)[seen], np.log(mean[seen]), 1)[0])

    count = len(values)
    if count == 1:
        return Figure(row, SLOPE, fitted(values[0]))
    left_out = [fitted(np.delete(values, i, axis=0).mean(axis=0)) for i in range(count)]
    error = np.sqrt((count - 1) * np.var(left_out))
    return Figure(row, SLOPE, fitted(values.mean(axis=0)), float(error), count)


def slopes(table: Table, what: str = "") -> bool:
    """Say whether errors fall at least as fast as the theorems' exponents, within two errors."""
    if len(numbers(table)) < 8:
        raise KeyError("slopes over few n say little")
    found = {name: table.figure(name + what, SLOPE) for name in BOUNDS}
    return all(one.value + 2 * (one.error or 0) < PUBLISHED[n] for n, one in found.items())


def numbers(table: Table) -> list[str]:
    """Return the columns of records."""
    return [column for column in table.columns if column != SLOPE]


def picture(table: Table):
    """Draw errors with their error bars and the bounds, both axes logarithmic."""
    plt = load_pyplot()
    figure, panels = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained", sharey=True)
    columns = numbers(table)
    at = [int(column) for column in columns]
    for ax, what in zip(panels, ("", ", its average tree"), strict=True):
        for name, colour in zip(NAMES, COLOURS, strict=False):
            shown = [table.figure(name + what, column) for column in columns]
            rate = table.figure(name + what, SLOPE)
            ax.errorbar(
                at,
                [one.value for one in shown],
                [one.error or 0 for one in shown],
                color=colour,
                marker="o",
                markersize=4,
                label=f"{name}: slope {rate.value:.2f} ± {rate.error or 0:.2f}",
            )
            if name in BOUNDS:
                bound = [table[f"{name}, sharp bound", column] for column in columns]
                ax.plot(at, bound, "--", color=colour)
        ax.set(xscale="log", yscale="log", xlabel="records n", ylim=(1e-4, 6))
        tidy_axes(ax)
        ax.legend(fontsize=8, frameon=False, loc="lower left")
    panels[0].set(title=f"forests of {N_TREES} trees", ylabel="excess error")
    panels[1].set(title="their average tree; dashed: the forest's sharp bound")
    return figure


ITEMS = (
    Item(
        name="002-rates",
        title="Measured convergence rates, d = 2",
        rows=(31, 45, 46, 47, 49),
        measure=measured,
        privacy=NOT_PRIVATE,
        parts=NAMES,
        repeats=10,
        quick_repeats=3,
        claims={
            "every forest's error falls by a factor of four and more": lambda t: all(
                t[name, numbers(t)[-1]] < t[name, numbers(t)[0]] / 4 for name in NAMES
            ),
            "it is below its sharp bound at every n": lambda t: all(
                t[name, n] < t[f"{name}, sharp bound", n] for name in BOUNDS for n in numbers(t)
            ),
            "it falls faster than its theorem says, by two errors": slopes,
            "so does its average tree's": lambda t: slopes(t, ", its average tree"),
            "a forest's error is at most twice its average tree's (Lemma 1)": lambda t: all(
                t[name, n] <= 2 * t[f"{name}, its average tree", n]
                for name in NAMES
                for n in numbers(t)
            ),
            "single trees rank as the bounds rank them": lambda t: (
                t[f"{SIMPLE}, its average tree", numbers(t)[-1]]
                < t[f"{MIDPOINT}, its average tree", numbers(t)[-1]]
                < t[f"{PURE}, its average tree", numbers(t)[-1]]
            ),
            "the vote turns that order round": lambda t: (
                t[SIMPLE, numbers(t)[-1]] > t[PURE, numbers(t)[-1]]
            ),
        },
        paper={(name, SLOPE): PUBLISHED[name] for name in BOUNDS},
        why="The paper proves upper bounds for every η with this Lipschitz constant; on one smooth"
        " η errors fall faster. k is where the sharp bound is least; simplified trees are cut by"
        " levels, so their error goes up and down with k. Slopes of bounds are their exponents.",
        beyond="Sharp forms of the bounds (pure forests, guide), and the multinomial forest, which"
        " is proved consistent (Theorem 1 of 000) without a rate.",
        form=".3g",
        picture=picture,
    ),
)
