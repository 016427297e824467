"""Candidates and all that scoring them needs besides the release: public, made beforehand."""

from dataclasses import dataclass
from math import nan

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.choosing.cell_race import CellRace
from mrf_matrix.choosing.cell_recovery import CellRecovery
from mrf_matrix.choosing.cell_scores import PickedSums, picks
from mrf_matrix.choosing.coupled_bootstrap import NoisyCells
from mrf_matrix.choosing.forest_choice import CandidateScore, ForestChoice
from mrf_matrix.forests import Forest
from mrf_matrix.mechanisms import Release
from mrf_matrix.voting.leaf_noise import NoisyLeaves, Shrinkage
from mrf_matrix.voting.voting import NoiseAwareVoting
from strategies.operators import check_allocation

Array = NDArray[np.float64]
Rule = tuple[NoiseAwareVoting, Shrinkage]
Tables = list[tuple[Array, Array]]

THINNED = 0.25
"""γ where no noise was added: four records in five are trained on."""


@dataclass(frozen=True)
class _Score:
    """What decides about a candidate, in records, and what is told of it, in shares."""

    total: float
    lead: float
    lead_error: float
    row: CandidateScore


@dataclass(frozen=True)
class _Divisor:
    """The number of records that sums are divided by; NaN where it is not told."""

    number: float
    is_public: bool

    @classmethod
    def of(cls, cells: NoisyCells, n_records: int | None) -> "_Divisor":
        if n_records is not None:
            return cls(float(n_records), True)
        return cls(cells.n_records()[0] if cells.tells_n_records() else nan, False)

    def error(self, sums: PickedSums) -> float:
        """Return the standard error of a score times the number of records."""
        if not np.isfinite(self.number):
            return nan
        share = sums.mean / self.number
        return sums.error(noise_centre=0.0 if self.is_public else share, centre=share)


