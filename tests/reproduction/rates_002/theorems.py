"""Theorems 1 to 4 as numbers, and the leaves that Theorem 3's printed exponent asks for."""

import math

from item import Figure, Item, Run
from rates_002.problem import LIPSCHITZ, D

from mrf_matrix.forests import pure_forest_bound, pure_leaves_bound, simplified_forest_bound

N, K, K0 = 10**6, 1000, 8
PRINTED, RIGHT = "k as printed, (n / ln n)^(2d/(d+2))", "k = (n / ln n)^(d/(d+2))"


def by_hand() -> dict[str, float]:
    """Return the theorems' right sides, written from the paper's text, at d = 2 and L = 1."""
    log, votes = math.log(N), 2 * math.sqrt(K / N) + 6 * K / N
    first = 4 * math.sqrt(K * log / N) + 2 * (4 * K**3 * log / N**3) ** 0.25
    pure = 4 * math.sqrt(K0 * log / N) + 2 * (4 * K0**3 * log / N**3) ** 0.25
    return {
        "Theorem 1": 4 * math.sqrt(2 * math.e * D**1.5) / K ** (1 / (8 * D)) + votes,
        "Theorem 2": 8 * D**0.7 / K ** (1 / (3.87 * D)) + votes,
        "Theorem 3": first + 12 * K / N + 4 * math.sqrt(K / N) + 4 * math.sqrt(D) / K ** (1 / D),
        "Theorem 4": pure + 2 * math.sqrt(K0 / (N * log)) + 6 * K0 / N,
    }


def functions(part: str, run: Run) -> list[Figure]:
    """Return the library's functions, published and sharp."""
    calls = {
        "Theorem 1": lambda form: pure_forest_bound(N, K, D, form=form),
        "Theorem 2": lambda form: pure_forest_bound(N, K, D, splits="midpoint", form=form),
        "Theorem 3": lambda form: simplified_forest_bound(N, K, D, form=form),
        "Theorem 4": lambda form: pure_leaves_bound(N, K0, form=form),
    }
    return [
        Figure(name, column, call(form))
        for name, call in calls.items()
        for column, form in (("as published", "published"), ("sharp (ours)", "sharp"))
    ]


def exponents(part: str, run: Run) -> list[Figure]:
    """Return Theorem 3's bound at the k of each exponent."""
    found = []
    for power in (4, 6, 8, 10, 12):
        n = 10**power
        for row, exponent in ((PRINTED, 2 * D / (D + 2)), (RIGHT, D / (D + 2))):
            k = max(2, int((n / math.log(n)) ** exponent))
            found.append(Figure(row, f"n = 1e{power}", simplified_forest_bound(n, k, D, LIPSCHITZ)))
    return found


ITEMS = (
    Item(
        name="002-theorems",
        title="Theorems 1 to 4 at n = 10⁶, k = 1000 (k₀ = 8), d = 2, L = 1",
        rows=(47,),
        measure=functions,
        privacy="No release: bounds are functions of n, k and d.",
        repeats=1,
        claims={
            "the functions are the printed formulas": lambda t: all(
                math.isclose(t[row, "as published"], value, rel_tol=1e-5)
                for row, value in by_hand().items()
            ),
            "the sharp forms are below them": lambda t: bool(
                (t.column("sharp (ours)") < t.column("as published")).all()
            ),
        },
        paper={(row, "as published"): value for row, value in by_hand().items()},
        why="In brackets the formula as printed, evaluated by itself. A bound of 1/2 and more says"
        " nothing.",
        beyond="Sharp forms: what the same argument gives with less waste.",
        form=".4g",
    ),
    Item(
        name="002-exponent",
        title="Theorem 3: the leaves that its rate needs",
        rows=(47, 49),
        measure=exponents,
        privacy="No release: bounds are functions of n, k and d.",
        repeats=1,
        claims={
            "at the printed exponent the bound does not fall below 4": lambda t: bool(
                (t.row(PRINTED) > 4).all()
            ),
            "at half of it the bound falls with n": lambda t: bool(
                (t.row(RIGHT)[1:] < t.row(RIGHT)[:-1]).all()
            ),
            "at the rate (ln n / n)^(1/(d+2))": lambda t: math.isclose(
                math.log(t[RIGHT, "n = 1e12"] / t[RIGHT, "n = 1e10"])
                / math.log(math.log(1e12) / math.log(1e10) / 100),
                1 / (D + 2),
                abs_tol=0.02,
            ),
        },
        finding="the number of leaves below Theorem 3 is printed as (n / ln n)^(2d/(d+2)). At d = 2"
        " that is n / ln n, where the first term of the bound alone is 4; from d = 3 on it exceeds"
        " n. The exponent that gives the stated rate is d/(d+2).",
        form=".4g",
    ),
)
