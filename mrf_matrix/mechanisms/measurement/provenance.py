"""Where a release comes from: nothing in it depends on the records."""

from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from mrf_matrix.base import is_plain_line

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

    Raises
    ------
    TypeError, ValueError
        If a text is not one printable line, or the day is no date.

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
        """Refuse a kind of noise that the named sampler does not draw.

        Raises
        ------
        ValueError
            If the sampler is known to draw another kind. Of a sampler that is not known here,
            the claim is the word of whoever measured.
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
