"""A user's words for kinds of plan, looked up once, where they come in."""

from mrf_matrix.base.checks import one_word, shown
from mrf_matrix.base.kinds import KINDS as WORDS
from mrf_matrix.planning.kinds.blocks import (
    Additive,
    Auto,
    Blocks,
    Labels,
    NaiveBayes,
    Pool,
    TwoStage,
)
from mrf_matrix.planning.kinds.kind import Disjoint, Kind, PerTree, Training
from mrf_matrix.planning.kinds.levels import LEVELS
from mrf_matrix.planning.kinds.subsample import PerQuery, Prediction, Subsample

KINDS: tuple[type[Kind], ...] = (
    Training, PerTree, Disjoint, *LEVELS, Prediction, Subsample, PerQuery, Blocks, NaiveBayes,
    Auto, Additive, Labels, Pool, TwoStage,
)  # fmt: skip
"""Every kind of plan; the first of a name is that of its usual allocation."""

UNSAID: object = object()  # what stands for a word that was not said


def kinds_named(kind: object) -> tuple[type[Kind], ...]:
    """Return the kinds of a word, one for each allocation, or refuse by name.

    Raises ValueError if there is none.
    """
    word = one_word("kind", kind, tuple(WORDS))
    return tuple(one for one in KINDS if one.name == word)


def kind_of(kind: object, allocation: object = "matrix", voting: object = UNSAID) -> Kind:
    """Return the kind that a user's words name, of its usual voting where none is said.

    Raises ValueError if a word is unknown, or no word of this kind.

    >>> kind_of("matrix", "per_tree")
    PerTree(voting='hard')
    """
    able = kinds_named(kind)
    kinds = {one.allocation: one for one in able}
    if not isinstance(allocation, str) or allocation not in kinds:
        raise ValueError(
            f"allocation={shown(allocation)} with kind={shown(kind)}: expected one of "
            f"{', '.join(map(repr, kinds))}."
        )
    votings = able[0].votings
    rule = votings[0] if voting is UNSAID else voting
    if not isinstance(rule, str) or rule not in votings:
        raise ValueError(
            f"voting={shown(voting)} with kind={shown(kind)}: expected "
            f"{' or '.join(map(repr, votings))}."
        )
    return kinds[allocation](rule)
