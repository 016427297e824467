"""Structures learned from records are refused, with the remedy that fits."""

from copy import copy
from dataclasses import replace

import pytest

from mrf_matrix import Provenance
from mrf_matrix.domain import Domain
from mrf_matrix.forests import (
    Forest,
    LearnedStructureError,
    RandomTrees,
    check_structure_is_public,
    take_trees,
)
from mrf_matrix.forests.nodes import ARRAYS
from mrf_matrix.mechanisms import PureDP

READ_OFF = Provenance.from_records("forest")
FOREST = RandomTrees(2, 1).grow(Domain.from_sizes([3, 2]), random_state=0)


def test_public_structures_pass():
    check_structure_is_public(FOREST, "a release")


def test_learned_structures_do_not():
    learned = replace(FOREST, provenance=READ_OFF, source="DecisionTreeClassifier")
    for allow in (False, True):
        with pytest.raises(
            LearnedStructureError, match=r"\(DecisionTreeClassifier\).*epsilon=float\('inf'\)"
        ):
            check_structure_is_public(learned, "a release", allow_spent=allow)


def test_structures_that_were_paid_for_pass_where_allowed():
    paid = replace(FOREST, provenance=Provenance.spent(PureDP(1)))
    check_structure_is_public(paid, "a release", allow_spent=True)
    with pytest.raises(LearnedStructureError, match="a plan without data must not depend"):
        check_structure_is_public(paid, "a plan without data")


def test_nothing_raises_a_provenance():
    learned = replace(FOREST, provenance=READ_OFF)
    again = replace(learned, provenance=Provenance.public("forest", "it is only an example"))
    for one in (again, replace(learned, source="public"), copy(learned), take_trees(learned, [0])):
        with pytest.raises(LearnedStructureError):
            check_structure_is_public(one, "a release", allow_spent=True)
    arrays = {name: getattr(learned, name) for name in ARRAYS}
    for stated in ({}, {"provenance": Provenance()}):  # an empty one states nothing
        assert Forest(learned.domain, **arrays, **stated).provenance.unknown == {"forest"}


def test_a_structure_is_refused_by_whatever_name_it_was_read_off():
    read_off = Provenance.from_records("thresholds")
    with pytest.raises(LearnedStructureError, match="without a budget"):
        check_structure_is_public(replace(FOREST, provenance=read_off), "a plan", allow_spent=True)


def test_a_domain_that_was_read_off_makes_no_structure_learned():
    domain = Domain(one.read_off() for one in FOREST.domain.attributes)
    forest = RandomTrees(2, 1).grow(domain, random_state=0)
    assert not forest.is_data_dependent
    assert forest.provenance.read_off, "but no claim is made of it"
