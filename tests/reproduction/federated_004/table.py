"""The poster's table: Pendigits and Letter, ten parties, 100 trees; and its split."""

import numpy as np
from data_sets import as_numbers
from item import Claim, Figure, Item, Run, Table, mean_of
from sklearn.datasets import load_digits

from mrf_matrix import FederatedForestClassifier
from mrf_matrix.federated.systems import deal_chunks, most_chunks
from mrf_matrix.study import compare_systems
from mrf_matrix.study.study import SYSTEMS

CENTRAL, NCFF, NCFF_EACH, PROPOSED, REACHED, POOLED = SYSTEMS
PUBLISHED = {
    (CENTRAL, "Pendigits"): 0.991,
    (NCFF, "Pendigits"): 0.957,
    (PROPOSED, "Pendigits"): 0.973,
    (CENTRAL, "Letter"): 0.963,
    (NCFF, "Letter"): 0.886,
    (PROPOSED, "Letter"): 0.946,
}
CHUNKS = {"Pendigits": 2, "Letter": 1, "Digits": 2}
NOT_PRIVATE = "Not private: splits and leaves come from raw records, without noise."


def records(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return records and classes; Digits is scikit-learn's own."""
    if name == "Digits":
        return load_digits(return_X_y=True)
    _, table, classes = as_numbers(name.lower())
    return table, classes


def systems(part: str, run: Run) -> list[Figure]:
    """Return the accuracies of each system on the same splits."""
    X, y = records(part)
    model = FederatedForestClassifier(chunks=CHUNKS[part], n_trees=100 if run.full else 20)
    names = [*SYSTEMS] if run.full else [CENTRAL, NCFF, PROPOSED]
    found = compare_systems(X, y, model, systems=names, n_splits=run.repeats)
    return [mean_of(one.system, part, one.accuracies) for one in found]


def readings(part: str, run: Run) -> list[Figure]:
    """Return NCFF of m trees a party at other α and dealings."""
    X, y = records("Letter" if run.full else "Digits")
    model = FederatedForestClassifier(chunks=int(part[-1]), n_trees=100 if run.full else 20)
    found = compare_systems(X, y, model, systems=[NCFF, NCFF_EACH, PROPOSED], n_splits=run.repeats)
    return [mean_of(part, one.system, one.accuracies) for one in found]


def dealt(part: str, run: Run) -> list[Figure]:
    """Return the most classes of one party over many deals, beside M."""
    X, y = records(part)
    del X
    alpha, parties = CHUNKS[part], 10
    deals = [deal_chunks(y, parties, alpha, seed) for seed in run.seeds]
    most = max(len(np.unique(y[who == one])) for who in deals for one in range(parties))
    lost = max(len(y) - np.bincount(who, minlength=parties).sum() for who in deals)
    return [
        Figure(part, "M", most_chunks(len(np.unique(y)), alpha, parties)),
        Figure(part, "most classes of a party", most, repeats=run.repeats),
        Figure(part, "records not dealt", float(lost), repeats=run.repeats),
    ]


def above(better: str, worse: str) -> Claim:
    """Return the claim that one row is above another in every column."""
    return lambda t: all(t[better, name] > t[worse, name] for name in t.columns)


def out_of_reach(table: Table) -> bool:
    """Say whether NCFF on Letter is five standard errors below the poster, however it is read."""
    return all(
        (one := table.figure(row, "Letter")).value + 5 * (one.error or 0) < 0.886
        for row in (NCFF, NCFF_EACH)
    )


ITEMS = (
    Item(
        name="004-split",
        title="The α-chunk split",
        rows=(54,),
        measure=dealt,
        privacy="No release: a deal of records to parties.",
        parts=("Pendigits", "Letter"),
        quick=("Pendigits", "Letter", "Digits"),
        repeats=20,
        quick_repeats=3,
        claims={
            "no party has more classes than M": lambda t: bool(
                (t.column("most classes of a party") <= t.column("M")).all()
            ),
            "every record is dealt": lambda t: bool((t.column("records not dealt") == 0).all()),
        },
        paper={("Pendigits", "M"): 2, ("Letter", "M"): 3},
        form=".0f",
    ),
    Item(
        name="004-table",
        title="Performance comparison",
        rows=(55, 56, 57, 58, 59, 60),
        measure=systems,
        privacy=NOT_PRIVATE,
        parts=("Pendigits", "Letter"),
        quick=("Digits",),
        quick_repeats=2,
        claims={
            "collaborative forests are ahead of NCFF on every set": above(PROPOSED, NCFF),
            "one forest of all records is ahead of both": above(CENTRAL, PROPOSED),
            "the proposed forest is within a point of the poster": lambda t: (
                max(
                    abs(t[PROPOSED, name] - PUBLISHED[PROPOSED, name])
                    for name in ("Pendigits", "Letter")
                )
                < 0.01
            ),
            "NCFF on Letter is below the poster by five standard errors": out_of_reach,
        },
        paper=PUBLISHED,
        why="The mean over all parties, one that does not reach a leaf counting as 0, is nearest to"
        " the poster on both sets; the mean over those that reach it cannot be told from it, pooled"
        " counts are off by four points. The poster's 80:20:20 cannot be; here 80:20, stratified."
        " Its depth limit is not printed; there is none here.",
        finding="NCFF on Letter (.886) is out of reach at α = 1, where every class lives at one"
        " party and no tree ever compares it with another party's; see the other readings.",
    ),
    Item(
        name="004-ncff",
        title="NCFF on Letter, other readings",
        rows=(58,),
        measure=readings,
        privacy=NOT_PRIVATE,
        parts=("α = 1", "α = 2", "α = 3", "α = 5"),
        quick=("α = 2", "α = 5"),
        quick_repeats=2,
        claims={
            "with more chunks a party sees more classes, and NCFF rises": lambda t: (
                t["α = 5", NCFF_EACH] > t["α = 2", NCFF_EACH]
            ),
            "NCFF at the poster's α = 1 stays below .886": lambda t: (
                max(t["α = 1", system] for system in (NCFF, NCFF_EACH)) < 0.886
            ),
        },
        paper={("α = 1", NCFF): 0.886, ("α = 1", PROPOSED): 0.946},
        why="Only more chunks a class, against the poster's own M, bring NCFF near its figure.",
    ),
)
