r"""Margins of votes with honest intervals, and labels withheld where they may be noise.

The weight votes of a record have errors :math:`U_c = \sum_j c_j Z_{jc}`, independent between
classes and of one variance v, whatever the records. So the error :math:`U_a - U_b` of a margin has
a law that is known without data, to the last atom (`mrf_matrix.error.noise_sums`). Which two
classes lead is read off the noisy votes, so the level is shared among all pairs of classes
(Bonferroni): the interval covers the true margin with at least the level, whichever pair leads.

Continuous laws stand for it badly where few coarse draws make up the vote, as in one tree at
:math:`\varepsilon \ge 1`: half-widths between two lattice points cover no more than the smaller one
does. Three widths, each at least the first:

continuous
    Quantile of the normal law under Gaussian noise; under Laplace noise the wider of this and of
    the quantile of a difference of two Laplace draws. In :math:`\sqrt{2v}`.
a step more, or two
    Beside it the heaviest coefficient: no lattice is coarser. Once where that is at most a
    twentieth of :math:`\sqrt{2v}`; twice where more different laws are asked for than can be made.
    Where even the coefficients would take too long to find,
    :math:`\sqrt{v / \operatorname{Var} Z}` in its place, which is larger.
exact
    The least width (to a fiftieth of a step) that covers enough under the exact law.
"""

from collections.abc import Callable, Iterable, Sequence
from math import sqrt
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtri

from mrf_matrix.base.arrays import Array, Codes, Values
from mrf_matrix.base.checks import checked_level
from mrf_matrix.domain.columns import Records
from mrf_matrix.error.noise_sums import NoiseSum, NoiseTerm, add_terms
from mrf_matrix.mechanisms import Release
from mrf_matrix.mechanisms.measurement.least_squares import answer_coefficients
from strategies.operators import Grouping, Identity, Operator, Scaled, over_groups

Margins = tuple[NDArray[np.intp], Array, Array, Array]
"""The number of the leading class, its margin over the next, and how far the interval goes below
it and above, each (b,)."""


def leading_margins(votes: Array, half_width: Array) -> Margins:
    """Return margins of votes (b, k), with one width for both sides; one class is always ahead."""
    best = votes.argmax(axis=1)
    if votes.shape[1] == 1:
        return best, np.full(len(votes), np.inf), np.zeros(len(votes)), np.zeros(len(votes))
    leading = np.sort(votes, axis=1)
    return best, leading[:, -1] - leading[:, -2], half_width, half_width


class VoteIntervals:
    """Intervals and abstention for classifiers that know the noise of their margins."""

    classes_: Values

    def _margins(self, X: Records, level: float) -> Margins:
        raise NotImplementedError

    def vote_intervals(self, X: Records, level: float = 0.95) -> tuple[Array, Array, Array]:
        """Return the margin of the leading class over the next, and how far its interval goes.

        Parameters
        ----------
        X : frame or array of shape (b, d)
            Records in the domain's terms. Classifiers that answer queries in batches release new
            ones first, as `predict` does.
        level : float, default=0.95
            Probability, over the noise, that the interval holds the margin that the same forest
            would have without noise; of a posterior forest, coverage under its model. It is not
            the probability that the label is right.

        Returns
        -------
        margin, below, above : ndarrays of shape (b,)
            The interval goes from ``margin - below`` to ``margin + above``. In votes, by
            `mrf_matrix.voting.intervals`, shared among all pairs of classes. Of a posterior
            forest in log odds, with a margin of 0 where a class leads by its averaged probability
            only. No number is negative. Both sides are alike but those of a tree of labels and of
            tables beside one, whose intervals leave out as much below as above.

        Raises
        ------
        ValueError
            If the level is not between 0 and 1, the votes have no intervals (other than weight
            votes of a forest, or one class of a posterior), or new queries cannot be paid.
        """
        _, margin, below, above = self._margins(X, checked_level(level))
        return margin, below, above

    def predict_or_abstain(self, X: Records, level: float = 0.95) -> Values:
        """Return labels, masked where the interval of the margin holds 0: noise may have chosen.

        Of a posterior, a label that is given leads with a probability of ``(1 + level) / 2`` or
        more under its model, for the interval leaves out as much on either side.

        Parameters
        ----------
        X, level
            See `vote_intervals`.

        Returns
        -------
        numpy.ma.MaskedArray of shape (b,)
            Predicted classes; masked is withheld.
        """
        best, margin, below, _ = self._margins(X, checked_level(level))
        return np.ma.masked_array(self.classes_[best], mask=(margin <= below))


