"""All data sets of the rival benchmark by name."""

from binary_sets import LARGE, SMALL, binary
from fresh_sets import FRESH, fresh
from rival_data import NAMES, RivalData, load
from rival_held_out import load_held_out

BINARY = LARGE + SMALL
"""Two classes; numbers are cut at their deciles."""
SEVERAL = (
    *("car", "balance_scale", "iris", "nursery"),
    *("cmc", "hayes_roth", "vehicle", "website_phishing", "wine", "yeast", "zoo", "segment"),
)
"""More classes; numbers of the last eight are cut into four bins of equal width."""
ALL = BINARY + SEVERAL
MST_SETS = ("banknote", "tic_tac_toe", "wilt", "winequality_white", "mushroom", "adult")
"""Of few enough attributes for synthetic data in a minute or so a fit."""


def load_set(name: str) -> RivalData:
    """Return one data set."""
    if name in FRESH:
        return fresh(name)
    if name in NAMES:
        return load(name)
    return binary(name) if name in BINARY else load_held_out(name)