@dataclass(frozen=True, eq=False)
class ForestContest:
    """Forests and rules that are to be scored on a release to come.

    Attributes
    ----------
    recovery : CellRecovery
    forests : tuple of Forest
    races : tuple of CellRace
        One for each forest.
    rules : tuple of (voting, shrinkage)
        All are tried with every forest.
    fallback : int
        Number of the candidate that is kept unless another is clearly ahead; candidates are
        numbered forest by forest.
    n_draws : int
    gamma : float
    """

    recovery: CellRecovery
    forests: tuple[Forest, ...]
    races: tuple[CellRace, ...]
    rules: tuple[Rule, ...]
    fallback: int
    n_draws: int
    gamma: float

    @classmethod
    def of(
        cls,
        recovery: CellRecovery,
        forests: tuple[Forest, ...],
        rules: tuple[Rule, ...],
        fallback: int,
        n_draws: int,
        gamma: float | None = None,
    ) -> "ForestContest":
        """Send all cells down all trees, after checking that what is to come fits.

        Raises
        ------
        RowSpaceError
            If some leaf is not determined.
        MemoryCapError
            If an array of the scores to come would be too large.
        """
        n, k = len(recovery.codes), recovery.n_classes
        trees = sum(forest.n_trees for forest in forests)
        leaves = max(forest.n_leaves for forest in forests)
        check_allocation("leaves of all cells in all forests", (n, 2 * trees))
        check_allocation("noisy tables of all draws", (n_draws, 2, n, k))
        check_allocation("labels of the fallback in all draws", (n_draws, n), 4)
        check_allocation("sums of what candidates pick", (len(rules), 2, n, k), 4)
        check_allocation("votes of all cells under all rules", (n, len(rules) * k))
        check_allocation("votes of all leaves under all rules", (leaves, 2 * len(rules) * k))
        if gamma is None:
            gamma = THINNED if recovery.mechanism.budget.is_infinite else 1.0
        races = tuple(CellRace.of(forest, recovery) for forest in forests)
        return cls(recovery, forests, races, rules, fallback, n_draws, float(gamma))

    def held(
        self,
        release: Release,
        seeds: np.random.Generator,
        *,
        caution: float = 1.0,
        n_records: int | None = None,
    ) -> tuple[ForestChoice, NoisyLeaves]:
        """Score all candidates on a release, and return the choice with the chosen leaves.

        Parameters
        ----------
        release : Release
            Of the recovery's mechanism.
        seeds : Generator
            Draws the tables: public coins.
        caution, n_records
            See `choose_forest`.
        """
        cells = NoisyCells.of(self.recovery, release)
        tables = [cells.split(self.gamma, seeds) for _ in range(self.n_draws)]
        divisor = _Divisor.of(cells, n_records)
        scores = self._scores(cells, tables, divisor)
        top, kept = int(np.argmax([score.total for score in scores])), self.fallback
        ahead = scores[top].lead > caution * scores[top].lead_error
        choice = ForestChoice(
            table=tuple(score.row for score in scores),
            chosen=top if ahead else kept,
            fallback=kept,
            forests=self.forests,
            n_draws=self.n_draws,
            gamma=self.gamma,
            n_records=divisor.number,
        )
        return choice, self.races[choice.best.forest].trained(cells.values)

    def _scores(self, cells: NoisyCells, tables: Tables, divisor: _Divisor) -> list[_Score]:
        forest, rule = divmod(self.fallback, len(self.rules))
        against = self._fallback_labels(self.races[forest], rule, tables)
        return [
            score
            for number in range(len(self.races))
            for score in self._race(number, cells, tables, against, divisor)
        ]

    def _fallback_labels(self, race: CellRace, rule: int, tables: Tables) -> NDArray[np.int32]:
        """Return the labels of the fallback in every draw, shape (B, n)."""
        found = np.empty((len(tables), len(self.recovery.codes)), dtype=np.int32)
        for draw, (train, _) in enumerate(tables):
            found[draw] = race.labels(train, 1 + self.gamma, [self.rules[rule]])[0]
        return found

    def _race(
        self,
        number: int,
        cells: NoisyCells,
        tables: Tables,
        against: NDArray[np.int32],
        divisor: _Divisor,
    ) -> list[_Score]:
        """Score one forest under every rule; only moments are kept from draw to draw."""
        race, k = self.races[number], cells.values.shape[1]
        naive = [_sum(cells, labels) for labels in race.labels(cells.values, 1.0, self.rules)]
        sums = [(PickedSums(cells, self.gamma), PickedSums(cells, self.gamma)) for _ in self.rules]
        for (train, test), fallback in zip(tables, against, strict=True):
            other = picks(fallback, k)
            found = race.labels(train, 1 + self.gamma, self.rules)
            for (own, lead), labels in zip(sums, found, strict=True):
                mine = picks(labels, k)
                own.add(mine, test)
                lead.add(mine - other, test)
        noise = cells.release.noise
        return [
            self._score(number, rule, own, lead, divisor, flattered, noise)
            for rule, (own, lead), flattered in zip(self.rules, sums, naive, strict=True)
        ]

    def _score(
        self,
        number: int,
        rule: Rule,
        own: PickedSums,
        lead: PickedSums,
        divisor: _Divisor,
        naive: float,
        noise: str,
    ) -> _Score:
        forest, n, lead_error = self.forests[number], divisor.number, lead.error()
        row = CandidateScore(
            forest=number,
            depth=forest.max_depth,
            n_trees=forest.n_trees,
            voting=rule[0],
            shrinkage=rule[1],
            score=own.mean / n,
            std_error=divisor.error(own) / n,
            lead=lead.mean / n,
            lead_error=lead_error / n,
            naive_score=naive / n,
            noise=noise,
        )
        return _Score(own.mean, lead.mean, lead_error, row)


def _sum(cells: NoisyCells, labels: NDArray[np.int64]) -> float:
    return float(np.take_along_axis(cells.values, labels[:, None], axis=1).sum())
