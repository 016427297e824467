"""Two neighbouring data sets led along one path of outcomes: the exact privacy loss of a path."""

from dataclasses import dataclass
from fractions import Fraction
from types import SimpleNamespace

import numpy as np

from mrf_matrix import Domain
from mrf_matrix.base.provenance import NOTHING
from mrf_matrix.estimators.given_data import EncodedRecords
from mrf_matrix.mechanisms.budget import total_budget
from mrf_matrix.mechanisms.selection import Rate, probabilities
from mrf_matrix.release.curator import Curator


@dataclass(frozen=True)
class Steps:
    """Some steps of a plan, by themselves."""

    domain: Domain
    steps: tuple
    n_records: int | None = None
    delta: float = 0.0

    @property
    def budget(self):
        return total_budget([one.budget for one in self.steps])

    @property
    def neighboring(self):
        return self.steps[0].neighboring


class Twins(Curator):
    """Takes the steps with the outcomes of the first data set, or with the worst ones.

    It asks every question of both, so that what is enumerated are the questions themselves.
    `losses` holds for each step the log of the largest ratio of the outcomes' probabilities
    or, under zCDP, the largest Rényi divergence divided by its order.
    """

    provenance = NOTHING

    def __init__(self, plan, first, second, generator, *, worst=False):
        super().__init__(plan, "research")
        self.both = [EncodedRecords(plan.domain, *one) for one in (first, second)]
        self.stream, self.worst = generator, worst
        self.losses, self.outcome_losses = [], []

    def _measured(self, step, asked, mechanism):
        self._left.popleft()
        counts = [asked.counts(one) for one in self.both]
        first, second = (one.answers(mechanism.rounded.matrix) for one in counts)
        law = mechanism.law
        gap = (first - second).astype(float)
        noise = law.research(first.shape, self.stream)
        if self.worst:  # far out on the side where the first data set is the likelier
            noise = np.where(gap == 0, noise, (np.sign(gap) * 20 * float(law.scale)).astype(int))
        outcome = first + noise
        ratio = law.log_pmf(outcome - first) - law.log_pmf(outcome - second)
        if step.budget.norm == "l1":
            self.losses.append((step, float(np.abs(gap).sum() / law.scale)))
        else:
            self.losses.append((step, float((gap**2).sum() / (2 * float(law.scale) ** 2))))
        self.outcome_losses.append(float(ratio.sum()))
        return SimpleNamespace(values=outcome)

    def _chosen(self, step, asked):
        self._left.popleft()
        options, laws = asked.options[:, None], []
        for scores in (asked.scores(one) for one in self.both):
            gaps = np.where(options, (scores[asked.options].max() - scores)[:, None], 0)
            laws.append(probabilities(gaps, options, Rate.below(step.choice_rate))[:, 0])
        kept = np.flatnonzero(asked.options)
        ratios = np.log(laws[0][kept] / laws[1][kept])
        if step.budget.norm == "l1":
            self.losses.append((step, float(np.abs(ratios).max())))
        else:
            self.losses.append((step, concentrated(laws[0][kept], laws[1][kept])))
        place = int(kept[np.argmax(ratios)] if self.worst else self.stream.choice(kept))
        self.outcome_losses.append(float(np.log(laws[0][place] / laws[1][place])))
        return (place,)

    def _of_part(self, plan):
        raise AssertionError("an additive model has no parts")

    def within_shares(self):
        """Say whether no step loses more than it was given."""
        return all(loss <= float(step.budget.exact) * (1 + 1e-9) for step, loss in self.losses)

    @property
    def total(self):
        return sum(loss for _, loss in self.losses)


def concentrated(first, second):
    """Return the largest Rényi divergence over its order, of orders 1.01 to 100."""
    orders = np.geomspace(0.01, 99, 40)[:, None] + 1
    sums = (second * (first / second) ** orders).sum(axis=1, keepdims=True)
    return float((np.log(sums) / (orders - 1) / orders).max())


def shares_of(losses):
    """Return the sum of the budgets of the steps that were taken, exactly."""
    return sum((step.budget.exact for step, _ in losses), Fraction(0))
