"""Two neighbouring data sets led along one path of releases: the exact privacy loss of a path."""

from fractions import Fraction

import numpy as np

from mrf_matrix.mechanisms.selection.exponential import Rate, probabilities
from mrf_matrix.residual.records import ResidualRecords
from mrf_matrix.residual.releases import ResidualReleases


class TwinRecords:
    """Records of two data sets; public effects reach both."""

    def __init__(self, first, second, sizes, n_classes=2):
        self.both = [
            ResidualRecords(codes, labels, sizes, n_classes) for codes, labels in (first, second)
        ]

    def add(self, attributes, effects):
        for records in self.both:
            records.add(attributes, effects)


class TwinReleases(ResidualReleases):
    """Takes the steps with the outcomes of the first data set, or with the worst ones.

    `losses` holds for each step the log of the largest ratio of the outcomes' probabilities
    or, under zCDP, the largest Rényi divergence divided by its order.
    """

    def __init__(self, records, generator, *, worst=False):
        super().__init__(records, "research", generator)
        self.losses, self.outcome_losses, self.worst = [], [], worst

    def _measured(self, step, counts, n_cells):
        raise AssertionError("twins are measured together")

    def totals(self, step):
        return self._outcome(step, [one.totals() for one in self.records.both], 1)[0]

    def table(self, step, attributes):
        both = [one.table(step, attributes) for one in self.records.both]
        return self._outcome(step, both, both[0].sizes[0])

    def _outcome(self, step, counts, n_cells):
        mechanism = step.mechanism(n_cells)
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
        return outcome / step.units

    def _places(self, steps, scores_of):
        both = [scores_of(one) for one in self.records.both]
        options, found = np.ones((len(both[0]), 1), bool), []
        for step in steps:
            laws = []
            for scores in both:
                gaps = np.where(options, (scores[options[:, 0]].max() - scores)[:, None], 0)
                laws.append(probabilities(gaps, options, Rate.below(step.choice_rate))[:, 0])
            kept = np.flatnonzero(options[:, 0])
            ratios = np.log(laws[0][kept] / laws[1][kept])
            if step.budget.norm == "l1":
                self.losses.append((step, float(np.abs(ratios).max())))
            else:
                self.losses.append((step, concentrated(laws[0][kept], laws[1][kept])))
            place = int(kept[np.argmax(ratios)] if self.worst else self.stream.choice(kept))
            self.outcome_losses.append(float(np.log(laws[0][place] / laws[1][place])))
            options[place] = False
            found.append(place)
        return found

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
