"""000 Table 1: records, attributes and classes of the 24 sets as they are at hand."""

import numpy as np
from item import Figure, Item, Run, by_cell
from multinomial_000_001.folds import raw_records

PRINTED = {
    "zoo": (101, 17, 7),
    "hayes_roth": (132, 5, 3),
    "echocardiogram": (132, 12, 2),
    "hepatitis": (155, 19, 2),
    "wine": (178, 13, 3),
    "wdbc": (569, 39, 2),
    "transfusion": (748, 5, 2),
    "vehicle": (946, 18, 4),
    "tic_tac_toe": (958, 9, 2),
    "mammographic": (961, 6, 2),
    "messidor": (1151, 19, 2),
    "website_phishing": (1353, 9, 3),
    "banknote": (1372, 4, 2),
    "cmc": (1473, 9, 3),
    "yeast": (1484, 8, 10),
    "car": (1728, 6, 4),
    "segment": (2310, 19, 7),
    "chess_krvskp": (3196, 36, 2),
    "internet_ads_partial": (3729, 1558, 2),
    "wilt": (4839, 5, 2),
    "winequality_white": (4898, 11, 7),
    "phishing_websites": (11055, 31, 2),
    "nursery": (12960, 9, 5),
    "connect4": (67557, 42, 3),
}
COLUMNS = ("records", "attributes", "classes")


def sizes(part: str, run: Run) -> list[Figure]:
    """Return the sizes of a set."""
    X, y = raw_records(part)
    found = (*X.shape, len(np.unique(y)))
    return [Figure(part, *one) for one in zip(COLUMNS, map(float, found), strict=True)]


ITEMS = (
    Item(
        name="000-table1",
        title="The 24 data sets (000, Table 1)",
        rows=(34,),
        measure=sizes,
        privacy="No release: sizes of public sets.",
        parts=tuple(PRINTED),
        quick=("wine", "car", "nursery", "tic_tac_toe"),
        repeats=1,
        claims={
            "Wine, Car and Tic-tac-toe are the paper's": lambda t: all(
                tuple(t.row(name)) == PRINTED[name] for name in ("wine", "car", "tic_tac_toe")
            ),
        },
        paper=by_cell(PRINTED, COLUMNS),
        why="The paper counts the class or a name among the attributes of Zoo, Hayes-Roth, Echo,"
        " Transfusion, Mammo, Phishing and Nursery, and prints 39 attributes of Wdbc (30, and two"
        " more at UCI), 946 records of Vehicle (846 at UCI) and 3 729 of Ads (3 279 at UCI, 998 at"
        " hand). Hayes-Roth is here with its 28 test records; Echocardiogram without those whose"
        " class is not known, and with a third class of one record.",
        form=".0f",
    ),
)
