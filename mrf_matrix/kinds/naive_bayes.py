"""Naive Bayes: noisy one-way marginals and class totals, clipped and smoothed as is usual."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from math import sqrt
from typing import Any, ClassVar

import numpy as np
from scipy.special import logsumexp

from mrf_matrix.base.arrays import Array, Codes
from mrf_matrix.base.checks import short_repr
from mrf_matrix.base.fields import JsonObject, number_of
from mrf_matrix.domain import Domain
from mrf_matrix.forests import Forest
from mrf_matrix.kinds.model import Kind, PlanFields, Sizes
from mrf_matrix.planning.plans.block_part import plan_of_part, single_attributes
from mrf_matrix.planning.plans.plan import Plan
from mrf_matrix.planning.plans.plan_kind import kind_of
from mrf_matrix.release.curator import Cells, Curator
from mrf_matrix.reports.privacy_report import PUBLIC
from mrf_matrix.residual.settings import Budget
from mrf_matrix.voting.evidence import (
    LEAST_TOTAL,
    log_shares,
    naive_bayes_leaf_logs,
    posterior_shares,
)
from mrf_matrix.voting.voting import forest_votes

LEAST_ALPHA, LARGEST_ALPHA = 1e-100, 1e100


def checked_alpha(alpha: object) -> float:
    """Return a number of records within `LEAST_ALPHA` and `LARGEST_ALPHA`, or refuse."""
    if isinstance(alpha, int | float | np.integer | np.floating) and not isinstance(alpha, bool):
        number = float(alpha)
        if LEAST_ALPHA <= number <= LARGEST_ALPHA:
            return number
    raise ValueError(
        f"alpha={short_repr(alpha)}: expected a positive number of records from {LEAST_ALPHA} to "
        f"{LARGEST_ALPHA}, for example 1.0."
    )


@dataclass(frozen=True, eq=False, repr=False)
class NaiveBayesPlan(Plan):
    """A plan of one-way marginals, and how many records are added to every count."""

    alpha: float = 1.0


@dataclass(frozen=True, eq=False)
class NaiveBayesPosterior:
    """Noisy class counts of stumps, and how they are smoothed."""

    forest: Forest  # a stump an attribute, and the tree of class totals
    leaf_values: Array  # (o, k): noisy class counts of the leaves
    alpha: float  # records added to every count
    floor: float  # least class total, in records

    def log_posteriors(self, codes: Codes) -> Array:
        logs = naive_bayes_leaf_logs(self.forest, self.leaf_values, self.alpha, self.floor)
        absent = np.isneginf(logs).any(axis=0)  # 0 * -inf is no number in a matrix product
        votes = forest_votes(self.forest, codes, np.where(absent, 0.0, logs))
        return np.where(absent, -np.inf, votes)

    def probabilities(self, codes: Codes) -> Array:
        """Return the posterior of each class under independence, (b, k)."""
        return posterior_shares(self.log_posteriors(codes))


@dataclass(frozen=True)
class NaiveBayes(Kind):
    """The kind: the baseline that few, coarse counts make hard to beat at small budgets."""

    name: ClassVar[str] = "naive_bayes"
    structure_keys: ClassVar[frozenset[str]] = frozenset({"alpha"})
    public_parts: ClassVar[tuple[str, ...]] = PUBLIC

    def learn(self, plan: NaiveBayesPlan, curator: Curator) -> NaiveBayesPosterior:
        (part,), domain, (step,) = plan.parts, plan.domain, plan.steps
        asked = Cells(part.ensemble.features, domain.sizes, domain.n_classes)
        release = curator.measure(step, asked)
        floor = 0.0 if release.noise == "none" else LEAST_TOTAL
        return NaiveBayesPosterior(part.forest, part.answers(release), plan.alpha, floor)

    def probabilities(self, posterior: NaiveBayesPosterior, codes: Codes, sizes: Sizes) -> Array:
        return posterior.probabilities(codes)

    def log_odds(self, posterior: NaiveBayesPosterior, codes: Codes, sizes: Sizes) -> Array:
        """Return the log odds of the second of two classes, (b,), or of each class, (b, k).

        From log posteriors, of which classes far behind are still told apart.
        """
        logs = posterior.log_posteriors(codes)
        if logs.shape[1] == 2:
            return np.asarray(logs[:, 1] - logs[:, 0])
        normed = logs - logsumexp(logs, axis=1, keepdims=True)
        return np.asarray(normed - log_shares(-np.expm1(np.minimum(normed, 0.0))))

    def notes(self, plan: NaiveBayesPlan) -> tuple[str, ...]:
        return ()

    def rms_per_leaf(self, plan: NaiveBayesPlan) -> float:
        (part,) = plan.parts
        return sqrt(part.total_square / part.forest.n_leaves)

    def numbers(self, posterior: NaiveBayesPosterior) -> Iterator[Array]:
        yield posterior.leaf_values

    def structure(self, plan: NaiveBayesPlan) -> JsonObject:
        """Return how counts are smoothed: all else follows from the budget."""
        return {"alpha": plan.alpha}

    def plan_from(self, known: PlanFields, structure: JsonObject) -> NaiveBayesPlan:
        alpha = number_of(structure["alpha"], "alpha", least=LEAST_ALPHA, most=LARGEST_ALPHA)
        return naive_bayes_plan(known.domain, known.budget, **known.words, alpha=alpha)


NAIVE_BAYES = NaiveBayes()


def naive_bayes_plan(
    domain: Domain,
    budget: Budget,
    *,
    n_records: int | None,
    neighboring: str,
    delta: float = 0.0,
    alpha: float = 1.0,
) -> NaiveBayesPlan:
    part = single_attributes(domain, budget, neighboring)
    return with_smoothing(
        plan_of_part(kind_of("naive_bayes"), domain, part, n_records, delta=delta), alpha
    )


def with_smoothing(plan: Plan, alpha: float) -> NaiveBayesPlan:
    """Return a plan of one-way marginals with so many records added to every count."""
    known: dict[str, Any] = {one.name: getattr(plan, one.name) for one in fields(plan) if one.init}
    return NaiveBayesPlan(**known | {"alpha": alpha})
