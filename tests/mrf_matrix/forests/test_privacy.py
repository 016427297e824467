"""Structures learned from records are refused, with the remedy that fits."""

from dataclasses import replace

import pytest

from mrf_matrix.domain import Domain
from mrf_matrix.forests import LearnedStructureError, RandomTrees, check_structure_is_public
from mrf_matrix.mechanisms import PureDP

FOREST = RandomTrees(2, 1).grow(Domain.from_sizes([3, 2]), random_state=0)


def test_public_structures_pass():
    check_structure_is_public(FOREST, "a release")
    check_structure_is_public(replace(FOREST, budget_spent=PureDP(1)), "a release")


def test_learned_structures_do_not():
    learned = replace(FOREST, data_dependent=True, source="DecisionTreeClassifier")
    for allow in (False, True):
        with pytest.raises(
            LearnedStructureError, match=r"\(DecisionTreeClassifier\).*epsilon=float\('inf'\)"
        ):
            check_structure_is_public(learned, "a release", allow_spent=allow)


def test_structures_that_were_paid_for_pass_where_allowed():
    paid = replace(FOREST, data_dependent=True, budget_spent=PureDP(1))
    check_structure_is_public(paid, "a release", allow_spent=True)
    with pytest.raises(LearnedStructureError, match="a plan without data must not depend"):
        check_structure_is_public(paid, "a plan without data")
