"""Lemmas 2 to 4 and Biau's constant: exact laws and grown trees beside what is stated."""

import math

import numpy as np
from item import Figure, Item, Run, mean_of
from rates_002.problem import NOT_PRIVATE
from scipy.stats import binom

from mrf_matrix import Domain
from mrf_matrix.forests import (
    PureTrees,
    biau_height_rate,
    cell_error_bound,
    diameter_tail_bound,
    expected_height,
    height_bounds,
    height_probabilities,
    height_tail_bounds,
)
from mrf_matrix.forests.cell_laws import BIAU
from mrf_matrix.forests.nodes import leaf_masks
from mrf_matrix.plotting.style import COLOURS, load_pyplot, tidy_axes

LAW = "No release: laws of trees that see no record."
LOW, MEAN, HIGH = "ln k", "mean height", "1 + ln(k - 1)"
TAIL, PAPER_TAIL, OUR_TAIL = "P[h ≥ (1+ε)(1 + ln(k-1))]", "k^(-ε²/2), as printed", "Chernoff (ours)"
SHALLOW, RATE = "Lemma 2, k^(-(1-s)²/2)", "Biau's rate, its constant as 1"
TRUE_SHALLOW = "P[h ≤ s ln k]"
FREQUENCY, PUBLISHED, SHARP = "share of cells, by their law", "Lemma 3", "sharp (ours)"
GROWN = "in grown trees"
CELL, LEMMA_4 = "P[f ≠ y, x in C]", "Lemma 4"


def heights(part: str, run: Run) -> list[Figure]:
    """Return the mean height of a record's leaf over grown trees, and its law's."""
    k = int(part.removeprefix("k = "))
    domain = Domain.from_sizes([2**20, 2**20])
    record = np.array([[314_159, 271_828]])
    means = []
    for seed in run.seeds:
        forest = PureTrees(500, k, "midpoint").grow(domain, random_state=seed)
        means.append(float(forest.depth[forest.leaves[forest.apply(record)[0]]].mean()))
    low, high = height_bounds(k)
    return [
        Figure(part, LOW, low),
        mean_of(part, MEAN, means),
        Figure(part, "its law's mean", expected_height(k)),
        Figure(part, HIGH, high),
    ]


def upper_tails(part: str, run: Run) -> list[Figure]:
    """Return the exact probability of a deep leaf, the paper's bound and the one that follows."""
    power, epsilon = (float(word.split("=")[1]) for word in part.split(", "))
    k = int(10**power)
    height = (1 + epsilon) * (1 + math.log(k - 1))
    law = height_probabilities(k)
    return [
        Figure(part, TAIL, float(law[math.ceil(height) :].sum())),
        Figure(part, PAPER_TAIL, math.exp(-(epsilon**2) / 2 * math.log(k))),
        Figure(part, OUR_TAIL, height_tail_bounds(k, epsilon)[1]),
    ]


def lower_tails(part: str, run: Run) -> list[Figure]:
    """Return the exact probability of a shallow leaf at k = 10¹², Lemma 2's bound, Biau's rate."""
    share, k = float(part.removeprefix("s = ")), 10**12
    law = height_probabilities(k)
    return [
        Figure(part, TRUE_SHALLOW, float(law[: math.floor(share * math.log(k)) + 1].sum())),
        Figure(part, SHALLOW, height_tail_bounds(k, 1 - share)[0]),
        Figure(part, RATE, biau_height_rate(k, BIAU - share)),
    ]


def diameters(part: str, run: Run) -> list[Figure]:
    """Return how often a record's cell is as large as Lemma 3 says, by its law and in trees."""
    d, k = (int(float(word.split(" = ")[1])) for word in part.split(", "))
    threshold = math.sqrt(d) * k ** (-1 / (8 * d))
    by_law, grown = [], []
    for seed in run.seeds:
        by_law.append(float((drawn_diameters(d, k, 2000, seed) >= threshold).mean()))
        if k <= 10:  # later some of the 4096 codes stand alone, which no cut can split
            grown.append(float((grown_diameters(d, k, 200, seed) >= threshold).mean()))
    return [
        mean_of(part, FREQUENCY, by_law),
        *([mean_of(part, GROWN, grown)] if grown else []),
        Figure(part, PUBLISHED, diameter_tail_bound(k, d)),
        Figure(part, SHARP, diameter_tail_bound(k, d, form="sharp")),
    ]


