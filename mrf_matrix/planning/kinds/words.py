"""A user's words for kinds of plan, looked up once, where they come in."""

from mrf_matrix.base.shown import shown
from mrf_matrix.planning.kinds.blocks import Blocks, NaiveBayes, Residual
from mrf_matrix.planning.kinds.kind import Disjoint, Kind, PerTree, Training
from mrf_matrix.planning.kinds.levels import LEVELS
from mrf_matrix.planning.kinds.subsample import PerQuery, Prediction, Subsample

KINDS: tuple[type[Kind], ...] = (
    Training, PerTree, Disjoint, *LEVELS, Prediction, Subsample, PerQuery, Blocks, NaiveBayes,
    Residual,
)  # fmt: skip
"""Every kind of plan; the first of a name is that of its usual allocation."""

UNSAID: object = object()  # what stands for a word that was not said

MODES = tuple(dict.fromkeys(kind.name for kind in KINDS))


def kinds_named(mode: object) -> tuple[type[Kind], ...]:
    """Return the kinds of a mode, one for each allocation, or refuse by name.

    Raises ValueError if there is none.
    """
    found = tuple(kind for kind in KINDS if isinstance(mode, str) and kind.name == mode)
    if not found:
        raise ValueError(f"mode={shown(mode)}: expected one of {', '.join(map(repr, MODES))}.")
    return found


def kind_of(mode: object, allocation: object = "matrix", voting: object = UNSAID) -> Kind:
    """Return the kind that a user's words name, of its usual voting where none is said.

    Raises ValueError if a word is unknown, or no word of this mode.

    >>> kind_of("training", "per_tree")
    PerTree(voting='hard')
    """
    able = kinds_named(mode)
    kinds = {kind.allocation: kind for kind in able}
    if not isinstance(allocation, str) or allocation not in kinds:
        raise ValueError(
            f"allocation={shown(allocation)} in mode={shown(mode)}: expected one of "
            f"{', '.join(map(repr, kinds))}."
        )
    votings = able[0].votings
    rule = votings[0] if voting is UNSAID else voting
    if not isinstance(rule, str) or rule not in votings:
        raise ValueError(
            f"voting={shown(voting)} in mode={shown(mode)}: expected "
            f"{' or '.join(map(repr, votings))}."
        )
    return kinds[allocation](rule)
