"""000 Tables 2 and 3: ten-fold accuracies of eight forests, and of five with hyperplanes."""

import numpy as np
from item import Figure, Item, Run, Table, by_cell, row_of_means
from multinomial_000_001.folds import FOLDS, fold_scores, in_reach, numeric_records, raw_records
from multinomial_000_001.tuned import p_values
from rivals.classifiers import (
    BernoulliForestClassifier,
    BreimanForestClassifier,
    ComparisonForestClassifier,
    DenilForestClassifier,
    ObliqueForestClassifier,
)
from scipy.stats import rankdata

from mrf_matrix.estimators import (
    MultinomialForestClassifier,
)

BREIMAN = {
    "Breiman": BreimanForestClassifier(),
    "Breiman+SE": BreimanForestClassifier(variant="SE"),
    "Breiman+M": BreimanForestClassifier(variant="M"),
}
TABLE_2 = {
    "Denil14": DenilForestClassifier(),
    "BRF": BernoulliForestClassifier(),
    "CompRF-C": ComparisonForestClassifier(),
    "MRF": MultinomialForestClassifier(),
    "CompRF-I": ComparisonForestClassifier(supervised=True),
    **BREIMAN,
}
TABLE_3 = {
    "RoF-PCA": ObliqueForestClassifier(split="pca"),
    "RoF-LDA": ObliqueForestClassifier(split="lda"),
    "MPSVM-T": ObliqueForestClassifier(split="mpsvm_t"),
    "MPSVM-P": ObliqueForestClassifier(split="mpsvm_p"),
    "MPSVM-N": ObliqueForestClassifier(split="mpsvm_n"),
}
CONSISTENT = ("Denil14", "BRF", "CompRF-C", "MRF")
OTHER_FILES = ("hayes_roth", "echocardiogram", "hepatitis", "internet_ads_partial")
"""Sets whose records are not the paper's."""

