"""The product of a private measurement: noisy integers, and everything public about them."""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, get_args

import numpy as np

from mrf_matrix.base.arrays import Array, Longs
from mrf_matrix.base.display import RowDisplay
from mrf_matrix.mechanisms.counts.public_domain import PublicDomain
from mrf_matrix.mechanisms.measurement.mechanism import Mechanism, OfMechanism
from mrf_matrix.mechanisms.measurement.provenance import Provenance
from mrf_matrix.mechanisms.measurement.quorum import Quorum
from strategies.operators import Operator

Noise = Literal["exact", "shares", "claimed", "research", "none"]
NOISE_KINDS: tuple[Noise, ...] = get_args(Noise)
PRIVATE_NOISE = ("exact", "shares")
"""Kinds that make a private release: drawn exactly by one party, or by several, a share each."""

NEIGHBOURS = {"add_remove": "one record more or less", "replace_one": "one record replaced"}
SHOWN = 12
"""Attributes listed by size or name."""

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
        private, whatever its noise, and nothing made of it is.
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


def first_few(texts: Iterable[str]) -> str:
    """Return the first texts in a line, and how many more there are."""
    items = list(texts)
    rest = len(items) - SHOWN
    return ", ".join(items[:SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def whole(n: int) -> str:
    """Write a whole number of any size for people."""
    return f"{n:,}" if n < 10**15 else f"about 2^{n.bit_length() - 1}"


def checked_release(release: object) -> Release:
    """Return a release, or refuse anything else."""
    if isinstance(release, Release):
        return release
    raise TypeError(
        f"release is of type {type(release).__name__}: expected a Release, from measure(...)."
    )
