"""The product of a private measurement: noisy integers, and all public about them."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from fractions import Fraction
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal, get_args

import numpy as np

from mrf_matrix.base import is_plain_line
from mrf_matrix.base.arrays import Array, Longs
from mrf_matrix.base.display import RowDisplay, first_few, format_count
from mrf_matrix.base.provenance import DOMAIN, NOTHING, Provenance, Spending, join, spending_of
from mrf_matrix.domain import Domain
from mrf_matrix.mechanisms.measurement.mechanism import Mechanism, MechanismView
from mrf_matrix.mechanisms.shared_noise import Quorum
from mrf_matrix.mechanisms.statement import PRIVATE_NOISE, Claim
from strategies.operators import Operator
from strategies.operators.base.arrays import plain_array, read_only

LONGEST = 200
ELSEWHERE = "from elsewhere"
"""The method of a matrix whose answers another tool made."""

SAMPLERS = {
    "exact": "opendp",
    "shares": "parties",
    "claimed": "its-law",
    "research": "numpy",
    "none": "nothing",
}
"""What draws each kind of noise."""


@dataclass(frozen=True)
class MeasurementRecord:
    """Which program measured, and on what day.

    Attributes
    ----------
    version : str
        Version of mrf-matrix.
    measured_on : date
        Day of the measurement, in UTC. No hour: nobody needs it.
    sampler : str
        What drew the noise, with its version.

    Raises TypeError, ValueError if a text is not one printable line, or the day is no date.

    Examples
    --------
    >>> print(MeasurementRecord("0.1.0", date(2026, 11, 21), "opendp 0.12.1"))
    mrf-matrix 0.1.0 on 2026-11-21, noise by opendp 0.12.1
    """

    version: str
    measured_on: date
    sampler: str

    def __post_init__(self) -> None:
        for name in ("version", "sampler"):
            text = getattr(self, name)
            if not (isinstance(text, str) and len(text) <= LONGEST and is_plain_line(text)):
                raise ValueError(f"{name}: expected a line of 1 to {LONGEST} characters.")
            if not text.strip():
                raise ValueError(f"{name}={text!r}: expected a line that is not blank.")
        if type(self.measured_on) is not date:
            raise TypeError(
                f"measured_on is of type {type(self.measured_on).__name__}: expected a date."
            )

    @classmethod
    def today(cls, noise: str) -> "MeasurementRecord":
        """Return the record of a measurement that is made now with a kind of noise."""
        drawn = SAMPLERS[noise]
        named = noise in ("none", "shares", "claimed")  # parties and laws draw their own
        sampler = drawn if named else f"{drawn} {installed_version(drawn)}"
        return cls(installed_version("mrf-matrix"), datetime.now(UTC).date(), sampler)

    def check_noise(self, noise: str) -> None:
        """Refuse a kind of noise that the named sampler is known not to draw.

        Of a sampler that is not known here, the claim is the word of whoever measured.
        """
        named = self.sampler.split(maxsplit=1)[0].lower()
        kinds = [kind for kind, drawn in SAMPLERS.items() if drawn == named]
        if kinds and noise not in kinds:
            raise ValueError(
                f"measured says noise by {self.sampler!r}, which draws {kinds[0]!r} noise, and "
                f"noise={noise!r}: expected {SAMPLERS[noise]!r} for it, or the noise that was "
                f"drawn."
            )

    def __str__(self) -> str:
        return f"mrf-matrix {self.version} on {self.measured_on}, noise by {self.sampler}"


@cache
def installed_version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "of unknown version"


Noise = Literal["exact", "shares", "claimed", "research", "none"]
NOISE_KINDS: tuple[Noise, ...] = get_args(Noise)
NEIGHBOURS = {"add_remove": "one record more or less", "replace_one": "one record replaced"}


@dataclass(frozen=True, eq=False)
class DrawnAnswers:
    """Answers with how they were drawn and what they rest on.

    Of what is put in the place of answers, mechanism or noise, none of it holds.
    """

    answers: Longs
    provenance: Provenance
    mechanism: Mechanism
    noise: Noise
    quorum: Quorum | None

    def __post_init__(self) -> None:
        object.__setattr__(self, "answers", read_only(self.answers))

    def matches(self, release: "Release") -> bool:
        """Tell whether a release is of these answers, drawn in this way."""
        same = self.answers is release.answers and self.mechanism is release.mechanism
        return same and (self.noise, self.quorum) == (release.noise, release.quorum)


@dataclass(frozen=True, eq=False, repr=False)
class Release(MechanismView, RowDisplay):
    """Noisy answers ``y = Ã D + noise`` of an integer strategy, as often usable as one likes.

    It holds no seed, no raw count and no record. Whatever is asked of it, with `reconstruct` and
    `row_variances`, is post-processing, at no cost in privacy.

    Parameters
    ----------
    mechanism : Mechanism
        The public part: integer strategy, noise law, budget, neighbouring relation.
    answers : ndarray of int64, shape (m, k)
        Noisy answers, a column for each class.
    noise : {"exact", "shares", "claimed", "research", "none"}
        As it was drawn: exactly, by several parties a share each, by a law whose privacy is its
        author's word, or by a seedable generator.
    sizes : tuple of int
        Attribute sizes of the public domain.
    measured : MeasurementRecord, optional
        Which program measured, when, and what drew the noise; None where it is unknown.
    domain : Domain, optional
        The public domain with its classes, for whoever has the release alone.
    quorum : Quorum, optional
        With "shares": on how many honest parties the claim rests. Given with no other noise.

    Notes
    -----
    Made by hand, of answers from elsewhere, it claims nothing that was verified: what draws noise
    here is `measure` and a fit. `provenance` is carried by copies, files and ``replace``.

    Examples
    --------
    >>> from mrf_matrix.mechanisms import PureDP, count_cells, measure
    >>> from strategies.operators import Identity
    >>> counts = count_cells(np.array([[0], [2], [2]]), np.zeros(3, int), sizes=(3,), n_classes=1)
    >>> release = measure(Identity(3), counts, PureDP(float("inf")))
    >>> release.values.ravel()
    array([1., 0., 2.])
    """

    mechanism: Mechanism
    answers: Longs
    noise: Noise
    sizes: tuple[int, ...]
    measured: MeasurementRecord | None = None
    domain: Domain | None = None
    quorum: Quorum | None = None
    _drawn: "DrawnAnswers | None" = field(default=None, repr=False)

    def __post_init__(self) -> None:
        answers = plain_array("answers", self.answers)
        if answers.ndim != 2 or answers.shape[0] != self.matrix.shape[0]:
            raise ValueError(
                f"answers has shape {answers.shape}: expected ({self.matrix.shape[0]}, k), a row "
                f"for each row of the strategy."
            )
        if answers.dtype != np.int64:
            raise TypeError(f"answers has type {answers.dtype}: expected int64.")
        if self.noise not in NOISE_KINDS:
            raise ValueError(f"noise={self.noise!r}: expected one of {NOISE_KINDS}.")
        if (self.noise == "shares") != (self.quorum is not None):
            raise ValueError(
                f"noise={self.noise!r}, quorum={self.quorum!r}: expected a Quorum with noise "
                f"'shares', which says on whom the claim rests, and with no other noise."
            )
        proved = self.mechanism.is_proved
        if proved if self.noise == "claimed" else not proved and self.noise in PRIVATE_NOISE:
            raise ValueError(
                f"noise={self.noise!r} of {self.law}: expected 'claimed' for laws whose privacy is "
                f"not proved here, and for no other."
            )
        if self.measured is not None:
            self.measured.check_noise(self.noise)
        self._check_domain(answers.shape[1])
        drawn = self._drawn
        if drawn is None or not drawn.matches(self):
            before = NOTHING if drawn is None else drawn.provenance
            found, how = (
                before | self._unverified_provenance(),
                (self.mechanism, self.noise, self.quorum),
            )
            drawn = DrawnAnswers(answers, found, *how)
        if self.domain is not None:
            drawn = replace(drawn, provenance=drawn.provenance | self.domain.provenance)
        object.__setattr__(self, "_drawn", drawn)
        object.__setattr__(self, "answers", drawn.answers)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take the answers of a copy or a pickle, which nobody can write to either."""
        drawn = replace(state["_drawn"])
        vars(self).update(state, _drawn=drawn, answers=drawn.answers)

    def _unverified_provenance(self) -> Provenance:
        """Return the provenance of answers that nobody drew here: a claim that is unverified."""
        noise = "claimed" if self.noise in PRIVATE_NOISE else self.noise
        author = self.law.name if self.noise == "claimed" else "whoever made the answers"
        own = Spending(self.budget, self.neighboring, noise, "answers from elsewhere", author)
        return Provenance.from_spending(own) | (DOMAIN if self.domain is None else NOTHING)

    def _check_domain(self, classes: int) -> None:
        domain = self.domain
        if domain is None:
            return
        if tuple(domain.sizes) != tuple(self.sizes):
            raise ValueError(
                f"domain has attributes of sizes {domain.sizes}: expected {self.sizes}, those "
                f"that were measured."
            )
        if domain.target is not None and domain.n_classes != classes:
            raise ValueError(
                f"domain has {domain.n_classes} classes: expected {classes}, one for each column "
                f"of the answers."
            )

    @property
    def matrix(self) -> Operator:
        """The integer strategy that was measured, shape (m, n)."""
        return self.mechanism.rounded.matrix

    @property
    def scale(self) -> Fraction:
        """What the selected strategy was multiplied by: ``matrix ≈ scale * A``."""
        return self.mechanism.rounded.scale

    @property
    def values(self) -> Array:
        """The answers in the units of the selected strategy: estimates of ``A D``."""
        return self.answers / float(self.scale)

    @property
    def n_classes(self) -> int:
        """Number of classes k."""
        return int(self.answers.shape[1])

    @property
    def variance(self) -> float:
        """Exact variance of each noise draw, in units of the answers squared."""
        return self.law.variance

    @property
    def _own_variance(self) -> float:
        """The same in the units of the selected strategy."""
        return self.variance / float(self.scale) ** 2

    @property
    def method(self) -> str:
        """The strategy's family."""
        return self.mechanism.method

    @property
    def provenance(self) -> Provenance:
        """What it rests on: its domain, what was taken as public, and every charge."""
        assert self._drawn is not None
        return self._drawn.provenance

    def resting_on(self, *others: Provenance) -> "Release":
        """Return the release as one that rests on more."""
        assert self._drawn is not None
        found = join([self.provenance, *others])
        return replace(self, _drawn=replace(self._drawn, provenance=found))

    @property
    def claim(self) -> Claim:
        """What may be claimed of it."""
        return Claim(self.provenance, (str(self.law),))

    @property
    def is_private(self) -> bool:
        """Whether a claim of privacy is made of it: see `claim`."""
        return self.claim.is_private

    @property
    def statement(self) -> str:  # type: ignore[override]
        """One sentence on what is, or is not, protected."""
        return self.claim.statement

    @property
    def rows(self) -> list[tuple[str, str]]:
        """Names and values of everything public about the release."""
        m, n = self.matrix.shape
        norm = "L2" if self.mechanism.rounded.norm == "l2" else "L1"
        kept = "integer " if self.method != ELSEWHERE else ""  # such a matrix is as it was given
        rows = [
            ("budget spent", repr(self.budget)),
            ("neighbouring relation", self.neighboring),
            ("noise", f"{self.noise}: {self.law}, variance {self._own_variance:.6g} an answer"),
            (
                "strategy",
                f"{self.method}, {format_count(m)} {kept}rows over {format_count(n)} cells",
            ),
            ("sensitivity", f"{self.sensitivity:.6g} ({norm}, {NEIGHBOURS[self.neighboring]})"),
            ("answers", f"{format_count(m)} rows, {self.n_classes} classes"),
            ("attributes", f"{len(self.sizes)}, of sizes {first_few(map(str, self.sizes))}"),
        ]
        if self.domain is not None:
            rows.append(("attribute names", first_few(self.domain.names)))
            if self.domain.target is not None:
                rows.append(("classes of", str(self.domain.target.name)))
        known = self.measured
        rows.append(("measured by", "unknown" if known is None else str(known)))
        return rows

    def __repr__(self) -> str:
        rows, classes = self.answers.shape
        return f"Release({rows} x {classes} answers, method={self.method!r}. {self.statement})"


def release_maker(
    mechanism: Mechanism,
    noise: Noise,
    sizes: tuple[int, ...],
    rests_on: Provenance,
    *,
    domain: Domain | None = None,
    quorum: Quorum | None = None,
) -> Callable[[Longs], Release]:
    """Return what makes a release of answers, all of which is known before they are drawn.

    `rests_on`: that of counts and strategy; its own charge is added, or the whole that it is a part
    of.
    """
    condition = mechanism.author if noise == "claimed" else ""
    if quorum is not None:
        condition = quorum.condition
    spending = spending_of(
        mechanism.budget, mechanism.neighboring, noise, "a measurement", condition
    )
    known = rests_on | Provenance.from_spending(spending)
    record = MeasurementRecord.today(noise)

    def release(answers: Longs) -> Release:
        drawn = DrawnAnswers(answers, known, mechanism, noise, quorum)
        return Release(mechanism, drawn.answers, noise, sizes, record, domain, quorum, drawn)

    return release


def checked_release(release: object) -> Release:
    if isinstance(release, Release):
        return release
    raise TypeError(
        f"release is of type {type(release).__name__}: expected a Release, from measure(...)."
    )