# the paper's columns: Denil14, BRF, CompRF-C, MRF, CompRF-I, Breiman, Breiman+SE, Breiman+M
PAPER_2 = {
    "zoo": (80.00, 85.00, 87.69, 90.64, 93.39, 87.38, 90.95, 96.64),
    "hayes_roth": (50.93, 45.35, 45.82, 79.46, 46.04, 77.58, 79.04, 84.09),
    "echocardiogram": (78.46, 88.46, 89.63, 91.72, 88.09, 90.64, 91.97, 90.52),
    "hepatitis": (62.17, 63.46, 62.50, 64.32, 58.33, 64.05, 65.60, 60.74),
    "wine": (96.80, 96.78, 71.38, 97.58, 74.37, 97.51, 97.81, 97.92),
    "wdbc": (92.86, 95.36, 92.39, 95.78, 94.26, 96.01, 95.29, 96.52),
    "transfusion": (72.97, 77.70, 76.53, 78.53, 75.28, 79.52, 78.41, 74.51),
    "vehicle": (68.81, 71.67, 59.68, 73.54, 64.86, 74.70, 73.16, 75.47),
    "tic_tac_toe": (84.07, 79.64, 74.53, 98.01, 77.81, 87.97, 97.76, 98.92),
    "mammographic": (79.17, 81.25, 76.57, 81.86, 78.72, 82.31, 82.06, 80.02),
    "messidor": (65.65, 65.21, 65.62, 67.14, 66.14, 68.35, 66.90, 68.46),
    "website_phishing": (85.29, 85.58, 85.98, 89.80, 88.34, 88.12, 90.03, 90.04),
    "banknote": (98.29, 98.32, 99.36, 99.49, 99.02, 99.12, 99.02, 99.67),
    "cmc": (53.60, 54.63, 53.93, 56.12, 54.61, 55.11, 55.97, 53.42),
    "yeast": (58.80, 58.38, 14.15, 61.03, 10.66, 61.71, 61.06, 60.96),
    "car": (88.02, 93.43, 79.07, 96.30, 92.17, 97.42, 96.42, 97.47),
    "segment": (95.45, 96.06, 93.99, 97.47, 96.16, 97.71, 97.07, 98.31),
    "chess_krvskp": (61.32, 97.12, 94.77, 99.25, 97.49, 98.72, 99.04, 99.49),
    "internet_ads_partial": (85.99, 94.43, 96.05, 96.76, 96.44, 97.59, 96.84, 97.94),
    "wilt": (97.16, 97.25, 97.23, 98.56, 98.27, 98.10, 97.83, 98.57),
    "winequality_white": (57.31, 56.68, 53.22, 60.56, 55.06, 64.78, 61.15, 69.81),
    "phishing_websites": (94.35, 94.47, 95.44, 96.07, 96.45, 95.56, 96.21, 97.19),
    "nursery": (93.42, 93.52, 91.01, 99.28, 95.67, 96.89, 98.61, 99.78),
    "connect4": (66.19, 76.75, 72.82, 81.46, 76.27, 80.05, 81.54, 84.02),
}
PAPER_3 = {
    "zoo": (89.58, 88.10, 82.38, 88.69, 82.61),
    "hayes_roth": (70.79, 72.29, 65.64, 65.02, 60.77),
    "echocardiogram": (92.15, 91.16, 84.72, 91.46, 85.71),
    "hepatitis": (65.23, 65.83, 63.40, 63.87, 64.53),
    "wine": (96.21, 98.15, 97.47, 97.58, 96.23),
    "wdbc": (95.51, 97.20, 96.87, 96.59, 97.14),
    "transfusion": (77.95, 78.39, 78.64, 78.88, 77.22),
    "vehicle": (76.04, 78.77, 75.76, 75.10, 72.69),
    "tic_tac_toe": (86.35, 85.34, 83.49, 84.81, 81.34),
    "mammographic": (82.80, 82.56, 82.48, 82.52, 82.65),
    "messidor": (74.95, 74.74, 73.70, 72.36, 73.26),
    "website_phishing": (87.69, 88.18, 86.01, 87.23, 85.22),
    "banknote": (99.97, 99.84, 99.91, 99.90, 99.93),
    "cmc": (55.14, 54.73, 54.52, 54.49, 51.97),
    "yeast": (61.20, 61.32, 55.35, 61.43, 41.88),
    "car": (95.69, 96.00, 91.37, 95.35, 86.42),
    "segment": (97.26, 97.34, 96.46, 97.10, 93.68),
    "chess_krvskp": (98.10, 98.22, 93.82, 97.75, 82.38),
    "wilt": (98.56, 98.61, 98.21, 98.11, 98.24),
    "internet_ads_partial": (97.13, 96.74, 89.13, 97.33, 86.60),
    "winequality_white": (64.19, 64.26, 59.30, 63.82, 44.88),
    "phishing_websites": (95.81, 95.60, 95.04, 95.42, 94.54),
    "nursery": (97.13, 96.35, 94.26, 97.01, 92.09),
    "connect4": (77.56, 76.83, 65.83, 76.73, 65.83),
}
MOST = 15_000
"""Records that runs of fewer repeats take of a set: of Connect-4 a stratified part."""

NOT_PRIVATE = "Not private: splits and leaves come from raw records, without noise."


def accuracies(
    part: str, run: Run, forests: dict[str, MultinomialForestClassifier]
) -> list[Figure]:
    """Return accuracies in per cent on the first folds of ten times ten."""
    texts, y = in_reach(*raw_records(part), run, most=MOST)
    numbers, _ = in_reach(*numeric_records(part), run, most=MOST)
    found = {}
    for method, forest in forests.items():
        X = numbers if method.startswith(("CompRF", "RoF", "MPSVM")) else texts
        forest.set_params(random_state=0, n_trees=100 if run.full else 20)
        found[method] = fold_scores(forest, X, y, run)
    figures = row_of_means(part, found)
    return figures + p_values(part, found) if run.repeats >= FOLDS else figures


def table_two(part: str, run: Run) -> list[Figure]:
    """Return a row of Table 2."""
    return accuracies(part, run, TABLE_2)


def table_three(part: str, run: Run) -> list[Figure]:
    """Return a row of Table 3, hyperplanes only, beside Breiman's forest and MRF."""
    beside = {name: TABLE_2[name] for name in ("Breiman", "MRF")}
    return accuracies(part, run, TABLE_3 | beside)


