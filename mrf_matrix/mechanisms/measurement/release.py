"""The product of a private measurement: noisy integers, and all public about them; its origin."""

from dataclasses import dataclass
from datetime import UTC, date, datetime
from fractions import Fraction
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Literal, get_args

import numpy as np

from mrf_matrix.base import is_plain_line
from mrf_matrix.base.arrays import Array, Longs
from mrf_matrix.base.display import RowDisplay, first_few, whole
from mrf_matrix.mechanisms.counts.public_domain import PublicDomain
from mrf_matrix.mechanisms.measurement.mechanism import Mechanism, OfMechanism
from mrf_matrix.mechanisms.measurement.quorum import Quorum
from strategies.operators import Operator

LONGEST = 200

SAMPLERS = {
    "exact": "opendp",
    "shares": "parties",
    "claimed": "its-law",
    "research": "numpy",
    "none": "nothing",
}
"""What draws each kind of noise."""


@dataclass(frozen=True)
class Provenance:
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
    >>> print(Provenance("0.1.0", date(2026, 11, 21), "opendp 0.12.1"))
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
    def today(cls, noise: str) -> "Provenance":
        """Return the provenance of a measurement that is made now with a kind of noise."""
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
                f"provenance says noise by {self.sampler!r}, which draws {kinds[0]!r} noise, and "
                f"noise={noise!r}: expected {SAMPLERS[noise]!r} for it, or the noise that was "
                f"drawn."
            )

    def __str__(self) -> str:
        return f"mrf-matrix {self.version} on {self.measured_on}, noise by {self.sampler}"


@cache
def installed_version(distribution: str) -> str:
    """Return the installed version of a distribution, or say that it is unknown."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "of unknown version"


Noise = Literal["exact", "shares", "claimed", "research", "none"]
NOISE_KINDS: tuple[Noise, ...] = get_args(Noise)
PRIVATE_NOISE = ("exact", "shares")
"""Kinds that make a private release: drawn exactly by one party, or by several, a share each."""

NEIGHBOURS = {"add_remove": "one record more or less", "replace_one": "one record replaced"}
READ_OFF = "NOT A PRIVATE RELEASE: the domain was read off the records, whatever the noise."


@dataclass(frozen=True, eq=False, repr=False)
class Release(OfMechanism, RowDisplay):
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
        Only "exact" noise, or exact "shares" of it from several parties, makes a private release.
        "claimed" noise is that of a law whose privacy is its author's word.
    sizes : tuple of int
        Attribute sizes of the public domain.
    provenance : Provenance, optional
        Which program measured, when, and what drew the noise; None where it is unknown.
    domain : Domain, optional
        The public domain with its classes, for whoever has the release alone.
    domain_read_off : bool, default=False
        Whether the domain was read off the records, which leaks them: then the release is not
        private, whatever its noise, nor is what is made of it. True where `domain` says so.
    quorum : Quorum, optional
        With "shares": on how many honest parties the claim rests. Given with no other noise.

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
    provenance: Provenance | None = None
    domain: PublicDomain | None = None
    domain_read_off: bool = False
    quorum: Quorum | None = None

    def __post_init__(self) -> None:
        answers = np.asarray(self.answers)
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
        if self.provenance is not None:
            self.provenance.check_noise(self.noise)
        self._check_domain(answers.shape[1])
        if self.domain is not None and self.domain.is_read_off:
            object.__setattr__(self, "domain_read_off", True)
        view = answers.view()
        view.flags.writeable = False
        object.__setattr__(self, "answers", view)

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
    def method(self) -> str:
        """The strategy's family."""
        return self.mechanism.method

    @property
    def is_private(self) -> bool:
        """Whether this is a private release: exact noise or shares of it, a public domain."""
        return self.noise in PRIVATE_NOISE and not self.domain_read_off

    @property
    def statement(self) -> str:  # type: ignore[override]
        """One sentence on what is, or is not, protected."""
        return READ_OFF if self.domain_read_off else self.noise_statement

    @property
    def noise_statement(self) -> str:
        """The same as if the domain were public: one sentence on what the noise protects."""
        if self.noise == "none":
            return "NOT A PRIVATE RELEASE: no noise was added (infinite budget)."
        if self.noise == "research":
            return (
                f"NOT A PRIVATE RELEASE: {self.law} from a seedable generator (research noise), "
                f"with the error of {self.budget!r} under {self.neighboring} neighbours."
            )
        if self.noise == "claimed":
            return (
                f"Claim by {self.law.name}, unverified: {self.budget!r} under {self.neighboring} "
                f"neighbours, {self.law}."
            )
        rests = "" if self.quorum is None else f", {self.quorum.condition}"
        return (
            f"Private release: {self.budget!r} under {self.neighboring} neighbours, exact "
            f"{self.law}{rests}."
        )

    @property
    def rows(self) -> list[tuple[str, str]]:
        """Names and values of everything public about the release."""
        m, n = self.matrix.shape
        norm = "L2" if self.mechanism.rounded.norm == "l2" else "L1"
        rows = [
            ("budget spent", repr(self.budget)),
            ("neighbouring relation", self.neighboring),
            ("noise", f"{self.noise}: {self.law}, variance {self.variance:.6g} an answer"),
            ("strategy", f"{self.method}, {whole(m)} integer rows over {whole(n)} cells"),
            ("sensitivity", f"{self.sensitivity:.6g} ({norm}, {NEIGHBOURS[self.neighboring]})"),
            ("answers", f"{whole(m)} rows, {self.n_classes} classes"),
            ("attributes", f"{len(self.sizes)}, of sizes {first_few(map(str, self.sizes))}"),
        ]
        if self.domain is not None:
            rows.append(("attribute names", first_few(self.domain.names)))
            if self.domain.target is not None:
                rows.append(("classes of", str(self.domain.target.name)))
        known = self.provenance
        rows.append(("measured by", "unknown" if known is None else str(known)))
        return rows

    def __repr__(self) -> str:
        rows, classes = self.answers.shape
        return f"Release({rows} x {classes} answers, method={self.method!r}. {self.statement})"


def checked_release(release: object) -> Release:
    """Return a release, or refuse anything else."""
    if isinstance(release, Release):
        return release
    raise TypeError(
        f"release is of type {type(release).__name__}: expected a Release, from measure(...)."
    )
