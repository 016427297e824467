"""Choosing a forest after the measurement, from the release alone and at no cost in privacy."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from mrf_matrix.base.checks import whole_number
from mrf_matrix.base.shown import shown
from mrf_matrix.choosing.cell_recovery import CellRecovery
from mrf_matrix.choosing.coupled_bootstrap import recovery_of
from mrf_matrix.choosing.forest_choice import ForestChoice
from mrf_matrix.choosing.forest_contest import ForestContest, Rule
from mrf_matrix.domain import Domain
from mrf_matrix.estimators.shared.schema import required_domain
from mrf_matrix.forests import Forest, RandomTrees
from mrf_matrix.mechanisms import Release
from mrf_matrix.voting.leaf_noise import SHRINKAGES, check_shrinkage
from mrf_matrix.voting.voting import NOISE_AWARE_VOTINGS, check_noise_aware_voting

RULES: tuple[Rule, ...] = (
    ("weight", "none"),
    ("product", "none"),
    ("shares", "votes"),
    ("shares", "leaves"),
    ("posterior", "votes"),
)
"""Votings and shrinkages that are tried unless asked for."""

FALLBACK: Rule = ("shares", "leaves")
"""The rule that carries least noise: kept, at a middle depth, where scores do not tell better."""

MAX_DEPTH = 5
"""Deepest trees that are tried unless asked for."""


def choose_forest(
    release: Release,
    domain: Domain | None = None,
    forests: Sequence[Forest] | None = None,
    *,
    depths: Sequence[int] | None = None,
    n_trees: int = 128,
    votings: Sequence[str] | None = None,
    shrinkages: Sequence[str] | None = None,
    n_draws: int = 10,
    gamma: float | None = None,
    caution: float = 1.0,
    n_records: int | None = None,
    random_state: Any = 0,
) -> ForestChoice:
    r"""Choose forest, voting and shrinkage by their noise-corrected scores on the release itself.

    Every candidate is trained on noisier cells and scored on cells of unrelated errors, over and
    over, so that fitting the noise earns nothing (the coupled bootstrap, see
    `mrf_matrix.choosing.coupled_bootstrap`) ::

        score = mean over draws of  Σ_x (y - ω / √γ)[x, label(x; y + √γ ω)] / N

    which estimates the accuracy on fresh records, of a candidate trained with errors of
    ``1 + γ`` times the variance: a little less than it will have. Post-processing, at no cost.

    Parameters
    ----------
    release : Release
        Must determine every cell of its domain, such as with ``strategy="identity"``.
    domain : Domain, optional
        The public domain with its classes; by default the release's own.
    forests : sequence of Forest, optional
        Forests to try, also of several depths at once (`mrf_matrix.forests.concatenate`).
    depths : sequence of int, optional
        Otherwise: depths of random multi-way trees; 1 to 5, or as many as attributes, by default.
    n_trees : int, default=128
        Trees of each such forest.
    votings, shrinkages : sequence of str, optional
        All pairs of these are tried; `RULES` by default.
    n_draws : int, default=10
    gamma : float, optional
        Variance of what is added, as a multiple of the release's own. Small ones train on almost
        the same cells, but score on noisier ones. By default 1, where scores are unbiased under
        any law of the noise, and 1/4 where there is none.
    caution : float, default=1
        The best score is taken if it beats the fallback, a forest in the middle of those tried
        under "shares" voting with shrunk leaves, by more than so many standard errors of the
        difference; otherwise the fallback is. 0 always takes the best score.
    n_records : int, optional
        The number of records, where it is public. Otherwise it is the release's own, whose error
        is a part of every score's; where that is within three standard errors of zero, candidates
        are still compared, but have no scores (NaN). Never read off the records.
    random_state : None, int or Generator, default=0
        Draws trees and ω: public coins, no matter of privacy.

    Returns
    -------
    ForestChoice

    Raises
    ------
    TypeError, ValueError
        If an argument is not of the kind described.
    RowSpaceError
        If the release does not determine every cell.
    MemoryCapError
        If the cells, or the leaves that each reaches in every tree, are too many.

    References
    ----------
    Oliveira, Lei and Tibshirani (2021), "Unbiased risk estimation in the normal means problem via
    coupled bootstrap techniques".

    Examples
    --------
    >>> from mrf_matrix import load_dataset
    >>> from mrf_matrix.mechanisms.budgets.budget import PureDP
    >>> from mrf_matrix.mechanisms.measurement.measure import measure
    >>> from mrf_matrix.mechanisms import count_cells
    >>> from strategies.operators import Identity
    >>> data = load_dataset("monks_1")
    >>> sizes = data.domain.sizes
    >>> counts = count_cells(data.codes, data.labels, sizes, n_classes=2)
    >>> release = measure(Identity(data.domain.size, sizes), counts, PureDP(float("inf")))
    >>> choose_forest(release, data.domain, n_trees=32).depth > 1
    True
    """
    seeds = np.random.default_rng(random_state)
    draws = whole_number("n_draws", n_draws)
    public = None if n_records is None else whole_number("n_records", n_records)
    if not caution >= 0:
        raise ValueError(
            f"caution={shown(caution)}: expected a number of standard errors, 0 or more."
        )
    rules = _rules(votings, shrinkages)
    if gamma is not None:
        checked_positive("gamma", gamma)
    recovery = recovery_of(release)
    tried = _forests(release, domain, forests, depths, n_trees, seeds)
    contest = ForestContest.of(recovery, tried, rules, _fallback(rules, len(tried)), draws, gamma)
    return contest.held(release, seeds, caution=caution, n_records=public)[0]


def _fallback(rules: Sequence[Rule], n_forests: int) -> int:
    rule = rules.index(FALLBACK) if FALLBACK in rules else 0
    return (n_forests // 2) * len(rules) + rule


def default_contest(
    recovery: CellRecovery, forests: tuple[Forest, ...], n_draws: int = 10
) -> ForestContest:
    """Return the contest of forests under the default rules, public and ready to be held."""
    return ForestContest.of(recovery, forests, RULES, _fallback(RULES, len(forests)), n_draws)


def splittable_count(domain: Domain) -> int:
    """Return how many attributes have more than one code."""
    return sum(size > 1 for size in domain.sizes)


def _forests(
    release: Release, domain: Any, forests: Any, depths: Any, n_trees: int, seeds: Any
) -> tuple[Forest, ...]:
    if forests is None:
        known = required_domain(release.domain if domain is None else domain)
        deepest = min(splittable_count(known), MAX_DEPTH)
        chosen = range(min(1, deepest), deepest + 1) if depths is None else depths
        forests = [RandomTrees(n_trees, depth).grow(known, seeds) for depth in chosen]
    tried = tuple(forests)
    if not tried:
        raise ValueError("no forest to try: expected at least one of forests or depths.")
    for number, forest in enumerate(tried):
        if not isinstance(forest, Forest):
            raise TypeError(f"forests[{number}] is {type(forest).__name__}: expected a Forest.")
        if forest.domain.sizes != release.sizes:
            raise ValueError(
                f"forests[{number}] is over attributes of sizes {forest.domain.sizes}: expected "
                f"{release.sizes}, those that were measured."
            )
    return tried


def checked_positive(name: str, value: Any) -> float:
    """Return a positive, finite number, or refuse by name."""
    number = isinstance(value, int | float | np.integer | np.floating)
    if isinstance(value, bool) or not number or not 0 < value < np.inf:
        raise ValueError(f"{name}={shown(value)}: expected a positive number.")
    return float(value)


def _rules(votings: Sequence[str] | None, shrinkages: Sequence[str] | None) -> tuple[Rule, ...]:
    if votings is None and shrinkages is None:
        return RULES
    rules = [
        (check_noise_aware_voting(voting), check_shrinkage(shrinkage))
        for voting in (NOISE_AWARE_VOTINGS if votings is None else votings)
        for shrinkage in (SHRINKAGES if shrinkages is None else shrinkages)
    ]
    if not rules:
        raise ValueError("votings, shrinkages: expected at least one of each.")
    return tuple(rules)
