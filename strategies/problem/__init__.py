"""Selection problems and their answers: objectives, merged cells, strategies."""

from strategies.problem.merging import Merging, merge_columns
from strategies.problem.problem import Problem
from strategies.problem.strategy import Candidate, Strategy

__all__ = ["Candidate", "Merging", "Problem", "Strategy", "merge_columns"]
