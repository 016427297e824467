"""What was chosen from a release, and the scores that it was chosen by."""

from dataclasses import asdict, dataclass
from math import isfinite, nan
from typing import Any

from mrf_matrix.forests import Forest

WARNINGS = {
    "exact": "",
    "shares": "",
    "research": "; NOT A PRIVATE RELEASE: research noise",
    "none": "; NOT PRIVATE: no noise, infinite budget",
}
"""What displays say of the release's noise."""


@dataclass(frozen=True, repr=False)
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
        NaN, as all the following, where the release does not tell the number of records, or
        nothing was scored.
    std_error : float
        Of the score, with the error of the number of records where that is the release's own.
    lead, lead_error : float
        By how much the score exceeds the fallback's, and its standard error for the given number
        of records, which has no bearing on which of the two is ahead.
    naive_score : float
        The same without correction: on the noisy cells that the candidate was trained on.
    noise : {"exact", "research", "none"}
        Of the release: only scores from "exact" noise may be published as private.
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
    noise: str

    def __repr__(self) -> str:
        text = f"score={self.score:.3f} ± {self.std_error:.3f}" if isfinite(self.score) else ""
        return (
            f"CandidateScore(depth={self.depth}, n_trees={self.n_trees}, voting={self.voting!r}, "
            f"shrinkage={self.shrinkage!r}, {text or 'no score'}{WARNINGS[self.noise]})"
        )


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
        Of the coupled bootstrap; 0 where the only candidate was planned without data.
    gamma : float
        Of the coupled bootstrap.
    n_records : float
        What sums of cells were divided by: the public number, or the release's own. NaN where the
        release does not tell it, so that scores have no scale.
    """

    table: tuple[CandidateScore, ...]
    chosen: int
    fallback: int
    forests: tuple[Forest, ...]
    n_draws: int
    gamma: float
    n_records: float

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

    @property
    def noise(self) -> str:
        """Noise of the release: "exact", "research" or "none"."""
        return self.best.noise

    def to_rows(self) -> list[dict[str, Any]]:
        """Return the table as dictionaries, best score first: ``DataFrame(choice.to_rows())``.

        Without scores, in the order in which candidates were tried.
        """
        rows = [
            {**asdict(row), "chosen": number == self.chosen}
            for number, row in enumerate(self.table)
        ]
        if not isfinite(self.n_records):
            return rows
        return sorted(rows, key=lambda row: -row["score"])

    @property
    def reason(self) -> str:
        """How it came to be chosen, in a few words."""
        best = self.best
        if not self.n_draws:
            return "planned without data"
        among = f"of {len(self.table)} candidates"
        if not isfinite(self.n_records):
            return f"no scores, for the release does not tell the number of records, {among}"
        return f"score={best.score:.3f} ± {best.std_error:.3f}, {among}"

    def __repr__(self) -> str:
        best = self.best
        return (
            f"ForestChoice(depth={best.depth}, voting={best.voting!r}, "
            f"shrinkage={best.shrinkage!r}, {self.reason}{WARNINGS[self.noise]})"
        )


def planned_choice(forest: Forest, voting: str, shrinkage: str, noise: str) -> ForestChoice:
    """Return the choice of the only candidate, decided without data and not scored."""
    only = CandidateScore(
        0, forest.max_depth, forest.n_trees, voting, shrinkage, nan, nan, nan, nan, nan, noise
    )
    return ForestChoice((only,), 0, 0, (forest,), 0, nan, nan)
