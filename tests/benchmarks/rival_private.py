"""What docs/private/accuracy.md says of the private forest beside all rivals: tables and a picture.

A method's figures on a data set are ``kept[data set][method][ε][figure]``, as `rival_scores`
records them.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from binary_sets import LARGE
from fresh_sets import FRESH_LARGE, FRESH_SEVERAL, FRESH_SMALL, KEEL
from rival_scores import mean_of
from rival_sets import BINARY, SEVERAL, load_set
from rival_tables import TITLES, majority, shown

PICTURE = Path(__file__).resolve().parents[2] / "docs" / "_static" / "rivals.png"
BUDGETS = ("0.1", "0.5", "1", "2", "4")
OURS = "private forest"
PURE = {
    "naive Bayes": ("private naive Bayes",),
    "M-RF": ("M-RF training", "M-RF prediction"),
    "diffprivlib forest": ("diffprivlib forest",),
    "diffprivlib tree": ("diffprivlib tree",),
    "diffprivlib naive Bayes": ("diffprivlib naive Bayes",),
    "diffprivlib logistic regression": ("diffprivlib logistic regression",),
}
"""Rivals of our own guarantee, pure ε-DP; of several settings the better one at each ε."""
EBM = ("DP-EBM", "DP-EBM, one-hot")
BEST_PURE = tuple(method for methods in PURE.values() for method in methods)
ROWS = {
    "private forest": (OURS,),
    "residual forest": ("residual forest",),
    "posterior forest": ("posterior forest",),
    "best pure-DP rival of each set and ε": BEST_PURE,
    **PURE,
    "DP-EBM, δ = 1e-12": ("DP-EBM, δ = 1e-12",),
    "private forest, δ = 1e-6": ("private forest, δ",),
    "residual forest, δ = 1e-6": ("residual forest, δ",),
    "posterior forest, δ = 1e-6": ("posterior forest, δ",),
    "DP-EBM, δ = 1e-6": EBM,
}
FIGURES = {
    "accuracy": "accuracy",
    "auc": "AUC",
    "balanced_accuracy": "balanced accuracy",
    "log_loss": "log-loss",
    "brier": "Brier score",
}
LESS_IS_BETTER = ("log_loss", "brier")
LEAST_SIGNAL = 20
"""N ε from which a forest should not fall below the majority class."""
REFERENCE = """\
Reference figures, not measured here and on other sets or splits; all at (ε, 1e-6):

| rival | sets | ε = .1 .5 1 2 4 |
|---|---|---|
| S-BDT, accuracy | nine of two classes, 3 000 records or more | .799 .837 .839 .841 .843 |
| best of six boosted-tree settings in hindsight, accuracy | the same | .807 .838 .845 .850 .853 |
| best of six boosted-tree settings in hindsight, AUC | the same | .814 .870 .878 .883 .886 |
| S-BDT, accuracy | Adult, 14 attributes | .835 .846 .846 .848 .849 |
| MST + random forest, accuracy | Mushroom | .907 .980 .986 .988 |
| MST + random forest, accuracy | Adult | .747 .786 .780 .780 |
| MST + random forest, accuracy | Car | .589 .719 .766 .775 |"""


def figures_of(found: dict, methods: tuple[str, ...], figure: str) -> np.ndarray | None:
    """Return the best mean of a figure at each ε, shape (5,); None where none was measured."""
    known = [[mean_of(found[m][e], figure) for e in BUDGETS] for m in methods if m in found]
    best = np.nanmin if figure in LESS_IS_BETTER else np.nanmax
    return best(known, axis=0) if known else None


def mean_over(sets: dict, methods: tuple[str, ...], figure: str) -> np.ndarray | None:
    """Return the mean of a figure over the sets at each ε; None where one lacks the method."""
    found = [figures_of(kept, methods, figure) for kept in sets.values()]
    known = found and all(one is not None for one in found)
    return np.mean(found, axis=0) if known else None


def averaged(sets: dict, figure: str) -> str:
    """Return means of a figure over all sets, and over the large ones, in Markdown."""
    large = {n: found for n, found in sets.items() if n in (*LARGE, *FRESH_LARGE)}
    lines = [
        f"| {FIGURES[figure]} | {len(sets)} sets | the {len(large)} of 3 000 records or more |",
        "|---|---|---|",
    ]
    for title, methods in ROWS.items():
        means = [mean_over(one, methods, figure) for one in (sets, large)]
        if means[0] is not None:
            lines.append(f"| {title} | {shown(means[0])} | {shown(means[1])} |")
    return "\n".join(lines)


def best_pure_rival(found: dict) -> np.ndarray | None:
    """Return the best accuracy of any pure-DP rival at each ε."""
    return figures_of(found, BEST_PURE, "accuracy")


def title(name: str) -> str:
    """Return a data set's name for people."""
    return TITLES.get(name, name.removeprefix(KEEL).replace("_", " ").capitalize())