def drawn_diameters(d: int, k: int, count: int, seed: int) -> np.ndarray:
    """Draw diameters of the middle's cell: so many uniform cuts as its height, of random sides."""
    rng = np.random.default_rng(seed)
    law = height_probabilities(k)
    heights = rng.choice(len(law), count, p=law / law.sum())
    low, high = np.zeros((count, d)), np.ones((count, d))
    for done in range(heights.max()):
        rows = np.flatnonzero(heights > done)
        side = rng.integers(d, size=len(rows))
        cut = rng.uniform(low[rows, side], high[rows, side])
        above = cut > 0.5
        high[rows[above], side[above]] = cut[above]
        low[rows[~above], side[~above]] = cut[~above]
    return np.sqrt(((high - low) ** 2).sum(axis=1))


def grown_diameters(d: int, k: int, n_trees: int, seed: int) -> np.ndarray:
    """Return diameters of the middle's cell in grown trees."""
    forest = PureTrees(n_trees, k).grow(Domain.from_sizes([4096] * d), random_state=seed)
    rows = forest.apply(np.full((1, d), 2048))[0]
    sides = np.stack([mask[rows].mean(axis=1) for mask in leaf_masks(forest)], axis=1)
    return np.sqrt((sides**2).sum(axis=1))


def cells(part: str, run: Run) -> list[Figure]:
    """Return the exact error of a cell of constant η at n = 200, and Lemma 4's bound."""
    share, eta = (float(word.split(" = ")[1]) for word in part.split(", "))
    n = 200
    counts = np.arange(n + 1)
    one_wins = binom.sf(counts // 2, counts, eta)
    wrong = one_wins * (1 - eta) + (1 - one_wins) * eta
    bound = cell_error_bound(n, share, 0.0, min(eta, 1 - eta))
    exact = share * float(binom.pmf(counts, n, share) @ wrong)
    return [Figure(part, CELL, exact), Figure(part, LEMMA_4, bound)]


def picture(table):
    """Draw mean heights between Lemma 2's bounds."""
    plt = load_pyplot()
    figure, ax = plt.subplots(figsize=(5.6, 3.4), layout="constrained")
    at = [int(row.removeprefix("k = ")) for row in table.rows]
    ax.fill_between(
        at, table.column(LOW), table.column(HIGH), color=COLOURS[6], alpha=0.3, label="Lemma 2"
    )
    ax.plot(at, table.column(MEAN), "o", color=COLOURS[0], label="grown trees")
    ax.plot(at, table.column("its law's mean"), color="black", linewidth=0.8, label="exact")
    ax.set(xscale="log", xlabel="leaves k", ylabel="height of a record's leaf")
    tidy_axes(ax)
    ax.legend(frameon=False)
    return figure


ITEMS = (
    Item(
        name="002-lemma-2",
        title="Lemma 2: the mean height",
        rows=(48,),
        measure=heights,
        privacy=LAW,
        parts=("k = 10", "k = 50", "k = 200", "k = 1000"),
        quick=("k = 10", "k = 50"),
        repeats=10,
        quick_repeats=4,
        claims={
            "the mean lies between the bounds": lambda t: bool(
                ((t.column(LOW) <= t.column(MEAN)) & (t.column(MEAN) <= t.column(HIGH))).all()
            ),
            "and within four standard errors of the exact law": lambda t: all(
                abs(t[row, MEAN] - t[row, "its law's mean"]) < 4 * t.figure(row, MEAN).error
                for row in t.rows
            ),
        },
        form=".3f",
        picture=picture,
    ),
    Item(
        name="002-lemma-2-tail",
        title="Lemma 2: the tail of deep leaves",
        rows=(48,),
        measure=upper_tails,
        privacy=LAW,
        parts=(
            "log10 k=3, ε=0.5",
            "log10 k=6, ε=0.9",
            "log10 k=12, ε=0.999",
            "log10 k=18, ε=0.999",
            "log10 k=20, ε=0.999",
        ),
        repeats=1,
        claims={
            "the printed bound is broken by the exact law at k = 10²⁰": lambda t: (
                t["log10 k=20, ε=0.999", TAIL] > t["log10 k=20, ε=0.999", PAPER_TAIL]
            ),
            "and at 10¹⁸": lambda t: (
                t["log10 k=18, ε=0.999", TAIL] > t["log10 k=18, ε=0.999", PAPER_TAIL]
            ),
            "it happens to hold at k = 10³, 10⁶ and 10¹²": lambda t: bool(
                (t.column(TAIL) < t.column(PAPER_TAIL))[:3].all()
            ),
            "Chernoff's bound holds": lambda t: bool((t.column(TAIL) <= t.column(OUR_TAIL)).all()),
        },
        finding="the tail P[h ≥ (1+ε)(1 + ln(k-1))] ≤ k^(-ε²/2) does not follow from Chernoff's"
        " inequality, and is false: the exact law exceeds it at k = 10¹⁸, ε = .999. k^(-ε²/3) is"
        " true.",
        form=".3e",
    ),
    Item(
        name="002-biau",
        title="Lemma 2 and the bound of Biau that it improves, shallow leaves at k = 10¹²",
        rows=(52,),
        measure=lower_tails,
        privacy=LAW,
        parts=("s = 0.35", "s = 0.3", "s = 0.25", "s = 0.2", "s = 0.1", "s = 0.05"),
        repeats=1,
        claims={
            "both are above the exact law": lambda t: bool(
                (t.column(TRUE_SHALLOW) <= np.minimum(t.column(SHALLOW), t.column(RATE))).all()
            ),
            "Lemma 2 is the smaller one near c* = .3733": lambda t: (
                t["s = 0.35", SHALLOW] < t["s = 0.35", RATE]
            ),
            "and the larger one far below it": lambda t: (
                t["s = 0.05", SHALLOW] > t["s = 0.05", RATE]
            ),
        },
        finding="Lemma 2 does not improve on Biau's rate everywhere: below .213 ln k its quadratic"
        " exponent is the weaker one.",
        why="Biau's constant is not printed; its rate is shown with 1 in its place.",
        form=".2e",
    ),
    Item(
        name="002-lemma-3",
        title="Lemma 3: how often a cell is large, ε = 0",
        rows=(50,),
        measure=diameters,
        privacy=LAW,
        parts=tuple(f"d = {d}, k = {k}" for d in (1, 2) for k in ("10", "100", "1e6", "1e12")),
        quick=("d = 1, k = 10", "d = 2, k = 10", "d = 1, k = 1e12"),
        repeats=5,
        quick_repeats=2,
        claims={
            "the published bound holds": lambda t: bool(
                (t.column(FREQUENCY) <= t.column(PUBLISHED)).all()
            ),
            "so does the sharp one": lambda t: bool((t.column(FREQUENCY) <= t.column(SHARP)).all()),
            "grown trees follow the law, within four standard errors": lambda t: all(
                abs(t[row, GROWN] - t[row, FREQUENCY]) <= 4 * t.figure(row, GROWN).error
                for row in t.rows
                if row.endswith("k = 10")
            ),
        },
        why="The lemma is Markov's inequality on a loose moment: it says something (less than 1) at"
        " k = 10⁶ and d = 1, and the truth is far below it.",
        beyond="The sharp form uses the exact moments of the sides.",
    ),
    Item(
        name="002-lemma-4",
        title="Lemma 4: the error that one cell adds, n = 200",
        rows=(51,),
        measure=cells,
        privacy=NOT_PRIVATE,
        parts=tuple(
            f"p = {p}, η = {eta}" for p in (0.01, 0.2, 1.0) for eta in (0.0, 0.2, 0.45, 0.5)
        ),
        repeats=1,
        claims={
            "the bound holds": lambda t: bool((t.column(CELL) <= t.column(LEMMA_4)).all()),
        },
        why="The cell's error is summed exactly over the binomial numbers of its records.",
        form=".4f",
    ),
)