ENTRIES = 2**25  # most coefficients that are sought

AT_ONCE = 2**23  # coefficients that are held at a time


def vote_terms(
    asked: Callable[[Codes], Operator], release: Release, codes: Codes
) -> list[NoiseTerm] | None:
    """Return the weighted noise draws of answers by least squares, if they can be afforded.

    `asked`: from records to the workload of their votes, a row for each; `codes` (b, d).
    None where the coefficients are too many, or memory or structure do not allow them.
    """
    rounded, law = release.mechanism.rounded, release.law
    measured = rounded.matrix.shape[0]
    simple = _measures_cells(rounded.recovery)  # else a block costs as much as all records do
    if len(codes) * measured > (ENTRIES if simple else AT_ONCE):
        return None
    step = max(32, AT_ONCE // measured) if simple else len(codes)
    terms: list[NoiseTerm] = []
    for start in range(0, len(codes), step):
        rows = _coefficients(asked(codes[start : start + step]), rounded.recovery)
        if rows is None:
            return None
        terms += [NoiseTerm.of(row, law) for row in rows]
    return terms


def _measures_cells(recovery: Operator) -> bool:
    """Say whether a strategy measures cells, or groups of them, each by itself."""
    inner = recovery.inner if isinstance(recovery, Scaled) else recovery
    return isinstance(inner, Grouping | Identity)


def _coefficients(asked: Operator, recovery: Operator) -> Iterable[Array] | None:
    """Return the coefficients of each row, those that are zero left out where that is cheap."""
    if not _measures_cells(recovery):
        return answer_coefficients(asked, recovery, np.arange(asked.shape[0]))
    weight, inner = 1.0, recovery
    if isinstance(recovery, Scaled):
        weight, inner = recovery.weight, recovery.inner
    rows = (over_groups(asked, inner) if isinstance(inner, Grouping) else asked).to_sparse()
    return (part / weight for part in np.split(rows.data, rows.indptr[1:-1]))


FINE = 20.0  # deviation of a margin, in heaviest coefficients, from which a step more is cheap

LAWS = 512  # most distinct laws that are made for exact widths

SURE = 2
"""Heaviest coefficients beyond the continuous width that cover under coarse laws: 250 000 random
ones needed 1.4 at most."""

STEPS = 4  # heaviest coefficients beyond the continuous width that are searched

POINTS = 16  # widths that are tried at a time


class VotingEnsemble(Protocol):
    """An ensemble with the noise of its votes."""

    @property
    def release(self) -> Release:
        """The release that answered its leaves."""

    def vote_variances(self, codes: Codes) -> Array:
        """Return the variance of every record's weight votes, per class, (b,)."""

    def vote_terms(self, codes: Codes) -> list[NoiseTerm] | None:
        """Return the weighted noise draws of every record's votes; None where not affordable."""


def half_widths(
    ensembles: Sequence[VotingEnsemble], codes: Codes, level: float, n_classes: int
) -> Array:
    """Return the half-width of the interval of every record's margins, shape (b,).

    `ensembles`: their votes add up, and so do the errors; `codes` (b, d): encoded records; `level`:
    coverage, shared among all pairs of classes (Bonferroni).
    """
    laws = [one.release.law for one in ensembles]
    variances = [one.vote_variances(codes) for one in ensembles]
    deviations: Array = np.sqrt(2 * np.sum(variances, axis=0))
    gaussian = all(law.has_normal_tails for law in laws)
    continuous = margin_quantile(level, n_classes, gaussian=gaussian) * deviations
    heaviest = np.zeros(len(codes))
    for law, variance in zip(laws, variances, strict=True):
        if law.variance > 0:
            heaviest = np.maximum(heaviest, np.sqrt(variance / law.variance))
    is_coarse = heaviest * FINE > deviations
    widths, coarse = continuous + np.where(is_coarse, SURE, 1) * heaviest, np.flatnonzero(is_coarse)
    if len(coarse):
        distinct, number = np.unique(codes[coarse], axis=0, return_inverse=True)
        _, first = np.unique(number, return_index=True)
        chosen = coarse[first]
        exact = _exact_widths(
            ensembles, distinct, continuous[chosen], miss_probability(level, n_classes)
        )
        if exact is not None:
            widths[coarse] = exact[number.ravel()]
    return np.asarray(widths)


def miss_probability(level: float, n_classes: int) -> float:
    """Return the probability that one pair's interval may miss: all pairs share the rest."""
    return (1 - level) / max(1, n_classes * (n_classes - 1) // 2)


def _exact_widths(
    ensembles: Sequence[VotingEnsemble], codes: Codes, continuous: Array, missed: float
) -> Array | None:
    """Return widths from the coefficients of each record's votes, or None if these are too many."""
    found = [one.vote_terms(codes) for one in ensembles]
    if any(terms is None for terms in found):
        return None
    sums = [add_terms(terms) for terms in zip(*(one for one in found if one), strict=True)]
    keys = [_law_key(one) for one in sums]
    distinct = {key: number for number, key in enumerate(keys)}
    coarse = [n for n in distinct.values() if not is_fine(sums[n])]
    exact = len(coarse) <= LAWS
    known = {}
    for key, number in distinct.items():
        noise, least = sums[number], float(continuous[number])
        if is_fine(noise):
            known[key] = least + noise.largest_weight
        else:
            sure = least + SURE * noise.largest_weight
            known[key] = smallest_width(noise, least, missed) if exact else sure
    return np.array([known[key] for key in keys])


def is_fine(noise: NoiseSum) -> bool:
    """Say whether a step more is cheap beside the margin's deviation."""
    return noise.largest_weight * FINE <= sqrt(2 * noise.variance)


def _law_key(noise: NoiseSum) -> tuple[bytes, ...]:
    return tuple(
        part
        for term in noise.terms
        for part in (term.weights.tobytes(), term.repeats.tobytes(), repr(term.law).encode())
    )


def smallest_width(noise: NoiseSum, at_least: float, missed: float) -> float:
    """Return a width, from the continuous one on, beyond which a margin's error is rare enough.

    The chance that a leading class loses its label to one rival, ``P(U_a - U_b > w)`` and half of
    ``P(= w)``, is the tail of the margin's error: both tails together must be at most `missed`.

    `noise`: of one class's votes; `at_least`: the continuous width; `missed`: probability that the
    interval may miss.
    """
    low, high = at_least, at_least + STEPS * noise.largest_weight
    if 2 * noise.flip_probability(low) <= missed:
        return low
    for _ in range(2):
        tried = np.linspace(low, high, POINTS + 1)[1:]
        enough = 2 * noise.flip_probabilities(tried) <= missed
        enough[-1] = True  # two steps are more than any law here was seen to need
        place = int(enough.argmax())
        high = float(tried[place])
        low = float(tried[place - 1]) if place else low
    return high


def margin_quantile(level: float, n_classes: int, *, gaussian: bool) -> float:
    """Return the continuous half-width of a margin's interval, in deviations of its error.

    `level`: coverage, between 0 and 1, of all pairs of classes together; `gaussian`: whether the
    noise is Gaussian.

    >>> round(margin_quantile(0.95, 2, gaussian=True), 3)
    1.96
    >>> round(margin_quantile(0.95, 2, gaussian=False), 3)
    2.057
    """
    missed = miss_probability(level, n_classes)
    normal = float(-ndtri(missed / 2))
    return normal if gaussian else max(normal, _laplace_difference(missed))


def _laplace_difference(missed: float) -> float:
    """Return the two-sided quantile of a difference of two Laplace draws, in its deviations.

    With draws of scale 1 the difference exceeds u with probability ``(1 + u / 2) exp(-u)`` on
    both sides together; its variance is 4.
    """

    def excess(u: float) -> float:
        return float(np.log1p(u / 2) - u - np.log(missed))

    return float(brentq(excess, 0.0, 4 - 2 * np.log(missed))) / 2