def mean_gap(table: Table, printed: dict[str, tuple[float, ...]], column: str, place: int) -> float:
    """Return the mean of ours minus the paper's over the sets whose records are the same."""
    same = [row for row in table.rows if row in printed and row not in OTHER_FILES]
    if len(same) < len(printed) / 2:
        raise KeyError(column)
    return float(np.mean([table[row, column] - printed[row][place] for row in same]))


def ranks(table: Table, columns: tuple[str, ...]) -> np.ndarray:
    """Return average ranks of columns over all sets, 1 for the best."""
    sets = [row for row in table.rows if row in PAPER_2]
    rows = [[-table[row, column] for column in columns] for row in sets]
    return rankdata(rows, axis=1).mean(axis=0)


def best_of_consistent(table: Table) -> bool:
    """Say whether MRF has the best average rank of the consistent forests."""
    if len(table.rows) < 10:
        found = {name: np.mean([table[row, name] for row in table.rows]) for name in CONSISTENT}
        return max(found, key=found.__getitem__) == "MRF"
    return bool(ranks(table, CONSISTENT).argmin() == CONSISTENT.index("MRF"))


WHY = (
    "Hepatitis differs in all columns (the paper's lie near 64 %, below the 79 % of its majority"
    " class: another target or file), Echocardiogram has 75 labelled records here and two columns"
    " that nearly give the class away, Hayes-Roth 160 records (132 there), Ads 998 of 3279. Folds"
    f" are the first of ten times ten; shorter runs take a stratified part of {MOST} records of"
    " Connect-4."
)
ITEMS = (
    Item(
        name="000-table2",
        title="Table 2: eight forests (000)",
        rows=(22, 24, 27, 28, 29, 35),
        measure=table_two,
        privacy=NOT_PRIVATE,
        parts=tuple(PAPER_2),
        quick=("wine", "tic_tac_toe", "car"),
        repeats=FOLDS,
        claims={
            "MRF is the best of the consistent forests": best_of_consistent,
            "its mean over sets of the paper's own records is within a point": lambda t: (
                abs(mean_gap(t, PAPER_2, "MRF", 3)) < 1
            ),
            "Breiman's three are within 1.5": lambda t: all(
                abs(mean_gap(t, PAPER_2, name, list(TABLE_2).index(name))) < 1.5 for name in BREIMAN
            ),
            "softmax cuts are ahead of halves (Breiman+M, +SE)": lambda t: (
                t.column("Breiman+M").mean() > t.column("Breiman+SE").mean()
            ),
        },
        paper=by_cell(PAPER_2, TABLE_2),
        why=WHY
        + " CompRF on Yeast (14.2, 10.7) is below the majority in the paper. Denil14 and BRF are"
        " some points ahead of the paper's on most sets, as is Breiman's forest on Tic-tac-toe.",
        form=".1f",
    ),
    Item(
        name="000-table3",
        title="Table 3: rotation and oblique forests (000)",
        rows=(36,),
        measure=table_three,
        privacy=NOT_PRIVATE,
        parts=tuple(PAPER_2),
        quick=("wdbc", "tic_tac_toe"),
        repeats=FOLDS,
        claims={
            "no column's mean is 2 points below the paper's": lambda t: all(
                mean_gap(t, PAPER_3, name, place) > -2 for place, name in enumerate(TABLE_3)
            ),
            "hyperplanes are ahead on Wdbc": lambda t: (
                max(t["wdbc", name] for name in TABLE_3) > t["wdbc", "Breiman"]
            ),
            "and on Vehicle": lambda t: (
                max(t["vehicle", name] for name in TABLE_3) > t["vehicle", "Breiman"]
            ),
            "and behind the multinomial forest on Tic-tac-toe": lambda t: (
                max(t["tic_tac_toe", name] for name in TABLE_3) < t["tic_tac_toe", "MRF"]
            ),
        },
        paper=by_cell(PAPER_3, TABLE_3)
        | {(row, "MRF"): values[3] for row, values in PAPER_2.items()},
        why=WHY,
        form=".1f",
    ),
)
