"""Parameters are written once: their groups make signatures, docstrings and copies."""

import copy
import inspect
import pickle
import re
from dataclasses import fields

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone

import mrf_matrix.estimators
from mrf_matrix.estimators.grown.forest_classifier import PublicParameters
from mrf_matrix.estimators.shared.parameters import SECTION, parameters

CLASSES = [
    one
    for one in (getattr(mrf_matrix.estimators, name) for name in mrf_matrix.estimators.__all__)
    if isinstance(one, type) and issubclass(one, BaseEstimator)
]
GROUPED = [one for one in CLASSES if not one.__name__.startswith(("Released", "Residual"))]


def described(section, text):
    """Return the names that a section of a docstring describes, with their first lines."""
    _, *rest = SECTION.split(text)
    body = dict(zip(rest[::2], rest[1::2], strict=True)).get(section, "")
    lines = re.findall(r"^\S.*", body, re.MULTILINE)
    return {name: line for line in lines for name in line.partition(" : ")[0].split(", ")}


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_parameter_is_described_with_its_default(cls):
    told = described("Parameters", inspect.getdoc(cls))
    asked = inspect.signature(cls).parameters
    assert set(told) == set(asked)
    body = inspect.getdoc(cls).split("Parameters\n----------\n")[1]
    for line in told.values():
        assert f"{line}\n    " in body, f"{line} is not explained"
    for name, line in told.items():
        default = asked[name].default
        if cls in GROUPED and default is not None:
            said = f'"{default}"' if isinstance(default, str) else repr(default)
            assert line.endswith(f" default={said}"), line


@pytest.mark.parametrize("cls", GROUPED, ids=lambda cls: cls.__name__)
def test_signatures_are_plain_and_keyword_only(cls):
    asked = list(inspect.signature(cls).parameters.values())
    assert [one.name for one in asked] == [one.name for one in fields(cls)]
    assert sorted(cls().get_params()) == sorted(one.name for one in asked)
    positional = [one.name for one in asked if one.kind is not inspect.Parameter.KEYWORD_ONLY]
    assert positional in ([], ["domain"])
    for made in (clone(cls()), pickle.loads(pickle.dumps(cls())), copy.deepcopy(cls())):
        assert made.get_params() == cls().get_params()


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_few_classes_stand_behind_a_classifier(cls):
    assert sum(one.__module__.startswith("mrf_matrix") for one in cls.__mro__) <= 7


@parameters
class Group:
    """A group.

    Parameters
    ----------
    depth : int
        How deep.

    Attributes
    ----------
    seen_ : int
        What was seen.
    """

    depth: int = 3


@parameters
class Model(Group, PublicParameters, BaseEstimator):
    """A model.

    It has text.

    Parameters
    ----------
    word : str
        A word.

    Notes
    -----
    A note.
    """

    depth: int = 5
    word: str = "hard"


def test_lists_are_composed_in_numpydoc():
    doc = inspect.getdoc(Model)
    assert doc.startswith(
        'A model.\n\nIt has text.\n\nParameters\n----------\ndomain : Domain, "from_data" or None'
    )
    assert '\ndepth : int, default=5\n    How deep.\nword : str, default="hard"\n' in doc
    assert doc.index("Attributes\n") > doc.index("word :")
    assert "\nseen_ : int\n    What was seen.\n" in doc
    assert doc.endswith("Notes\n-----\nA note.")
    assert repr(Model(word="soft")) == "Model(word='soft')"
    assert Model("from_data", depth=7).get_params() == {
        "domain": "from_data", "random_state": None, "depth": 7, "word": "hard"
    }  # fmt: skip
    with pytest.raises(TypeError, match="unexpected keyword"):
        Model(deep=1)


def test_a_parameter_without_words_is_refused():
    with pytest.raises(TypeError, match="Silent describes no parameter 'loud'"):

        @parameters
        class Silent:
            """Says nothing."""

            loud: int = 1


def test_positions_in_arrays_are_no_defaults():
    """Values of parameters are kept as they are given: the very objects."""
    sets = np.array([[0, 1]])
    model = mrf_matrix.estimators.MatrixForestClassifier(feature_subsets=sets)
    assert model.feature_subsets is sets
