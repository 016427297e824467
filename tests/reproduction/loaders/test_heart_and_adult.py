"""Heart with the authors' cut-offs, Adult, and a9a: what any spelling of their files becomes."""

import numpy as np
import pytest
from loaders.adult import A9A, ADULT, load_a9a, load_adult
from loaders.heart import HEART, load_heart

from mrf_matrix.domain import DomainError

NAMES = ["age", "sex", "cp", "trestbps", "chol", "fbs", "restecg"]
NAMES += ["thalach", "exang", "oldpeak", "slope", "ca", "thal"]
AUTHORS = [
    (63, 1, 0, 145, 233, 1, 2, 150, 0, 2.3, 2, 0, 1),
    (40, 0, 3, 120, 199, 0, 0, 129, 1, 0, 1, 3, 2),
]
UCI = [
    (63, 1, 1, 145, 233, 1, 2, 150, 0, 2.3, 3, 0, 6),
    (40, 0, 4, 120, 199, 0, 0, 129, 1, 0, 2, 3, 7),
]
WORDS = [
    (63, "male", "typ_angina", 145, 233, "t", "left_vent_hyper", 150, "no", 2.3, "down", 0),
    (40, "female", "asympt", 120, 199, "f", "normal", 129, "yes", 0, "flat", 3),
]
WORDS = [(*WORDS[0], "fixed_defect"), (*WORDS[1], "reversable_defect")]
CODES = [[2, 1, 0, 2, 1, 1, 2, 1, 0, 2, 2, 0, 1], [1, 0, 3, 1, 0, 0, 0, 0, 1, 0, 1, 3, 2]]


def columns(rows, target, classes):
    """Return rows as a mapping of columns."""
    values = zip(*rows, strict=True)
    return {n: np.array(v, dtype=object) for n, v in zip(NAMES, values, strict=True)} | {
        target: np.array(classes, dtype=object)
    }


@pytest.mark.parametrize(
    ("rows", "target", "classes"),
    [
        (AUTHORS, "condition", [0, 1]),
        (UCI, "class", [0, 3]),
        (WORDS, "num", ["<50", ">50_1"]),
    ],
)
def test_hearts_spellings_have_the_same_codes(rows, target, classes):
    heart = load_heart(columns(rows, target, classes))
    assert heart.codes.tolist() == CODES
    assert heart.labels.tolist() == [0, 1]
    assert heart.domain == HEART


def test_hearts_records_with_a_missing_value_are_dropped():
    rows = [*UCI, (50, 1, 2, 130, 200, 0, 1, 140, 0, 1.0, 1, None, 3)]
    assert load_heart(columns(rows, "class", [0, 3, 1])).n_records == 2


def test_what_heart_does_not_know_is_refused():
    odd = columns([AUTHORS[0], (40, 0, 7, *AUTHORS[1][3:])], "condition", [0, 1])
    with pytest.raises(DomainError, match="cp"):
        load_heart(odd)
    with pytest.raises(DomainError, match="lacks the columns \\['thal'\\]"):
        load_heart({name: values for name, values in odd.items() if name != "thal"})
    with pytest.raises(DomainError, match="no column 'condition'"):
        load_heart({name: values for name, values in odd.items() if name != "condition"})


def test_hearts_two_files_hold_the_same_297_records(shared_dir):
    found = [load_heart(shared_dir / "data" / f"heart_{one}.csv") for one in ("mrf", "cleveland")]
    rows = [sorted(map(tuple, np.c_[one.codes, one.labels].tolist())) for one in found]
    assert len(rows[0]) == 297
    assert rows[0] == rows[1]


ADULT_ROWS = (
    "age,workclass,fnlwgt,education,education-num,marital-status,occupation,relationship,race,sex,"
    "capital-gain,capital-loss,hours-per-week,native-country,class\n"
    "25,Private,226802,11th,7,Never-married,Machine-op-inspct,Own-child,Black,Male,0,0,40,United-States,<=50K.\n"
    "26,?,106647,Masters,13,Widowed,?,Wife,White,Female,1,0,41,?,>50K.\n"
)


@pytest.fixture
def adult_file(tmp_path):
    """Return a file of two records, as the test file writes them."""
    file = tmp_path / "adult.csv"
    file.write_text(ADULT_ROWS)
    return file


def test_adult_is_coded_by_its_14_attributes(adult_file):
    adult = load_adult(adult_file)
    assert adult.domain == ADULT
    assert adult.labels.tolist() == [0, 1]
    assert adult.codes[:, :5].tolist() == [[0, 0, 3, 2, 0], [1, 8, 0, 10, 4]]
    assert adult.codes[1, [6, 13]].tolist() == [14, 41]  # missing: the last code
    assert adult.codes[:, [10, 12]].tolist() == [[0, 2], [1, 3]]


def test_a9a_has_a_one_for_every_value_that_is_told(adult_file, tmp_path):
    a9a = load_a9a(adult_file)
    assert a9a.codes.shape == (2, 123)
    assert a9a.codes.sum(axis=1).tolist() == [14, 11]
    ones = [1, 6, 17, 21, 35, 42, 54, 62, 71, 73, 74, 76, 80, 83]  # as LIBSVM numbers them
    assert (np.flatnonzero(a9a.codes[0]) + 1).tolist() == ones
    lines = [
        f"{'+1' if label else '-1'} " + " ".join(f"{i + 1}:1" for i in np.flatnonzero(row))
        for row, label in zip(a9a.codes, a9a.labels, strict=True)
    ]
    file = tmp_path / "a9a.t"
    file.write_text("\n".join(lines) + "\n")
    again = load_a9a(file)
    assert again.codes.tolist() == a9a.codes.tolist()
    assert again.y.tolist() == a9a.y.tolist()
    assert again.domain == A9A
    file.write_text("-1 3:2\n")
    with pytest.raises(DomainError, match="other values than 1"):
        load_a9a(file)


def test_a9a_of_the_official_files(shared_dir):
    train, test = (load_a9a(shared_dir / "data" / f"adult_{one}.csv") for one in ("train", "test"))
    assert (train.n_records, test.n_records) == (32561, 16281)
    assert train.codes.sum(axis=1).mean() == pytest.approx(13.87, abs=0.005)
    assert 1 - test.labels.mean() == pytest.approx(0.764, abs=5e-4)