def row(name: str, found: dict) -> str:
    """Return one data set's row: accuracies at every ε."""
    columns = ((OURS,), ("posterior forest",), None, ("private forest, δ",), EBM, ("MST + forest",))
    cells = [
        shown(best_pure_rival(found) if one is None else figures_of(found, one, "accuracy"))
        for one in columns
    ]
    return f"| {title(name)} ({shown([majority(found)])}) | " + " | ".join(cells) + " |"


def by_set(sets: dict) -> str:
    """Return accuracies on every data set, in Markdown."""
    head = (
        "| data (majority) | private forest | posterior forest | best pure-DP rival | "
        "private forest, δ | DP-EBM, δ | MST + forest, δ |"
    )
    return "\n".join([head, "|---" * 7 + "|", *(row(n, found) for n, found in sets.items())])


def cells(sets: dict, condition: Callable[[str, dict], np.ndarray]) -> list[str]:
    """Return the cells, data set and ε, on which a condition holds."""
    return [
        f"{title(name)} at {epsilon}"
        for name, found in sets.items()
        for epsilon, holds in zip(BUDGETS, condition(name, found), strict=True)
        if holds
    ]


def behind(method: str, rivals: Callable[[dict], np.ndarray | None]) -> Callable:
    """Return the condition that a method is more than a point behind the best of rivals."""

    def condition(name: str, found: dict) -> np.ndarray:
        theirs, ours = rivals(found), figures_of(found, (method,), "accuracy")
        unknown = theirs is None or ours is None
        return np.zeros(len(BUDGETS)) if unknown else theirs - ours > 0.01

    return condition


def below_majority(method: str) -> Callable:
    """Return the condition that it is a point below the majority class though N ε is enough."""

    def condition(name: str, found: dict) -> np.ndarray:
        n_records = 0.8 * len(load_set(name).labels)
        enough = n_records * np.array([float(e) for e in BUDGETS]) >= LEAST_SIGNAL
        ours = figures_of(found, (method,), "accuracy")
        return enough & (ours < majority(found) - 0.01)

    return condition


def defeats(sets: dict) -> str:
    """Return in how many cells the private forest loses, and in which."""
    total = len(sets) * len(BUDGETS)

    def dp_ebm(found: dict) -> np.ndarray | None:
        return figures_of(found, EBM, "accuracy")

    asked = {
        "more than a point behind the best pure-DP rival": behind(OURS, best_pure_rival),
        "the posterior forest, the same": behind("posterior forest", best_pure_rival),
        "with δ, more than a point behind DP-EBM": behind("private forest, δ", dp_ebm),
        "below the majority class − 1 point, N ε >= 20": below_majority(OURS),
    }
    lines = []
    for title, condition in asked.items():
        where = cells(sets, condition)
        lines.append(f"{title}: {len(where)} of {total} cells ({', '.join(where) or 'none'})")
    return "\n".join(lines)


def private_tables(kept: dict) -> str:
    """Return all tables, in Markdown, of the data sets on which our forest was measured."""
    ours = {name: found for name, found in kept.items() if {OURS, "majority class"} <= set(found)}
    two = {name: ours[name] for name in (*BINARY, *FRESH_LARGE, *FRESH_SMALL) if name in ours}
    several = {name: ours[name] for name in (*SEVERAL, *FRESH_SEVERAL) if name in ours}
    parts = []
    for sets in filter(None, (two, several)):
        parts += [by_set(sets), defeats(sets)]
    parts += [averaged(two, figure) for figure in FIGURES if two]
    return "\n\n".join([*parts, *([REFERENCE] if set(two) & set(BINARY) else [])])


LINES = {
    "accuracy": (
        ("private forest", (OURS,), "C0-"),
        ("posterior forest", ("posterior forest",), "C2-"),
        ("naive Bayes", ("private naive Bayes",), "C4-"),
        ("diffprivlib forest", ("diffprivlib forest",), "C6-"),
        ("private forest, δ = 1e-6", ("private forest, δ",), "C0--"),
        ("DP-EBM, δ = 1e-6", EBM, "C1--"),
    ),
}
LINES["log_loss"] = tuple(line for line in LINES["accuracy"] if "diffprivlib" not in line[0])


def draw(sets: dict, path: Path) -> None:
    """Draw mean accuracy and log-loss against ε; solid: pure DP, dashed: δ = 1e-6."""
    if not all(any(m in kept for m in EBM) for kept in sets.values()) or not sets:
        print("no picture: expected explainable boosting on every binary set")
        return
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4), layout="constrained")
    for axes, name in zip(figure.subplots(1, 2), LINES, strict=True):
        for label, methods, style in LINES[name]:
            mean = mean_over(sets, methods, name)
            if mean is not None:
                axes.plot(BUDGETS, mean, style, marker=".", label=label)
        axes.set(xlabel="ε", ylabel=f"mean {FIGURES[name]} of {len(sets)} binary sets")
        axes.grid(alpha=0.3)
    axes.set_ylim(top=0.8)
    lines, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(lines, labels, loc="outside lower center", ncols=3, fontsize="small")
    figure.savefig(path, dpi=120)
