"""Tic-Tac-Toe Endgame: all boards on which a game can end, x first; positive if x wins."""

import numpy as np

from mrf_matrix.base.arrays import Bools, Codes
from mrf_matrix.datasets.rules import RuleSet, all_cells
from mrf_matrix.domain import Attribute, Domain

SQUARES = ("tl", "tm", "tr", "ml", "mm", "mr", "bl", "bm", "br")
X, O, BLANK = range(3)  # noqa: E741 - the players' own names
DOMAIN = Domain(
    [Attribute(square, categories=["x", "o", "b"]) for square in SQUARES],
    target=Attribute("class", categories=["negative", "positive"]),
)
# fmt: off
LINES = np.array([
    [0, 1, 2], [3, 4, 5], [6, 7, 8],
    [0, 3, 6], [1, 4, 7], [2, 5, 8],
    [0, 4, 8], [2, 4, 6],
])
# fmt: on


def has_line(boards: Codes, player: int) -> Bools:
    """Whether a player holds three squares in a row, for every board."""
    return np.asarray((boards[:, LINES] == player).all(axis=2).any(axis=1))


def end_boards() -> tuple[Codes, Codes]:
    """Return the 626 boards won by x, then the 316 won by o, then the 16 drawn."""
    boards = all_cells(DOMAIN)
    lead = (boards == X).sum(axis=1) - (boards == O).sum(axis=1)
    x_line, o_line = has_line(boards, X), has_line(boards, O)
    full = (boards != BLANK).all(axis=1)
    ends = [
        (lead == 1) & x_line & ~o_line,  # x moved last
        (lead == 0) & o_line & ~x_line,  # o moved last
        (lead == 1) & full & ~x_line & ~o_line,
    ]
    found = [boards[end] for end in ends]
    labels = np.repeat([1, 0, 0], [len(part) for part in found])
    return np.concatenate(found), labels.astype(np.int32)


TIC_TAC_TOE = RuleSet("tic_tac_toe", DOMAIN, end_boards, 958, "Aha 1991 (UCI, doi:10.24432/C5688J)")
