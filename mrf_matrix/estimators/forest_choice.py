"""What was chosen from a release, and the scores that it was chosen by."""

from dataclasses import asdict, dataclass
from typing import Any

from mrf_matrix.forests import Forest


@dataclass(frozen=True)
class CandidateScore:
    """One candidate and its noise-corrected score.

    Attributes
    ----------
    forest : int
        Number of its forest among those tried.
    depth, n_trees : int
        Of that forest.
    voting, shrinkage : str
    score : float
        Estimated accuracy on fresh records. It is corrected for noise, not confined to [0, 1].
    std_error : float
        Of the score.
    lead, lead_error : float
        By how much the score exceeds the fallback's, and its standard error.
    naive_score : float
        The same without correction: on the noisy cells that the candidate was trained on.
    """

    forest: int
    depth: int
    n_trees: int
    voting: str
    shrinkage: str
    score: float
    std_error: float
    lead: float
    lead_error: float
    naive_score: float


@dataclass(frozen=True, eq=False, repr=False)
class ForestChoice:
    """A forest, a voting and a shrinkage that were chosen from a release alone.

    Attributes
    ----------
    table : tuple of CandidateScore
        Every candidate, in the order in which they were tried.
    chosen : int
        Number of the chosen one.
    fallback : int
        Number of the one that is chosen unless another is clearly ahead.
    forests : tuple of Forest
    n_draws : int
    gamma : float
        Of the coupled bootstrap.
    """

    table: tuple[CandidateScore, ...]
    chosen: int
    fallback: int
    forests: tuple[Forest, ...]
    n_draws: int
    gamma: float

    @property
    def best(self) -> CandidateScore:
        """The chosen candidate."""
        return self.table[self.chosen]

    @property
    def forest(self) -> Forest:
        """The chosen forest."""
        return self.forests[self.best.forest]

    @property
    def depth(self) -> int:
        """Depth of the chosen forest."""
        return self.best.depth

    @property
    def voting(self) -> str:
        """The chosen voting."""
        return self.best.voting

    @property
    def shrinkage(self) -> str:
        """The chosen shrinkage."""
        return self.best.shrinkage

    def to_rows(self) -> list[dict[str, Any]]:
        """Return the table as dictionaries, best score first: ``DataFrame(choice.to_rows())``."""
        rows = [
            {**asdict(row), "chosen": number == self.chosen}
            for number, row in enumerate(self.table)
        ]
        return sorted(rows, key=lambda row: -row["score"])

    def __repr__(self) -> str:
        best = self.best
        return (
            f"ForestChoice(depth={best.depth}, voting={best.voting!r}, "
            f"shrinkage={best.shrinkage!r}, score={best.score:.3f} ± {best.std_error:.3f}, of "
            f"{len(self.table)} candidates)"
        )
