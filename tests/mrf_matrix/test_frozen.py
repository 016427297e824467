"""Every kind of model releases the integers that it released when this table was frozen.

A move of code must change no release and no probability. `frozen.json` holds, for each kind, set,
claim and neighbouring relation, a hash of all that a fit drew, in order, and the probabilities of a
few queries. This freezes rows that are missing, and the kinds that are named anew; a change that is
meant says which, and why::

    python tests/mrf_matrix/test_frozen.py [KIND ...]

No strategy here is descended on: the last bits of such entries, and with them the integers, are the
processor's.

``-m slow`` looks at one row a kind, ``-m long`` at all of them, in four minutes.
"""

import hashlib
import json
import sys
import warnings
from dataclasses import fields, is_dataclass
from functools import cache
from inspect import signature
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from mrf_matrix import (
    BatchPredictionClassifier,
    Domain,
    MatrixForestClassifier,
    MultinomialForestClassifier,
    PrivateForestClassifier,
    PrivateNaiveBayesClassifier,
    Provenance,
    SubsampleAggregateClassifier,
    load_dataset,
    plan,
)
from mrf_matrix.base.work import keep_draws
from mrf_matrix.estimators import (
    LabelTreeClassifier,
    MultinomialMatrixForestClassifier,
    PooledForestClassifier,
    PosteriorForestClassifier,
    ResidualForestClassifier,
)
from mrf_matrix.federated import Network, run_federation
from mrf_matrix.mechanisms import count_cells

FILE = Path(__file__).with_name("frozen.json")
QUERIES = 4
SMALL = {"n_trees": 6, "max_depth": 2}

KINDS = {
    "auto": (PrivateForestClassifier, {"n_records": True}),
    "tables": (PosteriorForestClassifier, {"n_records": True}),
    "additive": (ResidualForestClassifier, {"n_records": True}),
    "labels": (LabelTreeClassifier, {"n_records": True}),
    "pool": (PooledForestClassifier, {"n_records": True}),
    "pool of residuals": (PooledForestClassifier, {"n_records": True, "beside": "additive"}),
    "naive_bayes": (PrivateNaiveBayesClassifier, {}),
    "matrix": (MatrixForestClassifier, SMALL | {"strategy": "identity"}),
    "matrix, selected": (MatrixForestClassifier, SMALL | {"strategy": "common_refinement"}),
    "matrix, tree by tree": (MatrixForestClassifier, SMALL | {"allocation": "per_tree"}),
    "matrix, three ensembles": (
        MatrixForestClassifier,
        SMALL | {"strategy": "identity", "n_ensembles": 3, "max_features": 3},
    ),
    "two_stage": (MultinomialMatrixForestClassifier, SMALL | {"strategy": "identity"}),
    "two_stage, all": (
        MultinomialMatrixForestClassifier,
        SMALL | {"strategy": "identity", "parts": "all"},
    ),
    "two_stage, normalized": (
        MultinomialMatrixForestClassifier,
        SMALL
        | {"strategy": "identity", "structure_score": "normalized", "disjoint": False}
        | {"voting": "weight"},
    ),
    "two_stage, selected": (
        MultinomialMatrixForestClassifier,
        SMALL | {"strategy": "workload_itself", "parts": "all"},
    ),
    "multinomial": (MultinomialForestClassifier, SMALL | {"structure_score": "majority"}),
    "multinomial, disjoint": (
        MultinomialForestClassifier,
        SMALL | {"disjoint": True, "label_score": "count"},
    ),
    "batch": (BatchPredictionClassifier, SMALL | {"strategy": "identity", "n_batches": 2}),
    "subsample": (SubsampleAggregateClassifier, SMALL),
    "matrix, parties": (MatrixForestClassifier, SMALL | {"strategy": "identity"}),
    "tables, parties": (PosteriorForestClassifier, {}),
    "naive_bayes, parties": (PrivateNaiveBayesClassifier, {}),
}
ON_CAR = ("two_stage", "multinomial")
"""Kinds that are frozen on four classes of words too."""
PARTIES = 6
CLAIMS = {
    "faint": {"epsilon": 0.02},
    "usual": {"epsilon": 1.0},
    "delta": {"epsilon": 1.0, "delta": 1e-6},
    "rho": {"epsilon": None, "rho": 0.1},
    "none": {"epsilon": float("inf")},
}
RELATIONS = ("add_remove", "replace_one")
USUAL = ("two classes", "usual", "add_remove")


