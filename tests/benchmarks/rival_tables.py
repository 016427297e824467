"""What docs/posterior.md sums up of the rivals, from what was recorded: table, averages, defeats.

A method's figures on a data set are ``kept[data set][method][ε]["mean"]``, as `rival_scores`
records them.
"""

import numpy as np

BUDGETS = ("0.1", "0.5", "1", "2")
OURS = "posterior forest"
TITLES = {
    "car": "Car",
    "balance_scale": "Balance",
    "iris": "Iris",
    "heart": "Heart",
    "tic_tac_toe": "Tic-tac-toe",
    "nursery": "Nursery",
    "mushroom": "Mushroom",
    "chess_krvskp": "Chess",
    "adult": "Adult (12 attributes)",
    "a9a": "a9a (123 binary)",
}
COLUMNS = {
    "M-RF": ("M-RF training", "M-RF prediction"),
    "diffprivlib": ("diffprivlib forest",),
    "naive Bayes": ("private naive Bayes",),
    "DP-EBM, (ε, 1e-6)": ("DP-EBM", "DP-EBM, one-hot"),
    "posterior, (ε, 1e-6)": ("posterior forest, δ",),
}
"""Methods of which a column shows the better one at each ε."""
PURE = ("M-RF", "diffprivlib", "naive Bayes")
"""Columns with our own guarantee, pure ε-DP."""


def means(found: dict, methods: tuple[str, ...]) -> np.ndarray | None:
    """Return the best mean accuracy at each ε, shape (4,); None where none was measured."""
    known = [[found[m][e]["mean"] for e in BUDGETS] for m in methods if m in found]
    return np.max(known, axis=0) if known else None


def shown(figures: np.ndarray | None) -> str:
    """Return figures below one as ``.123 .456``; nothing for none."""
    return "" if figures is None else " ".join(f"{x:.3f}".removeprefix("0") for x in figures)


def complete(kept: dict) -> dict:
    """Return the data sets on which our forest and the share of the majority are known."""
    needed = {OURS, "majority class"}
    return {name: kept[name] for name in TITLES if needed <= set(kept.get(name, ()))}


def majority(found: dict) -> float:
    """Return the share of the majority class among the test records."""
    return found["majority class"]["inf"]["mean"]


def comparison(kept: dict) -> str:
    """Return the table, in Markdown; nothing where our forest was not measured."""
    if not complete(kept):
        return ""
    lines = [
        "| data (majority) | posterior forest | ± | " + " | ".join(COLUMNS) + " |",
        "|---" * (3 + len(COLUMNS)) + "|",
    ]
    for name, found in complete(kept).items():
        errors = [found[OURS][e]["se"] or np.nan for e in BUDGETS]
        cells = [
            f"{TITLES[name]} ({shown([majority(found)])})",
            f"**{shown(means(found, (OURS,)))}**",
            f"{max(errors):.3f}",
            *(shown(means(found, methods)) for methods in COLUMNS.values()),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def best_rival(found: dict) -> np.ndarray | None:
    """Return the best accuracy of any pure-DP rival at each ε."""
    return means(found, tuple(method for column in PURE for method in COLUMNS[column]))


def averages(kept: dict) -> str:
    """Return the averages over the data sets of the table, those with gaps left out."""
    sets = complete(kept)
    rows = {
        "posterior forest": lambda found: means(found, (OURS,)),
        "best pure-DP rival of each set and ε": best_rival,
        "naive Bayes": lambda found: means(found, COLUMNS["naive Bayes"]),
        "diffprivlib's random forest": lambda found: means(found, COLUMNS["diffprivlib"]),
        "M-RF training": lambda found: means(found, ("M-RF training",)),
        "M-RF prediction": lambda found: means(found, ("M-RF prediction",)),
        "majority class": lambda found: [majority(found)],
    }
    lines = [f"Averages over {len(sets)} sets:"] if sets else []
    for label, figures_of in rows.items():
        figures = [figures_of(found) for found in sets.values()]
        if sets and all(one is not None for one in figures):
            lines.append(f"{label} {shown(np.mean(figures, axis=0))}")
    return "\n".join(lines)


def defeats(kept: dict) -> str:
    """Return where a pure-DP rival or the majority class is ahead of our forest, in points."""
    if not complete(kept):
        return ""
    lines = []
    for name, found in complete(kept).items():
        rivals = {column: means(found, COLUMNS[column]) for column in PURE}
        rivals["the majority class"] = np.full(len(BUDGETS), majority(found))
        for rival, figures in rivals.items():
            if figures is None:
                continue
            for epsilon, lead in zip(BUDGETS, figures - means(found, (OURS,)), strict=True):
                if lead >= 5e-4:
                    error = found[OURS][epsilon]["se"] or float("nan")
                    lines.append(
                        f"{TITLES[name]}, ε = {epsilon}: {rival} is ahead by {100 * lead:.1f} "
                        f"points (± {100 * error:.1f})"
                    )
    return "\n".join(lines) or "No rival is ahead anywhere."