def records_of(seed, sizes, n_classes, count):
    """Return a domain and records whose class follows the first two attributes."""
    generator = np.random.default_rng(seed)
    codes = np.stack([generator.integers(0, size, count) for size in sizes], axis=1)
    score = (codes[:, 0] + 2 * codes[:, 1] + generator.integers(0, 3, count)) * n_classes
    labels = np.minimum(score // (sizes[0] + 2 * sizes[1] + 2), n_classes - 1)
    return Domain.from_sizes(sizes, n_classes=n_classes), codes, labels


CAR = load_dataset("car")
SETS = {
    "two classes": records_of(1, [3, 4, 5, 2, 6, 3], 2, 4000),
    "five classes": records_of(2, [4, 3, 3, 5, 2], 5, 3000),
    "wide": records_of(5, [3] * 14, 2, 900),
    "car": (CAR.domain, CAR.X, CAR.y),
}


def is_frozen(kind, data, claim):
    """Whether a cell of the table is there."""
    if "parties" in kind:
        return data == "five classes" and claim != "delta"
    on_car = data != "car" or kind.startswith(ON_CAR)
    return on_car and set(CLAIMS[claim]) <= set(signature(KINDS[kind][0]).parameters)


CELLS = [
    (kind, *rest, claim, relation)
    for kind, *rest, claim, relation in product(KINDS, SETS, CLAIMS, RELATIONS)
    if is_frozen(kind, *rest, claim)
]


def digest_of(value):
    """Return a hash of what was drawn: all integers and words of it, in order, and no more."""
    found = hashlib.sha256()

    def add(one):
        if one is None or isinstance(one, Provenance):
            return
        if isinstance(one, np.ndarray):
            found.update(f"{one.dtype.kind}{one.shape}".encode() + np.ascontiguousarray(one).data)
        elif is_dataclass(one):
            for field in fields(one):
                add(getattr(one, field.name))
        elif isinstance(one, list | tuple):
            found.update(f"[{len(one)}".encode())
            for part in one:
                add(part)
        else:
            found.update(f"{one!r};".encode())

    add(value)
    return found.hexdigest()[:16]


def of_parties(model, given, codes, labels):
    """Return a classifier of what six parties released, one of whom vanished."""
    told = {k: v for k, v in given.items() if k not in ("noise", "noise_state", "n_records")}
    made = plan(model.domain, model._kind.name, parties=PARTIES, dropouts=2, **told)
    owners = np.random.default_rng(0).integers(PARTIES, size=len(labels))
    tables = [
        count_cells(codes[owners == one], labels[owners == one], model.domain.sizes, 5)
        for one in range(PARTIES)
    ]
    found = run_federation(
        made.designs[0], tables, network=Network({1: "masked"}), noise="research",
        random_state=given["noise_state"],
    )  # fmt: skip
    return model.fit_release(made, found.release)


@cache
def cell(kind, data, claim, relation):
    """Return what a fit draws and says, or why it refuses."""
    model, given = KINDS[kind]
    domain, codes, labels = SETS[data]
    seeds = {"random_state": 3, "noise_state": 7}
    given = given | CLAIMS[claim] | seeds | {"neighboring": relation, "noise": "research"}
    if given.get("n_records"):
        given["n_records"] = len(labels)
    given = {name: one for name, one in given.items() if name in signature(model).parameters}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            one = model(domain, **given)
            with keep_draws() as record:
                fitted = of_parties(one, given, codes, labels) if "parties" in kind else None
                fitted = fitted or one.fit(codes, labels)
                said = fitted.predict_proba(codes[:QUERIES])
        except (TypeError, ValueError) as error:
            return {"refused": type(error).__name__}
    drawn = digest_of([draw.outcome for draw in record.draws])
    return {"draws": len(record.draws), "drawn": drawn, "said": said.ravel().tolist()}


def name_of(*place):
    return " / ".join(place)


@cache
def frozen():
    return json.loads(FILE.read_text())


def check(place):
    now, before = cell(*place), frozen()[name_of(*place)]
    said = now.pop("said", None), before.get("said")
    assert now == {key: value for key, value in before.items() if key != "said"}
    if said[0] is not None:
        np.testing.assert_allclose(*said, rtol=0, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("place", [one for one in CELLS if one[1:] == USUAL], ids=str)
def test_the_usual_claim_is_as_it_was(place):
    check(place)


@pytest.mark.long
@pytest.mark.parametrize("place", CELLS, ids=str)
def test_every_claim_is_as_it_was(place):
    check(place)


def test_the_table_is_whole_and_its_rows_differ():
    """The control: other noise, relations or claims give other draws."""
    assert set(frozen()) == {name_of(*one) for one in CELLS}
    for kind in KINDS:
        rows = [frozen()[name_of(*one)] for one in CELLS if one[0] == kind]
        drawn = [row["drawn"] for row in rows if "drawn" in row]
        assert len(set(drawn)) >= len(drawn) // 2 > 0


if __name__ == "__main__":
    kept = json.loads(FILE.read_text()) if FILE.exists() else {}
    asked = [one for one in CELLS if one[0] in sys.argv[1:] or name_of(*one) not in kept]
    kept |= {name_of(*one): cell(*one) for one in asked}
    order = [name_of(*one) for one in CELLS if name_of(*one) in kept]
    lines = [f"{json.dumps(one)}: {json.dumps(kept[one])}" for one in order]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
